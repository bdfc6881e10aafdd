"""Which statements a projection may run on SQLite.

The database itself says what a statement would do when it is prepared, and only reading and
changing the user's own tables is let through; making them as well while the projection sets itself
up. A text that was found good is not asked about again.
"""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from importlib import resources
from typing import cast

from perdure.errors import StoreError, UsageError
from perdure.model.tables import Parameters
from perdure.store.sql.connection import Connection
from perdure.store.sql.projection_sql import RESERVED_TABLES
from perdure.store.sqlite.connection import SqliteConnection

MAX_TEXTS = 1_000
"""How many statements are remembered as good; then they are asked about once more."""

_YES, _NO = sqlite3.SQLITE_OK, sqlite3.SQLITE_DENY
_ANYWHERE = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_READS = {sqlite3.SQLITE_READ}
_CHANGES = {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}
_DEFINES_FIRST = {
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_VIEW,
    sqlite3.SQLITE_CREATE_VTABLE,
    sqlite3.SQLITE_DROP_TABLE,
    sqlite3.SQLITE_DROP_VIEW,
    sqlite3.SQLITE_DROP_VTABLE,
    sqlite3.SQLITE_REINDEX,
}
"""The table or view is the first name."""
_DEFINES_SECOND = {
    sqlite3.SQLITE_ALTER_TABLE,
    sqlite3.SQLITE_CREATE_INDEX,
    sqlite3.SQLITE_CREATE_TRIGGER,
    sqlite3.SQLITE_DROP_INDEX,
    sqlite3.SQLITE_DROP_TRIGGER,
}
"""The table is the second name."""


class SqliteApproval:
    """Statements that were found good, kept between transactions. See `Approval`."""

    def __init__(self) -> None:
        self._texts: set[tuple[str, bool]] = set()
        self.goes_on_after_errors = True

    def begin(self, connection: Connection, name: str, *, from_pos: int, defining: bool) -> str:
        """Nothing has to be made ready."""
        return ""

    def end(self, connection: Connection, begun: str) -> None:
        """Nothing has to be put back."""

    def translate(self, text: str, parameters: Parameters) -> tuple[str, Parameters]:
        """It is SQLite's own already."""
        return text, parameters

    def forget(self) -> None:
        """Ask again: tables or triggers have changed."""
        self._texts.clear()

    def check(
        self, connection: Connection, text: str, parameters: Parameters, *, defining: bool
    ) -> None:
        """Refuse a statement that a projection may not run."""
        if (text, defining) in self._texts:
            return
        _refuse_many(text)
        guard = _Guard(defining=defining)
        database = cast(SqliteConnection, connection)
        database.authorize_by(guard)
        try:
            # Prepared, not run. Everything it would touch is told while it is prepared.
            connection.run_own(f"EXPLAIN {text}", parameters)
        except StoreError as error:
            if guard.refused:
                raise UsageError(
                    f"a projection may not run this statement ({guard.refused}): {text.strip()}"
                ) from error
            raise
        finally:
            database.authorize_by(None)
        if len(self._texts) >= MAX_TEXTS:
            self._texts.clear()
        self._texts.add((text, defining))


class _Guard:
    """Hears what a statement would do, and says whether it may."""

    def __init__(self, *, defining: bool) -> None:
        self._defining = defining
        self.refused = ""

    def __call__(
        self,
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        trigger: str | None,
    ) -> int:
        problem = self._problem(action, first or "", second or "")
        if problem:
            self.refused = self.refused or problem
            return _NO
        return _YES

    def _problem(self, action: int, first: str, second: str) -> str:
        if action in _ANYWHERE:
            return ""
        if action in _READS:
            return _problem_of(first)
        if action in _CHANGES:
            is_catalogue = first.startswith("sqlite_")
            if not is_catalogue:
                return _problem_of(first)
            if self._defining and first == "sqlite_master":
                return ""
        if self._defining and action in _DEFINES_FIRST:
            return _problem_of(first)
        if self._defining and action in _DEFINES_SECOND:
            return _problem_of(second)
        if self._defining:
            return "setup and reset may only define, read and change tables"
        return "handle may only read and change tables"


def _problem_of(table: str) -> str:
    name = table.lower()
    if name in own_tables():
        return f"table {table} is perdure's own"
    if name.startswith(RESERVED_TABLES):
        return f"tables named {RESERVED_TABLES}... are reserved"
    return ""


@cache
def own_tables() -> frozenset[str]:
    """Return the names of perdure's tables and views."""
    folder = resources.files("perdure.store.sqlite")
    schema = (folder / "schema.sql").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^CREATE (?:TABLE|VIEW) (\w+)", schema, re.MULTILINE))


def _refuse_many(text: str) -> None:
    """Refuse a text of several statements: of those after the first nothing would be known."""
    end = text.find(";")
    while end >= 0:
        # A semicolon inside a string, a comment or a trigger completes nothing.
        if sqlite3.complete_statement(text[: end + 1]):
            if _without_comments(text[end + 1 :]).strip(" \t\r\n\f;"):
                raise UsageError(f"run one statement at a time, not several: {text.strip()}")
            return
        end = text.find(";", end + 1)


def _without_comments(text: str) -> str:
    return re.sub(r"--[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
