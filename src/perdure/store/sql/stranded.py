"""What a wrong clock has put into a time to come: ready work, and leases of workers that died.

Found only where a caller has reason to look, because finding reads whole tables. Everything here is
ready in truth, or under a lease that its holder renews if it lives; timers are left where they
were set, since when they were to be due is on record.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from perdure.store.sql.commits.row_types import StrandedJobValues, StrandedTurnValues
from perdure.store.sql.connection import Connection
from perdure.store.sql.locking import lock_instances
from perdure.store.sql.packing import pack, unpack

LONGEST_PAUSE_MS = 3_600_000
"""A job that was given back and waits for longer than this was given back by a wrong clock."""
LONGEST_LEASE_MS = 24 * 3_600_000
"""A lease that ends later than this was given by a wrong clock."""
RENEWED_WITHIN_MS = 60_000
"""How long the holder of such a lease has to renew it, if it lives."""


class Stranded(NamedTuple):
    """Turns and jobs that were found, as they were then."""

    turns: list[StrandedTurnValues]
    jobs: list[StrandedJobValues]


def find_stranded(connection: Connection, *, limit: int, now_ms: int) -> Stranded:
    """Find what is stranded, at most so many of each."""

    def find(name: str, **times: int) -> list[Any]:
        far_ms = now_ms + LONGEST_LEASE_MS
        [(text,)] = connection.run(name, now_ms=now_ms, far_ms=far_ms, limit=limit, **times)
        return unpack(text)

    later_ms = now_ms + LONGEST_PAUSE_MS
    return Stranded(
        [StrandedTurnValues(*row) for row in find("find_stranded_turns")],
        [StrandedJobValues(*row) for row in find("find_stranded_jobs", later_ms=later_ms)],
    )


def wake_stranded(connection: Connection, found: Stranded, *, now_ms: int) -> None:
    """Give what was found a time that comes, as far as it still is as it was."""
    until_ms = now_ms + RENEWED_WITHIN_MS
    ids = [*(row.instance_id for row in found.turns), *(row.instance_id for row in found.jobs)]
    lock_instances(connection, ids)
    if found.turns:
        rows = pack(found.turns)
        connection.run("wake_stranded_turns", rows=rows, now_ms=now_ms, until_ms=until_ms)
    if found.jobs:
        rows = pack(found.jobs)
        connection.run("wake_stranded_jobs", rows=rows, now_ms=now_ms, until_ms=until_ms)
    connection.run("cut_sessions", far_ms=now_ms + LONGEST_LEASE_MS, until_ms=until_ms)
