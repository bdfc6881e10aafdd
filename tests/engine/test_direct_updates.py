"""Updates of a process that has the instance in memory: one commit, and nothing is overtaken."""

from __future__ import annotations

import asyncio
from typing import Any

from perdure import Signal, Update, activity, orchestration
from perdure.authoring.registry import Defined
from perdure.model.turns import Turn, TurnReceipt
from tests.engine.stage import Stage, options, waits_for

add = Update("add", int, int)
note = Signal("note", str)
LAST = -1


@activity
async def double(number: int) -> int:
    return 2 * number


@orchestration
async def tally() -> list[int]:
    taken: list[int] = []
    async for request in add:
        taken.append(request.value)
        request.answer(len(taken))
        if request.value == LAST:
            return taken
    return taken


@orchestration
async def slow() -> list[int]:
    """Answers after an activity, and continues after each."""
    request = await add.receive()
    request.answer(await double(request.value))
    slow.continue_as_new()


@orchestration
async def quick(answered: int) -> None:
    """Continues in the very stretch in which it answers every fifth."""
    async for request in add:
        answered += 1
        request.answer(answered)
        if request.value % 5 == 4:
            quick.continue_as_new(answered)


@orchestration
async def both() -> list[str]:
    """Tells in which order signals and updates came."""
    came: list[str] = []

    async def hear() -> None:
        async for text in note:
            came.append(text)

    hearing = asyncio.create_task(hear())
    async for request in add:
        came.append(str(request.value))
        request.answer(len(came))
        if request.value == LAST:
            break
    hearing.cancel()
    return came


ALL: list[Defined] = [double, tally, slow, quick, both]


def commits_of(engine: Any) -> list[Turn]:
    """Keep the turns that an engine commits from now on."""
    turns: list[Turn] = []
    store = engine._core.raw_store
    commit = store.commit

    def spy(given: list[Turn]) -> Any:
        turns.extend(given)
        return commit(given)

    store.commit = spy
    return turns


