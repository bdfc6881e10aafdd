"""The store on a connection to its file that is the user's.

There is one writer at a time in SQLite, and here it is the user: all others that want to write wait
until the transaction ends. So everything is written directly, as the store's own writer does it.

The store's processes notice each other by a number in the lock file, which a user's commit does not
raise. So the end of the transaction is watched for, and told to them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.backoff import GrowingPause
from perdure.errors import StoreUnavailableError, UsageError
from perdure.store.sql.commits.batch import Transaction
from perdure.store.sql.connection import Connection, Value
from perdure.store.sqlite.connection import FileLockedError, SqliteConnection
from perdure.store.sqlite.memory import is_in_memory
from perdure.store.within.borrowed import BorrowedSqlStore, Loan, PartDefinitions
from perdure.store.within.borrowing import RunOnThread, SentMessages
from perdure.store.within.unwrapping import SQLITE3, Unwrapped, describe, is_of_loop, unwrap

if TYPE_CHECKING:
    from perdure.store.sqlite.store import SqliteStore

LOOK_MIN_S = 0.001
LOOK_MAX_S = 0.05
"""How often to look whether the transaction has ended."""
LOOK_FOR_S = 30.0
"""For how long; what ends later is found by polling."""

T = TypeVar("T")


class BorrowedSqlite3(SqliteConnection):
    """A connection that is the user's, with its settings."""

    def run(self, name: str, /, **params: Value) -> list[tuple[Any, ...]]:
        """See `Connection`."""
        rows, text = self.bare.row_factory, self.bare.text_factory
        self.be_ours()
        try:
            return super().run(name, **params)
        finally:
            self.bare.row_factory, self.bare.text_factory = rows, text


class SqliteLoan(Loan):
    """A connection to the store's file, used on the thread that it belongs to."""

    def __init__(self, connection: object, errands: RunOnThread, *, path: str) -> None:
        if is_in_memory(path):
            raise UsageError(
                "a store in memory has its own connections only: nobody else can be in a "
                "transaction with it; use a file"
            )
        if is_of_loop(connection):
            raise UsageError(
                f"{describe(connection)} is no connection to an SQLite file: give one of "
                "sqlite3, or of SQLAlchemy with that driver"
            )
        self._given = connection
        self._errands = errands
        self._path = path
        self.bare: Any = None
        """The driver's connection, once it was used."""

    async def use(self, work: Callable[[Connection], T]) -> T:
        """See `Loan`."""
        return await self._errands.do(lambda: work(self._open()))

    def _open(self) -> SqliteConnection:
        given = unwrap(self._given)
        connection = self._connection_of(given)
        self._check_file(connection)
        if not connection.in_transaction() and given.by_sqlalchemy:
            # The driver would begin one with the first statement that writes.
            connection.run("begin")
        if not connection.in_transaction():
            raise UsageError(
                "the connection has no open transaction: run "
                'connection.execute("BEGIN IMMEDIATE") first, and commit after it'
            )
        self.bare = given.connection
        return connection

    def _connection_of(self, given: Unwrapped) -> SqliteConnection:
        if given.kind != SQLITE3:
            raise UsageError(
                f"{describe(given.connection)} is no connection of sqlite3 to the store's file "
                f"{self._path}"
            )
        try:
            given.connection.cursor().close()
        except Exception as error:
            # It is closed, or belongs to another thread.
            raise UsageError(f"the connection cannot be used here: {error}") from error
        return BorrowedSqlite3(given.connection, self._path)

    def _check_file(self, connection: SqliteConnection) -> None:
        files = {name: path for _, name, path in connection.run("read_files")}
        main = files.get("main", "")
        if not main or os.path.realpath(main) != os.path.realpath(self._path):
            raise UsageError(
                f"the connection is to {main or 'a database in memory'}, but the store is in "
                f"{self._path}: both must be the same file to be written in one transaction"
            )


class BorrowedSqliteStore(BorrowedSqlStore):
    """See `BorrowedSqlStore`.

    Args:
        outer: The store.
        loan: The connection.
        ended: Called on the loop when the transaction has ended in which something was written.
    """

    def __init__(self, outer: SqliteStore, loan: SqliteLoan, ended: Callable[[], None]) -> None:
        super().__init__(outer, loan)
        self._lent = loan
        self._ended = ended
        self._end: _End | None = None

    @property
    def sent(self) -> SentMessages | None:
        """See `BorrowedSqlStore`."""
        return self._end

    async def _write(self, work: Callable[[Transaction], T]) -> T:
        try:
            result = await super()._write(work)
        except FileLockedError as error:
            raise StoreUnavailableError(
                f'{error}; begin the transaction with "BEGIN IMMEDIATE": one that has read cannot '
                "always write"
            ) from error
        if self._end is None or self._end.is_over:
            self._end = _End(self._lent.bare, self._ended)
        return result

    def _in_part(self, connection: Connection, work: Callable[[Transaction], T]) -> T:
        definitions = PartDefinitions(self._outer._definitions)
        return self._try_part(connection, work, definitions, self.clock())


class _End:
    """Looks now and then whether a transaction has ended, and tells it."""

    def __init__(self, connection: Any, ended: Callable[[], None]) -> None:
        self.is_over = False
        self._connection = connection
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._until_s = self._loop.time() + LOOK_FOR_S
        self._pause = GrowingPause(LOOK_MIN_S, LOOK_MAX_S)
        self._look()

    async def arrive(self, instance_id: str) -> bool:
        """See `SentMessages`. Everything was put into the inbox directly."""
        return self.is_over

    def _look(self) -> None:
        if not self._is_open() or self._loop.time() > self._until_s:
            self.is_over = True
            self._connection = None
            self._ended()
        else:
            self._loop.call_later(self._pause.seconds, self._look)
            self._pause.grow()

    def _is_open(self) -> bool:
        try:
            return bool(self._connection.in_transaction)
        except Exception:
            # It was closed, and the transaction with it.
            return False
