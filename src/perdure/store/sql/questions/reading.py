"""Read rows without changing anything. Every function sees one state of the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.model.histories.events import StoredEvent
from perdure.model.instances import DefinitionKey, InstanceRow, LiveRow, Stamp, Status, part_of
from perdure.model.jobs import JobFailures, JobKey
from perdure.model.messages import Message
from perdure.model.turns import InstanceEnd, KnownEnd, Neighbour, WorkerRow
from perdure.store.base import ExecutionKey, WaitingJob
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import cut, pack, text_of, unpack
from perdure.store.sql.worker_rows import read_served

MAX_EVENTS_PER_READ = 10_000
MAX_BYTES_PER_READ = 64 * 1024 * 1024
"""Of one statement; longer histories take several."""
MAX_SESSIONS_PER_WAKE = 1_000
"""Whose jobs are looked at for the next wake-up; claims find what is missed."""
_LAST_SEQ = 2**62
"""More events than any history has."""
_FIRST_KEPT = 2
"""Up to this number no event is missing in a history that is there: see `remove_events`."""

_failures = msgspec.json.Decoder(JobFailures)


def read_histories(
    connection: Connection, executions: Sequence[ExecutionKey], *, after_seq: int, limit: int | None
) -> list[list[StoredEvent]]:
    """Return the events of each execution in order."""
    # Events are numbered without gap, so a number of events is a range of numbers.
    last_seq = _LAST_SEQ if limit is None else after_seq + limit
    histories = read_ranges(connection, [(key, after_seq, last_seq) for key in executions])
    if limit is not None:
        _read_behind_gaps(connection, executions, histories, after_seq, limit)
    return histories


def _read_behind_gaps(
    connection: Connection,
    executions: Sequence[ExecutionKey],
    histories: Sequence[list[StoredEvent]],
    after_seq: int,
    limit: int,
) -> None:
    """Fill up what is too short because events were removed: then the range had fewer."""
    reached = {
        index: history[-1].seq if history else after_seq
        for index, history in enumerate(histories)
        if len(history) < limit and _may_go_on(history, after_seq)
    }
    if not reached:
        return
    keys = [(part_of(executions[i].instance_id), *executions[i], reached[i]) for i in reached]
    following = connection.run("next_events", keys=pack(keys))
    indexes = [list(reached)[place] for place, _ in following]
    ranges = [
        (executions[index], seq - 1, seq - 1 + limit - len(histories[index]))
        for index, (_, seq) in zip(indexes, following, strict=True)
    ]
    for index, more in zip(indexes, read_ranges(connection, ranges) if ranges else [], strict=True):
        histories[index].extend(more)


def _may_go_on(history: Sequence[StoredEvent], after_seq: int) -> bool:
    """Return whether events may follow that a range did not reach: some are missing in it, or it
    ends where removed ones may have been."""
    if not history:
        return after_seq >= _FIRST_KEPT
    return history[-1].seq <= _FIRST_KEPT or history[-1].seq != after_seq + len(history)


def read_ranges(
    connection: Connection, ranges: Sequence[tuple[ExecutionKey, int, int]]
) -> list[list[StoredEvent]]:
    """Return events of executions in order: those behind one number, up to another."""
    histories: list[list[StoredEvent]] = [[] for _ in ranges]
    first = 0
    while first < len(ranges):
        keys = [
            (part_of(key.instance_id), *key, after, last) for key, after, last in ranges[first:]
        ]
        if histories[first]:
            keys[0] = (*keys[0][:4], histories[first][-1].seq, keys[0][5])
        [(text, blob)] = connection.run(
            "read_histories",
            keys=pack(keys),
            max_events=MAX_EVENTS_PER_READ,
            max_bytes=MAX_BYTES_PER_READ,
        )
        rows = unpack(text)
        bodies = cut(blob, (row[2] for row in rows))
        for key, event in sorted(
            (key, StoredEvent(seq, kind, at_ms, body))
            for (key, seq, _, kind, at_ms), body in zip(rows, bodies, strict=True)
        ):
            histories[first + key].append(event)
        if len(rows) < MAX_EVENTS_PER_READ and len(blob or b"") <= MAX_BYTES_PER_READ:
            break
        # The execution of the last row may go on; what is before it is complete.
        first += max(row[0] for row in rows)
    return histories


def read_instances(connection: Connection, instance_ids: Sequence[str]) -> list[InstanceRow | None]:
    """Return the wide rows of instances."""
    found: list[InstanceRow | None] = [None] * len(instance_ids)
    keys = pack([(part_of(instance_id), instance_id) for instance_id in instance_ids])
    for index, *values in connection.run("read_instances", keys=keys):
        found[index] = instance_row(instance_ids[index], values)
    return found


def instance_row(instance_id: str, values: Sequence[Any]) -> InstanceRow:
    """Return a wide row, from its columns."""
    return InstanceRow(
        instance_id=instance_id,
        incarnation=values[0],
        execution=values[1],
        kind=values[2],
        name=values[3],
        version=values[4],
        status=Status(values[5]),
        input=values[6],
        output=values[7],
        reason=text_of(values[8]),
        parent_id=values[9],
        parent_incarnation=values[10],
        created_ms=values[11],
        updated_ms=values[12],
        ended_ms=values[13],
        digest=values[14],
    )


def read_ends(connection: Connection, instance_ids: Sequence[str]) -> dict[str, KnownEnd | None]:
    """Return how instances ended or are held, of those that do not run; None: there is no such
    instance."""
    found: dict[str, KnownEnd | None] = {}
    keys = pack([(part_of(instance_id), instance_id) for instance_id in instance_ids])
    for index, incarnation, status, output, reason, digest in connection.run(
        "read_ends", keys=keys
    ):
        end = None
        if incarnation is not None:
            outcome = InstanceEnd(Status(status), output, text_of(reason), digest or b"")
            end = KnownEnd(incarnation, outcome)
        found[instance_ids[index]] = end
    return found


def read_lives(connection: Connection, instance_ids: Sequence[str]) -> list[LiveRow | None]:
    """Return the narrow rows of unfinished or unborn instances."""
    found: list[LiveRow | None] = [None] * len(instance_ids)
    keys = pack([(part_of(instance_id), instance_id) for instance_id in instance_ids])
    [(text,)] = connection.run("load_live", keys=keys)
    for index, *values in unpack(text):
        found[index] = live_row(instance_ids[index], values)
    return found


def live_row(instance_id: str, row: Sequence[Any]) -> LiveRow:
    """Return a narrow row, from its columns."""
    definition_no, incarnation, execution, next_seq, *values = row
    return LiveRow(
        instance_id=instance_id,
        stamp=Stamp(incarnation, execution, next_seq, values[6]),
        definition_no=definition_no,
        wake_at_ms=values[0],
        lease=values[1],
        lease_until_ms=values[2],
        home=values[3],
        last_no=values[4],
        last_at_ms=values[5],
        attempts=values[7],
        blocked_by=values[8],
    )


def read_inbox(connection: Connection, instance_id: str) -> list[Message]:
    """Return all messages of an instance in the order they are applied."""
    rows = connection.run("read_inbox", part=part_of(instance_id), instance_id=instance_id)
    return [Message(*row) for row in rows]


def read_jobs(connection: Connection, instance_id: str) -> list[WaitingJob]:
    """Return the open jobs of an instance."""
    rows = connection.run("read_jobs", part=part_of(instance_id), instance_id=instance_id)
    return [waiting_job(instance_id, row) for row in rows]


def waiting_job(instance_id: str, row: Sequence[Any]) -> WaitingJob:
    """Return an open job, from its columns."""
    job = WaitingJob(JobKey(instance_id, *row[:3]), DefinitionKey(*row[3:7]), *row[7:14])
    failures = _failures_in(row[14])
    return job._replace(
        misfit=failures.misfit,
        is_rerun=bool(row[15]),
        failure=failures.kept[-1] if failures.kept else None,
    )


def _failures_in(data: bytes | None) -> JobFailures:
    """Return what is kept of a job's failures."""
    try:
        return _failures.decode(data) if data else JobFailures()
    except msgspec.MsgspecError:
        return JobFailures()  # The worker that claims it tells of the damage.


