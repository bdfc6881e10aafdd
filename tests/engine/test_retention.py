"""Housekeeping and growing histories, through a worker."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from perdure import Signal, Stream, activity, for_each, orchestration
from perdure.clock import ManualClock
from perdure.errors import InstanceNotFoundError
from perdure.model.options import Retention
from perdure.repair import before
from perdure.turns import metrics
from tests.engine.stage import Stage, options, until, waits_for

go = Signal("go", str)
words = Stream("words", str)


@activity
async def step(number: int) -> int:
    return number


@orchestration
async def generations(left: int) -> int:
    await step(left)
    if left:
        generations.continue_as_new(left - 1)
    await go.receive()
    return 0


@orchestration
async def long(steps: int) -> str:
    for number in range(steps):
        await step(number)
    return await go.receive()


@orchestration
async def one(number: int) -> int:
    return await step(number)


@orchestration
async def saying() -> None:
    words.send("first")
    await step(1)
    words.send("last")


@orchestration
async def many() -> int:
    tally = await for_each(one, list(range(6)), page_size=2)
    await go.receive()
    return tally.done


async def test_an_instance_that_continues_as_new_loses_its_oldest_executions(
    stage: Stage,
) -> None:
    kept = options(retention=Retention(executions=1))
    engine = await stage.engine([generations, step], options=kept)
    housekeeping = engine._serving.housekeeping
    await housekeeping.run_once()

    handle = await engine.start("g", generations, 3)
    starts = "perdure_orchestration_starts_total"
    await until(lambda: engine.telemetry.snapshot().value(starts) == 4)
    removed = await housekeeping.run_once()

    assert removed.executions == 2
    found = await engine._core.store.admin.read_executions("g")
    assert [row.execution for row in found] == [3, 4]
    await handle.send(go, "on")
    assert await handle.result() == 0


async def test_a_worker_keeps_house_by_itself(stage: Stage) -> None:
    clock = ManualClock()
    kept = options(
        retention=Retention(ended=timedelta(days=1)),
        housekeeping_every=timedelta(milliseconds=5),
    )
    engine = await stage.engine([long, step], options=kept, clock=clock)
    handle = await engine.start("l", long, 1)
    await handle.send(go, "on")
    assert await handle.result() == "on"

    clock.advance(timedelta(days=2))
    removed = "perdure_housekeeping_removed_total"
    await until(lambda: engine.telemetry.snapshot().value(removed, what="instances") == 1)

    with pytest.raises(InstanceNotFoundError):
        await handle.info()


async def test_ended_pages_go_first_and_without_their_tree(stage: Stage) -> None:
    clock = ManualClock()
    kept = options(retention=Retention(pages=timedelta(minutes=10)))
    engine = await stage.engine([many, one, step], options=kept, clock=clock)
    housekeeping = engine._serving.housekeeping
    handle = await engine.start("m", many)
    await waits_for(handle, "signal 'go'")
    assert await engine.count(name="perdure.page") == 3
    assert await engine.count(name="one") == 6

    clock.advance(timedelta(minutes=9))
    assert not await housekeeping.run_once()
    clock.advance(timedelta(hours=1))
    removed = await housekeeping.run_once()

    assert removed.instances == 9
    assert await engine.count(name="perdure.page") == 0
    assert await engine.count(name="one") == 0
    assert await engine.count(name="perdure.for_each") == 1
    await handle.send(go, "on")
    assert await handle.result() == 6


async def test_streams_go_before_their_instance_and_their_indexes_are_not_given_again(
    stage: Stage,
) -> None:
    clock = ManualClock()
    kept = options(retention=Retention(streams=timedelta(days=1)))
    engine = await stage.engine([saying, step], options=kept, clock=clock)
    housekeeping = engine._serving.housekeeping
    handle = await engine.start("s", saying)
    await handle.result()

    clock.advance(timedelta(hours=23))
    assert not await housekeeping.run_once()
    clock.advance(timedelta(hours=2))
    removed = await housekeeping.run_once()

    assert removed.expired
    assert [item async for item in handle.stream(words)] == []
    await handle.reset(before(step))
    await handle.result()
    sent = [(item.index, item.value) async for item in handle.stream(words)]
    assert sent == [(3, "first"), (4, "last")]


async def test_a_long_history_is_warned_about_once_and_again_when_it_has_doubled(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1: a warning with the growth rate, and no cliff."""
    monkeypatch.setattr(metrics, "HISTORY_WARNING_EVENTS", 20)
    stage.expect_log("the history of instance .* grows long")
    engine = await stage.engine([long, step], options=options(hot_instances=0))

    handle = await engine.start("l", long, 30)
    await handle.send(go, "on")
    await handle.result()

    events = [record.__dict__["events"] for record in _warnings(stage)]
    assert len(events) == 2
    assert 20 <= events[0] < 22
    assert 40 <= events[1] < 42
    [first, _] = _warnings(stage)
    facts = first.__dict__
    assert facts["instance_id"] == "l"
    assert facts["definition"] == "long"
    assert facts["events_per_hour"] > 0
    assert facts["bytes"] > 0


async def test_a_large_history_is_warned_about_by_its_bytes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "HISTORY_WARNING_BYTES", 1_000)
    stage.expect_log("the history of instance .* grows long")
    engine = await stage.engine([long, step])

    handle = await engine.start("l", long, 20)
    await handle.send(go, "on")
    await handle.result()

    [first, *_] = _warnings(stage)
    assert 1_000 <= first.__dict__["bytes"] < 1_200


async def test_the_bytes_that_are_counted_are_those_that_are_stored(stage: Stage) -> None:
    """Whether turn by turn, or read off the history after a restart."""
    engine = await stage.engine([long, step])
    await engine.start("l", long, 5)
    ran = "perdure_activity_executions_total"
    await until(lambda: engine.telemetry.snapshot().value(ran) == 5)
    stats = await engine._core.store.admin.instance_stats("l")
    hot = engine._serving.turns.hot.get("l")
    assert hot is not None
    assert stats is not None
    assert (hot.tally.bytes, hot.tally.turns) == (stats.event_bytes, 6)

    await engine.close()
    again = await stage.engine([long, step])
    live = await again._core.store.read_live("l")
    assert live is not None
    assert live.definition_no is not None
    await again._serving.turns._loader.warm("l", live.stamp, live.definition_no)

    hot = again._serving.turns.hot.get("l")
    assert hot is not None
    assert hot.tally.bytes == stats.event_bytes
    assert 1 <= hot.tally.turns <= 6


def _warnings(stage: Stage) -> list[logging.LogRecord]:
    return [one for one in stage._log.records if " grows long" in one.getMessage()]