async def test_an_instance_in_memory_is_asked_in_one_commit(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("t", tally)
    await waits_for(handle, "update 'add'")
    turns = commits_of(engine)

    assert [await handle.update(add, number) for number in range(3)] == [1, 2, 3]

    assert [len(turn.arrived) for turn in turns] == [1, 1, 1]
    assert [len(turn.receipts) for turn in turns] == [1, 1, 1]
    assert all(not turn.lease and not turn.consumed for turn in turns)


async def test_a_request_that_is_made_again_while_the_first_waits_is_taken_once(
    stage: Stage,
) -> None:
    """A caller has given up and asks again under the same id, while a turn before is committed."""
    engine = await stage.engine(ALL)
    handle = await engine.start("t", tally)
    await waits_for(handle, "update 'add'")

    before = asyncio.ensure_future(handle.update(add, 1))
    given_up = asyncio.ensure_future(handle.update(add, 5, update_id="x"))
    await asyncio.sleep(0)
    given_up.cancel()
    again = [asyncio.ensure_future(handle.update(add, 5, update_id="x")) for _ in range(3)]

    assert (await before, await asyncio.gather(*again)) == (1, [2, 2, 2])
    assert await handle.update(add, LAST) == 3
    assert await handle.result() == [1, 5, LAST]


async def test_requests_that_come_at_once_share_a_turn(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("t", tally)
    await waits_for(handle, "update 'add'")
    turns = commits_of(engine)

    answers = await asyncio.gather(*(handle.update(add, number) for number in range(100)))

    assert answers == list(range(1, 101))
    assert len(turns) < 100


async def test_what_comes_behind_the_end_is_not_lost(stage: Stage) -> None:
    """One of several that share a turn ends the instance; the others are told."""
    engine = await stage.engine(ALL)
    handle = await engine.start("t", tally)
    await waits_for(handle, "update 'add'")

    answers = await asyncio.gather(
        *(handle.update(add, number) for number in (5, LAST, 6, 7)), return_exceptions=True
    )

    taken = await handle.result()
    told = {one for one in answers if isinstance(one, int)}
    assert told == set(range(1, len(taken) + 1))
    errors = {type(one).__name__ for one in answers if not isinstance(one, int)}
    assert errors <= {"InstanceEndedError", "UpdateUnansweredError"}
    assert len(taken) + len([one for one in answers if not isinstance(one, int)]) == 4


async def test_what_comes_behind_continue_as_new_goes_to_the_next_execution(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("s", slow)

    answers = await asyncio.gather(*(handle.update(add, number) for number in range(20)))

    assert answers == [2 * number for number in range(20)]
    at_once = await engine.start("q", quick, 0)
    answers = await asyncio.gather(*(at_once.update(add, number) for number in range(20)))
    assert sorted(answers) == list(range(1, 21))


async def test_a_signal_that_was_sent_before_is_not_overtaken(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("b", both)
    await waits_for(handle, "update 'add'")

    for number in range(20):
        await handle.send(note, f"n{number}")
        assert await handle.update(add, number) == 2 * number + 2

    await handle.update(add, LAST)
    came = await handle.result()
    assert came[:-1] == [text for number in range(20) for text in (f"n{number}", str(number))]


async def test_a_signal_of_another_process_is_not_overtaken(stage: Stage) -> None:
    """It is in the inbox, and the worker that has the instance in memory does not know it."""
    engine = await stage.engine(ALL)
    client = await stage.client()
    handle = await engine.start("b", both)
    await waits_for(handle, "update 'add'")

    for number in range(10):
        await client.handle("b").send(note, f"n{number}")
        await handle.update(add, number)

    await handle.update(add, LAST)
    came = await handle.result()
    assert came[:-1] == [text for number in range(10) for text in (f"n{number}", str(number))]


async def test_two_engines_that_ask_one_instance_lose_and_repeat_nothing(stage: Stage) -> None:
    engines = [await stage.engine(ALL), await stage.engine(ALL, options=options(hot_instances=1))]
    await engines[0].start("t", tally)

    async def asks(number: int) -> list[int]:
        handle = engines[number % 2].handle("t")
        return [await handle.update(add, 100 * number + one) for one in range(10)]

    answers = await asyncio.gather(*(asks(number) for number in range(6)))

    assert sorted(one for some in answers for one in some) == list(range(1, 61))
    assert all(some == sorted(some) for some in answers)
    handle = engines[0].handle("t", tally)
    await handle.update(add, LAST)
    taken = await handle.result()
    assert sorted(taken[:-1]) == sorted(
        100 * number + one for number in range(6) for one in range(10)
    )


async def test_a_refused_turn_is_asked_again_by_the_inbox(stage: Stage) -> None:
    """What is in memory is not what the store has: another client has changed the instance."""
    engine = await stage.engine(ALL)
    handle = await engine.start("t", tally)
    await waits_for(handle, "update 'add'")
    refused: list[TurnReceipt] = []
    way = engine._core.turns()._way
    heard_commit = way.heard_commit

    def spy(hot: Any, turn: Turn, receipt: TurnReceipt) -> None:
        if turn.arrived:
            refused.append(receipt)
        heard_commit(hot, turn, receipt)

    way.heard_commit = spy  # type: ignore[method-assign]  # to see what is refused
    hot = engine._core.turns().hot.get("t")
    assert hot is not None
    hot.stamp = hot.stamp._replace(commit_id=hot.stamp.commit_id + 1)

    assert await handle.update(add, 5) == 1
    assert await handle.update(add, 6) == 2

    assert [receipt.status.value for receipt in refused[:1]] == ["refused"]


async def test_given_again_after_an_answer_nothing_is_thought(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("t", tally)
    await handle.update(add, 5, update_id="u-1")
    turns = commits_of(engine)

    assert await handle.update(add, 5, update_id="u-1") == 1

    assert turns == []


async def test_a_look_before_the_request_is_there_does_not_give_it_up(stage: Stage) -> None:
    """Others wait for the same instance, and look for their answers while this one is sent."""
    engine = await stage.engine(ALL)
    client = await stage.client()
    await engine.start("t", tally)
    watch = client._core._watching()
    deliver = client._core.deliver

    async def slow_deliver(deliveries: Any) -> Any:
        await watch._look_once({"t"})
        return await deliver(deliveries)

    client._core.deliver = slow_deliver  # type: ignore[method-assign]  # a slow network

    assert await client.handle("t").update(add, 5) == 1


async def test_a_look_that_began_before_the_request_was_there_does_not_give_it_up(
    stage: Stage,
) -> None:
    """The look reads that there is no receipt, the request is sent, and then the look goes on."""
    engine = await stage.engine(ALL)
    client = await stage.client()
    await engine.start("t", tally)
    watch = client._core._watching()
    store = watch._store
    deliver, read_receipts = client._core.deliver, store.deciders.read_receipts
    has_read, is_sent = asyncio.Event(), asyncio.Event()
    looks: list[asyncio.Task[None]] = []

    async def slow_read(instance_id: str, ids: Any) -> Any:
        known = await read_receipts(instance_id, ids)
        if not has_read.is_set():
            has_read.set()
            await is_sent.wait()
        return known

    async def deliver_meanwhile(deliveries: Any) -> Any:
        looks.append(asyncio.create_task(watch._look_once({"t"})))
        await has_read.wait()
        statuses = await deliver(deliveries)
        is_sent.set()
        return statuses

    store.deciders.read_receipts = slow_read  # type: ignore[method-assign,assignment]  # a slow network
    client._core.deliver = deliver_meanwhile  # type: ignore[method-assign]

    assert await client.handle("t").update(add, 5) == 1
    await asyncio.gather(*looks)
