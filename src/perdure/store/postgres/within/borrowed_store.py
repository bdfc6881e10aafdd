"""The store on a connection to its database that is the user's.

Rows that the user's transaction has changed are locked until it ends, and others that want to
change them waits. So as little as possible is changed:

- What is sent is put on its way: see `arrivals`.
- A start inserts. An id that is taken is only read.
- A decision locks its instance, and those that it sends to.
- A definition that has no number yet gets one outside the transaction, or all who meet the same one
  for the first time would wait.

Other processes are told when it has ended: see `notifications`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from perdure.errors import StoreUnavailableError, UsageError
from perdure.model.instances import (
    DECIDER,
    DefinitionKey,
    InstanceRow,
    LiveRow,
    NewInstance,
    part_of,
)
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.store.postgres.address import Address
from perdure.store.postgres.clock import DatabaseClock
from perdure.store.postgres.faults import ConflictError
from perdure.store.postgres.within.arrivals import Arrivals, let_arrive, put_on_the_way
from perdure.store.postgres.within.borrowed import (
    BorrowedAsyncpg,
    BorrowedAsyncPsycopg,
    BorrowedConnection,
    BorrowedPsycopg,
)
from perdure.store.sql.commits.batch import Transaction, run_batch
from perdure.store.sql.connection import Connection
from perdure.store.sql.definitions import Definitions
from perdure.store.sql.packing import pack, unpack
from perdure.store.sql.questions import reading
from perdure.store.within.borrowed import BorrowedSqlStore, Loan, PartDefinitions
from perdure.store.within.borrowing import RunOnThread, SentMessages
from perdure.store.within.errands import OwnThread, beside_loop
from perdure.store.within.unwrapping import (
    ASYNC_PSYCOPG,
    ASYNCPG,
    PSYCOPG,
    Unwrapped,
    describe,
    is_of_loop,
    unwrap,
    unwrap_of_loop,
)

if TYPE_CHECKING:
    from perdure.store.postgres.store import PostgresStore

TRIES = 5
"""How often a part is run that others are in the way of."""

T = TypeVar("T")


class DatabasePlace(NamedTuple):
    """What tells one database from another."""

    database: str
    number: int
    born_ms: int


def read_place(connection: Connection, address: Address) -> DatabasePlace | None:
    """Return in which database a connection is; None if it is none of ours."""
    table = f"{address.quoted_schema}.migrations"
    [(database, number, is_ours)] = connection.run("read_place", table_name=table)
    if not is_ours:
        return None
    [(born_ms,)] = connection.run("read_birth")
    return DatabasePlace(database, number, born_ms)


def lend(connection: object, errands: RunOnThread | None, address: Address) -> _PostgresLoan:
    """Return a connection of the user's as one that can be used.

    Raises:
        UsageError: It cannot.
    """
    if not is_of_loop(connection):
        return _BlockingLoan(connection, errands or OwnThread(), address)
    if errands is not None:
        raise UsageError(
            f"{describe(connection)} belongs to an event loop: use it with Client and await, or "
            "give this client a blocking connection, of psycopg 3 or SQLAlchemy"
        )
    return _LoopLoan(connection, address)


class _PostgresLoan(Loan):
    def __init__(self, connection: object, address: Address) -> None:
        self._given = connection
        self._address = address
        self.bare: Any = None
        """The driver's connection, once it was used."""

    def _checked(self, given: Unwrapped, connection: BorrowedConnection) -> BorrowedConnection:
        if connection.is_closed():
            raise StoreUnavailableError(
                f"{describe(self._given)} is closed, and what was not committed is gone: begin "
                "again with another connection"
            )
        if not connection.in_transaction():
            how = "with" if given.kind == PSYCOPG else "async with"
            raise UsageError(
                f"{describe(self._given)} has no open transaction: do it inside "
                f"`{how} connection.transaction():`, and without autocommit"
            )
        self.bare = given.connection
        return connection

    def _refuse(self, given: Unwrapped) -> UsageError:
        return UsageError(
            f"{describe(given.connection)} is no connection to {self._address.shown} that can be "
            "used here"
        )


