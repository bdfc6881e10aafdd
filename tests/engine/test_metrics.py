"""What is counted from end to end: each thing once, when the store has accepted it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from perdure import (
    Client,
    Engine,
    Retry,
    Signal,
    activity,
    activity_context,
    context,
    inline,
    orchestration,
)
from perdure.clock import ManualClock
from perdure.errors import (
    InstanceCancelledError,
    InstanceFailedError,
    InstanceTerminatedError,
)
from perdure.model.turns import ClaimedTurn
from perdure.telemetry import Distribution, MetricsSnapshot
from tests.engine.stage import (
    PATIENCE,
    Gate,
    RunningClock,
    Stage,
    has_ended,
    is_waiting,
    load,
    options,
    overtake,
    until,
)

STARTS = "perdure_orchestration_starts_total"
COMPLETIONS = "perdure_orchestration_completions_total"
FAILURES = "perdure_orchestration_failures_total"
DURATION = "perdure_orchestration_duration_seconds"
TURNS = "perdure_orchestration_turns"
HISTORY = "perdure_orchestration_history_size"
EXECUTIONS = "perdure_activity_executions_total"
ACTIVITY_DURATION = "perdure_activity_duration_seconds"
RETRIES = "perdure_activity_retries_total"
DEAD = "perdure_dead_jobs_total"
CHILDREN = "perdure_child_calls_total"
CHILD_DURATION = "perdure_child_duration_seconds"
REFUSED = "perdure_commits_refused_total"
HELD = "perdure_instances_held_total"

go = Signal("go", str)


class DeclinedError(Exception):
    pass


@activity
async def step(number: int) -> int:
    return number


@activity(retry=Retry(max_attempts=3, first_delay=timedelta(0), jitter=0))
async def shaky(fail_first: int) -> str:
    if activity_context().attempt <= fail_first:
        raise DeclinedError("not yet")
    return "done"


@orchestration
async def three() -> int:
    return sum([await step(1), await step(2), await step(3)])


@orchestration
async def waiting() -> str:
    return await go.receive()


@orchestration
async def failing() -> None:
    raise DeclinedError("no")


@orchestration
async def using_shaky(fail_first: int) -> str:
    return await shaky(fail_first)


@orchestration
async def parent() -> int:
    return await three()


@orchestration
async def generations(left: int) -> int:
    await step(left)
    if left:
        generations.continue_as_new(left - 1)
    return 0


def now_of(client: Client) -> MetricsSnapshot:
    return client.telemetry.snapshot()


def seen(client: Client, name: str, **labels: str) -> Distribution:
    found = now_of(client).distribution(name, **labels)
    assert found is not None
    return found


# ------------------------------------------------------------------- counted once


async def test_three_activities_count_as_three(stage: Stage) -> None:
    """duroxide defect f: they counted as six."""
    engine = await stage.engine([three, step])

    await (await engine.start("t", three)).result()

    now = now_of(engine)
    assert now.value(EXECUTIONS) == 3
    assert now.value(EXECUTIONS, activity="step", outcome="completed", tag="default") == 3
    assert seen(engine, ACTIVITY_DURATION, activity="step", outcome="completed").count == 3
    assert now.value(RETRIES) == 0


async def test_a_start_counts_once_however_many_turns_follow(stage: Stage) -> None:
    """duroxide defect f: every turn counted as a start, and the turn count was always 1."""
    engine = await stage.engine([three, step])

    await (await engine.start("t", three)).result()

    now = now_of(engine)
    assert now.value(STARTS) == 1
    assert now.value(STARTS, orchestration="three", version="1.0.0", initiated_by="client") == 1
    assert now.value(COMPLETIONS) == 1
    assert now.value(COMPLETIONS, orchestration="three", status="completed") == 1
    turns = seen(engine, TURNS, orchestration="three")
    assert (turns.count, turns.total) == (1, 4)
    history = seen(engine, HISTORY, orchestration="three")
    assert (history.count, history.total) == (1, 8)


async def test_a_start_that_a_worker_claims_counts_as_the_clients(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("t", three)

    engine = await stage.engine([three, step])
    await handle.result()

    assert now_of(engine).value(STARTS, initiated_by="client") == 1
    assert now_of(client).value(STARTS) == 0
    assert now_of(client).value("perdure_client_starts_total", orchestration="three") == 1
    assert now_of(engine).value("perdure_client_starts_total") == 0


async def test_a_start_under_a_taken_id_counts_nothing(stage: Stage) -> None:
    engine = await stage.engine([three, step])
    await (await engine.start("t", three)).result()
    await (await engine.start("t", three)).result()

    now = now_of(engine)
    assert now.value(STARTS) == now.value(COMPLETIONS) == 1
    assert now.value("perdure_client_starts_total") == 1
    assert now.value(EXECUTIONS) == 3


async def test_a_failure_counts_once_with_its_class(stage: Stage) -> None:
    """duroxide defect f: failures were counted twice, once without labels."""
    engine = await stage.engine([failing])

    with pytest.raises(InstanceFailedError):
        await (await engine.start("f", failing)).result()

    now = now_of(engine)
    assert now.value(FAILURES) == 1
    assert now.value(FAILURES, orchestration="failing", error_type="DeclinedError") == 1
    assert now.value(COMPLETIONS, status="failed") == 1
    assert seen(engine, DURATION, status="failed").count == 1


async def test_retries_count_apart_from_the_call(stage: Stage) -> None:
    engine = await stage.engine([using_shaky, shaky])

    assert await (await engine.start("s", using_shaky, 2)).result() == "done"

    now = now_of(engine)
    assert now.value(RETRIES, activity="shaky", tag="default") == 2
    assert now.value(EXECUTIONS) == now.value(EXECUTIONS, outcome="completed") == 1
    assert now.value(DEAD) == 0


async def test_a_job_out_of_attempts_is_dead_and_failed_once(stage: Stage) -> None:
    engine = await stage.engine([using_shaky, shaky])

    with pytest.raises(InstanceFailedError):
        await (await engine.start("s", using_shaky, 9)).result()

    now = now_of(engine)
    assert now.value(RETRIES) == 2
    assert now.value(EXECUTIONS) == now.value(EXECUTIONS, outcome="failed") == 1
    assert now.value(DEAD, activity="shaky") == 1


async def test_an_inline_call_counts_under_its_name(stage: Stage) -> None:
    @orchestration
    async def calling() -> int:
        return await inline(len, "four")

    engine = await stage.engine([calling])

    assert await (await engine.start("i", calling)).result() == 4

    assert now_of(engine).value(EXECUTIONS, activity="len", tag="inline") == 1


async def test_a_cancelled_activity_counts_as_cancelled(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def stuck() -> None:
        await gate.pass_through()

    @orchestration
    async def impatient() -> str:
        try:
            async with asyncio.timeout(PATIENCE.total_seconds()):
                await stuck()
        except TimeoutError:
            return "late"
        return "in time"

    clock = RunningClock()
    engine = await stage.engine([impatient, stuck], clock=clock)
    handle = await engine.start("i", impatient)
    await gate.reached()
    clock.advance(PATIENCE)

    assert await handle.result() == "late"

    # Its own code may still be on its way out when the result is there.
    await until(lambda: now_of(engine).value(EXECUTIONS, outcome="cancelled") == 1)
    assert now_of(engine).value(EXECUTIONS) == 1


async def test_cancelling_and_terminating_count_by_status(stage: Stage) -> None:
    engine = await stage.engine([waiting])
    asked = await engine.start("asked", waiting)
    stopped = await engine.start("stopped", waiting)

    await asked.cancel("enough")
    with pytest.raises(InstanceCancelledError):
        await asked.result()
    await stopped.terminate("now")
    with pytest.raises(InstanceTerminatedError):
        await stopped.result()

    now = now_of(engine)
    assert now.value("perdure_orchestration_cancellations_total", orchestration="waiting") == 1
    assert now.value("perdure_client_cancels_total") == 1
    assert now.value(COMPLETIONS) == 2
    assert now.value(COMPLETIONS, status="cancelled") == 1
    assert now.value(COMPLETIONS, status="terminated") == 1


# ---------------------------------------------------------------- across executions


async def test_each_execution_counts_its_own_start_turns_and_history(stage: Stage) -> None:
    engine = await stage.engine([generations, step])

    await (await engine.start("g", generations, 2)).result()

    now = now_of(engine)
    assert now.value(STARTS) == 3
    assert now.value(STARTS, initiated_by="client") == 1
    assert now.value(STARTS, initiated_by="continue_as_new") == 2
    assert now.value("perdure_orchestration_continue_as_new_total") == 2
    assert now.value(COMPLETIONS) == 1
    assert now.value(EXECUTIONS) == 3
    assert (seen(engine, TURNS).count, seen(engine, TURNS).total) == (3, 6)
    assert (seen(engine, HISTORY).count, seen(engine, HISTORY).total) == (3, 12)


async def test_the_duration_reaches_back_to_the_first_start(stage: Stage) -> None:
    """duroxide measured the last turn only."""

    @orchestration
    async def twice(is_second: bool) -> str:
        found = await go.receive()
        if not is_second:
            twice.continue_as_new(True)
        return found

    clock = ManualClock()
    engine = await stage.engine([twice], clock=clock)
    handle = await engine.start("w", twice, False)
    for number in (1, 2):
        await until(lambda: is_waiting(engine, "w"))
        clock.advance(timedelta(seconds=100))
        await handle.send(go, "on")
        if number == 1:
            await until(lambda: now_of(engine).value(STARTS) == 2)
    await handle.result()

    assert seen(engine, DURATION, status="completed").total == pytest.approx(200, abs=1)


async def test_a_child_counts_at_its_parent_with_its_duration(stage: Stage) -> None:
    """duroxide defines these and never emits them."""
    engine = await stage.engine([parent, three, step])

    await (await engine.start("p", parent)).result()

    now = now_of(engine)
    assert now.value(STARTS, orchestration="three", initiated_by="parent") == 1
    assert now.value(STARTS, orchestration="parent", initiated_by="client") == 1
    assert now.value(CHILDREN) == 1
    assert now.value(CHILDREN, parent="parent", child="three", outcome="completed") == 1
    assert seen(engine, CHILD_DURATION, child="three").count == 1


async def test_a_failed_child_counts_as_failed_after_a_restart_too(stage: Stage, url: str) -> None:
    @orchestration
    async def slow_child() -> None:
        await go.receive()
        raise DeclinedError("no")

    @orchestration
    async def elder() -> None:
        await slow_child.with_options(instance_id="child")()

    first = await stage.engine([elder, slow_child])
    await first.start("elder", elder)
    await until(lambda: is_waiting(first, "child"))
    await first.close()
    second = await stage.engine([elder, slow_child])

    await second.handle("child").send(go, "on")
    with pytest.raises(InstanceFailedError):
        await second.handle("elder").result()

    now = now_of(second)
    assert now.value(CHILDREN, parent="elder", child="slow_child", outcome="failed") == 1
    assert now_of(first).value(CHILDREN) == 0


async def test_a_detached_start_counts_as_detached(stage: Stage) -> None:
    @orchestration
    async def starter() -> None:
        await context().start("away", three)

    engine = await stage.engine([starter, three, step])

    await (await engine.start("s", starter)).result()
    await engine.handle("away").result()

    assert now_of(engine).value(STARTS, orchestration="three", initiated_by="detached") == 1
    assert now_of(engine).value(STARTS, orchestration="three") == 1


# ------------------------------------------------------------ what counts as nothing


async def test_a_replay_after_a_restart_counts_nothing(stage: Stage) -> None:
    @orchestration
    async def long() -> str:
        await step(1)
        await step(2)
        return await go.receive()

    first = await stage.engine([long, step])
    await first.start("l", long)
    await until(lambda: now_of(first).value(EXECUTIONS) == 2)
    await until(lambda: is_waiting(first, "l"))
    await first.close()
    second = await stage.engine([long, step])

    await second.handle("l").send(go, "on")
    assert await second.handle("l").result() == "on"

    now = now_of(second)
    assert now.value(STARTS) == 0
    assert now.value(EXECUTIONS) == 0
    assert now.value(COMPLETIONS) == 1
    assert seen(second, HISTORY).total == 8


async def test_a_refused_commit_counts_as_refused_and_nothing_else(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process terminates an instance when its activity has returned: the turn that takes
    the result is refused."""

    @activity
    async def stuck() -> None:
        pass

    @orchestration
    async def single() -> None:
        await stuck()

    engine = await stage.engine([single, stuck])
    other = await stage.client()
    overtake(engine, monkeypatch, lambda: other.handle("s").terminate("from elsewhere"))
    await engine.start("s", single)

    await until(lambda: now_of(engine).value(REFUSED) == 1)

    now = now_of(engine)
    assert now.value(REFUSED, orchestration="single") == 1
    assert now.value(COMPLETIONS) == 0
    assert now.value(EXECUTIONS) == 0
    assert now_of(other).value(COMPLETIONS, status="terminated") == 1


