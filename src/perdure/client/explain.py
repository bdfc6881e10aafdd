"""One sentence on an instance: what it waits for, since when, who holds it, why nothing moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from perdure.clock import to_datetime
from perdure.core.summary import Summary
from perdure.model.events import (
    ActivityScheduled,
    AskedEvent,
    ChildScheduled,
    InlineScheduled,
    SignalAwaited,
    TimerScheduled,
)
from perdure.model.instances import DefinitionKey, InstanceRow, LiveRow, Status
from perdure.model.messages import Message
from perdure.model.turns import WorkerRow
from perdure.store.base import WaitingJob
from perdure.worker.unserved import describe_queue

LISTED = 3
"""How many things an instance waits for are named; the others are counted."""


class Evidence(NamedTuple):
    """Everything the sentence is made from."""

    row: InstanceRow
    live: LiveRow | None
    definition: DefinitionKey | None
    summary: Summary
    inbox: Sequence[Message]
    jobs: Sequence[WaitingJob]
    workers: Sequence[WorkerRow]
    now_ms: int


def explain(evidence: Evidence) -> str:
    """Return the sentence."""
    row, live = evidence.row, evidence.live
    head = f"{row.instance_id} ({row.name} {row.version})"
    if row.status.is_terminal or live is None:
        return f"{head} {_ended(evidence)}."
    if row.status is Status.BLOCKED:
        first_line = (row.reason or "").splitlines()[0]
        return f"{head} is blocked: {first_line}; it goes on with a worker whose code fits."
    if row.status is Status.PARKED:
        return f"{head} is parked: {row.reason}."
    if live.lease and live.lease_until_ms > evidence.now_ms:
        until = _time(live.lease_until_ms)
        return f"{head} is being worked on by {live.home or 'a worker'} (lease until {until})."
    unserved = _unserved(evidence)
    if unserved:
        return f"{head} cannot move: {unserved}."
    due = [message for message in evidence.inbox if message.effective_at_ms <= evidence.now_ms]
    if due:
        return f"{head} has {len(due)} message(s) waiting for its next turn."
    return f"{head} waits for {_waits(evidence)}."


def _ended(evidence: Evidence) -> str:
    row = evidence.row
    when = "" if row.ended_ms is None else f" at {_time(row.ended_ms)}"
    why = f": {row.reason}" if row.reason else ""
    return f"{row.status}{when}{why}"


def _unserved(evidence: Evidence) -> str:
    """Name what no live worker serves, if the instance depends on it."""
    served = {key for worker in evidence.workers for key in worker.definitions}
    key = evidence.definition
    if key is not None and key not in served:
        return f"unclaimed: needs {key.name} {key.variant}, which no live worker has"
    for job in evidence.jobs:
        if job.queue not in served:
            return f"no live worker serves {describe_queue(job.queue)}"
    return ""


def _waits(evidence: Evidence) -> str:
    waiting = list(evidence.summary.open.items())
    if not waiting:
        return (
            "its first turn"
            if evidence.summary.started is None
            else "something inside its own code that no open call can bring about"
        )
    jobs = {job.key.seq: job for job in evidence.jobs}
    named = [_one(event, at_ms, jobs.get(seq)) for seq, (event, at_ms) in waiting[:LISTED]]
    if len(waiting) > LISTED:
        named.append(f"{len(waiting) - LISTED} more")
    return ", ".join(named)


def _one(event: AskedEvent, at_ms: int, job: WaitingJob | None) -> str:
    since = f" since {_time(at_ms)}"
    match event:
        case ActivityScheduled(name=name) | InlineScheduled(name=name):
            return f"activity {name!r}{since}{_run_of(job)}"
        case ChildScheduled(instance_id=child_id):
            return f"child {child_id!r}{since}"
        case SignalAwaited(name=name):
            return f"signal {name!r}{since}"
        case TimerScheduled(due_ms=due_ms):
            return f"a timer due {_time(due_ms)}"
    return event.kind


def _run_of(job: WaitingJob | None) -> str:
    if job is None:
        return ""
    if job.worker_id is not None:
        return f" (attempt {job.attempt}, on {job.worker_id})"
    if job.attempt:
        return f" (attempt {job.attempt} failed, next one {_time(job.visible_at_ms)})"
    return " (queued)"


def _time(at_ms: int) -> str:
    return f"{to_datetime(at_ms):%Y-%m-%d %H:%M:%S} UTC"
