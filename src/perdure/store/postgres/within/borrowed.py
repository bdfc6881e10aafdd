"""Connections of the user's, on which our statements run inside a transaction of the user's.

Nothing of the user's is changed: no session setting, no type codec, and the search path only while
statements of ours run. The connection is used where it belongs. A blocking one is called by the
thread that runs the code; one of an event loop is only ever used on that loop, to which the thread
hands each statement.

A value that JSON columns give is taken as text, whatever the user has set for JSON on the
connection; so JSON is sent as text too.
"""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

import asyncpg
import msgspec

from perdure.errors import RowError, StoreError, StoreUnavailableError
from perdure.model.tables import Parameters
from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import statement
from perdure.store.postgres.faults import from_server, ours
from perdure.store.postgres.statements import Statements
from perdure.store.sql.connection import Value

GRACE_S = 1.0
"""How long a statement may go on whose caller is cancelled, if breaking it off would spoil the
user's transaction: one outside a part, and those that begin and end parts."""
_PLAIN = (int, str, bytes, type(None))
"""What our statements return, besides JSON that the driver has read for us."""

T = TypeVar("T")


class BorrowedConnection(Statements):
    """See `perdure.store.sql.connection.Connection`."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address

    @abstractmethod
    def is_closed(self) -> bool:
        """Return whether it is of no use any more."""

    @abstractmethod
    def in_transaction(self) -> bool:
        """See `Connection`. True too if the next statement opens one."""

    def _text(self, name: str) -> tuple[str, tuple[str, ...]]:
        return _statement(name, self._address.quoted_schema)

    def run(self, name: str, /, **params: Value) -> list[tuple[Any, ...]]:
        """See `Connection`."""
        return [_plain(row) for row in super().run(name, **params)]

    @contextmanager
    def own_names(self) -> Iterator[None]:
        """Have names mean what PostgreSQL means by them, and afterwards what they did before.

        In the schemas of the user's search path others may have what fits our statements better.
        """
        [(path, _)] = self.run("pin_path")
        try:
            yield
        except BaseException:
            # If the transaction has failed, or the connection is gone, so is the setting.
            with suppress(StoreError):
                self.forget_writes()
                self.run("restore_path", path=path)
            raise
        self.run("restore_path", path=path)

    def set_deadline(self, until_s: float | None) -> None:
        """See `Connection`. Only projections have one."""
        raise AssertionError("no projection runs on a connection of the user's")

    def run_own(self, text: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        """See `Connection`."""
        self.send_writes()
        return self._fetch(text, tuple(parameters))

    def run_own_many(self, text: str, rows: Iterable[Parameters]) -> None:
        """See `Connection`."""
        for row in rows:
            self.run_own(text, row)


class _OnLoop(BorrowedConnection):
    """One that belongs to an event loop. Used by another thread, while the loop runs.

    Args:
        connection: The driver's.
        loop: Where it belongs.
        address: Of the store.
    """

    def __init__(
        self, connection: Any, *, loop: asyncio.AbstractEventLoop, address: Address
    ) -> None:
        super().__init__(address)
        self._connection = connection
        self._loop = loop
        self.is_undone = False
        """Whether the user's transaction undoes what is broken off now."""
        self._is_ending = False
        self._is_cancelled = False
        self._running: Future[Any] | None = None

    def run(self, name: str, /, **params: Value) -> list[tuple[Any, ...]]:
        """See `Connection`."""
        self._is_ending = name in ("undo_part", "end_part", "restore_path")
        self.is_undone = self.is_undone and not self._is_ending
        rows = super().run(name, **params)
        self.is_undone = self.is_undone or name == "begin_part"
        return rows

    def cancel(self) -> None:
        """Break off what runs: its statement, if that can be undone, or what comes next. Called on
        the loop."""
        self._is_cancelled = True
        # In this order: the other thread says what can be undone before it runs something.
        running = self._running
        if running is not None:
            self._break_off(running)

    def _wait(self, answer: Coroutine[Any, Any, T]) -> T:
        """Have the loop run something, and wait for it."""
        if self._is_cancelled and not self._is_ending:
            answer.close()
            raise self._cancelled()
        self._running = running = asyncio.run_coroutine_threadsafe(answer, self._loop)
        if self._is_cancelled:
            self._break_off(running)  # It came in between.
        try:
            return running.result()
        except CancelledError:
            raise self._cancelled() from None
        except StoreError:
            raise
        except Exception as error:
            raise self._ours(error) from error
        finally:
            self._running = None

    def _break_off(self, running: Future[Any]) -> None:
        if self.is_undone:
            running.cancel()
        else:
            self._loop.call_soon_threadsafe(self._loop.call_later, GRACE_S, running.cancel)

    def _cancelled(self) -> StoreUnavailableError:
        # Once: what was begun is still to be undone.
        self._is_cancelled = False
        return StoreUnavailableError("the call was cancelled")

    def _ours(self, error: Exception) -> StoreError:
        return ours(self._address.shown, error)


