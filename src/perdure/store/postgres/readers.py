"""A few threads with connections that only read, beside those that write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar
from weakref import WeakKeyDictionary

from perdure.errors import RowError, StoreError, StoreUnavailableError
from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import PIN, PostgresConnection, connect_again
from perdure.store.reading_threads import ReadingThreads

READERS = 2
"""Threads that read. More would only wait for the interpreter."""
_TRIES = 3

FIRST_PLANS_LAST_S, PLANS_LAST_S = 0.1, 10.0
"""A plan that was made while a table was nearly empty reads all of it later. So new ones are made
after as much time as a connection has been in use, at most after this."""

SEARCHES = (
    "SET {local} enable_seqscan = off;"
    " SET {local} enable_hashjoin = off;"
    " SET {local} enable_mergejoin = off;"
    " SET {local} enable_bitmapscan = off;"
    " SET {local} jit = off;"
)
"""Searches go by index, whatever the statistics say, as in a lane: of a table that was never
analyzed PostgreSQL would read all pages for one row. What has to read everything still does."""
BEGIN = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {PIN} {SEARCHES.format(local='LOCAL')}"
READ_ONLY = f"SET default_transaction_read_only = on; {SEARCHES.format(local='')}"
"""For statements that are run without a transaction around them."""

T = TypeVar("T")


class PostgresReaders:
    """Reading connections, made when they are needed, and the threads that use them."""

    def __init__(
        self, address: Address, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._address = address
        self._monotonic = monotonic
        self._threads = ReadingThreads(READERS)
        self._idle: SimpleQueue[PostgresConnection] = SimpleQueue()
        self._plans: WeakKeyDictionary[PostgresConnection, tuple[float, float]] = (
            WeakKeyDictionary()
        )
        self._is_closed = threading.Event()
        self.statements = 0

    async def read(self, work: Callable[[PostgresConnection], T], *, is_once: bool = False) -> T:
        """Run a function with a connection on one of the threads.

        Args:
            work: Reads.
            is_once: Whether it does so with one statement, which needs no transaction around it.
        """
        return await self._threads.run(self._run, work, is_once)

    def close(self) -> None:
        """Wait for what is being read, then let go of the database."""
        self._is_closed.set()
        self._threads.close()
        while not self._idle.empty():
            self._idle.get().close()

    def _run(self, work: Callable[[PostgresConnection], T], is_once: bool) -> T:
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._read(work, is_once=is_once)
            except StoreUnavailableError:
                if tries_left == 0:
                    raise
            except UnicodeError as error:
                raise RowError(f"a text cannot be stored: {error}") from error
        raise AssertionError("unreachable")

    def _read(self, work: Callable[[PostgresConnection], T], *, is_once: bool) -> T:
        connection = self._take()
        before = connection.statements
        try:
            refreshing = self._refresh_plans(connection)
            # Behind a pooler what a session was told is not what the next one knows.
            if not is_once or self._address.is_pooled:
                connection.run_script(BEGIN + refreshing)
            elif refreshing:
                connection.run_script(refreshing)
            return work(connection)
        finally:
            self._give_back(connection)
            self.statements += connection.statements - before

    def _refresh_plans(self, connection: PostgresConnection) -> str:
        """Return what makes the session forget its plans, if they are old."""
        now_s = self._monotonic()
        since_s, until_s = self._plans.get(connection, (now_s, now_s))
        if now_s < until_s:
            return ""
        lasting_s = min(max(now_s - since_s, FIRST_PLANS_LAST_S), PLANS_LAST_S)
        self._plans[connection] = (since_s, now_s + lasting_s)
        return "DISCARD PLANS"

    def _take(self) -> PostgresConnection:
        while True:
            try:
                connection = self._idle.get_nowait()
            except Empty:
                return self._connect()
            if not connection.is_broken:
                return connection
            connection.close()

    def _connect(self) -> PostgresConnection:
        connection = connect_again(self._address)
        if not self._address.is_pooled:
            connection.run_script(READ_ONLY)
        return connection

    def _give_back(self, connection: PostgresConnection) -> None:
        try:
            if connection.in_transaction():
                connection.run_script("ROLLBACK")
        except StoreError:
            connection.close()
            return
        if connection.is_broken:
            connection.close()
        else:
            self._idle.put(connection)
