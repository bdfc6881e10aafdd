"""Run functions of the user's own inside a transaction, and end their jobs in the same one.

In a file each has a connection of its own, fresh so that nothing that one function has set is met
by the next, and holds the write lock from before the function is called until the commit. So a job
that was ours at the beginning still is at the end: no other process could have taken it. What is in
memory has one connection only: there the function runs on the thread that writes, in a part of its
transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import cast

from perdure.clock import Clock
from perdure.errors import RowError, StoreError, StoreUnavailableError, UsageError
from perdure.model.hints import Hint
from perdure.store.counters import StoreCounters
from perdure.store.sql.commits.batch import Transaction, run_batch
from perdure.store.sqlite.connection import FileLockedError, SqliteConnection, trouble_of
from perdure.store.sqlite.database import connect_writer
from perdure.store.sqlite.file_lock import WriteLock
from perdure.store.sqlite.within.lent_connection import ConnectionGuard, LentConnection
from perdure.store.within.own_work import end_job, is_lost
from perdure.store.within.transactions import Done, OwnWork, Undone

BUSY_WITHIN_S = 5.0
"""How long a program that does not know the lock may keep a transaction from beginning."""
CLOSE_WITHIN_S = 2.0
LONG_S = 1.0
"""A transaction that keeps the lock for longer is worth a warning: no other can write."""

logger = logging.getLogger(__name__)


class OwnTransactions:
    """Transactions in a file."""

    def __init__(
        self,
        path: str,
        *,
        clock: Clock,
        counters: StoreCounters,
        changed: Callable[[Hint], None],
    ) -> None:
        """Prepare.

        Args:
            path: The file.
            clock: Rules leases.
            counters: Of the store.
            changed: Hears of the hints of each commit, while the lock is held.
        """
        self._path = path
        self._clock = clock
        self._counters = counters
        self._changed = changed

    def run(self, work: OwnWork) -> bool | None:
        """Run a function and end its job; see `TransactionStore.transact`. Blocks the thread."""
        own = _FileTransaction(self._path, work)
        try:
            if not own.begin():
                return False
            if own.is_over:
                return None
            work.be_alone()
            done: Done = work.run(own.connection.bare)
            with own.guard.lock:
                if own.is_over:
                    return None
                with own.guard.lifted():
                    return self._end(own, done)
        finally:
            own.end()

    def _end(self, own: _FileTransaction, done: Done) -> bool | None:
        """Write the end and commit, or leave it to be rolled back."""
        own.check(done)
        if isinstance(done, Undone):
            return None
        own.connection.be_ours()
        is_ours, rows = end_job(own.connection, done, clock=self._clock)
        if is_ours:
            own.connection.run("commit")
            # Whatever the function has written, the job's result waits in an inbox.
            own.lock.note_change(Hint.BOTH)
            self._changed(Hint.BOTH)
            # The lock is held, so the writing thread does not count meanwhile.
            self._counters.transactions += 1
            self._counters.operations += 1
            self._counters.statements += own.connection.statements
            self._counters.rows += rows
        return is_ours


class _FileTransaction:
    """One transaction under way: the lock, the connection, and who may still use them."""

    connection: SqliteConnection

    def __init__(self, path: str, work: OwnWork) -> None:
        self._path = path
        self._work = work
        self._is_connected = False
        self._since_s: float | None = None
        """When the lock was taken; None: we do not have it."""
        self.lock = WriteLock(f"{path}-lock")
        self.guard = ConnectionGuard(
            work.activity, is_open=lambda: self.connection.in_transaction()
        )
        self.is_over = False
        """Whether it was rolled back and others write by now. Changed under the guard's lock."""

    # -------------------------------------- on the thread that runs the function

    def begin(self) -> bool:
        """Wait for the lock and begin a transaction; return whether the job still is ours."""
        self.lock.__enter__()
        self._since_s = monotonic()
        with self.guard.lifted():
            self.connection = connect_writer(
                self._path, factory=partial(LentConnection, guard=self.guard)
            )
            self._is_connected = True
            self._begin()
            if is_lost(self.connection, self._work.lease):
                return False
        self.connection.authorize_by(self.guard.authorize)
        self._work.stop_by(self._give_up)
        if self._work.is_stopped():
            self._give_up()
        return True

    def _begin(self) -> None:
        give_up_at = monotonic() + BUSY_WITHIN_S
        while True:
            try:
                self.connection.run("begin")
                return
            except FileLockedError:
                if monotonic() >= give_up_at or self._work.is_stopped():
                    raise

    def check(self, done: Done) -> None:
        """Refuse a function that has ended the transaction, or tried to."""
        if self.guard.problem is not None:
            raise self.guard.problem
        if isinstance(done, Undone):
            trouble = trouble_of(self._path, done.error)
            if trouble is not None:
                raise trouble from done.error
        elif self.connection.is_closed:
            raise UsageError(
                f"{self._work.activity} has closed its connection: leave that to the worker"
            )

    def end(self) -> None:
        """Roll back what is not committed, and let go of everything."""
        with self.guard.lock:
            has_lock = self._since_s is not None
            self._roll_back()
            if has_lock:
                self._disconnect()
                self._unlock()
        if not has_lock:
            # The last to close copies the WAL into the file: not beside another writer.
            try:
                with self.lock.within(CLOSE_WITHIN_S):
                    self._disconnect()
            except StoreUnavailableError:
                self._disconnect()
        self.lock.close()

    # --------------------------------------------------------------- on any thread

    def _give_up(self) -> None:
        """Roll back, whatever the function does just then, and let others write. Nothing that it
        runs comes after that."""
        self.guard.is_over = True
        self.guard.wait_until_still(self._interrupt)
        try:
            self._roll_back()
            self._unlock()
        finally:
            self.guard.lock.release()

    def _interrupt(self) -> None:
        # The function may have closed it. Nothing else can be asked while it is in use.
        with suppress(Exception):
            self.connection.bare.interrupt()

    def _roll_back(self) -> None:
        self.is_over = self.guard.is_over = True
        if self._is_connected and not self.connection.is_closed:
            # If it fails, closing the connection will do.
            with suppress(StoreError), self.guard.lifted():
                if self.connection.in_transaction():
                    self.connection.run("rollback")

    def _disconnect(self) -> None:
        if self._is_connected:
            with suppress(StoreError):
                self.connection.close()

    def _unlock(self) -> None:
        if self._since_s is None:
            return
        took_s, self._since_s = monotonic() - self._since_s, None
        self.lock.__exit__(None, None, None)
        if took_s > LONG_S:
            logger.warning(
                "a transaction of an activity kept everybody else from writing for %.1f s; do only "
                "in it what must be one commit",
                took_s,
                extra={"activity": self._work.activity, "path": self._path},
            )


def run_beside_others(transaction: Transaction, work: OwnWork) -> bool | UsageError | None:
    """Run a function and end its job in a part of a transaction, on the thread that writes.

    What the function did wrong is returned: others share the transaction.
    """
    connection = cast(SqliteConnection, transaction.connection)
    if work.is_stopped():
        return None
    if is_lost(connection, work.lease):
        return False
    guard = ConnectionGuard(work.activity, is_open=connection.in_transaction)
    connection.run("begin_part")
    connection.authorize_by(guard.authorize)
    work.be_alone()
    try:
        done: Done = work.run(connection.bare)
    finally:
        connection.authorize_by(None)
        connection.be_ours()
    if not connection.in_transaction():
        # The others are run again, and this one fails alone.
        raise RowError(f"a statement of {work.activity} has rolled back the transaction")
    is_ours: bool | None = None
    if guard.problem is None and not isinstance(done, Undone):
        [is_ours], _ = run_batch(transaction, [done])
    if not is_ours:
        connection.run("undo_part")
    connection.run("end_part")
    return guard.problem or is_ours