async def test_a_result_that_only_its_turn_lost_still_counts(stage: Stage) -> None:
    """The store refuses the turn and keeps the result: the activity did run, and its result is
    used."""
    gate = Gate()

    @activity
    async def stuck() -> str:
        await gate.pass_through()
        return "ran"

    @orchestration
    async def single() -> str:
        return await stuck()

    engine = await stage.engine([single, stuck])
    handle = await engine.start("s", single)
    await gate.reached()
    # What the worker has in memory is no longer what the store has.
    hot = engine._serving.turns.hot.get("s")
    assert hot is not None
    hot.stamp = hot.stamp._replace(next_seq=1)

    gate.opened.set()
    assert await handle.result() == "ran"

    now = now_of(engine)
    assert now.value(REFUSED) == 1
    assert now.value(EXECUTIONS) == now.value(EXECUTIONS, outcome="completed") == 1
    assert now.value(COMPLETIONS) == 1


async def test_a_hold_counts_once_the_store_has_it(stage: Stage, tmp_path: Path) -> None:
    """duroxide trap 29: the poison metric claimed success although the commit failed."""
    source = """
from perdure import Signal, orchestration, activity
go = Signal("go", str)
@activity
async def {name}(number: int) -> int:
    return number
@orchestration(name="changing")
async def changing() -> None:
    await {name}(1)
    await go.receive()
"""
    old = load(tmp_path / "old", "shop", source.format(name="before"))
    new = load(tmp_path / "new", "shop", source.format(name="after"))
    stage.expect_log("instance .* is blocked")
    first = await stage.engine([old])
    await first.start("c", old.changing)
    await until(lambda: now_of(first).value(EXECUTIONS) == 1)
    await first.close()

    second = await stage.engine([new])
    await second.handle("c").send(go, "on")
    await until(lambda: now_of(second).value(HELD) == 1)

    assert now_of(second).value(HELD, orchestration="changing", status="blocked") == 1
    assert len(stage.logged("instance .* is blocked")) == 1


