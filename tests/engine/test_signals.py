from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import Signal, activity, orchestration, race
from perdure.authoring.registry import Defined
from perdure.errors import InstanceEndedError, InstanceFailedError, PayloadError
from tests.engine.stage import Stage, kinds, until, waits_for


@dataclass(frozen=True)
class Vote:
    by: str
    yes: bool


go = Signal("go", str)
number = Signal("number", int)
votes = Signal("votes", Vote)


@activity
async def note(text: str) -> str:
    return text


@orchestration
async def one() -> str:
    return await go.receive()


@orchestration
async def collecting(count: int) -> list[int]:
    return [await number.receive() for _ in range(count)]


@orchestration
async def late(count: int) -> list[Any]:
    """Does something else first; signals come before anybody waits."""
    await go.receive()
    await note("now")
    return [await number.receive() for _ in range(count)]


@orchestration
async def voting() -> list[Vote]:
    found = []
    async for vote in votes:
        found.append(vote)
        if not vote.yes:
            break
    return found


ALL: list[Defined] = [note, one, collecting, late, voting]


async def test_a_signal_wakes_who_waits_for_it(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start(one)
    await waits_for(handle, "signal 'go'")

    await handle.send(go, "on")

    assert await handle.result() == "on"
    assert kinds(await handle.history()) == [
        "started",
        "signal_awaited",
        "signal_received",
        "completed",
    ]


async def test_signals_before_the_start_are_kept_in_order(stage: Stage) -> None:
    client = await stage.client()
    for value in range(5):
        await client.handle("c").send(number, value)

    engine = await stage.engine(ALL)
    handle = await engine.start("c", collecting, 5)

    assert await handle.result() == [0, 1, 2, 3, 4]


async def test_a_client_can_start_after_its_signals(stage: Stage) -> None:
    client = await stage.client()
    await client.handle("c").send(number, 1)
    handle = await client.start("c", collecting, 2)
    await handle.send(number, 2)

    await stage.engine(ALL)

    assert await handle.result() == [1, 2]


async def test_signals_before_anybody_waits_are_kept_in_order(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start(late, 20)

    for value in range(20):
        await handle.send(number, value)
    await handle.send(go, "on")

    assert await handle.result() == list(range(20))


async def test_signals_of_one_sender_arrive_in_order_and_none_is_lost(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start(collecting, 300)

    async def send(values: range) -> None:
        for value in values:
            await handle.send(number, value)

    await asyncio.gather(*(send(range(start, start + 100)) for start in (0, 100, 200)))
    received = await handle.result()

    assert sorted(received) == list(range(300))
    for start in (0, 100, 200):
        sent_together = [value for value in received if start <= value < start + 100]
        assert sent_together == sorted(sent_together)


async def test_a_typed_signal_arrives_as_its_type(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start(voting)
    await handle.send(votes, Vote("a", True))
    await handle.send(votes, Vote("b", False))

    assert await handle.result() == [Vote("a", True), Vote("b", False)]


async def test_a_value_of_another_type_is_refused_at_the_sender(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("v", one)

    with pytest.raises(PayloadError, match="signal 'votes'"):
        await handle.send(votes, "yes")  # type: ignore[misc]  # the mistake under test
    with pytest.raises(PayloadError, match="signal 'go'"):
        await handle.send(go, 3)  # type: ignore[misc]  # the mistake under test

    assert kinds(await handle.history()) == ["started", "signal_awaited"]


async def test_a_value_that_the_receiver_cannot_read_fails_it_visibly(stage: Stage) -> None:
    """Sender and receiver must share the signal; a sender that does not is named."""
    engine = await stage.engine(ALL)
    handle = await engine.start(collecting, 1)
    await handle.send(Signal("number", str), "text")

    with pytest.raises(InstanceFailedError, match=r"PayloadError.*number"):
        await handle.result()


async def test_a_repeated_message_id_is_delivered_once(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    client = await stage.client()
    handle = await engine.start("c", collecting, 3)

    for sender in (handle, client.handle("c"), handle):
        await sender.send(number, 7, message_id="once")
    await handle.send(number, 8)
    await handle.send(number, 7, message_id="once")
    await handle.send(number, 9)

    assert await handle.result() == [7, 8, 9]


async def test_a_message_id_sent_before_and_after_the_start_is_delivered_once(
    stage: Stage,
) -> None:
    engine = await stage.engine(ALL)
    await engine.handle("c").send(number, 7, message_id="once")
    handle = await engine.start("c", collecting, 2)

    await handle.send(number, 7, message_id="once")
    await handle.send(number, 8)

    assert await handle.result() == [7, 8]


async def test_a_signal_to_an_ended_instance_is_refused(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("g", one)
    await handle.send(go, "on")
    await handle.result()

    with pytest.raises(InstanceEndedError, match=r"'g' has ended \(completed\)"):
        await handle.send(go, "more")


async def test_waits_are_served_in_the_order_they_began(stage: Stage) -> None:
    @orchestration
    async def three() -> list[str]:
        async def wait(name: str) -> str:
            return f"{name}={await number.receive()}"

        return list(await asyncio.gather(wait("a"), wait("b"), wait("c")))

    engine = await stage.engine([three])
    handle = await engine.start(three)
    for value in (1, 2, 3):
        await handle.send(number, value)

    assert await handle.result() == ["a=1", "b=2", "c=3"]


async def test_a_wait_that_was_given_up_takes_nothing(stage: Stage) -> None:
    @orchestration
    async def impatient() -> list[Any]:
        won, _ = await race(go.receive(), number.receive())
        return [won, await go.receive()]

    engine = await stage.engine([impatient])
    handle = await engine.start(impatient)
    await waits_for(handle, "signal 'number'")
    await handle.send(number, 1)
    await until(lambda: _has(handle, "signal_wait_cancelled"))

    await handle.send(go, "kept")

    assert await handle.result() == [1, "kept"]


async def test_names_do_not_mix(stage: Stage) -> None:
    @orchestration
    async def both() -> list[Any]:
        return [await number.receive(), await go.receive()]

    engine = await stage.engine([both])
    handle = await engine.start(both)
    await handle.send(go, "a")
    await handle.send(number, 1)

    assert await handle.result() == [1, "a"]


async def test_several_clients_of_one_store_reach_one_instance(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    clients = [await stage.client() for _ in range(3)]
    handle = await engine.start("c", collecting, 30)

    for value in range(10):
        await asyncio.gather(
            *(client.handle("c").send(number, value) for client in clients),
        )

    assert sorted(await handle.result()) == sorted(list(range(10)) * 3)


async def _has(handle: Any, kind: str) -> bool:
    return kind in kinds(await handle.history())
