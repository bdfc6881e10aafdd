"""Running our statements by name, on whatever connection: one of ours, or one of a user's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

from perdure.store.postgres.functions import WRITES
from perdure.store.sql.commits.writes import Writes
from perdure.store.sql.connection import Asked, Value
from perdure.store.sql.packing import pack

OF_COMMITS = frozenset(WRITES)
"""Statements that one function runs, many in one call."""

JOINT = "+"
"""Before each of the names of statements that are run as one."""


class Statements(ABC):
    """The part of `perdure.store.sql.connection.Connection` that no driver has to do with."""

    locks = True
    waits = True
    loaded_at_ms: int | None = None

    def __init__(self) -> None:
        self.statements = 0
        self.xid: str | None = None
        """The id of the transaction that has written last."""
        self._writes: list[tuple[str, Value, Value, Value]] = []

    @abstractmethod
    def _text(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Return a statement for the driver, and its parameters in their order."""

    @abstractmethod
    def _fetch(self, text: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""

    @abstractmethod
    def _execute(self, text: str, values: Sequence[Any]) -> int:
        """Run a statement and return how many rows it changed."""

    def _learn(self, database_ms: int) -> None:
        """Take the time that the database told with what was loaded. Most have no use for it."""
        return

    def run(self, name: str, /, **params: Value) -> list[tuple[Any, ...]]:
        """See `Connection`."""
        self.send_writes()
        self.statements += 1
        text, names = self._text(name)
        return self._fetch(text, [params[one] for one in names])

    def change(self, name: str, /, **params: Value) -> int:
        """See `Connection`."""
        self.send_writes()
        self.statements += 1
        text, names = self._text(name)
        return self._execute(text, [params[one] for one in names])

    def run_each(self, asked: Sequence[Asked]) -> list[Any]:
        """See `Connection`."""
        if not asked:
            return []
        names, params = together(asked)
        [(*values, database_ms)] = self.run(names, **params)
        self._learn(database_ms)
        return values

    def load(self, asked: Sequence[tuple[str, str]]) -> list[str]:
        """See `Connection`."""
        if not asked:
            return []
        self.send_writes()
        self.statements += 1
        names, keys = (list(column) for column in zip(*asked, strict=True))
        text, _ = self._text("load")
        found: list[str]
        [(found, database_ms)] = self._fetch(text, [names, keys])
        self._learn(database_ms)
        return found

    def write(self, name: str, /, **params: Value) -> None:
        """See `Connection`."""
        if name not in OF_COMMITS:
            # Few have those, and the function that runs the others is kept as it was.
            self.run(name, **params)
            return
        rows = params["keys"] if "keys" in params else params["rows"]
        self._writes.append((name, rows, params.get("bodies"), params.get("now_ms", 0)))

    def send_writes(self) -> None:
        """Have all statements run that `write` was asked for, in one call."""
        if self._writes:
            names, rows, bodies, times = _columns(self._writes)
            self._writes = []
            self.statements += 1
            text, _ = self._text("write")
            [(self.xid,)] = self._fetch(text, [names, rows, bodies, max(times)])

    def write_known(
        self,
        writes: Writes,
        live_rows: Sequence[tuple[Any, ...]],
        job_rows: Sequence[tuple[Any, ...]],
    ) -> str | None:
        """Run statements as one transaction, outside any other, if rows are still the same.

        Returns:
            The id of the transaction, or None if they are not and nothing was written.
        """
        assert not self._writes, "there is no transaction"
        for name, params in writes.kept:
            self.write(name, **params)
        names, rows, bodies, times = _columns(self._writes)
        self._writes = []
        self.statements += 1
        text, _ = self._text("write_known")
        xid: str | None
        [(xid, database_ms)] = self._fetch(
            text, [pack(live_rows), pack(job_rows), names, rows, bodies, max(times)]
        )
        self._learn(database_ms)
        return xid

    def forget_writes(self) -> None:
        """See `Connection`."""
        self._writes = []


def together(asked: Sequence[Asked]) -> tuple[str, dict[str, Value]]:
    """Return the name of the statement that runs several, and its parameters: those of the first
    begin with `a_`, of the second with `b_`."""
    names = "".join(JOINT + name for name, _ in asked)
    places = zip(ascii_lowercase, asked, strict=False)
    return names, {
        f"{place}_{key}": value for place, (_, params) in places for key, value in params.items()
    }


def _columns(writes: Sequence[tuple[Any, ...]]) -> tuple[list[Any], ...]:
    return tuple(list(column) for column in zip(*writes, strict=True))
