"""Running a projection's statements inside a transaction of the store.

They run on the one connection that writes, so they are looked at before: the database itself says
what a statement would do when it is prepared, and only reading and changing the user's own tables
is let through; making them as well while the projection sets itself up. A text that was found good
is not asked about again.

A failing handler must not disturb whoever shares the transaction: what it wrote is rolled back to
where it began. Trouble that has ended the transaction itself cannot be kept from the others,
however the handler takes it: it is raised once more when the handler has returned.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from perdure.errors import (
    RowError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
    UsageError,
)
from perdure.model.tables import FeedWork, Parameters
from perdure.store.sqlite.connection import Connection
from perdure.store.sqlite.feed import advance_feed
from perdure.store.sqlite.writer import Transaction

RESERVED_TABLES = "perdure_"
"""What tables that later versions of perdure add are named with, so that no user has them."""

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


class WorkDone(NamedTuple):
    """What came of a function that was run on the user's tables."""

    pos: int = 0
    error: Exception | None = None


class Approved:
    """Statements that were found good, kept between transactions."""

    def __init__(self) -> None:
        self._texts: set[tuple[str, bool]] = set()

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
        connection.authorize_by(guard)
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
            connection.authorize_by(None)
        if len(self._texts) >= MAX_TEXTS:
            self._texts.clear()
        self._texts.add((text, defining))


class OwnTables:
    """See `perdure.model.tables.Tables`."""

    def __init__(self, connection: Connection, approved: Approved, *, defining: bool) -> None:
        self._connection: Connection | None = connection
        self._approved = approved
        self._defining = defining
        self.trouble: StoreError | None = None
        """What ended the transaction, or may end with it."""

    def execute(self, sql: str, parameters: Parameters = (), /) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        connection = self._open()
        try:
            self._approved.check(connection, sql, parameters, defining=self._defining)
            return connection.run_own(sql, parameters)
        except StoreError as error:
            self._note(connection, error)
            raise

    def execute_many(self, sql: str, rows: Iterable[Parameters], /) -> None:
        """Run one statement once per row of parameters."""
        connection = self._open()
        ready = list(rows)
        if not ready:
            return
        try:
            self._approved.check(connection, sql, ready[0], defining=self._defining)
            connection.run_own_many(sql, ready)
        except StoreError as error:
            self._note(connection, error)
            raise

    def close(self) -> None:
        """Let nobody write from here on."""
        self._connection = None

    def _open(self) -> Connection:
        if self._connection is None:
            raise UsageError(
                "the tables of a projection can be used only while its handler runs: do not keep "
                "them for later"
            )
        if self.trouble is not None:
            raise self.trouble
        return self._connection

    def _note(self, connection: Connection, error: StoreError) -> None:
        if isinstance(error, StoreUnavailableError | StoreCorruptError):
            self.trouble = error
        elif not connection.in_transaction():
            self.trouble = RowError(
                f"a statement of a projection rolled back the transaction it shares with others "
                f"({error}); use ON CONFLICT ABORT, the default, in place of ON CONFLICT ROLLBACK"
            )


def work_feed(
    transaction: Transaction,
    approved: Approved,
    name: str,
    *,
    lease: int,
    from_pos: int,
    work: FeedWork,
    defining: bool,
) -> WorkDone | None:
    """Run a function on the user's tables and move a checkpoint to the position it returns.

    None: the lease is lost or the checkpoint stands elsewhere; the function was not called. If the
    function raises, nothing of it stays.

    Raises:
        StoreError: The whole transaction is in trouble.
    """
    connection, now_ms = transaction.connection, transaction.now_ms

    def moved(to_pos: int) -> bool:
        return advance_feed(
            connection, name, lease=lease, from_pos=from_pos, to_pos=to_pos, now_ms=now_ms
        )

    connection.run("begin_part")
    done = None
    if moved(from_pos):
        done = _run_on_tables(connection, approved, work, defining=defining)
        if done.error is not None:
            connection.run("undo_part")
        elif done.pos != from_pos and not moved(done.pos):
            raise RowError(f"projection {name!r} would move from {from_pos} back to {done.pos}")
    connection.run("end_part")
    return done


def _run_on_tables(
    connection: Connection, approved: Approved, work: FeedWork, *, defining: bool
) -> WorkDone:
    tables = OwnTables(connection, approved, defining=defining)
    try:
        done = WorkDone(work(tables))
    except Exception as error:
        done = WorkDone(error=error)
    except BaseException as error:
        # Not even `sys.exit` in a handler may end the thread that writes for everybody.
        done = WorkDone(error=UsageError(f"a projection raised {type(error).__name__}"))
    finally:
        tables.close()
        if defining:
            approved.forget()
    if tables.trouble is not None:
        raise tables.trouble
    return done


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
    """Return the names of perdure's tables."""
    folder = resources.files("perdure.store.sqlite")
    schema = (folder / "schema.sql").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^CREATE TABLE (\w+)", schema, re.MULTILINE))


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
