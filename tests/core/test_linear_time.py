"""The core does the same work for each event, however many there are.

Counted are calls of functions, not seconds: twice the events may cost twice the calls.
"""

import asyncio
import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from perdure.authoring.context import Context
from perdure.authoring.orchestration import Orchestration, orchestration
from perdure.core.guard import Guard
from perdure.model.histories.events import (
    ActivityCompleted,
    CancelRequested,
    ChildCompleted,
    DetachedStarted,
    SignalReceived,
)
from tests.core.harness import Script, raw
from tests.core.programs import child, number, say

UNWATCHED = Guard(watch_calls=False)  # It would take the profiler's place.
MAX_RATIO = 2.3


@orchestration
async def fans_out(n: int) -> int:
    return len(await asyncio.gather(*(say("a") for _ in range(n))))


@orchestration
async def has_many_children(n: int) -> int:
    return len(await asyncio.gather(*(child("a") for _ in range(n))))


@orchestration
async def groups_many(n: int) -> int:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(say("a")) for _ in range(n)]
    return len(tasks)


@orchestration
async def takes_many_as_they_complete(n: int) -> int:
    return len([await each for each in asyncio.as_completed([say("a") for _ in range(n)])])


@orchestration
async def chains(n: int) -> int:
    for _ in range(n):
        await say("a")
    return n


@orchestration
async def chains_in_time(n: int) -> int:
    for _ in range(n):
        async with asyncio.timeout(60):
            await say("a")
    return n


@orchestration
async def sleeps_many(n: int) -> int:
    return len(await asyncio.gather(*(asyncio.sleep(1 + i % 7) for i in range(n))))


@orchestration
async def receives_many(n: int) -> int:
    return len(await asyncio.gather(*(number.receive() for _ in range(n))))


@orchestration
async def drains_many(n: int) -> int:
    await say("a")
    return len([await number.receive() for _ in range(n)])


@orchestration
async def keeps_many(ctx: Context, n: int) -> int:
    for i in range(n):
        ctx.kv[f"key {i % 100}"] = i
        ctx.report(i)
        await number.receive()
    return n


@orchestration
async def starts_many(ctx: Context, n: int) -> int:
    return len(await asyncio.gather(*(ctx.start(child, "a") for _ in range(n))))


@orchestration
async def is_cancelled_in_many(n: int) -> None:
    async with asyncio.TaskGroup() as group:
        for i in range(n):
            group.create_task(number.receive() if i % 2 else say("a"))


def answer_together(script: Script, n: int) -> None:
    kind = ChildCompleted if script.event(2).kind == "child_scheduled" else ActivityCompleted
    script.deliver(*(kind(schedule=seq, result=raw("A")) for seq in script.open))


def answer_one_by_one(script: Script, n: int) -> None:
    for _ in range(n):
        script.complete(script.open[-1], "A")


def fire_all(script: Script, n: int) -> None:
    for seq in sorted(script.open, key=lambda seq: (script.event(seq).due_ms, seq)):
        script.fire(seq)


def send_all(script: Script, n: int) -> None:
    for value in range(n):
        script.signal("number", value)


def send_all_before_they_are_received(script: Script, n: int) -> None:
    script.deliver(*(SignalReceived(name="number", value=raw(value)) for value in range(n)))
    script.say("a")


def start_together(script: Script, n: int) -> None:
    script.deliver(*(DetachedStarted(schedule=seq) for seq in script.open))


def cancel(script: Script, n: int) -> None:
    script.deliver(CancelRequested(reason="enough"))


class Calls:
    """Counts the calls of functions, those written in C included."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> "Calls":
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self.count += 1


@pytest.mark.parametrize(
    ("program", "play", "n"),
    [
        (fans_out, answer_together, 500),
        (has_many_children, answer_together, 500),
        (groups_many, answer_together, 500),
        (takes_many_as_they_complete, answer_together, 500),
        (chains, answer_one_by_one, 300),
        (chains_in_time, answer_one_by_one, 300),
        (sleeps_many, fire_all, 300),
        (receives_many, send_all, 300),
        (drains_many, send_all_before_they_are_received, 500),
        (keeps_many, send_all, 300),
        (starts_many, start_together, 500),
        (is_cancelled_in_many, cancel, 500),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_twice_the_events_cost_twice_the_calls(
    program: Orchestration[..., Any], play: Callable[[Script, int], None], n: int
) -> None:
    gc.collect()  # What other tests left behind must not be freed, and counted, in here.
    live, replayed = {}, {}
    for size in (n, 2 * n):
        script = Script(program, size, guard=UNWATCHED)
        with Calls() as calls:
            play(script, size)
        live[size] = calls.count
        assert script.has_ended
        with Calls() as calls:
            script.replayed()
        replayed[size] = calls.count

    assert live[2 * n] / live[n] < MAX_RATIO
    assert replayed[2 * n] / replayed[n] < MAX_RATIO


@pytest.mark.parametrize(
    ("program", "play", "n"),
    [
        (fans_out, answer_together, 10_000),
        (has_many_children, answer_together, 10_000),
        (chains, answer_one_by_one, 5_000),
    ],
    ids=["10,000 activities", "10,000 children", "a chain of 5,000"],
)
def test_large_ones_end_and_replay(
    program: Orchestration[..., Any], play: Callable[[Script, int], None], n: int
) -> None:
    script = Script(program, n, guard=UNWATCHED)
    play(script, n)

    assert script.result == n
    assert script.replayed().digest() == script.execution.digest()


def test_ten_thousand_kept_signals_are_received_in_one_turn() -> None:
    """Elsewhere draining more than a hundred failed the instance for good."""
    script = Script(drains_many, 10_000, guard=UNWATCHED)
    send_all_before_they_are_received(script, 10_000)

    assert [kind for kind, _ in script.turns[-1].events].count("signal_taken") == 10_000
    assert script.result == 10_000
    script.replayed()
