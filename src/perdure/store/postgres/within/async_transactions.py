"""Transactions of async functions, on connections of asyncpg that belong to the worker's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import asyncpg

from perdure.errors import StoreError
from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import ANSWER_WITHIN_S, CONNECT_WITHIN_S, KeptConnection
from perdure.store.postgres.faults import TROUBLE
from perdure.store.postgres.within.borrowed import BorrowedAsyncpg, is_closed
from perdure.store.postgres.within.transactions import (
    BEGIN,
    CONNECTIONS,
    IDLE_S,
    RESET,
    ROLL_BACK_WITHIN_S,
    WAIT_S,
    Ending,
)
from perdure.store.within.errands import beside_loop
from perdure.store.within.transactions import Done, OwnWork, Undone

CLOSE_WITHIN_S = 5.0


class AsyncTransactions:
    """Runs async functions. Belongs to the loop of the first one."""

    def __init__(self, address: Address, ending: Ending, *, committed: Callable[[], None]) -> None:
        """Prepare; nothing is connected yet.

        Args:
            address: Where.
            ending: Ends their jobs.
            committed: Hears of each commit.
        """
        self._address = address
        self._ending = ending
        self._committed = committed
        self._opening = asyncio.Lock()
        self._is_closed = False
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None

    async def run(self, work: OwnWork) -> bool | None:
        """Run a function and end its job; see `TransactionStore.transact`."""
        pool = await self._opened()
        connection = await self._take(pool)
        try:
            return await self._run(connection, work)
        finally:
            # Whatever the function has come to: it is not the connection's trouble afterwards.
            with suppress(*TROUBLE):
                await pool.release(connection, timeout=ROLL_BACK_WITHIN_S)

    async def close(self) -> None:
        """Let go of all connections; of those in use, when a moment has passed."""
        self._is_closed = True
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S):
                await pool.close()
        except TROUBLE:
            pool.terminate()

    # ------------------------------------------------------------- a transaction

    async def _run(self, connection: Any, work: OwnWork) -> bool | None:
        transaction = connection.transaction()
        try:
            role = await self._begin(connection, transaction, work)
            is_ours = await self._call(connection, work, role)
        except BaseException:
            await self._roll_back(connection, transaction)
            raise
        if is_ours:
            await self._commit(connection, transaction)
            self._committed()
        else:
            await self._roll_back(connection, transaction)
        return is_ours

    async def _begin(self, connection: Any, transaction: Any, work: OwnWork) -> str:
        """Begin, and return the role that does."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await transaction.start()
                found = await connection.fetchrow(BEGIN, self._ending.mark(work))
        except TROUBLE as error:
            raise self._ending.unreachable(error) from error
        role: str = found[1]
        return role

    async def _call(self, connection: Any, work: OwnWork, role: str) -> bool | None:
        """Call the function, and end its job if it has returned."""
        goodbyes = connection.goodbyes
        done: Done = await work.run(connection)
        is_lost = is_closed(connection) and not goodbyes
        if isinstance(done, Undone):
            if not work.is_stopped():
                self._ending.raise_trouble(done, is_lost=is_lost)
            return None
        if is_closed(connection):
            raise self._ending.unusable(work, is_lost=is_lost)
        loop = asyncio.get_running_loop()
        borrowed = BorrowedAsyncpg(connection, loop=loop, address=self._address)
        borrowed.is_undone = True
        end = partial(self._ending.end, borrowed, work, done, role=role)
        return await beside_loop(end, borrowed.cancel)

    async def _commit(self, connection: Any, transaction: Any) -> None:
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await transaction.commit()
        except asyncio.CancelledError:
            connection.terminate()
            raise
        except Exception as error:
            is_lost = is_closed(connection) or isinstance(error, TimeoutError | OSError)
            await self._roll_back(connection, transaction)
            raise self._ending.commit_error(error, is_lost=is_lost) from error

    @staticmethod
    async def _roll_back(connection: Any, transaction: Any) -> None:
        """Undo everything; hang up if that cannot be had."""
        try:
            if not is_closed(connection):
                async with asyncio.timeout(ROLL_BACK_WITHIN_S):
                    await transaction.rollback()
        except TROUBLE:
            connection.terminate()

    # ------------------------------------------------------------- connections

    async def _opened(self) -> asyncpg.Pool[asyncpg.Record]:
        async with self._opening:
            if self._is_closed:
                raise StoreError("the store is closed")
            if self._pool is None:
                is_pooled = self._address.is_pooled
                self._pool = await asyncpg.create_pool(
                    self._address.dsn,
                    min_size=0,
                    max_size=CONNECTIONS,
                    max_inactive_connection_lifetime=IDLE_S,
                    reset=_leave_as_it_is if is_pooled else _reset,
                    connection_class=_Lent,
                    timeout=CONNECT_WITHIN_S,
                    statement_cache_size=0 if is_pooled else 100,
                    server_settings={} if is_pooled else {"application_name": "perdure"},
                )
            return self._pool

    async def _take(self, pool: asyncpg.Pool[asyncpg.Record]) -> Any:
        try:
            return await pool.acquire(timeout=WAIT_S)
        except TimeoutError as error:
            if pool.get_idle_size() == 0 and pool.get_size() >= CONNECTIONS:
                raise self._ending.exhausted() from error
            raise self._ending.unreachable(error) from error
        except TROUBLE as error:
            raise self._ending.unreachable(error) from error


class _Lent(KeptConnection):
    """A connection that tells whether its user has closed it. Otherwise it was lost."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.goodbyes: list[str] = []
        """Outlives the connection, which the pool takes away when it is closed."""

    async def close(self, **settings: Any) -> None:
        """See `asyncpg.Connection`."""
        self.goodbyes.append("close")
        await super().close(**settings)


async def _reset(connection: Any) -> None:
    await connection.execute(RESET)


async def _leave_as_it_is(_: object) -> None:
    """Behind a pooler the session is not ours to reset."""
