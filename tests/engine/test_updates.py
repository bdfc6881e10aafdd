from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from perdure import Handle, Signal, Status, Update, activity, context, orchestration
from perdure.authoring.registry import Defined
from perdure.errors import (
    InputIdReusedError,
    InstanceEndedError,
    InstanceNotFoundError,
    InvalidIdError,
    PayloadError,
    RefusedError,
    ResultTimeoutError,
    UpdateRefusedError,
    UpdateUnansweredError,
    UsageError,
)
from tests.engine.stage import Stage, kinds, options, until, waits_for
from tests.sizes import WITHIN_S


@dataclass(frozen=True)
class Item:
    sku: str
    cents: int


@dataclass(frozen=True)
class Full:
    at: int


add_item = Update("add_item", Item, int | Full)
other = Update("other", str, str)
close = Signal("close", str)

KETTLE = Item("kettle", 3990)


@activity
async def price(item: Item) -> int:
    return item.cents


@orchestration
async def cart(room: int = 100) -> list[str]:
    """Takes items until it is told to close."""
    items: list[str] = []
    closed = asyncio.create_task(close.receive())
    while True:
        taking = asyncio.create_task(add_item.receive())
        await asyncio.wait([closed, taking], return_when=asyncio.FIRST_COMPLETED)
        if not taking.done():
            taking.cancel()
            return items
        request = taking.result()
        if request.value.cents < 0:
            request.refuse("a price is not negative")
        elif len(items) == room:
            request.answer(Full(room))
        else:
            items.append(request.value.sku)
            request.answer(len(items))


@orchestration
async def generations(size: int) -> None:
    """Continues after so many answers."""
    for number in range(size):
        request = await add_item.receive()
        await price(request.value)
        request.answer(number + 1)
    generations.continue_as_new(size)


@orchestration
async def serving() -> int:
    taken = 0

    async def add(item: Item) -> int | Full:
        nonlocal taken
        if item.cents < 0:
            raise RefusedError("a price is not negative")
        taken += 1
        return await price(item)

    async with add_item.served_by(add):
        await close.receive()
    return taken


@orchestration
async def broken() -> str:
    def add(item: Item) -> int | Full:
        raise ValueError(f"no room for {item.sku}")

    async with add_item.served_by(add):
        await close.receive()
    return "closed"


@orchestration
async def asking(instance_id: str, cents: int) -> str:
    try:
        answer = await context().ref(instance_id).update(add_item, Item("pan", cents))
    except (UpdateRefusedError, UpdateUnansweredError, InstanceEndedError) as error:
        return f"{type(error).__name__}: {error}"
    except InstanceNotFoundError:
        return "not there"
    return repr(answer)


@orchestration
async def holding(end: str) -> str:
    """Takes an update, does not answer it, and ends in some way."""
    request = await add_item.receive()
    how = await close.receive()
    if how == "fail":
        raise ValueError("as told")
    if how == "continue":
        holding.continue_as_new("again")
    if how == "answer":
        request.answer(1)
    return how


@orchestration
async def deaf() -> str:
    """Takes no updates at all."""
    how = await close.receive()
    if how == "fail":
        raise ValueError("as told")
    if how == "continue":
        deaf.continue_as_new()
    return how


@orchestration
async def twice() -> str:
    request = await add_item.receive()
    request.answer(1)
    try:
        request.refuse("after all")
    except UsageError as error:
        return str(error)
    return "taken twice"


ALL: list[Defined] = [
    *(price, cart, generations, serving, broken, asking, holding, deaf, twice),
]

CLOSE_LATER = options(hot_instances=0)
"""Every turn is a replay."""


@pytest.fixture(params=["hot", "cold"])
def worker(request: pytest.FixtureRequest) -> Any:
    return options() if request.param == "hot" else CLOSE_LATER


async def test_an_update_is_answered(stage: Stage, worker: Any) -> None:
    engine = await stage.engine(ALL, options=worker)
    handle = await engine.start(cart)

    assert await handle.update(add_item, KETTLE) == 1
    assert await handle.update(add_item, KETTLE) == 2
    await handle.send(close, "")
    assert await handle.result() == ["kettle", "kettle"]


