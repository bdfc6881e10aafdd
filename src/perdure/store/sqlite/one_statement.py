"""Whole transactions as one statement.

Every call into SQLite gives up the interpreter lock, and while the event loop computes, getting it
back takes up to Python's switch interval. A transaction of eight statements then hardly ever runs
beside the loop: it waits until the loop has nothing left to do, and the loop waits for it. As one
statement it needs the lock once, and the two run side by side.

SQLite has no statement that does several things, but triggers do: the statements become the body of
a trigger on a view that shows nothing, both only of this connection, and inserting a row of
parameters into the view runs them. Outside a transaction that row is a transaction of its own.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from perdure.model.instances import part_of
from perdure.store.sql.commits.rows import LoadedRows, values_of
from perdure.store.sql.commits.writes import Writes
from perdure.store.sql.packing import pack
from perdure.store.sqlite.connection import SqliteConnection, split_script, statement

MAX_COMBINATIONS = 200
"""Combinations of statements that are ready to be run, some 50 kB each."""

_PARAMETER = re.compile(r":([a-z_]+)\b")


class KnownState(NamedTuple):
    """What a transaction was decided on: either the database as a whole, or some rows."""

    version: int | None
    """What `read_data_version` has returned when all of it was known. None: only rows are."""
    live_rows: str | None = None
    """JSON of the live rows, with all their columns; None: no other has written since."""
    job_rows: str = "[]"
    """JSON of the jobs, with their tokens."""

    @classmethod
    def of(cls, rows: LoadedRows) -> KnownState:
        """Return what was decided on, if that is these rows and no more."""
        live = [(row.part, row.instance_id, *values_of(row)) for row in rows.live.values()]
        jobs = [(part_of(key.instance_id), *key, job.token) for key, job in rows.jobs.items()]
        return cls(None, pack(live), pack(jobs))


class _CombinedStatement(NamedTuple):
    """How a combination of statements is run, and how it is removed."""

    insert: str
    drop: str


class OneStatement:
    """The statements of one connection that stand for several."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._made: dict[tuple[str, ...], _CombinedStatement] = {}
        """What runs a combination of statements, by their names; the longest there first."""
        self._next_no = 0

    def run(self, writes: Writes, known: KnownState) -> bool:
        """Run statements as one transaction, if what they were decided on is still so.

        Args:
            writes: The statements.
            known: What that was.
        """
        names = tuple([name for name, _ in writes.kept])
        made = self._made.get(names)
        if made is None:
            made = self._made[names] = self._make(writes)
        values = [value for _, params in writes.kept for value in params.values()]
        # Not "more than 0": the driver counts in 32 bits, and less after 2,147,483,647.
        return self._connection.change_by(made.insert, [*values, *known]) != 0

    def _make(self, writes: Writes) -> _CombinedStatement:
        """Make the view and the trigger of a combination."""
        while len(self._made) >= MAX_COMBINATIONS:
            oldest = next(iter(self._made))
            self._connection.run_text(self._made.pop(oldest).drop)
        columns: list[str] = []
        statements: list[str] = []
        for no, (name, params) in enumerate(writes.kept):
            columns += [f"{param}_{no}" for param in params]
            text = statement(name).rstrip().removesuffix(";")
            statements.append(_PARAMETER.sub(rf"NEW.\1_{no}", text))
        # Never the same number again: of one that failed, the view may be there.
        view_no = self._next_no
        self._next_no += 1
        view, trigger, insert, drop = [
            part.format(
                view=f"perdure_one_statement_{view_no}",
                columns=", ".join(columns),
                nulls=", ".join(["NULL"] * len(columns)),
                statements=";\n".join(statements),
                places=", ".join(["?"] * len(columns)),
            )
            for part in _template()
        ]
        self._connection.run_text(view)
        self._connection.run_text(trigger)
        return _CombinedStatement(insert, drop)


@cache
def _template() -> list[str]:
    folder = resources.files("perdure.store.sqlite")
    return list(split_script((folder / "one_statement.sql").read_text(encoding="utf-8")))