class BorrowedAsyncpg(_OnLoop):
    """A connection of asyncpg, or one that its pool has given out."""

    def is_closed(self) -> bool:
        """See `BorrowedConnection`."""
        return is_closed(self._connection)

    def in_transaction(self) -> bool:
        """See `Connection`."""
        return bool(self._connection.is_in_transaction())

    def _fetch(self, text: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        records = self._wait(self._connection.fetch(text, *values))
        return [tuple(record) for record in records]

    def _execute(self, text: str, values: Sequence[Any]) -> int:
        status: str = self._wait(self._connection.execute(text, *values))
        return int(status.rpartition(" ")[2])


class BorrowedAsyncPsycopg(_OnLoop):
    """An `AsyncConnection` of psycopg."""

    def is_closed(self) -> bool:
        """See `BorrowedConnection`."""
        return bool(self._connection.closed)

    def in_transaction(self) -> bool:
        """See `Connection`."""
        return _psycopg_in_transaction(self._connection)

    def _fetch(self, text: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self._wait(self._run(text, values))[1]

    def _execute(self, text: str, values: Sequence[Any]) -> int:
        return self._wait(self._run(text, values))[0]

    async def _run(self, text: str, values: Sequence[Any]) -> tuple[int, list[tuple[Any, ...]]]:
        from psycopg import AsyncRawCursor  # optional dependency
        from psycopg.rows import tuple_row

        async with AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            _take_json_as_text(cursor)
            await cursor.execute(text.encode(), values or None)
            rows = [] if cursor.description is None else await cursor.fetchall()
            return cursor.rowcount, rows

    def _ours(self, error: Exception) -> StoreError:
        return _of_psycopg(self._address.shown, error)


class BorrowedPsycopg(BorrowedConnection):
    """A `Connection` of psycopg, used by the thread that runs the code.

    Args:
        connection: The driver's.
        address: Of the store.
    """

    def __init__(self, connection: Any, *, address: Address) -> None:
        super().__init__(address)
        self._connection = connection

    def is_closed(self) -> bool:
        """See `BorrowedConnection`."""
        return bool(self._connection.closed)

    def in_transaction(self) -> bool:
        """See `Connection`."""
        return _psycopg_in_transaction(self._connection)

    def _fetch(self, text: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self._run(text, values)[1]

    def _execute(self, text: str, values: Sequence[Any]) -> int:
        return self._run(text, values)[0]

    def _run(self, text: str, values: Sequence[Any]) -> tuple[int, list[tuple[Any, ...]]]:
        from psycopg import RawCursor  # optional dependency
        from psycopg.rows import tuple_row

        try:
            with RawCursor(self._connection, row_factory=tuple_row) as cursor:
                _take_json_as_text(cursor)
                cursor.execute(text.encode(), values or None)
                rows = [] if cursor.description is None else cursor.fetchall()
                return cursor.rowcount, rows
        except Exception as error:
            raise _of_psycopg(self._address.shown, error) from error


def is_closed(connection: Any) -> bool:
    """Return whether a connection of asyncpg is of no use any more."""
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:
        return True  # It was given back to its pool.


def _psycopg_in_transaction(connection: Any) -> bool:
    from psycopg.pq import TransactionStatus  # optional dependency

    status = connection.info.transaction_status
    if status == TransactionStatus.IDLE:
        # Without autocommit psycopg opens one with the next statement, ours or the user's.
        return not connection.autocommit
    return bool(status != TransactionStatus.UNKNOWN)


def _take_json_as_text(cursor: Any) -> None:
    from psycopg.types.string import TextLoader  # optional dependency

    for kind in ("json", "jsonb"):
        cursor.adapters.register_loader(kind, TextLoader)


def _of_psycopg(where: str, error: Exception) -> StoreError:
    """Return the error of ours that one of psycopg stands for."""
    import psycopg  # optional dependency

    if isinstance(error, StoreError):
        return error
    text = str(error) or type(error).__name__
    code = None
    if isinstance(error, psycopg.Error):
        code, text = error.sqlstate, error.diag.message_primary or text
    if code is not None and code[:2] != "08":
        return from_server(where, code, text)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError):
        return StoreUnavailableError(f"{where} cannot be reached ({text})")
    if isinstance(error, psycopg.Error | TypeError | ValueError | OverflowError):
        return RowError(f"a value cannot be stored: {text}")
    return StoreError(f"{where}: {text}")


@cache
def _statement(name: str, quoted_schema: str) -> tuple[str, tuple[str, ...]]:
    """Return a statement that takes JSON as text: the user may have set how JSON is sent."""
    text, names = statement(name, quoted_schema)
    return re.sub(r"(\$\d+)::jsonb(\[\])?", r"\1::text\2::jsonb\2", text), names


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with JSON as text, where a codec of the user's has read it."""
    if all(isinstance(value, _PLAIN) for value in row):
        return row
    return tuple(
        value if isinstance(value, _PLAIN) else msgspec.json.encode(value).decode() for value in row
    )