async def test_what_is_recorded_is_a_signal_and_an_answer(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start(twice)

    assert await handle.update(add_item, KETTLE, update_id="u-1") == 1

    assert "answered or refused before" in await handle.result()
    assert kinds(await handle.history()) == [
        *("started", "signal_awaited", "signal_received", "update_answered", "completed")
    ]


async def test_an_answer_has_its_type(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start(cart, 1)

    answers = [await handle.update(add_item, KETTLE) for _ in range(2)]

    assert answers == [1, Full(1)]


async def test_a_refusal_has_its_reason(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start(cart)

    with pytest.raises(UpdateRefusedError, match="a price is not negative") as caught:
        await handle.update(add_item, Item("kettle", -1), update_id="u-1")
    with pytest.raises(UpdateRefusedError, match="a price is not negative"):
        await handle.update(add_item, Item("kettle", -1), update_id="u-1")

    assert caught.value.reason == "a price is not negative"
    assert kinds(await handle.history()).count("update_answered") == 1


async def test_given_again_an_update_is_not_done_again(stage: Stage, worker: Any) -> None:
    engine = await stage.engine(ALL, options=worker)
    handle = await engine.start(cart)

    answers = [await handle.update(add_item, KETTLE, update_id="u-1") for _ in range(3)]

    assert answers == [1, 1, 1]
    await handle.send(close, "")
    assert await handle.result() == ["kettle"]
    assert await handle.update(add_item, KETTLE, update_id="u-1") == 1


async def test_an_id_stands_for_one_update(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start(cart)
    await handle.update(add_item, KETTLE, update_id="u-1")

    with pytest.raises(InputIdReusedError, match="other in cents"):
        await handle.update(add_item, Item("kettle", 1), update_id="u-1")
    with pytest.raises(InputIdReusedError, match="its name"):
        await handle.update(other, "kettle", update_id="u-1")


@pytest.mark.parametrize("place", ["inbox", "history"])
async def test_an_id_stands_for_one_update_before_that_is_answered(
    stage: Stage, place: str
) -> None:
    client = await stage.client()
    handle = await client.start("h-1", holding, "answer")
    waiting = asyncio.create_task(handle.update(add_item, KETTLE, update_id="u-1"))
    await until(lambda: _has_mail(client, "h-1"))
    if place == "history":
        await stage.engine(ALL)
        await waits_for(handle, "signal 'close'")

    with pytest.raises(InputIdReusedError, match="other in cents"):
        await handle.update(add_item, Item("kettle", 1), update_id="u-1", timeout=WITHIN_S)
    with pytest.raises(InputIdReusedError, match="its name"):
        await handle.update(other, "kettle", update_id="u-1", timeout=WITHIN_S)
    asked = other.with_options(update_id="u-1", timeout=WITHIN_S)
    with pytest.raises(InputIdReusedError, match="its name"):
        await client.update_with_start(asked, "kettle", "h-1", holding, "answer")

    if place == "inbox":
        await stage.engine(ALL)
    await handle.send(close, "answer")
    assert await handle.update(add_item, KETTLE, update_id="u-1") == await waiting == 1


async def test_repeats_at_once_across_executions_are_done_once(stage: Stage, worker: Any) -> None:
    engine = await stage.engine(ALL, options=worker)
    handle = await engine.start(generations, 7)
    ids = [f"u-{number}" for number in range(30)]

    answers = await asyncio.gather(
        *(handle.update(add_item, KETTLE, update_id=one) for one in ids for _ in range(3))
    )

    by_id = [set(answers[place : place + 3]) for place in range(0, 90, 3)]
    assert [len(one) for one in by_id] == [1] * 30
    first = await handle.history(1)
    assert kinds(first).count("update_answered") == 7


async def test_a_thousand_updates_are_answered_in_the_order_of_arrival(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start(cart, 10_000)

    answers = await asyncio.gather(
        *(handle.update(add_item, Item(f"i-{number}", 1)) for number in range(1000))
    )

    assert sorted(answers, key=str) == sorted(range(1, 1001), key=str)
    await handle.send(close, "")
    taken = await handle.result()
    assert [taken[int(str(answer)) - 1] for answer in answers] == [f"i-{n}" for n in range(1000)]


async def test_updates_and_signals_are_taken_in_one_order(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start(cart)
    await handle.update(add_item, KETTLE)

    await handle.send(close, "")
    with pytest.raises((InstanceEndedError, UpdateUnansweredError)):
        await handle.update(add_item, KETTLE)

    assert await handle.result() == ["kettle"]


async def test_a_request_waits_for_a_worker(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("c-1", cart)
    waiting = asyncio.create_task(handle.update(add_item, KETTLE))
    await until(lambda: _has_mail(client, "c-1"))

    await stage.engine(ALL)

    assert await waiting == 1


async def _has_mail(client: Any, instance_id: str) -> bool:
    return any(message.kind == "signal_received" for message in await client.inbox(instance_id))


async def test_a_caller_that_gave_up_gets_the_answer_later(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("c-1", cart)
    with pytest.raises(ResultTimeoutError, match="answer to update 'add_item'"):
        await handle.update(add_item, KETTLE, update_id="u-1", timeout=timedelta(0))

    await stage.engine(ALL)

    assert await handle.update(add_item, KETTLE, update_id="u-1") == 1
    assert await client.handle("c-1").update(add_item, Item("pan", 1)) == 2


# ------------------------------------------------------------------------------ ends


STATUSES = {
    "complete": "completed",
    "fail": "failed",
    "cancel": "cancelled",
    "terminate": "terminated",
}


@pytest.mark.parametrize("how", STATUSES)
@pytest.mark.parametrize("definition", [holding, deaf], ids=["taken", "not-taken"])
async def test_an_end_leaves_no_caller_waiting(
    stage: Stage, worker: Any, how: str, definition: Any
) -> None:
    engine = await stage.engine(ALL, options=worker)
    handle: Handle[Any] = await engine.start(definition, *(["x"] if definition is holding else []))
    waiting = asyncio.create_task(handle.update(add_item, KETTLE, update_id="u-1"))
    await until(lambda: _has_received(handle))

    await _end(handle, how)

    with pytest.raises(UpdateUnansweredError) as caught:
        await waiting
    assert caught.value.status == STATUSES[how]
    with pytest.raises(UpdateUnansweredError):
        await handle.update(add_item, KETTLE, update_id="u-1")
    with pytest.raises(InstanceEndedError):
        await handle.update(add_item, KETTLE, update_id="u-2")


async def _has_received(handle: Handle[Any]) -> bool:
    return "signal_received" in kinds(await handle.history())


async def _end(handle: Handle[Any], how: str) -> None:
    match how:
        case "cancel":
            await handle.cancel("enough")
        case "terminate":
            await handle.terminate("enough")
        case _:
            await handle.send(close, how)


async def test_taken_and_not_answered_it_does_not_outlast_its_execution(
    stage: Stage, worker: Any
) -> None:
    stage.expect_log("continued as new with update 'add_item' .* taken at test_updates.py")
    engine = await stage.engine(ALL, options=worker)
    handle = await engine.start(holding, "x")
    waiting = asyncio.create_task(handle.update(add_item, KETTLE, update_id="u-1"))
    await until(lambda: _has_received(handle))

    await handle.send(close, "continue")

    with pytest.raises(UpdateUnansweredError, match="continued as new") as caught:
        await waiting
    assert caught.value.status == "continued as new"
    with pytest.raises(UpdateUnansweredError, match="continued as new"):
        await handle.update(add_item, KETTLE, update_id="u-1")
    waiting = asyncio.create_task(handle.update(add_item, KETTLE, update_id="u-2"))
    await until(lambda: _has_received(handle))
    await handle.send(close, "answer")
    assert await waiting == 1


async def test_not_taken_it_moves_on_with_the_instance(stage: Stage, worker: Any) -> None:
    engine = await stage.engine(ALL, options=worker)
    handle = await engine.start(deaf)
    waiting = asyncio.create_task(handle.update(add_item, KETTLE))
    await until(lambda: _has_received(handle))

    await handle.send(close, "continue")
    await until(lambda: _is_in_execution(handle, 2))
    assert not waiting.done()
    await handle.send(close, "complete")

    with pytest.raises(UpdateUnansweredError, match="completed"):
        await waiting


async def _is_in_execution(handle: Handle[Any], number: int) -> bool:
    return (await handle.info()).execution == number and await _has_received(handle)


async def test_a_deleted_instance_leaves_no_caller_waiting(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start(deaf)
    waiting = asyncio.create_task(handle.update(add_item, KETTLE))
    await until(lambda: _has_received(handle))

    await handle.delete(force=True)

    with pytest.raises(UpdateUnansweredError, match="deleted"):
        await waiting


async def test_a_replaced_instance_leaves_no_caller_waiting(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("c-1", deaf)
    waiting = asyncio.create_task(handle.update(add_item, KETTLE))
    await until(lambda: _has_mail(client, "c-1"))

    await client.start("c-1", deaf.with_options(if_exists="terminate"))

    with pytest.raises(UpdateUnansweredError):
        await waiting


async def test_a_dropped_update_leaves_no_caller_waiting(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("c-1", deaf)
    waiting = asyncio.create_task(handle.update(add_item, KETTLE))
    await until(lambda: _has_mail(client, "c-1"))

    [asked] = [one for one in await client.inbox("c-1") if one.kind == "signal_received"]
    await client.drop_message("c-1", asked.no)

    with pytest.raises(UpdateUnansweredError, match="dropped"):
        await waiting


# --------------------------------------------------------------------------- serving


async def test_a_handler_answers_one_after_another(stage: Stage, worker: Any) -> None:
    engine = await stage.engine(ALL, options=worker)
    handle = await engine.start(serving)

    answers = await asyncio.gather(
        *(handle.update(add_item, Item("i", number)) for number in range(5)),
        handle.update(add_item, Item("i", -1)),
        return_exceptions=True,
    )

    assert answers[:5] == [0, 1, 2, 3, 4]
    assert isinstance(answers[5], UpdateRefusedError)
    await handle.send(close, "")
    assert await handle.result() == 5


async def test_a_bug_in_a_handler_leaves_the_block(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start(broken)

    with pytest.raises(UpdateUnansweredError, match="failed"):
        await handle.update(add_item, KETTLE)

    assert (await handle.info()).status is Status.FAILED
    assert "no room for kettle" in await handle.explain()


# ------------------------------------------------------------------------- others ask


async def test_an_orchestration_asks_another_one(stage: Stage, worker: Any) -> None:
    engine = await stage.engine(ALL, options=worker)
    handle = await engine.start("c-1", cart)

    assert await (await engine.start(asking, "c-1", 5)).result() == "1"
    assert "UpdateRefusedError" in await (await engine.start(asking, "c-1", -5)).result()
    assert await (await engine.start(asking, "nowhere", 5)).result() == "not there"
    await handle.send(close, "")
    await handle.result()
    assert "InstanceEndedError" in await (await engine.start(asking, "c-1", 5)).result()


async def test_a_start_and_an_update_are_one_commit(stage: Stage, worker: Any) -> None:
    engine = await stage.engine(ALL, options=worker)
    once = add_item.with_options(update_id="u-1")

    assert await engine.update_with_start(once, KETTLE, "c-1", cart) == 1
    assert await engine.update_with_start(once, KETTLE, "c-1", cart, 3) == 1
    assert await engine.update_with_start(add_item, KETTLE, "c-1", cart) == 2

    handle = engine.handle("c-1", cart)
    await handle.send(close, "")
    assert await handle.result() == ["kettle", "kettle"]
    again = cart.with_options(if_exists="restart")
    assert await engine.update_with_start(once, KETTLE, "c-1", again) == 1
    assert (await handle.info()).status is Status.COMPLETED
    with pytest.raises(InstanceEndedError):
        await engine.update_with_start(add_item, KETTLE, "c-1", cart)
    assert await engine.update_with_start(add_item, KETTLE, "c-1", again) == 1


# --------------------------------------------------------------------------- bad input


async def test_what_cannot_be_asked_is_refused_at_once(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start(cart)
    wrong: Any = "kettle"

    with pytest.raises(PayloadError, match="update 'add_item'"):
        await handle.update(add_item, wrong)
    with pytest.raises(InvalidIdError, match="update id"):
        await handle.update(add_item, KETTLE, update_id="x" * 201)
    with pytest.raises(UsageError, match="is not an update"):
        await handle.update(wrong, KETTLE)
    with pytest.raises(InstanceNotFoundError):
        await engine.handle("nowhere").update(add_item, KETTLE)
    with pytest.raises(InvalidIdError, match="which is for updates"):
        Signal("update:add_item", str)
    with pytest.raises(InvalidIdError, match="which is for updates"):
        await handle.send(close, "", message_id="update:u-1")
    with pytest.raises(UsageError, match="only inside an orchestration"):
        await add_item.receive()
    assert kinds(await handle.history()).count("signal_received") == 0


async def test_what_is_not_of_the_type_is_refused_and_harms_nobody(
    stage: Stage, worker: Any
) -> None:
    engine = await stage.engine(ALL, options=worker)
    handle = await engine.start(serving)
    careless: Update[Any, Any] = Update("add_item", Any, Any)

    with pytest.raises(UpdateRefusedError, match="cents"):
        await handle.update(careless, {"sku": "kettle"})

    assert await handle.update(add_item, KETTLE) == 3990


async def test_an_instance_says_which_updates_its_code_does_not_take(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("c-1", deaf)
    asked = [asyncio.create_task(handle.update(add_item, KETTLE)) for _ in range(3)]
    await until(lambda: _has_taken_in(handle, 3))

    assert "holds 3 updates 'add_item' that its code does not take" in await handle.explain()

    await handle.send(close, "complete")
    await asyncio.gather(*asked, return_exceptions=True)
    taking = await engine.start("c-2", cart)
    await waits_for(taking, "update 'add_item'")


async def _has_taken_in(handle: Handle[Any], count: int) -> bool:
    return kinds(await handle.history()).count("signal_received") == count
