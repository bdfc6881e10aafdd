"""Streams of instances that go back: what was sent behind the point counts no more, and nothing is
sent twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Handle, Signal, Stream, activity, for_each, orchestration
from perdure.errors import UsageError
from perdure.repair import at_event
from tests.engine.stage import Gate, Stage, until, waits_for

words = Stream("words", str)
numbers = Stream("numbers", int)
go = Signal("go", str)


async def late(handle: Handle[Any], stream: Stream[Any]) -> list[Any]:
    """Return what a reader sees that comes when all is over."""
    return [item.value async for item in handle.stream(stream)]


async def kinds(handle: Handle[Any]) -> list[str]:
    return [event.kind for event in await handle.history()]


async def test_a_point_between_two_messages_of_one_turn_sends_nothing_twice(stage: Stage) -> None:
    @orchestration
    async def echo() -> str:
        words.send("begin")
        for _ in range(3):
            words.send(await go.receive())
        return "over"

    client = await stage.client()
    handle = await client.start("echo", echo)
    await handle.send(go, "one")
    await handle.send(go, "two")
    # All three messages are taken by the first turn.
    engine = await stage.engine([echo])
    await waits_for(handle, "signal 'go'")
    assert (await kinds(handle)).count("signal_received") == 2
    first = (await kinds(handle)).index("signal_received") + 1

    await handle.reset(at_event(first + 1))
    await handle.send(go, "three")

    assert await engine.handle("echo").result() == "over"
    assert await late(handle, words) == ["begin", "one", "two", "three"]


async def test_results_of_a_for_each_that_is_made_again_are_sent_once(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def echo(number: int) -> int:
        if number == 2:
            await gate.pass_through()
        return number

    @orchestration
    async def signalled() -> int:
        calling = asyncio.ensure_future(
            for_each(echo, [1, 2, 3], page_size=1, pages=1, results=numbers)
        )
        await go.receive()
        return (await calling).done

    engine = await stage.engine([echo, signalled])
    handle = await engine.start("all", signalled)
    await gate.reached()
    await until_there(handle, [1])
    await handle.send(go, "on")
    await until(lambda: received(handle))
    events = await kinds(handle)

    # The call is open there, so all its items are done again.
    await handle.reset(at_event(events.index("signal_received") + 1))
    gate.opened.set()

    assert await handle.result() == 3
    assert await late(handle, numbers) == [1, 2, 3]


async def test_a_part_of_a_for_each_does_not_go_back_by_itself_and_send_results_twice(
    stage: Stage,
) -> None:
    gate = Gate()

    @activity
    async def echo(number: int) -> int:
        if number == 2:
            await gate.pass_through()
        return number

    @orchestration
    async def calling() -> int:
        return (await for_each(echo, [1, 2], page_size=1, pages=1, results=numbers)).done

    engine = await stage.engine([echo, calling])
    handle = await engine.start("all", calling)
    await gate.reached()
    await until_there(handle, [1])
    parts = (await engine.instances(prefix="all/")).items
    assert sorted(part.name for part in parts) == ["perdure.for_each", *["perdure.page"] * 2]

    for part in parts:
        for going_back in (
            engine.handle(part.instance_id).reset(at_event(1)),
            engine.handle(part.instance_id).fork("other", at_event(1)),
            engine.handle(part.instance_id).plan(at_event(1)),
            engine.handle(part.instance_id).restart(),
        ):
            with pytest.raises(UsageError, match="go back with instance 'all', which called it"):
                await going_back

    gate.opened.set()
    assert await handle.result() == 2
    assert await late(handle, numbers) == [1, 2]


async def until_there(handle: Handle[Any], values: list[Any]) -> None:
    """Wait until the first result is there."""
    reader = handle.stream(numbers)
    assert [(await anext(reader)).value for _ in values] == values


async def received(handle: Handle[Any]) -> bool:
    return "signal_received" in await kinds(handle)