def read_workers(connection: Connection, seen_since_ms: int) -> list[WorkerRow]:
    """Return the workers that gave a sign of life since then."""
    found = []
    for row in connection.run("read_workers", seen_since_ms=seen_since_ms):
        worker = WorkerRow(*row)
        definitions, slots = read_served(row[5])
        found.append(
            worker._replace(
                definitions=definitions, slots=slots, is_lasting=bool(worker.is_lasting)
            )
        )
    return found


def read_neighbours(connection: Connection, worker_id: str, place: str) -> list[Neighbour]:
    """Return the other workers of a worker's place."""
    [(text,)] = connection.run("read_neighbours", worker_id=worker_id, place=place)
    return neighbours_in(text)


def neighbours_in(text: str) -> list[Neighbour]:
    """Return the workers that a statement lists as JSON."""
    return [
        Neighbour(worker_id, pid, born, lease_ms, is_lasting=bool(is_lasting))
        for worker_id, pid, born, lease_ms, is_lasting in unpack(text)
    ]


def read_definition(connection: Connection, definition_no: int) -> DefinitionKey | None:
    """Return the definition behind a number."""
    rows = connection.run("read_definition", definition_no=definition_no)
    return DefinitionKey(*rows[0]) if rows else None


def next_wake_ms(
    connection: Connection, definitions: Sequence[int], queues: Sequence[int], *, now_ms: int
) -> int | None:
    """Return when the next turn or job of these becomes claimable."""
    [(at_ms,)] = connection.run(
        "next_wake",
        definitions=pack(definitions),
        queues=pack(queues),
        now_ms=now_ms,
        max_sessions=MAX_SESSIONS_PER_WAKE,
    )
    at: int | None = at_ms
    return at