async def test_a_hold_that_the_store_refuses_counts_nothing(stage: Stage) -> None:
    """duroxide trap 29."""
    engine = await stage.engine([waiting])
    await engine.start("w", waiting)
    turns = engine._serving.turns
    claim = _stale_claim(engine, "w")
    stage.expect_log("instance .* is parked")

    turns._holds.park(claim, "why", "cause")
    await turns._background.drain()

    assert now_of(engine).value(HELD) == 0


def _stale_claim(engine: Engine, instance_id: str) -> ClaimedTurn:
    hot = engine._serving.turns.hot.get(instance_id)
    assert hot is not None
    return ClaimedTurn(
        instance_id=instance_id,
        definition_no=next(iter(engine._serving.turns._definitions)),
        stamp=hot.stamp._replace(next_seq=99),
        lease=5,
        attempts=1,
        last_no=0,
        messages=(),
    )


# ----------------------------------------------------------------- client and gauges


async def test_a_client_counts_signals_once_each_and_how_long_it_waited(stage: Stage) -> None:
    engine = await stage.engine([waiting])
    handle = await engine.start("w", waiting)

    await handle.send(go, "on", message_id="one")
    await handle.result()

    now = now_of(engine)
    assert now.value("perdure_client_signals_total") == 1
    assert seen(engine, "perdure_client_result_wait_seconds", outcome="completed").count == 1


