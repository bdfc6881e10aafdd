"""What a claim brings along of a job: its input, its policy and how it failed before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.model.instances import DefinitionKey, part_of
from perdure.model.jobs import ClaimedJob, JobFailures, JobKey
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import cut, pack, unpack

_failures = msgspec.json.Decoder(JobFailures)


def lift_limits(connection: Connection, started: Sequence[JobKey]) -> None:
    """Remove the timers of jobs that had to start in time, and have."""
    if started:
        keys = [(part_of(key.instance_id), *key) for key in started]
        timers = [(part, instance_id, f"start:{seq}") for part, instance_id, _, _, seq in keys]
        connection.run("delete_timers", keys=pack(timers))
        connection.run("clear_starts", keys=pack(keys))


def read_claimed(
    connection: Connection, keys: Sequence[Any], token: int, until_ms: int
) -> list[tuple[ClaimedJob, int | None]]:
    """Return jobs that were just leased, in order, each with the time by which it had to start."""
    [(text, *blobs)] = connection.run("read_claimed_jobs", keys=pack(keys))
    rows = unpack(text)
    jobs = []
    for row, failure, policy, payload, details in zip(
        rows,
        *(cut(blob, (row[13 + place] for row in rows)) for place, blob in enumerate(blobs)),
        strict=True,
    ):
        index, *queue, attempt, lost, created_ms, session, owner, version = row[:11]
        start_by_ms, rerun = row[11:13]
        failures, damage = _read_failures(failure)
        job = ClaimedJob(
            key=JobKey(*keys[index][1:5]),
            token=token,
            queue=DefinitionKey(*queue),
            input=payload,
            policy=policy,
            attempt=attempt,
            lost=lost,
            failures=failures,
            created_ms=created_ms,
            session=session,
            details=details or None,
            owner_name=owner,
            owner_version=version,
            is_rerun=bool(rerun),
            lease_until_ms=until_ms,
            damage=damage,
        )
        jobs.append((index, job, start_by_ms))
    return [(job, limit) for _, job, limit in sorted(jobs, key=lambda found: found[0])]


def _read_failures(data: bytes) -> tuple[JobFailures, str]:
    """Return the failures in a row, and what is wrong with them: one bad row must not keep the
    whole claim, and with it the queue behind it, from being read."""
    if not data:
        return JobFailures(), ""
    try:
        return _failures.decode(data), ""
    except msgspec.MsgspecError as error:
        return JobFailures(), f"its earlier failures cannot be read: {error}"
