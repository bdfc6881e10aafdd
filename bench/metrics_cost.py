"""What does counting cost, for one orchestration of one activity?"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from time import monotonic, process_time
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from bench.harness import Case, Measured, Setup
from perdure import activity, orchestration
from perdure.core.guard import Guard
from perdure.core.orchestrations.execution import Execution, ExecutionId
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityScheduled,
    Completed,
    Started,
    write_event,
)
from perdure.model.instances import Stamp, Status
from perdure.model.jobs import AttemptFacts, JobEnd, JobKey
from perdure.model.turns import InstanceEnd, Turn
from perdure.telemetry import Metrics
from perdure.turns.hot import HotInstance
from perdure.turns.metrics import TurnMetrics

RUNS = 20_000
QUICK = 100
"""How many times fewer runs a quick look makes."""
REPEATS = 7

NULL = msgspec.Raw(b"null")
STARTED = Started(name="checkout", version="1.0.0", behaviour=1, input=NULL)


@activity
async def charge() -> None: ...


@orchestration
async def checkout() -> None:
    await charge()


async def metrics_cost(setup: Setup) -> list[Measured]:
    """One thread, processor time: the two turns, the job and the client's share."""
    runs = RUNS // setup.size(1, quick=QUICK)
    metrics = Metrics()
    count_turns = turns_of(TurnMetrics(metrics, worker_id="w"))
    lines = {
        "two accepted turns": median_us(lambda: count_turns(is_on=True), runs)
        - median_us(lambda: count_turns(is_on=False), runs),
        "a job": median_us(job, runs),
        "a start and a result": median_us(lambda: client(metrics), runs),
        "one counter": median_us(metrics.client_cancels.add, runs),
        "a snapshot": median_us(metrics.snapshot, max(runs // 100, 1)),
    }
    return [
        Measured(row=f"metrics: {line}", value=cost_us, unit="us")
        for line, cost_us in lines.items()
    ]


def turns_of(metrics: TurnMetrics) -> Callable[..., None]:
    """Return what counts the turns of an instance, or only makes what they are counted on."""
    guard = Guard(watch_calls=False)
    execution = Execution(checkout, ExecutionId("i", 1, 1), "", guard)
    execution.since_ms = 1_000
    first = turn(1, [STARTED, ActivityScheduled(name="charge", input=NULL)])
    end = JobEnd(
        key=JobKey("i", 1, 1, 2),
        token=1,
        kind=ActivityCompleted.kind,
        ran=AttemptFacts("charge", "default", 0.001),
    )
    done = InstanceEnd(Status.COMPLETED, b"null", None, b"")
    events = [ActivityCompleted(schedule=2, result=NULL), Completed(result=NULL)]
    last = turn(3, events, job_ends=(end,), outcome=done)

    def count(*, is_on: bool) -> None:
        hot = HotInstance(execution, first.stamp, 0)
        if is_on:
            metrics.accepted(hot, first)
            metrics.accepted(hot, last)

    return count


def turn(seq: int, events: list[Any], **fields: Any) -> Turn:
    return Turn(
        instance_id="i",
        stamp=Stamp(1, 1, seq),
        commit_id=1,
        now_ms=1_000 + seq,
        worker_id="w",
        events=tuple(write_event(event) for event in events),
        **fields,
    )


_END = JobEnd(key=JobKey("i", 1, 1, 2), token=1, kind=ActivityCompleted.kind)


def job() -> None:
    began_s = monotonic()
    force_setattr(_END, "ran", AttemptFacts("charge", "default", monotonic() - began_s))


def client(metrics: Metrics) -> None:
    metrics.client_starts.add(("checkout", "1.0.0"))
    metrics.result_wait.observe(("completed",), 0.003)


def median_us(code: Callable[[], object], runs: int) -> float:
    times_s = timeit.repeat(code, number=runs, repeat=REPEATS, timer=process_time)
    return statistics.median(times_s) / runs * 1e6


CASES = (Case(name="metrics_cost", run=metrics_cost),)
