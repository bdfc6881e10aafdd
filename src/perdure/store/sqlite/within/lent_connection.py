"""A connection in other hands: a function of the user's own writes through it, we end it.

The function cannot end the transaction: neither with `commit`, `rollback` or `with connection:`,
nor with a statement. And it can be stopped from outside at any time, wherever its code is just
then: a lock is held around each step of its statements, so that the thread that takes it can roll
back and be sure that nothing comes after.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from perdure.errors import UsageError
from perdure.store.sqlite.allowed_statements import own_tables

_SHADOWS = {
    sqlite3.SQLITE_CREATE_TEMP_TABLE,
    sqlite3.SQLITE_CREATE_TEMP_VIEW,
}
"""What could stand before a table of ours, under its name."""


class ConnectionGuard:
    """What the function may do with its connection, and when it may do no more."""

    def __init__(self, activity: str, *, is_open: Callable[[], bool]) -> None:
        """Prepare.

        Args:
            activity: The function, for messages.
            is_open: Tells whether the transaction is open.
        """
        self._activity = activity
        self._is_open = is_open
        self.lock = threading.RLock()
        """Held around each statement of the function's, and by the thread that ends it."""
        self.is_over = False
        """Whether the function may run no more statements."""
        self.problem: UsageError | None = None
        """What the function has tried that it must not do, whatever it made of the error."""
        self._is_lifted = False

    @contextmanager
    def statement(self) -> Iterator[None]:
        """Hold the lock while a statement is run, if it may be."""
        with self.lock:
            self._check()
            yield

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Let us do anything. The lock is held."""
        self._is_lifted = True
        try:
            yield
        finally:
            self._is_lifted = False

    def wait_until_still(self, interrupt: Callable[[], None]) -> None:
        """Take the lock, interrupting what the function runs. The caller lets it go."""
        while not self.lock.acquire(timeout=0.01):
            if not self._is_lifted:
                interrupt()

    def authorize(
        self,
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        trigger: str | None,
    ) -> int:
        """Say whether a statement may be prepared."""
        if self._is_lifted:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_TRANSACTION:
            self.problem = UsageError(
                f"{self._activity} must not begin or end a transaction ({first}): what it writes "
                "is committed with its result when it returns, and rolled back when it raises"
            )
        elif action in _SHADOWS and (first or "").lower() in own_tables():
            self.problem = UsageError(
                f"{self._activity} must not hide a table of perdure's own: name {first} otherwise"
            )
        elif not self.is_over:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    def _check(self) -> None:
        if self._is_lifted:
            return
        if self.is_over:
            raise asyncio.CancelledError(f"nobody waits for {self._activity} any more")
        if not self._is_open():
            self.problem = UsageError(
                f"a statement of {self._activity} has rolled back the transaction; use ON CONFLICT "
                "ABORT, the default, in place of ON CONFLICT ROLLBACK"
            )
            raise self.problem


class LentConnection(sqlite3.Connection):
    """A connection with a guard."""

    def __init__(self, *args: Any, guard: ConnectionGuard, **options: Any) -> None:
        self.guard = guard
        super().__init__(*args, **options)

    def cursor(self, factory: Any = None) -> Any:
        """Return a cursor that asks the guard."""
        return super().cursor(_GuardedCursor if factory is None else factory)

    # The driver's own make a cursor without asking the method above.

    def execute(self, *args: Any) -> Any:
        """Run a statement."""
        return self.cursor().execute(*args)

    def executemany(self, *args: Any) -> Any:
        """Run a statement once per row of parameters."""
        return self.cursor().executemany(*args)

    def executescript(self, *args: Any) -> Any:
        """Fail: it would end the transaction."""
        return self.cursor().executescript(*args)


class _GuardedCursor(sqlite3.Cursor):
    """Asks before each step: a statement may take its time with the first row, or with the next."""

    def execute(self, *args: Any) -> Any:
        with _guard_of(self).statement():
            return super().execute(*args)

    def executemany(self, *args: Any) -> Any:
        with _guard_of(self).statement():
            return super().executemany(*args)

    def executescript(self, *args: Any) -> Any:
        with _guard_of(self).statement():
            return super().executescript(*args)

    def __next__(self) -> Any:
        with _guard_of(self).statement():
            return super().__next__()

    def fetchone(self) -> Any:
        with _guard_of(self).statement():
            return super().fetchone()

    def fetchmany(self, *args: Any, **options: Any) -> Any:
        with _guard_of(self).statement():
            return super().fetchmany(*args, **options)

    def fetchall(self) -> Any:
        with _guard_of(self).statement():
            return super().fetchall()


def _guard_of(cursor: Any) -> ConnectionGuard:
    guard: ConnectionGuard = cursor.connection.guard
    return guard
