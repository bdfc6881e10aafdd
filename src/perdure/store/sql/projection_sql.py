"""Running a projection's statements inside a transaction of the store.

They share a connection and a transaction with the store's own statements, so they are looked at
before: see `Approval`.

A failing handler must not disturb others that share the transaction: what it wrote is rolled back
to where it began. On PostgreSQL a handler has failed as soon as one of its statements has, however
it takes it. Trouble that has ended the transaction itself cannot be kept from the others: it is
raised once more when the handler has returned.

A handler whose time is over can run no more statements, and the one that runs is ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import Any, NamedTuple, Protocol

from perdure.errors import (
    RowError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
    UsageError,
)
from perdure.model.tables import FeedWork, Parameters
from perdure.store.sql.commits.batch import Transaction
from perdure.store.sql.connection import Connection
from perdure.store.sql.questions.feed import advance_feed

RESERVED_TABLES = "perdure_"
"""What tables that later versions of perdure add are named with, so that no user has them."""


class WorkDone(NamedTuple):
    """What came of a function that was run on the user's tables."""

    pos: int = 0
    error: Exception | None = None


class Approval(Protocol):
    """Says which statements a projection may run."""

    goes_on_after_errors: bool
    """Whether a handler may catch the error of a statement and go on. If not, PostgreSQL runs none
    of its statements any more until all it wrote is undone."""

    def begin(self, connection: Connection, name: str, *, from_pos: int, defining: bool) -> str:
        """Make a connection ready for a handler; what is returned is handed to `end`.

        Args:
            connection: In a part of its transaction, which is undone if this raises.
            name: Of the projection.
            from_pos: Up to where it has handled events.
            defining: Whether it sets itself up.

        Raises:
            RowError: There is no place for its tables.
        """
        ...

    def end(self, connection: Connection, begun: str) -> None:
        """Make a connection as it was before a handler that has not failed."""
        ...

    def translate(self, text: str, parameters: Parameters) -> tuple[str, Parameters]:
        """Return a statement and its values as the database has them.

        Raises:
            UsageError: A value is missing.
        """
        ...

    def check(
        self, connection: Connection, text: str, parameters: Parameters, *, defining: bool
    ) -> None:
        """Refuse a statement that a projection may not run.

        Raises:
            UsageError: It would do more than read and change the user's own tables, or, when
                `defining`, make them.
        """
        ...

    def forget(self) -> None:
        """Ask again: tables or triggers have changed."""
        ...


class OwnTables:
    """See `perdure.model.tables.Tables`."""

    def __init__(
        self,
        connection: Connection,
        approval: Approval,
        *,
        within_s: float | None,
        defining: bool,
    ) -> None:
        self._connection: Connection | None = connection
        self._approval = approval
        self._within_s = within_s
        self._until_s = None if within_s is None else monotonic() + within_s
        self._defining = defining
        connection.set_deadline(self._until_s)
        self.trouble: StoreError | None = None
        """What ended the transaction, or may end with it."""
        self.failed: StoreError | None = None
        """The error of a statement after which the handler cannot go on."""

    def execute(self, sql: str, parameters: Parameters = (), /) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        connection = self._open()
        sql, parameters = self._approval.translate(sql, parameters)
        try:
            self._approval.check(connection, sql, parameters, defining=self._defining)
            return connection.run_own(sql, parameters)
        except StoreError as error:
            self._note(connection, error)
            self._check_time(error)
            raise

    def execute_many(self, sql: str, rows: Iterable[Parameters], /) -> None:
        """Run one statement once per row of parameters."""
        connection = self._open()
        ready = [self._approval.translate(sql, row) for row in rows]
        if not ready:
            return
        [(text, first), *_] = ready
        try:
            self._approval.check(connection, text, first, defining=self._defining)
            connection.run_own_many(text, [row for _, row in ready])
        except StoreError as error:
            self._note(connection, error)
            self._check_time(error)
            raise

    def close(self) -> None:
        """Refuse writes from here on."""
        if self._connection is not None:
            self._connection.set_deadline(None)
            self._connection = None
        if self._defining:
            self._approval.forget()

    def _open(self) -> Connection:
        if self._connection is None:
            raise UsageError(
                "the tables of a projection can be used only while its handler runs: do not keep "
                "them for later"
            )
        for error in (self.trouble, self.failed):
            if error is not None:
                raise error
        self._check_time(None)
        return self._connection

    def _is_late(self) -> bool:
        return self._until_s is not None and monotonic() >= self._until_s

    def _check_time(self, error: StoreError | None) -> None:
        """Say that the time is over, in place of an error that comes of it."""
        if self._is_late():
            raise TimeoutError(
                f"a projection may use its tables for {self._within_s:g} s at a time"
            ) from error

    def _note(self, connection: Connection, error: StoreError) -> None:
        if isinstance(error, StoreUnavailableError | StoreCorruptError):
            self.trouble = error
        elif not connection.in_transaction() and self._is_late():
            self.trouble = RowError(
                "a statement of a projection was ended because its time was over, and with it the "
                "transaction that it shares with others"
            )
        elif not connection.in_transaction():
            self.trouble = RowError(
                f"a statement of a projection rolled back the transaction it shares with others "
                f"({error}); use ON CONFLICT ABORT, the default, in place of ON CONFLICT ROLLBACK"
            )
        elif not self._approval.goes_on_after_errors:
            self.failed = error


def work_feed(
    transaction: Transaction,
    approval: Approval,
    name: str,
    *,
    lease: int,
    from_pos: int,
    work: FeedWork,
    within_s: float | None,
    defining: bool,
) -> WorkDone | None:
    """Run a function on the user's tables and move a checkpoint to the position it returns.

    None: the lease is lost or the checkpoint stands elsewhere; the function was not called. If the
    function raises, nothing of it stays.

    Raises:
        StoreError: The whole transaction is in trouble.
    """
    connection, now_ms = transaction.connection, transaction.now_ms

    def moved(to_pos: int) -> bool:
        return advance_feed(
            connection, name, lease=lease, from_pos=from_pos, to_pos=to_pos, now_ms=now_ms
        )

    connection.run("begin_part")
    done = None
    if moved(from_pos):
        done = _run_on_tables(
            connection,
            approval,
            name,
            from_pos=from_pos,
            work=work,
            within_s=within_s,
            defining=defining,
        )
        if done.error is not None:
            connection.run("undo_part")
        elif done.pos != from_pos and not moved(done.pos):
            raise RowError(f"projection {name!r} would move from {from_pos} back to {done.pos}")
    connection.run("end_part")
    return done


def _run_on_tables(
    connection: Connection,
    approval: Approval,
    name: str,
    *,
    from_pos: int,
    work: FeedWork,
    within_s: float | None,
    defining: bool,
) -> WorkDone:
    try:
        begun = approval.begin(connection, name, from_pos=from_pos, defining=defining)
    except RowError as error:
        return WorkDone(error=error)
    done = _run(OwnTables(connection, approval, within_s=within_s, defining=defining), work)
    if done.error is None:
        # Otherwise undone with what it wrote.
        approval.end(connection, begun)
    return done


def _run(tables: OwnTables, work: FeedWork) -> WorkDone:
    try:
        done = WorkDone(work(tables))
    except Exception as error:
        done = WorkDone(error=error)
    except BaseException as error:
        # Not even `sys.exit` in a handler may end the thread that writes for all.
        done = WorkDone(error=UsageError(f"a projection raised {type(error).__name__}"))
    finally:
        tables.close()
    if tables.trouble is not None:
        raise tables.trouble
    if tables.failed is not None and done.error is None:
        return WorkDone(error=tables.failed)
    return done
