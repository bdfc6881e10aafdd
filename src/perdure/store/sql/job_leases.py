"""Extend leases on jobs, see which are lost, and keep what running jobs say."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.model.instances import part_of
from perdure.model.jobs import JobBeat, JobKey
from perdure.store.base import JobLease
from perdure.store.sql.commits.row_types import BeatValues
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import Rows, pack, unpack
from perdure.store.sql.sessions import touch_sessions


def renew_jobs(
    connection: Connection, leases: Sequence[JobLease], *, now_ms: int, held_ms: int, until_ms: int
) -> list[JobLease]:
    """Extend leases that are still held and return those that are not; see `claims.renew_turns`."""
    if not leases:
        return []
    packed = pack([(part_of(lease.key.instance_id), *lease.key, lease.token) for lease in leases])
    [(text,)] = connection.run("find_held_jobs", leases=packed, now_ms=held_ms)
    held: dict[int, str | None] = dict(unpack(text))
    if held:
        connection.run("renew_jobs", leases=packed, now_ms=held_ms, until_ms=until_ms)
    sessions = [session for session in held.values() if session is not None]
    if sessions:
        touch_sessions(connection, sessions, now_ms=now_ms)
    return [lease for index, lease in enumerate(leases) if index not in held]


def lost_jobs(connection: Connection, leases: Sequence[JobLease]) -> list[JobLease]:
    """Return the leases that another worker has ended or taken; one that just ran out is not."""
    packed = pack([(part_of(lease.key.instance_id), *lease.key, lease.token) for lease in leases])
    [(text,)] = connection.run("find_leased_jobs", leases=packed)
    held = set(unpack(text))
    return [lease for index, lease in enumerate(leases) if index not in held]


def beat_jobs(connection: Connection, beats: Sequence[JobBeat], *, now_ms: int) -> None:
    """Keep what running jobs say of their progress."""
    # One row per job: of several for one, an UPDATE would choose any.
    newest: dict[tuple[JobKey, int], tuple[bytes | None, bytes | None]] = {}
    for key, token, details, progress in beats:
        before = newest.get((key, token), (None, None))
        newest[key, token] = (
            before[0] if details is None else details,
            before[1] if progress is None else progress,
        )
    rows = Rows()
    for (key, token), bodies in newest.items():
        places = (place for body in bodies for place in rows.place_maybe(body))
        rows.rows.append(BeatValues(part_of(key.instance_id), *key, token, *places))
    connection.run("beat_jobs", rows=rows.text, bodies=rows.bodies, now_ms=now_ms)
