"""A store in PostgreSQL, for many workers on many machines.

One lane writes, a connection with a thread of its own: every operation that waits goes into its
next transaction (see `lane`). What may have to wait for others has a lane beside it, and a few
other connections read.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

from perdure.clock import Clock, system_clock
from perdure.errors import StoreError, StoreUnavailableError
from perdure.ids import fresh_name
from perdure.model.hints import Hint
from perdure.model.instances import DefinitionKey, LiveRow
from perdure.model.turns import (
    ClaimedTurn,
    Departed,
    Neighbour,
    Presences,
    TurnClaim,
    WorkerRow,
)
from perdure.store.base import NotPermittedError, Store
from perdure.store.batching import Batcher
from perdure.store.counters import StoreCounters
from perdure.store.locked_turns import KnownInstance, LockedTurn, News
from perdure.store.observing import observable
from perdure.store.off_loop import wait_off_loop
from perdure.store.postgres.address import Address
from perdure.store.postgres.allowed_statements import PostgresApproval
from perdure.store.postgres.clock import DatabaseClock
from perdure.store.postgres.connection import PostgresConnection
from perdure.store.postgres.database import prepare
from perdure.store.postgres.lane import Lane
from perdure.store.postgres.notifications import Notifications
from perdure.store.postgres.presence import attend, key_of, presences_in
from perdure.store.postgres.readers import PostgresReaders
from perdure.store.postgres.within.arrivals import Arrivals
from perdure.store.postgres.within.async_transactions import AsyncTransactions
from perdure.store.postgres.within.borrowed_store import (
    BorrowedPostgresStore,
    DatabasePlace,
    lend,
    read_place,
)
from perdure.store.postgres.within.threaded_transactions import ThreadedTransactions
from perdure.store.postgres.within.transactions import Ending, check_drivers
from perdure.store.sql.claims import TurnClaiming
from perdure.store.sql.commits.batch import Operation, Transaction
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import unpack
from perdure.store.sql.questions.reading import live_row
from perdure.store.sql.store import SqlStore
from perdure.store.within.borrowing import RunOnThread
from perdure.store.within.transactions import OwnWork

MAIN = 0
"""The lane of all that need not wait for other transactions."""
ARRIVALS = 1
"""The lane that moves what users' transactions have sent: it may wait for such a transaction, and
other readers shall not wait with it. It connects when it is needed."""
LOCKED = 2
"""The lane of turns that are thought under the lock of their instance: it waits for that lock. It
connects when it is needed."""
LANES = ("perdure-write", "perdure-arrivals", "perdure-locked")
"""Their threads."""
NUMBER_AT_ONCE = 10_000
"""Events of the feed that get their positions in one transaction."""

T = TypeVar("T")


@observable(Store)
class PostgresStore(SqlStore):
    """See `perdure.store.base.Store`; what is said there is not repeated here.

    Args:
        address: Where it is.
        clock: Rules leases and visibility. The system's clock stands for the database's.
    """

    is_server = True

    def __init__(self, address: Address, *, clock: Clock) -> None:
        is_real = clock is system_clock
        super().__init__(
            clock=DatabaseClock() if is_real else clock, approval=PostgresApproval(address)
        )
        self.address = address
        self.knows_connections = not address.is_pooled
        self._attended: PostgresConnection | None = None
        """The connection of the main lane by which the worker's lock was taken, or tried."""
        self._numbers_not_in: int | None = None
        """The epoch in which it was refused to number the feed."""
        self._presence: int | None = None
        """The worker's lock."""
        self._lanes: list[Lane] = []
        self._batchers: list[Batcher] = []
        self._readers = PostgresReaders(address)
        self._notifications = Notifications(address, own=fresh_name())
        ending = Ending(address, clock=self.clock)
        self._async_transactions = AsyncTransactions(
            address, ending, committed=self._notifications.stir
        )
        self._threaded_transactions = ThreadedTransactions(
            address, ending, committed=self._notifications.stir
        )
        self._arrivals = Arrivals(address, self._notifications, self._work_on_arrivals)
        self._place: DatabasePlace | None = None
        self.known_connections: WeakSet[Any] = WeakSet()
        """Connections of users that were seen to be to this database."""
        self._is_opened = False
        # Held while threads are started: `close` wants them no more before that, or after.
        self._starting = threading.Lock()
        self._is_unwanted = False

    # --------------------------------------------------------------- lifetime

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        if self._is_opened:
            raise StoreError("the store was opened before; make a new one")
        self._is_opened = True
        self._process.set(self)
        try:
            await asyncio.to_thread(self._open)
        except asyncio.CancelledError:
            # The thread goes on, and what it opens would stay open.
            with self._starting:
                self._is_unwanted = True
            await self.close()
            raise
        except BaseException:
            self._is_opened = False  # Nothing was: it can be tried again.
            raise

    def _open(self) -> None:
        is_real = isinstance(self.clock, DatabaseClock)
        connection = PostgresConnection(self.address)
        try:
            prepare(
                connection,
                self.address,
                now_ms=None if is_real else self.clock(),
                creates=self.creates,
            )
            if isinstance(self.clock, DatabaseClock):
                [(now_ms,)] = connection.run("read_now")
                self.clock.learn(now_ms)
            with self._starting:
                if self._is_unwanted:
                    raise StoreError("the store was closed while it was opened")
                self._start(connection)
        except BaseException:
            connection.close()
            raise

    def _start(self, connection: PostgresConnection) -> None:
        for name in LANES:
            lane = Lane(
                self.address, clock=self.clock, epoch=self.epoch, stirred=self._notifications.stir
            )
            self._lanes.append(lane)
            self._batchers.append(
                Batcher(
                    lane.execute,
                    exclusive=nullcontext(),
                    finish=lane.close,
                    counters=lane.counters,
                    name=name,
                )
            )
        self._lanes[MAIN].use(connection)
        for batcher in self._batchers:
            batcher.start()
        self._notifications.start()

    async def close(self) -> None:
        """Finish what was handed in, then let go of the database."""
        if not self._batchers or self._process.is_elsewhere:
            return
        await self._arrivals.close()
        await self._async_transactions.close()
        await wait_off_loop(self._threaded_transactions.close)
        await asyncio.gather(*(batcher.close() for batcher in self._batchers))
        await wait_off_loop(self._readers.close)
        await wait_off_loop(self._notifications.close)

    def change_count(self, kind: Hint) -> int:
        """See `Store`."""
        return self._notifications.count(kind)

    def listen_changes(self, kind: Hint, heard: Callable[[], None]) -> Callable[[], None]:
        """Have a function called whenever that number has changed."""
        return self._notifications.listen(kind, heard)

    def hears_changes(self, kind: Hint) -> bool:
        """Return true: the number changes when that is told, and never otherwise."""
        return True

    @property
    def counters(self) -> StoreCounters:
        """Return what the lanes have done together."""
        total = StoreCounters()
        for lane in self._lanes:
            total.add(lane.counters)
        return total

    @property
    def trouble(self) -> StoreUnavailableError | None:
        """See `Store`."""
        return next((one.trouble for one in self._batchers if one.trouble), None)

    async def read_news(self, known: Sequence[KnownInstance]) -> list[News]:
        """Return what is new of instances; the lane of their turns hears of it too."""
        epoch_no = self.epoch.number
        found = await super().read_news(known)
        for live, *_, writer in found:
            if live is not None and writer is not None:
                self._learn(live, writer, epoch_no)
        return found

    def _learn(self, live: LiveRow, writer: str, epoch_no: int) -> None:
        self._lanes[MAIN].learned.learn(live, writer, epoch_no=epoch_no)

    # ------------------------------------------------- that workers are connected

    async def beat(self, worker: WorkerRow, *, is_first: bool = False) -> list[Neighbour]:
        """Record a worker's sign of life, and hold its lock."""
        others = await super().beat(worker, is_first=is_first)
        if self.knows_connections and self._lanes[MAIN].connection is not self._attended:
            self._attended, self._presence = await self.work(
                lambda t: self._attend(t.connection, worker), is_quiet=True
            )
            self._notifications.attend(partial(key_of, self.address.schema, worker))
        return others

    def _attend(
        self, connection: Connection, worker: WorkerRow
    ) -> tuple[PostgresConnection, int | None]:
        assert isinstance(connection, PostgresConnection), "a lane has no other"
        return connection, attend(connection, self.address.schema, worker)

    async def retire(self, worker_id: str) -> None:
        """Remove a worker that stops, and its claim to be the home of instances."""
        await super().retire(worker_id)
        if self._presence is not None:
            await self.forget_presence(self._presence)

    async def read_presences(self) -> Presences:
        """Return of which workers the server knows that they are connected no more."""
        [(found,)] = await self.read_once(lambda c: c.run("read_presences"))
        return presences_in(self.address.schema, unpack(found))

    async def forget_presence(self, key: int) -> None:
        """Forget the lock of a worker that is no more."""
        await self.work(lambda t: t.connection.run("forget_presence", key=key), is_quiet=True)

    def _is_departed(self, connection: Connection, departed: Departed) -> bool:
        worker_id, host, pid, started_ms, _, _, life, key = departed
        found = connection.run(
            "lock_departed",
            worker_id=worker_id,
            host=host,
            pid=pid,
            started_ms=started_ms,
            life=life,
            key=key,
        )
        return bool(found)

    # ------------------------------------------- what users' transactions have sent

    async def claim_turns(self, claim: TurnClaim) -> list[ClaimedTurn]:
        """Lease instances with something to do, and count the attempt."""
        await self._arrivals.move_hinted()
        return await super().claim_turns(claim)

    async def _claim_turns(self, claiming: TurnClaiming) -> list[ClaimedTurn]:
        epoch_no = self.epoch.number
        turns = await super()._claim_turns(claiming)
        # So that the turn after it need not load them: it is one call.
        for instance_id, writer, *columns in claiming.leased:
            self._learn(live_row(instance_id, columns), writer, epoch_no)
        return turns

    async def _work_on_arrivals(
        self,
        run: Callable[[Transaction], T],
        *,
        patience_s: float | None = None,
        is_quiet: bool = False,
    ) -> T:
        if not self._batchers:
            raise StoreError("the store is not open")
        [result] = await self._batchers[ARRIVALS].submit([Operation(run, is_quiet)], patience_s)
        value: T = result
        return value

    async def next_wake_ms(self, definitions: Sequence[int], queues: Sequence[int]) -> int | None:
        """Return when the next turn or job of these becomes claimable; None for never."""
        at_ms = await super().next_wake_ms(definitions, queues)
        if at_ms == 0:
            # We were not told of them.
            self._notifications.has_arrivals = True
        return at_ms

    # ------------------------------------------------- transactions of the user's

    def borrow(
        self, connection: object, *, errands: RunOnThread | None, ended: Callable[[], None]
    ) -> BorrowedPostgresStore:
        """Return a store on a connection of the user's, inside the transaction open there."""
        return BorrowedPostgresStore(self, lend(connection, errands, self.address), self._arrivals)

    async def place(self) -> DatabasePlace:
        """Return what tells this database from others."""
        if self._place is None:
            self._place = await self.read(lambda c: read_place(c, self.address))
        if self._place is None:
            raise StoreError(f"{self.address.shown} has lost its tables")
        return self._place

    def written_within(self, xid: str, *, has_sent: bool) -> None:
        """A transaction of a user's has written something that others may want to know of."""
        self._notifications.stir_after(xid, has_sent=has_sent)

    async def intern_early(self, key: DefinitionKey) -> None:
        """Give a definition its number before a user's transaction needs it."""
        [number] = await self.intern([key])
        self._definitions.learn(number, key)

    def check_transaction(self, activity: str, *, is_async: bool) -> None:
        """Refuse a function that could not be run here."""
        check_drivers(activity, is_async=is_async)

    async def transact(self, work: OwnWork) -> bool | None:
        """Run a function inside a transaction, and end its job in the same one."""
        if work.is_async:
            return await self._async_transactions.run(work)
        is_ours: bool | None = await work.in_thread(partial(self._threaded_transactions.run, work))
        return is_ours

    # ---------------------------------------------------------------- helpers

    async def _number_feed(self) -> None:
        """Give positions to what was committed since the last time. A role that only reads leaves
        that to others: to it, the feed ends where they have come to."""
        epoch = self.epoch.number
        if self._numbers_not_in == epoch:
            return  # Each refusal is an error in the log of the database.
        try:
            await self.work(_number_feed, is_quiet=True)
        except NotPermittedError:
            self._numbers_not_in = epoch

    def _hand_in(self, operations: Sequence[Any]) -> asyncio.Future[list[Any]]:
        return self._batcher_of(operations).hand_in(operations)

    async def _submit(self, operations: Sequence[Any], patience_s: float | None) -> list[Any]:
        return await self._batcher_of(operations).submit(operations, patience_s)

    def _batcher_of(self, operations: Sequence[Any]) -> Batcher:
        """Return where operations go: they are handed in by kind."""
        if not self._batchers:
            raise StoreError("the store is not open")
        self._process.refuse_elsewhere()
        is_locked = bool(operations) and isinstance(operations[0], LockedTurn)
        return self._batchers[LOCKED if is_locked else MAIN]

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a function with a connection that reads one state of the database."""
        self._process.refuse_elsewhere()
        return await self._readers.read(work)

    async def read_once(self, work: Callable[[Connection], T]) -> T:
        self._process.refuse_elsewhere()
        return await self._readers.read(work, is_once=True)


def _number_feed(transaction: Transaction) -> None:
    while True:
        [(moved,)] = transaction.connection.run("number_feed", limit=NUMBER_AT_ONCE)
        if moved < NUMBER_AT_ONCE:
            return
