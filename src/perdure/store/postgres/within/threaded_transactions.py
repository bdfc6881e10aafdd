"""Transactions of plain functions, each on a thread of the worker, on connections of psycopg."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import ASK_EVERY_S, ASK_TIMES, CONNECT_WITHIN_S, REST_S
from perdure.store.postgres.within.borrowed import BorrowedPsycopg
from perdure.store.postgres.within.transactions import (
    BEGIN,
    CONNECTIONS,
    IDLE_S,
    RESET,
    WAIT_S,
    Ending,
)
from perdure.store.within.transactions import Done, OwnWork, Undone

if TYPE_CHECKING:
    import psycopg

_STILL_WITHIN_S = 0.1


class ThreadedTransactions:
    """Runs plain functions. May be used by any thread."""

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
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        # Guards those below.
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []
        """Those that were given back last come last."""
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def run(self, work: OwnWork) -> bool | None:
        """Run a function and end its job; see `TransactionStore.transact`. Blocks the thread."""
        if not self._free.acquire(timeout=WAIT_S):
            raise self._ending.exhausted()
        try:
            connection = self._take()
            own = _ThreadTransaction(connection, work, self._ending, self._address)
            try:
                is_ours = own.run()
            finally:
                own.end()
                self._give_back(connection)
        finally:
            self._free.release()
        if is_ours:
            self._committed()
        return is_ours

    def close(self) -> None:
        """Let go of the connections that are not in use; the others when they are given back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            if self._timer is not None:
                self._timer.cancel()
        for one in idle:
            one.connection.close()

    # ------------------------------------------------------------- connections

    def _take(self) -> psycopg.Connection[Any]:
        import psycopg  # optional dependency

        with self._lock:
            if self._idle:
                return self._idle.pop().connection
        try:
            return psycopg.connect(
                self._address.dsn,
                autocommit=True,
                connect_timeout=int(CONNECT_WITHIN_S),
                keepalives_idle=REST_S,
                keepalives_interval=ASK_EVERY_S,
                keepalives_count=ASK_TIMES,
                tcp_user_timeout=(REST_S + ASK_EVERY_S * ASK_TIMES) * 1000,
                application_name="perdure",
                prepare_threshold=None if self._address.is_pooled else 5,
            )
        except psycopg.Error as error:
            raise self._ending.unreachable(error) from error

    def _give_back(self, connection: psycopg.Connection[Any]) -> None:
        import psycopg  # optional dependency

        if not connection.closed and not self._address.is_pooled:
            try:
                connection.execute(RESET)
            except psycopg.Error:
                connection.close()
        with self._lock:
            if not self._is_closed and not connection.closed:
                self._idle.append(_Idle(connection, monotonic()))
                self._close_idle_later()
                return
        connection.close()

    def _close_idle_later(self) -> None:
        """Look in a while for connections that are not needed. The lock is held."""
        if self._timer is None and self._idle and not self._is_closed:
            self._timer = threading.Timer(IDLE_S, self._close_idle)
            self._timer.daemon = True
            self._timer.start()

    def _close_idle(self) -> None:
        with self._lock:
            self._timer = None
            since_s = monotonic() - IDLE_S
            old = [one for one in self._idle if one.since_s <= since_s]
            self._idle = [one for one in self._idle if one.since_s > since_s]
            self._close_idle_later()
        for one in old:
            one.connection.close()


class _Idle(NamedTuple):
    connection: psycopg.Connection[Any]
    since_s: float


class _ThreadTransaction:
    """One transaction under way, and who may still use its connection."""

    def __init__(
        self, connection: psycopg.Connection[Any], work: OwnWork, ending: Ending, address: Address
    ) -> None:
        self._connection = connection
        self._work = work
        self._ending = ending
        self._borrowed = BorrowedPsycopg(connection, address=address)
        self._transaction = connection.transaction()
        self._is_open = False
        # The first to take it decides: the function has returned, or it was given up.
        self._fate = threading.Lock()
        self._is_given_up = False
        self._is_ending = False

    # -------------------------------------- on the thread that runs the function

    def run(self) -> bool | None:
        """Run the function and end its job."""
        role = self._begin()
        self._work.stop_by(self._give_up)
        if self._work.is_stopped():
            return None
        done: Done = self._work.run(self._connection)
        with self._fate:
            self._is_ending = True
        if self._is_given_up:
            return None
        # One that the function has closed itself is not broken.
        is_lost = self._connection.broken
        if isinstance(done, Undone):
            if not self._work.is_stopped():
                self._ending.raise_trouble(done, is_lost=is_lost)
            return None
        if self._connection.closed:
            raise self._ending.unusable(self._work, is_lost=is_lost)
        is_ours = self._ending.end(self._borrowed, self._work, done, role=role)
        if is_ours:
            self._commit()
        return is_ours

    def end(self) -> None:
        """Roll back what is not committed."""
        import psycopg  # optional dependency

        with self._fate:
            self._is_ending = True
        if self._is_open and not self._connection.closed:
            rollback = psycopg.Rollback()
            try:
                self._transaction.__exit__(type(rollback), rollback, None)
            except psycopg.Error:
                self._connection.close()

    def _begin(self) -> str:
        import psycopg  # optional dependency

        try:
            self._transaction.__enter__()
            self._is_open = True
            [(_, role)] = self._borrowed.run_own(BEGIN, (self._ending.mark(self._work),))
        except psycopg.Error as error:
            raise self._ending.unreachable(error) from error
        text: str = role
        return text

    def _commit(self) -> None:
        import psycopg  # optional dependency

        try:
            self._is_open = False
            self._transaction.__exit__(None, None, None)
        except psycopg.Error as error:
            is_lost = self._connection.closed
            if not is_lost:
                self._connection.close()
            raise self._ending.commit_error(error, is_lost=is_lost) from error

    # --------------------------------------------------------------- on any thread

    def _give_up(self) -> None:
        """End the connection, and with it the transaction, whatever the function does just then."""
        with self._fate:
            if self._is_ending:
                return
            self._is_given_up = True
        # The driver holds this lock while a statement runs.
        while not self._connection.lock.acquire(timeout=_STILL_WITHIN_S):
            with suppress(Exception):
                self._connection.cancel_safe(timeout=CONNECT_WITHIN_S)
        try:
            self._connection.close()
        finally:
            self._connection.lock.release()