class _BlockingLoan(_PostgresLoan):
    """A blocking connection, used on the thread that it belongs to."""

    def __init__(self, connection: object, errands: RunOnThread, address: Address) -> None:
        super().__init__(connection, address)
        self._errands = errands

    async def use(self, work: Callable[[Connection], T]) -> T:
        """See `Loan`."""
        return await self._errands.do(lambda: _work(self._open(), work))

    def _open(self) -> BorrowedConnection:
        given = unwrap(self._given)
        if given.kind != PSYCOPG:
            raise self._refuse(given)
        return self._checked(given, BorrowedPsycopg(given.connection, address=self._address))


class _LoopLoan(_PostgresLoan):
    """A connection that belongs to the running loop."""

    def __init__(self, connection: object, address: Address) -> None:
        super().__init__(connection, address)
        self._used: BorrowedAsyncpg | BorrowedAsyncPsycopg | None = None

    async def use(self, work: Callable[[Connection], T]) -> T:
        """See `Loan`."""
        connection = self._used = await self._open()
        try:
            return await beside_loop(lambda: _work(connection, work), connection.cancel)
        finally:
            self._used = None

    def cancel(self) -> None:
        """See `Loan`."""
        if self._used is not None:
            self._used.cancel()

    async def _open(self) -> BorrowedAsyncpg | BorrowedAsyncPsycopg:
        given = await unwrap_of_loop(self._given)
        if given.kind not in (ASYNCPG, ASYNC_PSYCOPG):
            raise self._refuse(given)
        kind = BorrowedAsyncpg if given.kind == ASYNCPG else BorrowedAsyncPsycopg
        loop = asyncio.get_running_loop()
        connection = kind(given.connection, loop=loop, address=self._address)
        self._checked(given, connection)
        return connection


def _work(connection: BorrowedConnection, work: Callable[[Connection], T]) -> T:
    with connection.own_names():
        return work(connection)


class UnnumberedError(Exception):
    """A definition has no number yet."""

    def __init__(self, key: DefinitionKey) -> None:
        super().__init__(key.name)
        self.key = key


class _Numbered(PartDefinitions):
    """Gives no numbers: see the module."""

    def number(self, connection: Connection, key: DefinitionKey) -> int:
        number = self._committed.known_number(key)
        if number is None:
            raise UnnumberedError(key)
        return number


class _TakenError(Exception):
    """Another instance has the id."""

    def __init__(self, row: InstanceRow) -> None:
        super().__init__(row.instance_id)
        self.row = row


@dataclass(frozen=True, slots=True)
class _OnTheWay:
    """See `SentMessages`."""

    arrivals: Arrivals
    xid: str

    async def arrive(self, instance_id: str) -> bool:
        """See `SentMessages`."""
        return await self.arrivals.arrive(instance_id, self.xid)


