"""Compare what a writer remembers with what the database holds, after each commit.

A debug switch: a writer that remembers wrongly is found out by the database before it writes, so it
costs speed and not correctness, and nothing else would show it. The chaos tests have it on.
"""

from __future__ import annotations

import os

from perdure.store.sql.commits.remembered_rows import RememberedRows
from perdure.store.sql.commits.rows import LiveState
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import pack, unpack

SWITCH = "PERDURE_CHECK_REMEMBERED"
"""The environment variable that switches it on."""

_COLUMNS = (
    "definition_no",
    "incarnation",
    "execution",
    "next_seq",
    "wake_at_ms",
    "lease",
    "lease_until_ms",
    "home",
    "last_no",
    "last_at_ms",
    "last_commit",
    "attempts",
    "blocked_by",
)


class RememberedRowsError(AssertionError):
    """A writer remembers another row than it has written."""


def is_switched_on() -> bool:
    """Return whether writers are to compare."""
    return bool(os.environ.get(SWITCH))


def check_remembered(remembered_rows: RememberedRows, connection: Connection, *, by: str) -> None:
    """Compare the rows that were remembered last with the stored ones.

    Args:
        remembered_rows: What is remembered.
        connection: Where to look.
        by: The statement that returns the rows which no other process has written since.

    Raises:
        RememberedRowsError: They differ, and no other process has written since.
    """
    rows = remembered_rows.newest()
    if not rows:
        return
    keys = pack([(row.part, row.instance_id, row.writer) for row in rows])
    [(text,)] = connection.run(by, keys=keys)
    for key, *stored in unpack(text):
        remembered = [getattr(rows[key], column) for column in _COLUMNS]
        if remembered != stored:
            raise RememberedRowsError(_difference(rows[key], remembered, stored))


def _difference(row: LiveState, remembered: list[object], stored: list[object]) -> str:
    differing = [
        f"{column} is {now!r}, remembered as {then!r}"
        for column, then, now in zip(_COLUMNS, remembered, stored, strict=True)
        if then != now
    ]
    return f"live row of {row.instance_id!r}: {'; '.join(differing)}"
