"""A bookshop on an ordinary morning: a store in which every page has something to show.

The tests of all pages look at it, and so do the pictures of the documentation. What happened
earlier happened with a clock of that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

from perdure import (
    Client,
    Context,
    Cron,
    Decider,
    Decision,
    Engine,
    Every,
    Retry,
    Schedule,
    Signal,
    Stream,
    WorkerOptions,
    activity,
    activity_context,
    orchestration,
    race,
)
from perdure.authoring.deciders.decider_definition import AnyDecider
from perdure.clock import system_clock, to_ms
from perdure.errors import OutcomeError
from perdure.model.instances import Status
from perdure.model.turns import NOBODY, Hold
from perdure.projection import EventMeta, Projection
from tests.engine.stage import until, waits_for

QUICK = Retry(max_attempts=3, first_delay=timedelta(milliseconds=40), jitter=0)
TITLES = ("Middlemarch", "Persuasion", "Dracula", "Emma", "Walden", "Cranford")

approved = Signal("approved", bool)


@dataclass(frozen=True)
class Taken:
    """A title that was taken over from a publisher's catalogue."""

    page: int
    title: str
    cents: int


taken = Stream("taken", Taken)


# -------------------------------------------------------------------------- activities


@activity
async def charge_card(order: str, cents: int) -> str:
    return f"charge of {cents / 100:.2f} for {order}"


@activity(retry=QUICK)
async def reserve_stock(title: str) -> str:
    if activity_context().attempt == 1 and title != "Emma":
        raise TimeoutError("the warehouse did not answer within 2 s")
    return f"shelf {len(title)}"


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(0)))
async def send_mail(address: str) -> str:
    raise TimeoutError(f"mail server did not answer within 10 s for {address}")


@activity(tag="gpu")
async def render_cover(title: str) -> bytes:
    return title.encode()


@activity
async def import_catalogue(publisher: str) -> int:
    """Say how far it has come, and go on for longer than anybody looks."""
    for page, title in enumerate(TITLES, start=1):
        taken.send(Taken(page, title, cents=990 + 100 * page))
    await taken.flush()
    activity_context().progress({"done": 6_400, "of": 12_000})
    await asyncio.Event().wait()
    return 12_000


# ------------------------------------------------------------------------ orchestrations


@dataclass(frozen=True)
class Address:
    name: str
    street: str
    city: str


@orchestration(version="1.2.0")
async def fulfil(
    ctx: Context, order: str, title: str, cents: int, gift: bool = False, to: Address | None = None
) -> str:
    """Charge, reserve, and ship once it is approved."""
    ctx.kv["title"] = title
    await asyncio.gather(charge_card(order, cents), reserve_stock(title))
    await asyncio.sleep(0.02)
    ctx.report({"stage": "waits for approval", "percent": 60})
    await race(approved.receive(), asyncio.sleep(86_400))
    return f"{title} shipped"


@orchestration(version="1.0.0")
async def welcome(address: str) -> None:
    """Write to a new customer."""
    await send_mail(address)


@orchestration(version="1.0.0")
async def print_cover(title: str) -> bytes:
    """Render a cover on a machine with a graphics card."""
    return await render_cover(title)


@orchestration(version="2.0.0")
async def reprice(title: str) -> str:
    return await charge_card(title, 100)


@orchestration(version="2.0.0")
async def nightly(ctx: Context, titles: list[str]) -> int:
    """Give every title its price of the day."""
    started = [
        reprice.with_options(instance_id=f"{ctx.instance_id}/{title}")(title) for title in titles
    ]
    return len(await asyncio.gather(*started))


@orchestration(version="1.0.0")
async def restock(publisher: str) -> int:
    """Take over the catalogue of a publisher."""
    return await import_catalogue(publisher)


# ----------------------------------------------------------------------------- a decider


@dataclass(frozen=True)
class OpenAccount:
    account: str
    owner: str


@dataclass(frozen=True)
class Deposit:
    account: str
    cents: int


@dataclass(frozen=True)
class Withdraw:
    account: str
    cents: int


@dataclass(frozen=True)
class Opened:
    owner: str


@dataclass(frozen=True)
class Deposited:
    cents: int


