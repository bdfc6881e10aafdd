"""A store in one SQLite file, or in memory (`memory` tells what is different there).

One connection writes, on the batcher's thread; a few others read. Every operation that waits goes
into the next transaction: see `writer` for what happens there. "Database is locked" never reaches
a caller: processes take turns by a lock beside the file, and what SQLite still refuses is tried
again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from perdure.clock import Clock, system_clock
from perdure.clock_watch import WatchedSystemClock
from perdure.errors import StoreError, StoreUnavailableError, UsageError
from perdure.model.hints import Hint
from perdure.store.base import Store
from perdure.store.batching import Batcher
from perdure.store.counters import StoreCounters
from perdure.store.migrate import no_store
from perdure.store.observing import observable
from perdure.store.off_loop import wait_off_loop
from perdure.store.sql.connection import Connection
from perdure.store.sql.store import SqlStore
from perdure.store.sqlite.allowed_statements import SqliteApproval
from perdure.store.sqlite.database import check_version
from perdure.store.sqlite.file_lock import WriteLock
from perdure.store.sqlite.file_watch import FileWatch
from perdure.store.sqlite.files import has_content, prepare_file
from perdure.store.sqlite.memory import MemoryLock, is_in_memory
from perdure.store.sqlite.readers import SqliteReaders
from perdure.store.sqlite.within.borrowed import BorrowedSqliteStore, SqliteLoan
from perdure.store.sqlite.within.transactions import OwnTransactions, run_beside_others
from perdure.store.sqlite.writer import Writer
from perdure.store.within.borrowing import RunOnThread
from perdure.store.within.errands import OwnThread
from perdure.store.within.transactions import OwnWork

T = TypeVar("T")


@observable(Store)
class SqliteStore(SqlStore):
    """See `perdure.store.base.Store`; what is said there is not repeated here.

    Args:
        path: A file, ":memory:", or ":memory:NAME".
        clock: Rules leases and visibility. The system's clock is watched for jumps.
    """

    def __init__(self, path: str, *, clock: Clock) -> None:
        is_real = clock is system_clock
        super().__init__(
            clock=WatchedSystemClock() if is_real else clock, approval=SqliteApproval()
        )
        self._counters = StoreCounters()
        self._is_in_memory = is_in_memory(path)
        self.path = path if self._is_in_memory else os.path.abspath(path)
        self._writer: Writer | None = None
        self._batcher: Batcher | None = None
        self._readers: SqliteReaders | None = None
        self._lock: WriteLock | MemoryLock | None = None
        self._watch: FileWatch | None = None

    # --------------------------------------------------------------- lifetime

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        if self._batcher is not None:
            raise StoreError("the store was opened before; make a new one")
        self._process.set(self)
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        check_version()
        if not self.creates and not self._is_in_memory and not has_content(Path(self.path)):
            raise no_store(f"sqlite:///{self.path}")
        self._lock = lock = self._make_lock()
        writer = Writer(
            self.path,
            lock=lock,
            clock=self.clock,
            counters=self.counters,
            definitions=self._definitions,
        )
        try:
            writer.open()
            if not self._is_in_memory:
                self._readers = SqliteReaders(self.path)
        except BaseException:
            writer.close()
            raise
        self._writer = writer
        self._batcher = Batcher(
            writer.execute,
            exclusive=lock,
            finish=writer.close,
            counters=self.counters,
            name="perdure-write",
        )
        self._watch = None if isinstance(lock, MemoryLock) else FileWatch(lock)
        self._batcher.start()

    def _make_lock(self) -> WriteLock | MemoryLock:
        if self._is_in_memory:
            return MemoryLock(self.path)
        prepare_file(Path(self.path))
        return WriteLock(f"{self.path}-lock")

    async def close(self) -> None:
        """Finish what was handed in, then let go of the database."""
        if self._batcher is None or self._process.is_elsewhere:
            return
        if self._watch is not None:
            self._watch.close()
        # Readers first: the last to close copies the WAL back, and that is the writer's part.
        if self._readers is not None:
            await wait_off_loop(self._readers.close)
        await self._batcher.close()

    @property
    def counters(self) -> StoreCounters:
        """Return what it has done."""
        return self._counters

    @property
    def trouble(self) -> StoreUnavailableError | None:
        """See `Store`."""
        return None if self._batcher is None else self._batcher.trouble

    def change_count(self, kind: Hint) -> int:
        """Return a number that differs after another store, in any process, has given a hint."""
        return 0 if self._lock is None else self._lock.hints_of_others(kind)

    def listen_changes(self, kind: Hint, heard: Callable[[], None]) -> Callable[[], None]:
        """Have a function called whenever that number has changed, as far as the kernel tells."""
        return (lambda: None) if self._watch is None else self._watch.listen(kind, heard)

    def hears_changes(self, kind: Hint) -> bool:
        """Return whether the kernel tells of all changes."""
        return self._watch is not None and self._watch.hears(kind)

    # ------------------------------------------------- transactions of the user's

    def check_transaction(self, activity: str, *, is_async: bool) -> None:
        """Refuse a function that could not be run here."""
        if is_async:
            raise UsageError(
                f"transaction {activity!r} is async: on SQLite everybody waits until it returns, "
                "so make it a plain `def`"
            )

    async def transact(self, work: OwnWork) -> bool | None:
        """Run a function inside a transaction, and end its job in the same one."""
        if self._is_in_memory:
            result = await self.work(partial(run_beside_others, work=work))
            if isinstance(result, UsageError):
                raise result
            return result
        assert isinstance(self._lock, WriteLock), "the store is not open"
        own = OwnTransactions(
            self.path,
            clock=self.clock,
            counters=self.counters,
            changed=self._lock.count_as_ours,
        )
        is_ours: bool | None = await work.in_thread(partial(own.run, work))
        return is_ours

    def borrow(
        self, connection: object, *, errands: RunOnThread | None, ended: Callable[[], None]
    ) -> BorrowedSqliteStore:
        """Return a store on a connection of the user's, inside the transaction open there."""
        loan = SqliteLoan(connection, errands or OwnThread(), path=self.path)
        lock = self._lock
        assert isinstance(lock, WriteLock), "the store is not open"

        def announce() -> None:
            lock.announce()
            ended()

        return BorrowedSqliteStore(self, loan, announce)

    # ---------------------------------------------------------------- helpers

    def _hand_in(self, operations: Sequence[Any]) -> asyncio.Future[list[Any]]:
        assert self._batcher is not None, "the store is not open"
        self._process.refuse_elsewhere()
        return self._batcher.hand_in(operations)

    async def _submit(self, operations: Sequence[Any], patience_s: float | None) -> list[Any]:
        assert self._batcher is not None, "the store is not open"
        self._process.refuse_elsewhere()
        return await self._batcher.submit(operations, patience_s)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a function with a connection that reads one state of the database."""
        return await self._read_by(work)

    async def read_once(self, work: Callable[[Connection], T]) -> T:
        return await self._read_by(work, is_once=True)

    async def _read_row(self, work: Callable[[Connection], T]) -> T:
        if self._readers is None:
            return await self.read_once(work)
        self._process.refuse_elsewhere()
        return await self._readers.read_row(work)

    async def _read_by(self, work: Callable[[Connection], T], *, is_once: bool = False) -> T:
        self._process.refuse_elsewhere()
        if self._readers is not None:
            return await self._readers.read(work, is_once=is_once)
        # A database in memory has one connection, which belongs to the writing thread.
        return await self.work(lambda transaction: work(transaction.connection))
