"""Pruning: the histories of earlier executions go, what the instance needs stays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure import Context, Engine, Handle, Signal, orchestration
from perdure.authoring.registry import Defined
from perdure.clock import ManualClock, to_datetime
from perdure.errors import UsageError
from perdure.model.admin import DeletedCounts
from tests.engine.stage import Stage, until

SECOND = timedelta(seconds=1)
go = Signal("go", str)


@orchestration
async def rounds(ctx: Context, round: int, last: int) -> int:
    ctx.kv[f"round-{round}"] = round
    ctx.report(round)
    said = await go.receive()
    if round == last or said == "stop":
        return round
    rounds.continue_as_new(round + 1, last)


ALL: list[Defined] = [rounds]


async def reach(handle: Handle[int], execution: int, clock: ManualClock | None = None) -> None:
    """Let an instance go on until it is in this execution."""
    for number in range((await handle.info()).execution, execution):
        if clock is not None:
            clock.advance(SECOND)
        await handle.send(go, "on")
        await handle.wait_report(after=number)


async def executions(handle: Handle[Any]) -> list[int]:
    return [one.execution for one in await handle.executions()]


async def test_the_last_executions_stay(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("r", rounds, 1, 99)
    await reach(handle, 5)

    counts = await handle.prune(keep_last=2)

    assert await executions(handle) == [4, 5]
    assert (counts.instances, counts.executions) == (0, 3)
    assert counts.events >= 9
    assert await handle.history(1) == []


async def test_the_current_execution_always_stays(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("r", rounds, 1, 2)
    await reach(handle, 2)

    await handle.prune(keep_last=1)
    assert await executions(handle) == [2]

    await handle.send(go, "on")
    assert await handle.result() == 2
    assert await handle.prune() == DeletedCounts()
    assert await executions(handle) == [2]


async def test_a_pruned_instance_goes_on_with_all_that_it_has(stage: Stage) -> None:
    """Values, report and unread signals do not live in the histories that go. Another worker
    replays what is left."""
    engine = await stage.engine(ALL)
    handle = await engine.start("r", rounds, 1, 4)
    await reach(handle, 3)
    await handle.prune()
    await engine.close()

    engine = await stage.engine(ALL)
    handle = engine.handle("r", rounds)
    await handle.send(go, "on")
    await handle.send(go, "on")

    assert await handle.result() == 4
    assert await handle.kv() == {f"round-{number}": number for number in (1, 2, 3, 4)}


async def test_only_executions_that_ended_before_a_time_are_pruned(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine(ALL, clock=clock)
    handle = await engine.start("r", rounds, 1, 99)
    await reach(handle, 3, clock)
    between = to_datetime(clock() + 500)
    await reach(handle, 5, clock)

    await handle.prune(before=between)

    assert await executions(handle) == [3, 4, 5]


async def test_running_instances_are_pruned_in_bulk_too(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    running = await engine.start("running", rounds, 1, 99)
    ended = await engine.start("ended", rounds, 1, 3)
    await reach(running, 3)
    await reach(ended, 3)
    await ended.send(go, "stop")
    await ended.result()

    counts = await engine.prune(name="rounds")

    assert counts.executions == 4
    assert await executions(running) == [3]
    assert await executions(ended) == [3]


async def test_a_bulk_prune_keeps_to_its_filter_and_limit(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handles = [await engine.start(f"r-{number}", rounds, 1, 99) for number in range(3)]
    other = await engine.start("other", rounds, 1, 99)
    single = await engine.start("r-single", rounds, 1, 99)
    for handle in (*handles, other):
        await reach(handle, 2)

    counts = await engine.prune(prefix="r-", limit=2)

    assert counts.executions == 2
    left = [len(await executions(handle)) for handle in handles]
    assert sorted(left) == [1, 1, 2]
    assert await executions(other) == [1, 2]
    assert await executions(single) == [1]


async def test_a_prune_that_would_keep_nothing_is_refused(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("r", rounds, 1, 1)

    nothing: list[Any] = [0, -1, 1.5, None, True]
    for keep_last in nothing:
        with pytest.raises(UsageError, match="keep_last must be a whole number of at least 1, got"):
            await handle.prune(keep_last=keep_last)
        with pytest.raises(UsageError, match="keep_last must be a whole number of at least 1, got"):
            await client.prune(keep_last=keep_last)
    with pytest.raises(UsageError, match="before must be a datetime, got 5"):
        await handle.prune(before=5)  # type: ignore[arg-type]  # that is the point


async def test_a_prune_races_with_a_turn_and_both_win(stage: Stage) -> None:
    engine: Engine = await stage.engine(ALL)
    handle = await engine.start("r", rounds, 1, 20)
    for number in range(1, 20):
        await handle.send(go, "on")
        await handle.prune()
        await handle.wait_report(after=number)

    await until(lambda: is_pruned(handle))
    await handle.send(go, "on")
    assert await handle.result() == 20


async def is_pruned(handle: Handle[int]) -> bool:
    await handle.prune()
    return len(await executions(handle)) == 1
