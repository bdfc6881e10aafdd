"""What people are told about the whole store: queues, workers, sessions, dead jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from perdure.client.reading.info import Json, tag_of
from perdure.clock import to_datetime
from perdure.errors import UsageError
from perdure.model.admin import DeadJob, HeldLeases, QueueDepth, SessionRow
from perdure.model.builtins import RESERVED_PREFIX
from perdure.model.instances import DefinitionKey, InstanceRow, Status
from perdure.model.jobs import JobKey
from perdure.model.turns import SlotUse, WorkerRow
from perdure.turns.unserved import served_by

TURNS = ("orchestration", "decider")
"""Kinds of definitions whose work is turns; that of the others is jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """What waits for one definition, and who could take it."""

    kind: str
    """`orchestration` or `decider` (turns), `activity` or `inline` (jobs)."""
    name: str
    version: str | None
    """Of an orchestration or its inline calls; empty for instances that left it open."""
    tag: str | None
    """Of an activity."""
    ready: int
    """Could be taken now."""
    later: int
    """Waits for its time: a timer, a retry, a delayed start."""
    leased: int
    """A worker works on it."""
    oldest_ready_at: datetime | None
    """Since when the first one waits."""
    served_by: tuple[str, ...]
    """The live workers that take it."""
    unclaimed: str | None
    """What a worker needs to take it, if no live one does."""


