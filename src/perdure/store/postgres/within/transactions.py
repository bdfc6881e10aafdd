"""Run functions of the user's own inside a transaction, and end their jobs in the same one.

The function runs first, with nothing of ours locked, so the lease of its job is renewed meanwhile
as that of any other. Then its job is ended in the same transaction, by the same code as in a batch.
If the job is not ours any more, everything is rolled back.

A connection is used by one function after another, and is reset in between.
"""

from __future__ import annotations

from importlib.util import find_spec

import asyncpg

from perdure.clock import Clock
from perdure.errors import RowError, StoreError, StoreUnavailableError, UsageError
from perdure.model.jobs import JobEnd
from perdure.store.postgres.address import Address
from perdure.store.postgres.faults import AmbiguousCommitError, from_server
from perdure.store.postgres.within.borrowed import BorrowedConnection
from perdure.store.within.own_work import end_job
from perdure.store.within.transactions import OwnWork, Undone

CONNECTIONS = 10
"""Of each driver, so many functions have one at the same time; the others wait."""
WAIT_S = 60.0
"""How long a function waits for a connection."""
IDLE_S = 60.0
"""How long a connection that is not needed is kept."""
ROLL_BACK_WITHIN_S = 5.0

BEGIN = """
SELECT
    pg_catalog.set_config('perdure.job', $1::pg_catalog.text, true),
    pg_catalog.current_setting('role')
"""
"""Marks the transaction, so that another one that the function has begun is told from it."""

END = """
SELECT
    pg_catalog.current_setting('perdure.job', true),
    pg_catalog.set_config('role', $1::pg_catalog.text, true),
    pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true),
    pg_catalog.set_config('enable_seqscan', 'off', true),
    pg_catalog.set_config('enable_hashjoin', 'off', true),
    pg_catalog.set_config('enable_mergejoin', 'off', true),
    pg_catalog.set_config('lock_timeout', '5s', true),
    pg_catalog.set_config('statement_timeout', '50s', true)
"""
"""For what is ours: the role as it was before the function, and settings as in every batch."""

RESET = """
RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; CLOSE ALL; UNLISTEN *;
SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES
"""
"""Removes what a function may have left behind, but not what the driver has prepared."""

_FAILED = "25P02"
_CONSTRAINT = "23"
_LATER = ("08", "40", "53", "57P", "58")
"""How codes begin of what keeps a function from being run now and not for ever. A statement that
was cancelled (57014) or did not get a lock (55P03) is not among them: the function sets such limits
itself."""


class Ending:
    """Ends the job of a function, in its transaction."""

    def __init__(self, address: Address, *, clock: Clock) -> None:
        self._address = address
        self._clock = clock

    def mark(self, work: OwnWork) -> str:
        """Return what marks the transaction of a function."""
        return f"{work.lease.token:x}"

    def end(self, connection: BorrowedConnection, work: OwnWork, end: JobEnd, *, role: str) -> bool:
        """End a job; return whether it was ours to end. The caller commits or rolls back.

        Raises:
            UsageError: The function has ended the transaction, or it has failed before, or a
                statement of it still runs.
        """
        try:
            [(mark, *_)] = connection.run_own(END, (role,))
        except StoreError as error:
            if code_of(error.__cause__) == _FAILED:
                raise UsageError(
                    f"a statement of {work.activity} has failed and so has its transaction: let "
                    "the error pass, or put the statement into a transaction of its own inside"
                ) from error
            if isinstance(error.__cause__, asyncpg.InterfaceError) and not connection.is_closed():
                raise UsageError(
                    f"{work.activity} still uses its connection after it has returned "
                    f"({error.__cause__}): await every statement"
                ) from error
            raise
        if mark != self.mark(work):
            raise UsageError(
                f"{work.activity} has ended the transaction itself: what it writes is committed "
                "with its result when it returns, and rolled back when it raises"
            )
        with connection.own_names():
            is_ours, _ = end_job(connection, end, clock=self._clock)
        return is_ours

    def unusable(self, work: OwnWork, *, is_lost: bool) -> StoreError | UsageError:
        """Return what it means that a function has returned and its connection is closed.

        Args:
            work: The function.
            is_lost: Whether it was not the function that closed it.
        """
        if is_lost:
            return self._lost("it is closed")
        return UsageError(f"{work.activity} has closed its connection: leave that to the worker")

    def raise_trouble(self, undone: Undone, *, is_lost: bool) -> None:
        """Raise if the function has failed because of the database, and would not fail later.

        Args:
            undone: What it raised.
            is_lost: Whether the connection was lost, and not closed by the function.
        """
        error, code = undone.error, code_of(undone.error)
        if error is None or not (is_lost or code.startswith(_LATER)):
            return
        if code and not code.startswith("08"):
            raise from_server(self._address.shown, code, str(error)) from error
        raise self._lost(error) from error

    def _lost(self, why: object) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"{self._address.shown} was lost in the midst of a transaction ({why})"
        )

    def commit_error(self, error: BaseException, *, is_lost: bool) -> StoreError:
        """Return what an error of the commit means.

        Args:
            error: What the driver raised.
            is_lost: Whether the connection is of no use any more.
        """
        code, where = code_of(error), self._address.shown
        if is_lost:
            return AmbiguousCommitError(f"{where} was lost while it committed ({error})")
        if code.startswith(_CONSTRAINT):
            # Of a constraint that is checked at the end: ours are not.
            return RowError(f"the database refused a value: {error}")
        if code:
            return from_server(where, code, str(error))
        return StoreError(f"{where}: {error}")

    def unreachable(self, error: BaseException) -> StoreError:
        """Return what it means that no connection could be made."""
        code, where = code_of(error), self._address.shown
        if code and not code.startswith("08"):
            return from_server(where, code, str(error))
        return StoreUnavailableError(f"{where} cannot be reached ({error})")

    def exhausted(self) -> StoreUnavailableError:
        """Return that all connections are in use."""
        return StoreUnavailableError(
            f"all {CONNECTIONS} connections for transactions have been in use for {WAIT_S:g} s: "
            "make the transactions shorter, or run more workers"
        )


def check_drivers(activity: str, *, is_async: bool) -> None:
    """Refuse a function whose driver is missing."""
    if not is_async and not find_spec("psycopg"):
        raise UsageError(
            f"transaction {activity!r} is a plain function, and on PostgreSQL those get a "
            "connection of psycopg; run: pip install 'psycopg[binary]>=3.2', or make it `async def`"
        )


def code_of(error: BaseException | None) -> str:
    """Return what PostgreSQL calls SQLSTATE, if an error of a driver has one."""
    code = getattr(error, "sqlstate", None)
    return code if isinstance(code, str) else ""
