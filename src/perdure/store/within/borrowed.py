"""A store that does everything on a connection of the user's, inside the transaction open there.

What is written through it is there if the user commits, and was never there if not. So nothing of
it is remembered: neither numbers of definitions, which another definition may get after a rollback,
nor anything else.

Each write is a part of the transaction that can be undone by itself. A value that the database
refuses, or another transaction that was faster, does not spoil what the user has done so far.

Only what adds to the store can be done here, and reading. Deleting, claiming and the like are
refused.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from perdure.errors import RowError, StoreError, UsageError
from perdure.model.hints import Hint
from perdure.model.instances import DefinitionKey, InstanceRow, NewInstance
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.turns import Turn
from perdure.store.counters import StoreCounters
from perdure.store.sql.commits.batch import Transaction, run_batch
from perdure.store.sql.connection import Connection
from perdure.store.sql.definitions import Definitions
from perdure.store.sql.questions import reading
from perdure.store.sql.store import SqlStore
from perdure.store.within.borrowing import SentMessages, UnwrittenError
from perdure.store.within.transactions import OwnWork

T = TypeVar("T")


class Loan(ABC):
    """A connection of the user's, and where it may be used."""

    @abstractmethod
    async def use(self, work: Callable[[Connection], T]) -> T:
        """Run a function with the connection.

        Raises:
            UsageError: It has no open transaction, or is not one to the store's database.
        """

    def cancel(self) -> None:
        """Break off what runs now. One that blocks its thread cannot be."""
        return


