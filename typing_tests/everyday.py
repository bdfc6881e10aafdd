"""One program that uses all of it, as a user would write it: every line is accepted. Never run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import assert_type

from perdure import (
    Activity,
    Client,
    Context,
    Cron,
    Defined,
    Engine,
    Every,
    Handle,
    InstanceRef,
    Item,
    Key,
    Orchestration,
    Page,
    Promise,
    Query,
    Request,
    Schedule,
    ScheduleInfo,
    Stream,
    Tally,
    Update,
    activity,
    for_each,
    orchestration,
)
from perdure.authoring.promise import Made
from perdure.repair import Point, ResetPlan, after, at_event, before
from perdure.testing import Trial, crash_everywhere
from perdure.web import hooks
from typing_tests.shop import use


@dataclass(frozen=True)
class Article:
    sku: str
    cents: int


@dataclass(frozen=True)
class Receipt:
    number: str


@dataclass(frozen=True)
class Full:
    at: int


# ------------------------------------------------------------------ updates, keys, queries

add_item = Update("add_item", Article, int | Full)
total = Key("total", int)
cheapest = Query("cheapest", Article | None)


@orchestration
async def cart(owner: str) -> int:
    items: list[Article] = []
    cheapest.answer_with(lambda: min(items, key=lambda item: item.cents, default=None))
    async for request in add_item:
        assert_type(request, Request[Article, int | Full])
        if len(items) == 10:
            request.answer(Full(at=10))
        elif request.value.cents < 0:
            request.refuse("a price is not negative")
        else:
            items.append(request.value)
            total.set(total.get(0) + request.value.cents)
            request.answer(len(items))
    return len(items)


@activity
async def price(item: Article) -> Article:
    return item


@orchestration
async def cart_with_a_handler(owner: str) -> int:
    items: list[Article] = []

    async def add(item: Article) -> int | Full:
        items.append(await price(item))
        return len(items)

    async with add_item.served_by(add):
        await asyncio.sleep(3600)
    return len(items)


async def ask(client: Client, handle: Handle[int]) -> None:
    kettle = Article("kettle", 3990)
    assert_type(await handle.update(add_item, kettle, update_id="req-7"), int | Full)
    assert_type(await client.update_with_start(add_item, kettle, "cart-7", cart, "ada"), int | Full)
    once = add_item.with_options(update_id="req-7", timeout=timedelta(seconds=5))
    asked = await client.update_with_start(once, kettle, "cart-7", cart, owner="ada")
    assert_type(asked, int | Full)
    assert_type(await handle.kv(total), int | None)
    assert_type(await handle.wait_kv(total, after=3), int | None)
    assert_type(await handle.ask(cheapest), Article | None)
    assert_type(await handle.ask(cheapest, at=17), Article | None)


def asks_another(ref: InstanceRef[int]) -> Coroutine[object, None, int | Full]:
    return ref.update(add_item, Article("kettle", 3990))


# ------------------------------------------------------------------------------ schedules


@orchestration
async def report(ctx: Context, region: str, *, full: bool = False) -> None:
    use(ctx.slot.at if ctx.slot is not None else "by hand", region, full)


nightly = Schedule("nightly", Cron("0 2 * * *", "Europe/Berlin"), report, "eu", full=True)
often = Schedule(
    "often", [Every(timedelta(minutes=5)), Cron("0 0 1 1 *")], report, region="us"
).with_options(
    overlap="queue",
    missed="all",
    within=timedelta(hours=6),
    jitter=timedelta(seconds=30),
    starts_at=datetime(2026, 1, 1, tzinfo=UTC),
    ends_at=None,
    except_on=[date(2026, 12, 25)],
)


async def schedules(client: Client) -> None:
    handle = await client.put_schedule(nightly)
    await handle.pause("migration")
    await handle.resume()
    assert_type(await handle.trigger(trigger_id="t-1"), str)
    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    assert_type(await client.schedule("nightly").backfill(begin, end, overlap="allow"), int)
    assert_type(await client.schedules(), list[ScheduleInfo])
    assert_type(nightly.slots(begin, count=3), list[datetime])
    info = await handle.info()
    assert_type((info.name, info.orchestration, info.paused), tuple[str, str, str | None])
    assert_type((info.next, info.running), tuple[datetime | None, tuple[str, ...]])
    assert_type(info.declared, bool)
    await handle.delete()


# ------------------------------------------------------------------------------ promises

paid = Promise("paid", Receipt)


@activity
async def charge(order: str, callback: str) -> None: ...


@orchestration
async def deposit(order: str) -> Receipt:
    due = paid.make()
    assert_type(due, Made[Receipt])
    await charge(order, f"https://shop.example/hooks/{due.token}")
    async with asyncio.timeout(3 * 86_400):
        return await due.receive()


async def hook(client: Client, token: str) -> None:
    assert_type(await client.resolve(paid, token, Receipt("r-1")), bool)
    assert_type(await client.reject(token, "card declined"), bool)
    use(hooks(client, [paid]))


# ------------------------------------------------------------------- going back, branching


async def repair(client: Client, handle: Handle[Receipt]) -> None:
    await handle.reset()
    await handle.reset(before(charge), reason="the bank was down")
    assert_type(await handle.plan(before(charge, nth=1)), ResetPlan)
    changed = after(price).returning(Article("kettle", 1))
    assert_type(changed, Point)
    assert_type(await handle.fork("order-42-b", changed), Handle[Receipt])
    await handle.fork("order-42-c", at_event(17))
    done = await client.reset_all(before(charge), expect=37, status="failed", name="deposit")
    assert_type(done, int)


# ---------------------------------------------------------------------------- sagas


@activity
async def book(part: str) -> str:
    return part


@activity
async def give_up(part: str) -> None: ...


@orchestration
async def trip(parts: list[str]) -> list[str]:
    booked: list[str] = []
    async with AsyncExitStack() as undo:
        for part in parts:
            undo.push_async_callback(give_up, part)
            booked.append(await book(part))
        undo.pop_all()
    return booked


# ------------------------------------------------------------------------------- streams

tokens = Stream("tokens", str)


@activity
async def write(prompt: str) -> str:
    for word in prompt.split():
        tokens.send(word)
    await tokens.flush()
    return prompt


async def events(handle: Handle[str], last_event_id: int) -> AsyncIterator[str]:
    async for item in handle.stream(tokens, after=last_event_id):
        assert_type(item, Item[str])
        yield f"id: {item.index}\ndata: {item.value}\n\n"


# ---------------------------------------------------------------------------- many items


@activity
async def unpaid(after: str | None) -> Page[Article]:
    return Page([Article("kettle", 1)], next=None)


@activity
async def remind(item: Article) -> Receipt:
    return Receipt(item.sku)


sent = Stream("sent", Receipt)


@orchestration
async def dunning() -> Tally:
    few: Coroutine[object, None, Tally] = for_each(
        remind, [Article("kettle", 1)], max_failures=None
    )
    assert_type(await few, Tally)
    return await for_each(remind, unpaid, pages=16, results=sent)


# --------------------------------------------------------------------------- all of it


async def test_deposit(trial: Trial) -> None:
    trial.fake(price).returns(Article("kettle", 1))
    handle = await trial.start("d-1", deposit, "o-1")
    await trial.settle()
    token = str(trial.calls(charge)[0].arguments["callback"]).rpartition("/")[2]
    await trial.resolve(paid, token, Receipt("r-1"))
    await trial.advance(timedelta(days=30))
    assert await handle.result() == Receipt("r-1")


def test_it_survives_everything() -> None:
    crash_everywhere(test_deposit, [deposit, charge, price])


def signatures() -> tuple[Activity[[str, str], None], Orchestration[[str], Receipt]]:
    return charge, deposit


async def main() -> None:
    definitions: list[Defined] = [cart, deposit, charge, nightly, often, dunning, unpaid, remind]
    async with Engine("sqlite:///shop.db", definitions) as engine:
        assert_type(await engine.start("d-1", deposit, "o-1"), Handle[Receipt])
