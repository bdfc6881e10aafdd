"""Read what people ask for: counts, depths, and what instances and jobs say of themselves.

Every function sees one state of the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.model.admin import (
    PAGE_MAX,
    DeadJob,
    ExecutionRow,
    InstanceStats,
    KvRow,
    QueueDepth,
    ReportRow,
    RunningJob,
    SessionRow,
    StoreTotals,
)
from perdure.model.instances import DefinitionKey, InstanceRow, Status, part_of
from perdure.model.jobs import JobFailures, JobKey
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import pack, unpack
from perdure.store.sql.questions.reading import read_instances

_BEFORE_ALL = (-1, "", 0, 0, 0)
"""A place before every job."""

_failures = msgspec.json.Decoder(JobFailures)
_counts = msgspec.json.Decoder(dict[str, int])


def read_definitions(connection: Connection) -> dict[int, DefinitionKey]:
    """Return every definition by number."""
    [(text,)] = connection.run("read_definitions")
    return {number: DefinitionKey(*key) for number, *key in sorted(unpack(text))}


# ------------------------------------------------------------------------- instances


def read_executions(connection: Connection, instance_id: str) -> list[ExecutionRow]:
    """Return the executions of the id's present incarnation, oldest first."""
    [(text,)] = connection.run(
        "read_executions_of", part=part_of(instance_id), instance_id=instance_id
    )
    return [
        ExecutionRow(
            execution=execution,
            first_at_ms=first_at_ms,
            last_at_ms=last_at_ms,
            events=events,
            last_kind=last_kind,
        )
        for execution, first_at_ms, last_at_ms, events, last_kind in sorted(unpack(text))
    ]


def read_children(connection: Connection, instance_ids: Sequence[str]) -> list[InstanceRow]:
    """Return the children of the present incarnations of instances, oldest first."""
    [(text,)] = connection.run("read_children", keys=_keys(dict.fromkeys(instance_ids)))
    ids = [instance_id for _, instance_id in sorted(unpack(text))]
    return [row for row in read_instances(connection, ids) if row is not None]


def instance_stats(connection: Connection, instance_id: str) -> InstanceStats | None:
    """Return how much is stored for an instance."""
    rows = connection.run("instance_stats", part=part_of(instance_id), instance_id=instance_id)
    if not rows:
        return None
    [(executions, events, event_bytes, messages, timers, jobs, kv_keys, kv_bytes, *more)] = rows
    return InstanceStats(
        executions=executions,
        events=events,
        event_bytes=event_bytes,
        messages=messages,
        timers=timers,
        jobs=jobs,
        kv_keys=kv_keys,
        kv_bytes=kv_bytes,
        observations=more[0],
        snapshot_bytes=more[1],
    )


def read_kv(connection: Connection, instance_id: str, key: str | None) -> dict[str, KvRow]:
    """Return the values that an instance keeps, in order of their keys; or the one of a key."""
    rows = connection.run("read_kv", part=part_of(instance_id), instance_id=instance_id, key=key)
    return {key: KvRow(value, updated_ms) for key, value, updated_ms in rows}


def read_reports(connection: Connection, instance_ids: Sequence[str]) -> list[ReportRow | None]:
    """Return the reports of instances, None for one that has made none."""
    reports: list[ReportRow | None] = [None] * len(instance_ids)
    for index, version, value, updated_ms in connection.run(
        "read_reports", keys=_keys(instance_ids)
    ):
        reports[index] = ReportRow(version, value, updated_ms)
    return reports


# ----------------------------------------------------------------------- everything


def totals(connection: Connection) -> StoreTotals:
    """Return how much there is in all."""
    [(instances, statuses, born, unborn, *counts)] = connection.run("totals")
    of_status = dict.fromkeys(map(str, Status), 0)
    of_status.update(_counts.decode(statuses))
    of_status[Status.RUNNING] = born - of_status[Status.BLOCKED] - of_status[Status.PARKED]
    of_status[Status.COMPLETED] = instances - sum(of_status.values())
    executions, events, messages, timers, jobs, dead_jobs, fed_events = counts
    return StoreTotals(
        instances=of_status,
        executions=executions,
        events=events,
        messages=messages - timers,
        timers=timers,
        jobs=jobs,
        dead_jobs=dead_jobs,
        unborn=unborn,
        fed_events=fed_events,
    )


def queue_depths(connection: Connection, *, now_ms: int) -> list[QueueDepth]:
    """Return what waits, by definition."""
    [(text,)] = connection.run("queue_depths", now_ms=now_ms)
    depths = [_depth(row) for row in unpack(text)]
    return sorted(depths, key=lambda depth: depth.definition)


def _depth(row: Sequence[Any]) -> QueueDepth:
    kind, name, variant, behaviour, ready, later, leased, oldest_ready_ms = row
    return QueueDepth(
        definition=DefinitionKey(kind, name, variant, behaviour),
        ready=ready,
        later=later,
        leased=leased,
        oldest_ready_ms=oldest_ready_ms,
    )


# ------------------------------------------------------------------ jobs and sessions


def read_progress(connection: Connection, instance_id: str) -> list[RunningJob]:
    """Return what the running jobs of an instance said of their progress."""
    rows = connection.run("read_progress", part=part_of(instance_id), instance_id=instance_id)
    return [
        RunningJob(
            key=JobKey(instance_id, *row[:3]),
            queue=DefinitionKey(*row[3:7]),
            attempt=row[7],
            worker_id=row[8],
            progress=row[9],
            beat_ms=row[10],
        )
        for row in rows
    ]


def read_secret(connection: Connection) -> bytes:
    """Return what tokens of promises are signed with."""
    [(secret,)] = connection.run("read_secret")
    return bytes(secret)


def read_sessions(connection: Connection) -> list[SessionRow]:
    """Return who has which session, in order of their names."""
    [(text,)] = connection.run("read_sessions")
    return sorted(SessionRow(*row) for row in unpack(text))


def read_dead_jobs(connection: Connection, *, limit: int, after: JobKey | None) -> list[DeadJob]:
    """Return dead jobs in order of their keys, from behind one on."""
    limit = min(limit, PAGE_MAX)
    if limit < 1:
        return []
    place = _BEFORE_ALL if after is None else (part_of(after.instance_id), *after)
    part, instance_id, incarnation, execution, seq = place
    rows = connection.run(
        "read_dead_jobs",
        part=part,
        instance_id=instance_id,
        incarnation=incarnation,
        execution=execution,
        seq=seq,
        limit=limit,
    )
    return [_dead_job(row) for row in rows]


def _dead_job(row: Sequence[Any]) -> DeadJob:
    attempts, lost, created_ms, died_ms, failures, policy, payload = row[8:]
    return DeadJob(
        key=JobKey(*row[:4]),
        queue=DefinitionKey(*row[4:8]),
        input=payload,
        policy=policy,
        attempts=attempts,
        lost=lost,
        failures=_failures.decode(failures) if failures else JobFailures(),
        created_ms=created_ms,
        died_ms=died_ms,
    )


def _keys(instance_ids: Sequence[str] | dict[str, None]) -> str:
    return pack([(part_of(instance_id), instance_id) for instance_id in instance_ids])
