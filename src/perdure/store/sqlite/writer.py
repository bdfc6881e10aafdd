"""Run a batch of operations as one transaction on the one connection that writes.

What happens inside it is told in `perdure.store.sql.commits.batch`. There are two ways. Turns whose
rows are known from the transaction before are decided first and written as one statement, which
also makes sure that no other process has written meanwhile. Where others write all the time, rows
are loaded for that: those of perdure are kept from writing by the lock that is held, and another
program would be noticed. All else, and what that finds to be otherwise, is run in steps: begin,
load, decide, write, commit. There the time is taken when no other can write any more, so that no
lease is born old because its transaction had to wait; one statement gives no leases but those of
its turns, which bring their own time.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from perdure.clock import Clock
from perdure.errors import RowError, StoreCorruptError, StoreError, StoreUnavailableError
from perdure.store.counters import StoreCounters
from perdure.store.forking import keep_for_ever
from perdure.store.locked_turns import LockedTurn
from perdure.store.sql.commits.batch import Operation, Transaction, run_batch
from perdure.store.sql.commits.hints import hints_of
from perdure.store.sql.commits.remembered_check import check_remembered, is_switched_on
from perdure.store.sql.commits.remembered_rows import RememberedRows
from perdure.store.sql.commits.rows import LoadedRows, load
from perdure.store.sql.commits.writes import UnknownError, Writes
from perdure.store.sql.connection import Connection
from perdure.store.sql.definitions import Definitions
from perdure.store.sql.packing import BatchTooLargeError
from perdure.store.sqlite.connection import (
    FileLockedError,
    SqliteConnection,
    has_wal_reset_bug,
)
from perdure.store.sqlite.database import LOCK_WITHIN_S, connect_writer, migrate
from perdure.store.sqlite.file_lock import WriteLock
from perdure.store.sqlite.files import OpenedFile
from perdure.store.sqlite.memory import MemoryLock, is_in_memory
from perdure.store.sqlite.one_statement import OneStatement

CLOSE_WITHIN_S = 2.0
MAX_WAL_BYTES = 64 * 1024 * 1024
"""A longer WAL means that a reader keeps an old state open (R5)."""
_LOOK_AT_WAL_EVERY = 1_000

logger = logging.getLogger(__name__)


class Writer:
    """The connection that writes, and what has to be known between its transactions."""

    def __init__(
        self,
        path: str,
        *,
        lock: WriteLock | MemoryLock,
        clock: Clock,
        counters: StoreCounters,
        definitions: Definitions,
    ) -> None:
        self._definitions = definitions
        self._counters = counters
        self._path = path
        self._lock = lock
        self._clock = clock
        self._connection: SqliteConnection | None = None
        self._file: OpenedFile | None = None
        self._one_statement: OneStatement | None = None
        self._remembered = RememberedRows()
        self._checks_remembered = is_switched_on()
        self._after_commit = _AfterCommit(self)
        self._version: int | None = None
        """What the database says as long as no other process writes; None: nothing is kept."""
        self._warned_of_old_sqlite = not has_wal_reset_bug(sqlite3.sqlite_version_info)
        self._warned_of_wal = False
        self._warned_of_refusal = False

    def open(self) -> None:
        """Connect and bring the tables up to date, alone among all processes."""
        with self._lock.within(LOCK_WITHIN_S):
            self._connect()
            assert self._connection is not None
            if not is_in_memory(self._path):
                self._file = OpenedFile(self._path)
            migrate(self._connection, where=self._path, now_ms=self._clock())

    def close(self) -> None:
        """Let go of the database. Harmless if it never was opened.

        The last connection copies the WAL into the file, so this too is done under the lock,
        unless another process holds it and does not move.
        """
        try:
            with self._lock.within(CLOSE_WITHIN_S):
                self._disconnect()
        except StoreUnavailableError:
            self._disconnect()
        self._lock.close()

    def execute(self, operations: Sequence[Any]) -> list[Any]:
        """Run operations as one transaction and return their results.

        Raises:
            StoreUnavailableError: A resource is missing; nothing was written.
            StoreCorruptError: The file is damaged, or was replaced.
            Exception: Some operation cannot be written, and so none was.
        """
        connection = self._connected()
        if self._file is not None:
            # What is told to have failed must not be found in a file that is put back later.
            self._file.check()
        before = connection.statements
        results = self._run_as_one_statement(connection, operations)
        if results is None:
            results = self._run_in_steps(connection, operations)
        self._counters.transactions += 1
        self._counters.operations += len(operations)
        self._counters.statements += connection.statements - before
        with self._after_commit:
            if self._checks_remembered:
                self._check_remembered(connection)
            self._look_around()
        if self._file is not None:
            # Again: if it was replaced in between, what was written is gone with it, and no caller
            # may be told that it lasts.
            self._file.check()
        return results

    def _check_remembered(self, connection: SqliteConnection) -> None:
        """Compare what is remembered with what is stored, where that is asked for. If another
        process has written meanwhile, nothing of it will be used."""
        if self._version is not None:
            [(version,)] = connection.run("read_data_version")
            if version == self._version:
                check_remembered(self._remembered, connection, by="load_live")

    def _run_as_one_statement(
        self, connection: SqliteConnection, operations: Sequence[Any]
    ) -> list[Any] | None:
        """Run operations as one statement, if all that it needs is known, or can be loaded before.

        None: they have to be run in steps, and nothing was written.
        """
        if _has_work(operations):
            return None
        known = None if self._version is None else self._remembered.find(operations)
        results = None if known is None else self._try(connection, operations, known)
        if known is not None and results is None:
            self._remembered.was_wrong(known)
            self._forget()
        elif known is not None:
            self._remembered.was_right()
        if results is None and self._lock.is_shared:
            # Alone this is rare, and each combination of statements has to be made once.
            results = self._try(connection, operations)
            if results is None:
                self._forget()
        return results

    def _try(
        self,
        connection: SqliteConnection,
        operations: Sequence[Any],
        known: LoadedRows | None = None,
    ) -> list[Any] | None:
        """Decide on rows, and write what follows if they are still true; else None.

        Args:
            connection: Where.
            operations: All of the transaction.
            known: The rows; None: they are loaded.
        """
        try:
            if known is None:
                self._look_at_version(connection)
                known = load(connection, operations)
            return self._decide_and_write(known, operations)
        except (RowError, UnknownError, BatchTooLargeError, UnicodeError):
            # Something is not as it was thought to be, or cannot be written. In steps the culprit
            # is found.
            return None
        except BaseException as error:
            self._undo(connection, error)
            if not self._is_refusal(error):
                raise
            return None

    def _look_at_version(self, connection: SqliteConnection) -> None:
        """Forget everything if others have written; what is read from here on is known until they
        write again."""
        [(version,)] = connection.run("read_data_version")
        if version != self._version:
            self._forget()
            self._version = version

    def _decide_and_write(self, rows: LoadedRows, operations: Sequence[Any]) -> list[Any] | None:
        """Decide on rows, and write what follows if they are still true; else None.

        Where nothing is to be written, nothing would make sure that they are.
        """
        assert self._one_statement is not None
        assert self._version is not None
        writes = Writes(locks=False)
        transaction = self._transaction(writes, rows)
        results, count = run_batch(transaction, operations)
        commit = transaction.decided
        if not writes.kept or not commit.has_started_assumed():
            return None
        if not self._one_statement.run(writes, self._version):
            return None
        with self._after_commit:
            self._remembered.keep(commit)
            self._lock.note_change(hints_of(operations, results))
        self._counters.rows += count
        return results

    def _run_in_steps(self, connection: SqliteConnection, operations: Sequence[Any]) -> list[Any]:
        """Begin a transaction, run operations in it, and commit."""
        changes_before = connection.total_changes()
        try:
            connection.run("begin")
            transaction = self._transaction(connection)
            transaction.count_changes = connection.total_changes
            results, rows = run_batch(transaction, operations)
            is_kept = transaction.commit is not None and not transaction.has_worked
            if is_kept and self._version is None:
                [(self._version,)] = connection.run("read_data_version")
            connection.run("commit")
        except BaseException as error:
            self._undo(connection, error)
            if isinstance(error, UnicodeError):
                raise RowError(f"a text cannot be stored: {error}") from error
            raise
        with self._after_commit:
            if transaction.has_worked:
                # Its statements do not say which rows they have changed.
                self._forget()
            elif is_kept:
                self._remembered.keep(transaction.decided)
            self._definitions.keep_fresh()
            if connection.total_changes() != changes_before:
                self._lock.note_change(hints_of(operations, results))
        self._counters.rows += rows
        return results

    def _transaction(self, connection: Connection, known: LoadedRows | None = None) -> Transaction:
        return Transaction(
            connection, self._definitions, self._clock(), self._counters.transactions, known=known
        )

    def _forget(self) -> None:
        """Load everything again: another process may have changed it."""
        self._version = None
        self._remembered.forget()

    def forget_all(self) -> None:
        """Load everything again, definitions too: something went wrong after a commit."""
        self._forget()
        self._definitions.forget_fresh()

    # ---------------------------------------------------------------- trouble

    def _connected(self) -> SqliteConnection:
        if self._connection is None:
            self._connect()
        assert self._connection is not None
        return self._connection

    def _connect(self) -> None:
        self._connection = connect_writer(self._path)
        self._one_statement = OneStatement(self._connection)
        self._forget()

    def _undo(self, connection: SqliteConnection, error: BaseException) -> None:
        self._forget()
        self._definitions.forget_fresh()
        if isinstance(error, FileLockedError):
            self._warn_of_old_sqlite()
        try:
            if connection.in_transaction():
                connection.run("rollback")
        except StoreError:
            logger.warning("a transaction could not be rolled back", exc_info=True)
            self._disconnect()
        is_broken = isinstance(error, StoreUnavailableError) and not isinstance(
            error, FileLockedError
        )
        if is_broken and not is_in_memory(self._path):
            # After an I/O error or on a file that was read-only SQLite may remember the bad news.
            self._disconnect()

    def _is_refusal(self, error: BaseException) -> bool:
        """Return whether only the one statement is at fault, and say so once.

        SQLite does not run it as it is written, whatever the values: in steps it may work.
        """
        trouble = (StoreUnavailableError, StoreCorruptError)
        if not isinstance(error, StoreError) or isinstance(error, trouble):
            return False
        if not self._warned_of_refusal:
            self._warned_of_refusal = True
            logger.warning("a transaction could not be run as one statement", exc_info=error)
        return self._connection is not None

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            if self._file is not None and not self._file.is_there:
                # Closing it would remove the WAL beside the file that has taken its place.
                keep_for_ever(connection)
                return
            with suppress(StoreError):
                connection.close()

    def _warn_of_old_sqlite(self) -> None:
        """Say that several write to the file with an SQLite that has the WAL-reset bug.

        The bug needs two that commit or checkpoint at once. Our own processes do that under the
        lock; a program that does not know the lock can bring it about, and so can a user's own
        connection, with which `within` has nothing to do but write (decision 27).
        """
        if self._warned_of_old_sqlite:
            return
        self._warned_of_old_sqlite = True
        if self._lock.may_warn(self._clock()):
            logger.warning(
                "several processes write to %s, with an SQLite older than 3.51.3: those of perdure "
                "take turns and are safe, but a program that writes to it in another way can "
                "damage it. If there is one, use a Python that is linked to a newer SQLite, in all "
                "of them, or PostgreSQL",
                self._path,
                extra={"path": self._path, "sqlite": sqlite3.sqlite_version},
            )

    def _look_around(self) -> None:
        """Notice other writers, and look now and then at the length of the WAL."""
        if self._lock.is_shared:
            self._warn_of_old_sqlite()
        is_due = self._counters.transactions % _LOOK_AT_WAL_EVERY == 0
        if is_due and not is_in_memory(self._path):
            self._look_at_wal()

    def _look_at_wal(self) -> None:
        try:
            size = os.stat(f"{self._path}-wal").st_size
        except OSError:
            return
        if size <= MAX_WAL_BYTES:
            self._warned_of_wal = False
        elif not self._warned_of_wal:
            self._warned_of_wal = True
            logger.warning(
                "the WAL grows because some connection keeps an old state open for reading",
                extra={"path": self._path, "bytes": size},
            )


class _AfterCommit:
    """Around what follows a commit: `with`. If that fails, it is only logged.

    Told as an error, it would have the batch run again, or its callers believe that nothing was
    written.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        logger.error("something failed after a commit; what was committed stands", exc_info=error)
        self._writer.forget_all()
        return True


def _has_work(operations: Sequence[Any]) -> bool:
    for one in operations:  # noqa: SIM110  # a generator costs more than the rest of it
        if type(one) is Operation or type(one) is LockedTurn:
            return True
    return False