@dataclass(frozen=True)
class Withdrawn:
    cents: int


@dataclass(frozen=True)
class NotEnough:
    missing: int


@dataclass(frozen=True)
class Balance:
    owner: str = ""
    cents: int = 0
    movements: tuple[int, ...] = ()


Input = OpenAccount | Deposit | Withdraw
Event = Opened | Deposited | Withdrawn


class Account(Decider[Balance, Input, Event, NotEnough]):
    """A customer's credit."""

    name = "account"

    def initial(self) -> Balance:
        return Balance()

    def instance_id(self, input: Input, /) -> str:
        return input.account

    def decide(
        self, state: Balance, input: Input, now: datetime, /
    ) -> Decision[Input, Event, NotEnough]:
        match input:
            case OpenAccount(owner=owner):
                return Decision.accept(Opened(owner))
            case Deposit(cents=cents):
                return Decision.accept(Deposited(cents))
            case Withdraw(cents=cents):
                if cents > state.cents:
                    return Decision.reject(NotEnough(cents - state.cents))
                return Decision.accept(Withdrawn(cents))

    def evolve(self, state: Balance, event: Event, /) -> Balance:
        match event:
            case Opened(owner=owner):
                return replace(state, owner=owner)
            case Deposited(cents=cents):
                moved = cents
            case Withdrawn(cents=cents):
                moved = -cents
        return replace(state, cents=state.cents + moved, movements=(*state.movements, moved))


class Balances(Projection[object]):
    name = "balances"
    deciders: ClassVar[Sequence[type[AnyDecider]]] = (Account,)

    async def handle(self, event: object, meta: EventMeta, /) -> None: ...


class Statements(Balances):
    name = "statements"


class Mailings(Balances):
    """Does not know what to do with a withdrawal."""

    name = "mailings"
    retry = Retry(max_attempts=1)

    async def handle(self, event: object, meta: EventMeta, /) -> None:
        if isinstance(event, Withdrawn):
            raise LookupError("no template for 'Withdrawn'")


SERVING = WorkerOptions(name="till-1", stop_grace=timedelta(0))
"""Of the worker that the pages show."""

ORCHESTRATIONS: list[Any] = [fulfil, welcome, print_cover, reprice, nightly, restock]
ACTIVITIES: list[Any] = [charge_card, reserve_stock, send_mail, import_catalogue]
SERVED: list[Any] = [*ORCHESTRATIONS, *ACTIVITIES, Account, Balances, Statements, Mailings]
"""All but what needs a graphics card, which no worker of the shop has."""

# Far from now, whenever it is: pictures and tests see no start of theirs.
NIGHTLY = Schedule("prices", Cron("0 3 29 2 *", "Europe/Berlin"), nightly, ["Aurora"])
YEARLY = Schedule("stocktaking", Every(timedelta(days=365)), restock, "Aurora")

PAGES = {
    "instances": "/",
    "instance": "/i/order-1048",
    "history": "/i/order-1048?tab=history",
    "payload": "/i/welcome-grace?tab=payload",
    "children": "/i/nightly-11-16?tab=children",
    "jobs": "/i/restock-aurora?tab=jobs",
    "streams": "/i/restock-aurora?tab=streams",
    "check": "/i/order-1048?tab=check",
    "decider": "/i/account:ada?at=4",
    "failures": "/failures",
    "queues": "/queues",
    "workers": "/workers",
    "schedules": "/schedules",
    "projections": "/projections",
    "definitions": "/definitions",
    "charts": "/charts?window=24h",
    "unknown": "/i/order-9999",
}
"""Every page and every part of the page of an instance, by the name of its picture."""
MORE = {
    "instances-filtered": "/?q=status:failed",
    "instances-nothing": "/?q=name:nothing",
    "instances-wrong": "/?q=colour:red",
    "instance-failed": "/i/welcome-grace",
    "instance-parked": "/i/order-1047",
    "instance-done": "/i/order-1032",
    "streams-none": "/i/order-1048?tab=streams",
    "charts-hour": "/charts",
    "history-full": "/i/order-1048?tab=history&full=true",
    "history-found": "/i/order-1048?tab=history&kind=activity&failures=true",
    "history-nothing": "/i/order-1048?tab=history&name=nothing",
}
"""Other faces of the same pages."""