class BorrowedSqlStore(SqlStore):
    """See above.

    Args:
        outer: The store of whose database the connection is one.
        loan: The connection.
    """

    locks_turns = False

    def __init__(self, outer: SqlStore, loan: Loan) -> None:
        super().__init__(clock=self._time_ms, approval=outer.feed.approval)
        self._outer = outer
        self.seen_ms = 0
        """The newest time that something was written with."""
        self._loan = loan
        self._one_at_a_time = asyncio.Lock()
        self._is_revoked = False

    @property
    @abstractmethod
    def sent(self) -> SentMessages | None:
        """What was sent through this one, while that may not have arrived yet."""

    async def lock(self, instance_id: str) -> None:
        """Keep an instance as it is until the end of the transaction, to decide an input of it.
        What was sent to it before is in its inbox then."""

    def revoke(self) -> None:
        """Break off what runs now, and use the connection no more."""
        self._is_revoked = True
        self._loan.cancel()

    def go_on(self) -> None:
        """Use the connection again: nothing that was broken off still runs."""
        self._is_revoked = False

    def _time_ms(self) -> int:
        # What was just written must be due, also if this process knows the database's time badly.
        return max(self._outer.clock(), self.seen_ms)

    # --------------------------------------------------------------- lifetime

    async def open(self) -> None:
        """Do nothing: it is open as long as the transaction is."""

    async def close(self) -> None:
        """Do nothing: the connection is the user's."""

    def change_count(self, kind: Hint) -> int:
        """Return a number that never changes: there is nothing to wait for in here."""
        return 0

    @property
    def counters(self) -> StoreCounters:
        """Return nothing: what is not committed is not counted."""
        return StoreCounters()

    # ----------------------------------------------------------------- writes

    @property
    def trouble(self) -> None:
        """See `Store`. Here each call is told by itself."""

    async def start(
        self, instances: Sequence[NewInstance], *, patience_s: float | None = None
    ) -> list[InstanceRow | None]:
        """Start instances whose first turn is a worker's claim; None means started."""
        return await self._write(lambda t: run_batch(t, instances)[0])

    async def deliver(
        self, deliveries: Sequence[Delivery], *, patience_s: float | None = None
    ) -> list[DeliveryStatus]:
        """Put messages into inboxes."""
        return await self._write(lambda t: run_batch(t, deliveries)[0])

    async def add(self, run: Callable[[Transaction], T], *, patience_s: float | None = None) -> T:
        """Run a function that only adds to the store, in a part of the transaction."""
        return await self._write(run)

    def _hand_in(self, operations: Sequence[Any]) -> asyncio.Future[list[Any]]:
        if not all(type(one) is Turn for one in operations):
            _refuse()
        return asyncio.ensure_future(self._commit(operations))

    async def _commit(self, turns: Sequence[Turn]) -> list[Any]:
        try:
            return await self._write(lambda t: run_batch(t, turns)[0])
        except RowError as error:
            return [error] * len(turns)
        except (StoreError, UsageError) as error:
            unwritten = UnwrittenError(error)
            unwritten.__cause__ = error
            return [unwritten] * len(turns)

    async def _write(self, work: Callable[[Transaction], T]) -> T:
        """Run a function in a part of the transaction."""
        return await self._use(lambda connection: self._in_part(connection, work))

    @abstractmethod
    def _in_part(self, connection: Connection, work: Callable[[Transaction], T]) -> T:
        """Run a function so that all of it can be undone."""

    def _try_part(
        self,
        connection: Connection,
        work: Callable[[Transaction], T],
        definitions: Definitions,
        now_ms: int,
    ) -> T:
        connection.run("begin_part")
        try:
            result = work(Transaction(connection, definitions, now_ms, 0))
            connection.run("end_part")
        except BaseException as error:
            # If the connection is gone, so is the part.
            with suppress(StoreError):
                connection.forget_writes()
                connection.run("undo_part")
                connection.run("end_part")
            if isinstance(error, UnicodeError):
                raise RowError(f"a text cannot be stored: {error}") from error
            raise
        return result

    # ---------------------------------------------------------------- reading

    async def definition(self, definition_no: int) -> DefinitionKey:
        """Return the definition behind a number. What is read here is not remembered."""
        known = self._outer._definitions.known(definition_no)
        key = known or await self.read(lambda c: reading.read_definition(c, definition_no))
        if key is None:
            raise StoreError(f"there is no definition number {definition_no}")
        return key

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a function with a connection that reads one state of the database."""
        return await self._use(work)

    async def _use(self, work: Callable[[Connection], T]) -> T:
        async with self._one_at_a_time:
            if self._is_revoked:
                raise StoreError("the call was cancelled")
            return await self._loan.use(work)

    # ------------------------------------------------------- not in a transaction

    async def _submit(self, operations: Sequence[Any], patience_s: float | None) -> list[Any]:
        _refuse()

    def check_transaction(self, activity: str, *, is_async: bool) -> None:
        """Refuse: there is no worker in here."""
        _refuse()

    async def transact(self, work: OwnWork) -> bool | None:
        """Refuse: there is no worker in here."""
        _refuse()

    def borrow(self, connection: object, **_: Any) -> NoReturn:
        """Refuse: it is borrowed already."""
        _refuse()


class PartDefinitions(Definitions):
    """Numbers of definitions in one part of a transaction: those that were committed, and those
    that the part gives, which are forgotten with it."""

    def __init__(self, committed: Definitions) -> None:
        super().__init__()
        self._committed = committed

    def number(self, connection: Connection, key: DefinitionKey) -> int:
        """Return the number of a definition."""
        return self._committed.known_number(key) or super().number(connection, key)

    def number_all(self, connection: Connection, keys: Iterable[DefinitionKey]) -> None:
        """Do nothing: what is new gets its number when that is asked for."""

    def kind(self, connection: Connection, definition_no: int) -> str:
        """Return what kind of definition is behind a stored number."""
        key = self._committed.known(definition_no)
        return super().kind(connection, definition_no) if key is None else key.kind


def _refuse() -> NoReturn:
    raise UsageError(
        "inside a transaction of your own you can start, send, execute and read; do anything else "
        "with the client itself, before or after the transaction"
    )