class BorrowedPostgresStore(BorrowedSqlStore):
    """See `BorrowedSqlStore`.

    Args:
        outer: The store.
        loan: The connection.
        arrivals: Moves what is sent, after the commit.
    """

    def __init__(self, outer: PostgresStore, loan: _PostgresLoan, arrivals: Arrivals) -> None:
        super().__init__(outer, loan)
        self._postgres = outer
        self._lent = loan
        self._arrivals = arrivals
        self._sent: SentMessages | None = None

    @property
    def sent(self) -> SentMessages | None:
        """See `BorrowedSqlStore`."""
        return self._sent

    async def lock(self, instance_id: str) -> None:
        """See `BorrowedSqlStore`."""
        await self._write(lambda t: let_arrive(t, instance_id))

    # ----------------------------------------------------------------- writes

    async def start(
        self, instances: Sequence[NewInstance], *, patience_s: float | None = None
    ) -> list[InstanceRow | None]:
        """Start instances whose first turn is leased already; None means started."""
        return [await self._start(instance) for instance in instances]

    async def _start(self, new: NewInstance) -> InstanceRow | None:
        [existing] = await self.read_instances([new.instance_id])
        if existing is None and new.definition.kind == DECIDER:
            # An input for an instance that is not there, or not yet: others may be sending too.
            await self._send([new])
            return None
        if existing is None:
            existing = await self._insert(new)
        if existing is not None and new.messages and not existing.status.is_terminal:
            await self._send(new.messages)
        return existing

    async def _insert(self, new: NewInstance) -> InstanceRow | None:
        """Start an instance; return the row of the one that has its id by now, if there is one."""

        def insert(transaction: Transaction) -> None:
            [taken], _ = run_batch(transaction, [new])
            if taken is not None:
                # Undone: another instance's row must not stay locked.
                raise _TakenError(taken)

        try:
            await self._write(insert)
        except _TakenError as taken:
            return taken.row
        return None

    async def deliver(
        self, deliveries: Sequence[Delivery], *, patience_s: float | None = None
    ) -> list[DeliveryStatus]:
        """Put messages on their way, and tell what would become of them now."""
        statuses = await self.read(lambda c: _foresee(c, deliveries))
        wanted = [
            delivery
            for delivery, status in zip(deliveries, statuses, strict=True)
            if status in (DeliveryStatus.DELIVERED, DeliveryStatus.BUFFERED)
        ]
        if wanted:
            await self._send(wanted)
        return statuses

    async def _send(self, sent: Sequence[Delivery | NewInstance]) -> None:
        xid = await self._write(lambda t: put_on_the_way(t, sent), sends=True)
        self._sent = _OnTheWay(self._arrivals, xid)

    async def _write(self, work: Callable[[Transaction], T], *, sends: bool = False) -> T:
        def told(transaction: Transaction) -> T:
            result = work(transaction)
            [(xid,)] = transaction.connection.run("read_xid")
            self._postgres.written_within(xid, has_sent=sends)
            return result

        while True:
            try:
                return await super()._write(told)
            except UnnumberedError as unknown:
                await self._postgres.intern_early(unknown.key)

    def _in_part(self, connection: Connection, work: Callable[[Transaction], T]) -> T:
        definitions: Definitions = _Numbered(self._outer._definitions)
        for left in reversed(range(TRIES)):
            try:
                return self._try_part(connection, work, definitions, self._now(connection))
            except ConflictError:
                if left == 0:
                    raise
        raise AssertionError("unreachable")

    def _now(self, connection: Connection) -> int:
        clock = self._outer.clock
        if not isinstance(clock, DatabaseClock):
            return clock()
        [(database_ms,)] = connection.run("read_now")
        now_ms = clock.learn(database_ms)
        self.seen_ms = max(self.seen_ms, now_ms)
        return now_ms

    # ------------------------------------------------------------- the database

    async def _use(self, work: Callable[[Connection], T]) -> T:
        place = await self._postgres.place()

        def checked(connection: Connection) -> T:
            self._check_place(connection, place)
            return work(connection)

        return await super()._use(checked)

    def _check_place(self, connection: Connection, place: DatabasePlace) -> None:
        known = self._postgres.known_connections
        # Some cannot be remembered: the proxies of a pool.
        with suppress(TypeError):
            if self._lent.bare in known:
                return
        found = read_place(connection, self._postgres.address)
        if found != place:
            there = "where perdure has no tables" if found is None else found.database
            raise UsageError(
                f"the connection is to another database ({there}) than the store, "
                f"{self._postgres.address.shown} with schema {self._postgres.address.schema}: "
                "both must be the same to be written in one transaction"
            )
        with suppress(TypeError):
            known.add(self._lent.bare)


def _foresee(connection: Connection, deliveries: Sequence[Delivery]) -> list[DeliveryStatus]:
    """Return what would become of messages now. Locks nothing."""
    ids = [delivery.instance_id for delivery in deliveries]
    lives = reading.read_lives(connection, ids)
    rows = reading.read_instances(connection, ids)
    keys = [(part_of(one.instance_id), one.instance_id, one.message_id) for one in deliveries]
    [(text,)] = connection.run("load_receipts", keys=pack(keys))
    known = {key for key, *_ in unpack(text)}
    return [
        DeliveryStatus.DUPLICATE if place in known else _status(delivery, live, row)
        for place, (delivery, live, row) in enumerate(zip(deliveries, lives, rows, strict=True))
    ]


def _status(delivery: Delivery, live: LiveRow | None, row: InstanceRow | None) -> DeliveryStatus:
    if live is not None and live.definition_no is not None:
        is_meant = delivery.incarnation in (
            None,
            live.stamp.incarnation,
        ) and delivery.execution in (0, live.stamp.execution)
        return DeliveryStatus.DELIVERED if is_meant else DeliveryStatus.ABSENT
    if row is not None:
        is_meant = delivery.incarnation in (None, row.incarnation)
        return DeliveryStatus.ENDED if is_meant else DeliveryStatus.ABSENT
    is_kept = delivery.incarnation is None and delivery.if_absent == "buffer"
    return DeliveryStatus.BUFFERED if is_kept else DeliveryStatus.ABSENT