# ------------------------------------------------------------------------------ the story


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Engine]:
    """Fill an empty store, and open an engine on it that goes on with what runs."""
    async with Engine(url, SERVED, clock=_ago(timedelta(hours=19, minutes=7))) as engine:
        await _yesterday(engine)
    async with Engine(url, SERVED, clock=_ago(timedelta(minutes=48))) as engine:
        await _this_morning(engine)
    async with Engine(url, SERVED, clock=_ago(timedelta(minutes=3))) as engine:
        await _just_now(engine)
    async with Engine(url, SERVED, options=SERVING) as engine:
        for schedule in (NIGHTLY, YEARLY):
            await engine.put_schedule(schedule)
        await engine.schedule("stocktaking").pause("the books are being closed")
        await waits_for(await engine.start("restock-aurora", restock, "Aurora"), "import_catalogue")
        await until(lambda: _shows_progress(engine))
        await _hold(
            engine, "order-1047", Status.PARKED, "a turn took longer than 10 s; it was ended"
        )
        text = "event 2: history has activity 'charge_card', the code asked for a timer"
        await _hold(engine, "order-1046", Status.BLOCKED, text)
        await engine._serving._beat_once()
        yield engine


async def _yesterday(engine: Engine) -> None:
    await (await engine.start("nightly-11-15", nightly, list(TITLES))).result()
    for number, title in enumerate(TITLES, start=1031):
        handle = await engine.start(
            f"order-{number}", fulfil, f"order-{number}", title, 990 + number, number % 2 == 0
        )
        await handle.send(approved, True)
        await handle.result()
    handle = await engine.start("order-1040", fulfil, "order-1040", "Emma", 1290)
    await waits_for(handle, "signal 'approved'")
    await handle.cancel("the customer changed her mind")
    with suppress(OutcomeError):
        await handle.result()
    for given in (OpenAccount("ada", "Ada Lovelace"), Deposit("ada", 4_000), Deposit("ada", 250)):
        await engine.execute(Account, given)


async def _this_morning(engine: Engine) -> None:
    for name in ("grace", "alan", "barbara", "edsger", "mary"):
        with suppress(OutcomeError):
            await (await engine.start(f"welcome-{name}", welcome, f"{name}@shop.example")).result()
    to = Address("Ada Lovelace", "12 St James's Square", "London")
    for number, title in ((1044, "Emma"), (1045, "Dracula"), (1046, "Walden"), (1047, "Emma")):
        handle = await engine.start(
            f"order-{number}", fulfil, f"order-{number}", title, 1_490, True, to
        )
        await waits_for(handle, "signal 'approved'")
    await engine.handle("order-1045").terminate("entered twice")
    await engine.execute(Account, OpenAccount("grace", "Grace Hopper"))
    await engine.execute(Account, Deposit("grace", 12_500))
    await until(lambda: _has_caught_up(engine))
    await engine.pause_projection("statements", reason="month end: the printer is being moved")


async def _just_now(engine: Engine) -> None:
    await (await engine.start("nightly-11-16", nightly, list(TITLES[:4]))).result()
    await engine.start("cover-dracula", print_cover, "Dracula")
    await engine.execute(Account, Withdraw("ada", 1_999))
    await engine.execute(Account, Deposit("ada", 500))
    handle = await engine.start("order-1048", fulfil, "order-1048", "Persuasion", 2_250)
    await waits_for(handle, "signal 'approved'")
    await until(lambda: _is_stuck(engine))


def _ago(by: timedelta) -> Callable[[], int]:
    return lambda: system_clock() - to_ms(by)


async def _is_stuck(client: Client) -> bool:
    return "stuck" in [one.status for one in await client.projections()]


async def _has_caught_up(client: Client) -> bool:
    return not any(one.behind for one in await client.projections())


async def _shows_progress(client: Client) -> bool:
    return bool(await client.handle("restock-aurora").progress())


async def _hold(client: Client, instance_id: str, status: Status, reason: str) -> None:
    store = client._core.store
    live = await store.read_live(instance_id)
    assert live is not None
    assert await store.hold([Hold(instance_id, live.stamp, 0, status, NOBODY, reason)]) == [True]