class HeldCount(NamedTuple):
    """How many leases a worker holds on the turns or jobs of one definition."""

    definition: DefinitionKey
    leased: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """A worker that lives."""

    worker_id: str
    host: str
    pid: int
    started_at: datetime
    seen_at: datetime
    """Its last sign of life."""
    definitions: tuple[DefinitionKey, ...]
    """What it takes: orchestrations by version, activities by tag."""
    slots: tuple[SlotUse, ...] = ()
    """Its slots for activities by kind, and how many were in use at its last sign of life."""
    instances: int = 0
    """How many instances it has under a lease now: those whose turn it runs."""
    jobs: int = 0
    """How many jobs of activities it has under a lease now: those that run, and those that wait at
    it for a slot. Perdure's own do not count."""
    leases: tuple[HeldCount, ...] = ()
    """These leases by definition."""
    is_exact: bool = True
    """Whether all leases were counted; if not, there are at least so many. A look at a definition
    ends after 5,000 rows, timers that are due soon among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session, and the worker that all its jobs run on."""

    session: str
    owner: str
    until: datetime
    """When every worker may take it, unless its owner renews it."""
    used_at: datetime
    is_held: bool
    """Whether it still is its owner's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadJobInfo:
    """A job that ran out of attempts, or an effect that failed. Its owner was told; this is for a
    person."""

    key: str
    """Names it for `retry_dead_job` and `forget_dead_job`."""
    instance_id: str
    activity: str
    tag: str | None
    input: Json
    """Its arguments by name, as stored."""
    attempts: int
    lost: int
    """How many of the attempts ended without a word, together with their workers."""
    failures: tuple[str, ...]
    """What went wrong, the first and the newest."""
    created_at: datetime
    died_at: datetime


def queue_of(depth: QueueDepth, workers: Sequence[WorkerRow]) -> QueueInfo:
    """Return the depth of a queue as people see it."""
    key = depth.definition
    served_by = tuple(w.worker_id for w in workers if key in w.definitions)
    return QueueInfo(
        kind=key.kind,
        name=key.name,
        version=None if key.kind in ("activity", "decider") else key.variant,
        tag=tag_of(key),
        ready=depth.ready,
        later=depth.later,
        leased=depth.leased,
        oldest_ready_at=None
        if depth.oldest_ready_ms is None
        else to_datetime(depth.oldest_ready_ms),
        served_by=served_by,
        unclaimed=None if served_by else f"needs {described(key)}",
    )


def queues_of(depths: Iterable[QueueDepth], workers: Sequence[WorkerRow]) -> list[QueueInfo]:
    """Return the depths of queues as people see them, by kind and name."""
    found = (queue_of(depth, workers) for depth in depths)
    return sorted(found, key=lambda one: (one.kind, one.name, one.version or "", one.tag or ""))


def worker_of(row: WorkerRow, held: HeldLeases) -> WorkerInfo:
    """Return a stored worker as people see it, with the leases that it holds."""
    own = [one for one in held.counts if one.worker_id == row.worker_id]
    leases = tuple(
        HeldCount(one.definition, one.leased)
        for one in own
        if not one.definition.name.startswith(RESERVED_PREFIX)
    )
    return WorkerInfo(
        worker_id=row.worker_id,
        host=row.host,
        pid=row.pid,
        started_at=to_datetime(row.started_ms),
        seen_at=to_datetime(row.seen_ms),
        definitions=row.definitions,
        slots=row.slots,
        instances=sum(one.leased for one in own if one.definition.kind in TURNS),
        jobs=sum(one.leased for one in leases if one.definition.kind not in TURNS),
        leases=leases,
        is_exact=held.is_whole,
    )


def session_of(row: SessionRow, now_ms: int) -> SessionInfo:
    """Return a stored session as people see it."""
    return SessionInfo(
        session=row.session,
        owner=row.owner,
        until=to_datetime(row.until_ms),
        used_at=to_datetime(row.used_ms),
        is_held=row.until_ms > now_ms,
    )


def dead_job_of(job: DeadJob) -> DeadJobInfo:
    """Return a stored dead job as people see it."""
    return DeadJobInfo(
        key=job.key.idempotency_key,
        instance_id=job.key.instance_id,
        activity=job.queue.name,
        tag=tag_of(job.queue),
        input=json.loads(job.input),
        attempts=job.attempts,
        lost=job.lost,
        failures=tuple(f"{one.type_name}: {one.message}" for one in job.failures.kept),
        created_at=to_datetime(job.created_ms),
        died_at=to_datetime(job.died_ms),
    )


def read_job_key(text: object) -> JobKey:
    """Return the key behind its text.

    Raises:
        UsageError: The text is not the key of a job.
    """
    if isinstance(text, JobKey):
        return text
    instance_id, *numbers = str(text).rsplit(":", 3)
    try:
        incarnation, execution, seq = numbers
        return JobKey(instance_id, int(incarnation, 16), int(execution), int(seq))
    except ValueError:
        raise UsageError(
            f"{text!r} is not the key of a job: it looks like 'order-1:3f2a:1:5' and is the `key` "
            "of what handle.jobs() and client.dead_jobs() return"
        ) from None


# ------------------------------------------------------------------ who serves what


def unclaimed_row(row: InstanceRow, workers: Iterable[WorkerRow]) -> str | None:
    """Return what a worker needs to take the next turn of an instance, if no live one has it.

    The number of the core's behaviour is not in the row; `unclaimed_key` also looks at that.
    """
    if row.status is not Status.RUNNING:
        return None
    wanted = (row.kind, row.name, row.version)
    for worker in workers:
        if any(key[:3] == wanted for key in worker.definitions):
            return None
    if row.kind == "decider":
        return f"needs decider {row.name}"
    return f"needs {row.name} {row.version or '(any version)'}"


def unclaimed_key(key: DefinitionKey, workers: Iterable[WorkerRow]) -> str | None:
    """Return what a worker needs to take what waits for a definition, if no live one has it."""
    served = served_by(workers)
    if key in served:
        return None
    is_here_otherwise = any(other[:3] == key[:3] for other in served)
    return f"needs {described(key)}" + (f" (behaviour {key.behaviour})" * is_here_otherwise)


def described(key: DefinitionKey) -> str:
    """Return what a worker has to have, for people."""
    if key.kind == "activity":
        if key.name.startswith(RESERVED_PREFIX):
            return "a worker: any will do"
        return f"activity {key.name}" + (f" with tag {key.variant}" if key.variant else "")
    if key.kind == "decider":
        return f"decider {key.name}"
    version = key.variant or "(any version)"
    return f"{key.name} {version}"