async def test_the_store_is_timed_by_operation(stage: Stage) -> None:
    engine = await stage.engine([three, step])

    await (await engine.start("t", three)).result()

    commits = seen(
        engine, "perdure_store_operation_duration_seconds", operation="commit", status="ok"
    )
    assert 1 <= commits.count <= 4
    assert now_of(engine).value("perdure_store_errors_total") == 0
    # It need not have looked for others' work yet when its own is done.
    await until(lambda: now_of(engine).value("perdure_claims_total", kind="turns") >= 1)


async def test_gauges_say_what_waits_and_ask_only_when_somebody_reads(stage: Stage) -> None:
    engine = await stage.engine([waiting])
    await engine.start("w1", waiting)
    await engine.start("w2", waiting)
    gauges = engine._serving._gauges

    assert not await gauges.refresh()
    assert now_of(engine).value("perdure_active_instances") == 0
    assert await gauges.refresh()
    assert not await gauges.refresh()

    now = now_of(engine)
    assert now.value("perdure_active_instances", status="running") == 2
    assert now.value("perdure_hot_instances") == 2
    assert now.value("perdure_queue_depth", kind="orchestration", state="ready") == 0


async def test_a_queue_that_nobody_serves_is_in_the_gauges(stage: Stage) -> None:
    client = await stage.client()
    await client.start("t", three)
    engine = await stage.engine([waiting])
    now_of(engine)

    await engine._serving._gauges.refresh()

    depth = now_of(engine).value("perdure_queue_depth", definition="three", state="ready")
    assert depth == 1


async def test_two_engines_together_count_each_thing_once(stage: Stage) -> None:
    one = await stage.engine([three, step], options=options(hot_instances=0))
    other = await stage.engine([three, step], options=options(hot_instances=0))
    for number in range(10):
        await (one if number % 2 else other).start(f"t{number}", three)

    await until(lambda: _all_ended(one, 10))

    both = now_of(one).plus(now_of(other))
    assert both.value(STARTS) == both.value(COMPLETIONS) == 10
    assert both.value(EXECUTIONS, outcome="completed") == 30


async def _all_ended(client: Client, count: int) -> bool:
    return all([await has_ended(client, f"t{number}") for number in range(count)])
