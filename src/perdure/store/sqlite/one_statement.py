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

from perdure.store.sql.commits.writes import Writes
from perdure.store.sqlite.connection import SqliteConnection, split_script, statement

NEVER = frozenset({"free_children"})
"""Statements that name an index, which none in a trigger can do; SQLite would choose another one.
Needed only for what takes the place of an ended instance."""
MAX_COMBINATIONS = 200
"""Combinations of statements that are ready to be run, some 50 kB each."""

_PARAMETER = re.compile(r":([a-z_]+)\b")


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

    def run(self, writes: Writes, version: int) -> bool:
        """Run statements as one transaction, if no other process has changed the database, and all
        of them can be in a trigger.

        Args:
            writes: The statements.
            version: What `read_data_version` has returned when the database was last known.
        """
        names = tuple([name for name, _ in writes.kept])
        made = self._made.get(names)
        if made is None and not NEVER.isdisjoint(names):
            return False
        if made is None:
            made = self._made[names] = self._make(writes)
        values = [value for _, params in writes.kept for value in params.values()]
        # Not "more than 0": the driver counts in 32 bits, and less after 2,147,483,647.
        return self._connection.change_by(made.insert, [*values, version]) != 0

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
