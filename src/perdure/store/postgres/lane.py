"""Run a batch of operations as one transaction on a connection that writes.

What happens inside it is told in `perdure.store.sql.commits.batch`. It begins with the time of the
database and the locks of all rows that it will change, in one order.

Two writers may still be in each other's way: both insert the same row, or wait for each other. The
database then undoes one of them, which runs again at once with what is there now. If that does not
help, it runs again later; unless a row stays that it wants to insert: then something is wrong with
a value, and the batch is halved to find it.

Instances that another session has locked are put off at once. What another is about to insert
is waited for, because it cannot be seen; if that takes long, the batch is run in halves to find
what has to be put off.

A commit whose answer is lost is asked about before anything else is done: see `lost_answers`.

Turns whose rows the lane knows from its own last commits, or from what was read a moment ago
because other processes decide on the same instances, need none of these steps: one call checks
that the rows are still the same and writes, and what it finds otherwise is run in steps.

Claims are one call too, where there is nothing to choose; they are a transaction of their own then.

Turns that are thought under the lock of their instance wait for it. They have a lane of their own,
so that no other turn waits with them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from perdure.clock import Clock
from perdure.errors import RowError, StoreError, StoreUnavailableError
from perdure.ids import chance, fresh_id
from perdure.model.hints import Hint
from perdure.model.instances import part_of
from perdure.store.batching import LATER
from perdure.store.counters import StoreCounters
from perdure.store.epoch import Epoch
from perdure.store.postgres.address import Address
from perdure.store.postgres.clock import DatabaseClock
from perdure.store.postgres.connection import PIN, PostgresConnection, connect_again
from perdure.store.postgres.faults import AmbiguousCommitError, ConflictError, RowLockedError
from perdure.store.postgres.lost_answers import NOTHING, LostAnswers
from perdure.store.postgres.operations import (
    find_behind,
    is_claim,
    is_known_by_id,
    is_quiet,
    is_told_the_time,
)
from perdure.store.sql.commits.batch import Operation, Transaction, run_batch
from perdure.store.sql.commits.hints import hints_of
from perdure.store.sql.commits.learned_rows import LearnedRows
from perdure.store.sql.commits.remembered_check import (
    RememberedRowsError,
    check_remembered,
    is_switched_on,
)
from perdure.store.sql.commits.remembered_rows import RememberedRows
from perdure.store.sql.commits.rows import LoadedRows
from perdure.store.sql.commits.writes import Writes
from perdure.store.sql.definitions import Definitions
from perdure.store.sql.questions.looking import NOT_CLAIMED, TIME_MAY_DIFFER_MS, claim_at_once

logger = logging.getLogger(__name__)

TRIES = 8
"""How often a batch is run that others are in the way of."""
MAX_PAUSE_S = 0.05

LOCK_WITHIN = "2s"
"""How long a batch waits for a row that another transaction has locked."""
LOCK_SHORTLY = "50ms"
HURRY_S = 10.0
"""How long a batch waits once some have waited in vain, and for how long that goes."""

_PLANS = """
SET {local} plan_cache_mode = force_generic_plan;
SET {local} enable_seqscan = off;
SET {local} enable_hashjoin = off;
SET {local} enable_mergejoin = off;
SET {local} enable_bitmapscan = off;
SET {local} jit = off;
"""
BEGIN = f"""
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
{PIN}
{_PLANS.format(local="LOCAL")}
SET LOCAL lock_timeout = '{LOCK_WITHIN}';
SET LOCAL statement_timeout = '25s';
SET LOCAL idle_in_transaction_session_timeout = '15s';
"""
"""Searches go by index, whatever the statistics say: they are old when a table grows quickly, and a
plan that reads a whole table is only noticed when it hurts. Such plans count as dear, and would be
compiled first, which takes far longer than they do. No lane that pauses keeps locks for long.
"""
SESSION = f"""
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
{_PLANS.format(local="SESSION")}
SET statement_timeout = '25s';
"""
"""For what is called outside a transaction."""

PLANS_LAST_S = 10.0
FIRST_PLANS_LAST_ROWS = 1_000
"""A plan that was made while a table was nearly empty is a bad one soon after: new ones are made
after some seconds, and after as many rows as were written before."""


class Lane:
    """A connection that writes, and what has to be known between its transactions.

    Args:
        address: Where.
        clock: Rules leases; a `DatabaseClock` learns the time from every transaction.
        epoch: Hears which life of the database a connection is to.
        stirred: Called after a commit, with the hints that it gives to other processes.
    """

    def __init__(
        self, address: Address, *, clock: Clock, epoch: Epoch, stirred: Callable[[Hint], None]
    ) -> None:
        self.counters = StoreCounters()
        self._address = address
        self._clock = clock
        self._epoch = epoch
        self._epoch_no = epoch.number
        """The life of the database that is remembered here."""
        self._stirred = stirred
        self._definitions = Definitions(epoch)
        self._connection: PostgresConnection | None = None
        self._mark: str | None = None
        """What the server has as long as it does not crash."""
        self._lost_answers = LostAnswers()
        self._remembered = RememberedRows()
        self.learned = LearnedRows()
        self._checks_remembered = is_switched_on()
        self._hurry_until_s = 0.0
        self._plans_until_s = 0.0
        self._plans_until_rows = FIRST_PLANS_LAST_ROWS

    @property
    def connection(self) -> PostgresConnection | None:
        """The connection that it has at the moment, if any; for any thread to compare."""
        return self._connection

    def use(self, connection: PostgresConnection) -> None:
        """Take a connection that is open already."""
        connection.clock = self._clock if isinstance(self._clock, DatabaseClock) else None
        if not self._address.is_pooled:
            connection.run_script(SESSION)
        self._connection = connection
        self._remembered.forget()

    def execute(self, operations: Sequence[Any]) -> list[Any]:
        """Run operations as one transaction and return their results.

        Raises:
            StoreUnavailableError: The server cannot be reached or refuses now. What the error says
                to be unsure may have been committed: run it again.
            Exception: Some operation cannot be written, and so none was.
        """
        try:
            if self._lost_answers.is_asking:
                self._find_out()
            found = [self._lost_answers.answer(one) for one in operations]
            rest = [one for one, answer in zip(operations, found, strict=True) if answer is NOTHING]
            results = iter(self._execute(rest) if rest else ())
        except StoreUnavailableError as error:
            # Some of them may be through, and only their callers do not know.
            error.unsure = (*error.unsure, *self._lost_answers.untold)
            raise
        self._lost_answers.forget(operations)
        return [next(results) if answer is NOTHING else answer for answer in found]

    def _execute(self, operations: Sequence[Any]) -> list[Any]:
        """Run operations: claims in one call if that can be, all else as one transaction."""
        claims = [one for one in operations if is_claim(one)]
        if not claims or not self._may_claim_at_once():
            return self._execute_together(operations)
        answers: dict[int, Any] = {}
        others = [one for one in operations if not is_claim(one)]
        if others:
            self._answer(answers, others, self._execute_together(others))
        self._answer(answers, claims, self._claim_at_once(claims))
        left = [one for one in claims if answers[id(one)] is NOT_CLAIMED]
        if left:
            self._answer(answers, left, self._execute_together(left))
        return [answers[id(one)] for one in operations]

    def _answer(
        self, answers: dict[int, Any], operations: Sequence[Any], results: Sequence[Any]
    ) -> None:
        """Keep what operations of a batch came to: if the others get into trouble, these are not
        run again."""
        answers.update((id(one), result) for one, result in zip(operations, results, strict=True))
        done = [one for one in operations if answers[id(one)] is not NOT_CLAIMED]
        self._lost_answers.know(done, [answers[id(one)] for one in done])

    def _may_claim_at_once(self) -> bool:
        """Return whether claims can be made in one call now: see `_find_known`."""
        return not (self._address.is_pooled or self._hurry() or self._has_old_plans())

    def _claim_at_once(self, claims: Sequence[Operation]) -> list[Any]:
        """Claim in one call, as a transaction; what that is not for is `NOT_CLAIMED`."""
        connection = self._connected()
        before, looks = connection.statements, [one.look for one in claims if one.look]
        try:
            results = claim_at_once(
                connection,
                looks,
                now_ms=self._clock(),
                may_differ_ms=None if connection.clock is None else TIME_MAY_DIFFER_MS,
                offset=self.counters.transactions,
            )
        except BaseException as error:
            self._undo(connection)
            if self._connection is not None and isinstance(error, StoreError):
                return [NOT_CLAIMED] * len(claims)  # Nothing was leased.
            for look in looks:
                look.lose_answer()
            if isinstance(error, StoreError):
                raise AmbiguousCommitError(str(error), claims) from error
            raise
        self.counters.transactions += 1
        self.counters.operations += sum(1 for one in results if one is not NOT_CLAIMED)
        self.counters.statements += connection.statements - before
        return results

    def _execute_together(self, operations: Sequence[Any]) -> list[Any]:
        """Run operations as one transaction; in halves, if that finds which have to be put off."""
        try:
            return self._run(operations)
        except RowLockedError:
            self._hurry_until_s = time.monotonic() + HURRY_S
            if len(operations) == 1:
                return [LATER]
        middle = len(operations) // 2
        first = self._execute_together(operations[:middle])
        # If the others get into trouble, these are not run again.
        self._lost_answers.know(operations[:middle], first)
        second = operations[middle:]
        behind = find_behind(operations[:middle], first, second)
        rest = [one for one, is_behind in zip(second, behind, strict=True) if not is_behind]
        results = iter(self._execute_together(rest) if rest else ())
        return [*first, *(LATER if is_behind else next(results) for is_behind in behind)]

    def _run(self, operations: Sequence[Any]) -> list[Any]:
        for left in reversed(range(TRIES)):
            try:
                results = self._try(operations)
            except ConflictError as error:
                self.counters.retries += 1
                if left == 0 and error.may_be_ours:
                    raise RowError(str(error)) from error
                if left == 0:
                    raise
                time.sleep(chance() * MAX_PAUSE_S / (left + 1))
            else:
                self._stirred(hints_of(operations, results))
                return self._lost_answers.joined(operations, results)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Let go of the database. Harmless if it never was opened."""
        self._mark = None
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def _try(self, operations: Sequence[Any]) -> list[Any]:
        connection = self._connected()
        before = connection.statements
        results = self._run_as_one_statement(connection, operations)
        if results is None:
            results = self._run_in_steps(connection, operations)
        self.counters.transactions += 1
        self.counters.operations += len(operations)
        self.counters.statements += connection.statements - before
        return results

    def _run_as_one_statement(
        self, connection: PostgresConnection, operations: Sequence[Any]
    ) -> list[Any] | None:
        """Decide on the rows that are known, and write in one call if they are still the same.

        None: that cannot be done, and nothing was written.
        """
        known = self._find_known(operations)
        if known is None:
            return None
        writes = Writes(locks=True)
        transaction = Transaction(
            writes, self._definitions, self._clock(), self.counters.transactions, known=known
        )
        live = [
            (row.part, row.instance_id, row.writer, row.last_commit) for row in known.live.values()
        ]
        jobs = [(part_of(key.instance_id), *key, job.token) for key, job in known.jobs.items()]
        xid = None
        try:
            results, rows = run_batch(transaction, operations)
            if writes.kept and transaction.decided.has_started_assumed():
                xid = connection.write_known(writes, live, jobs)
        except (StoreError, UnicodeError) as error:
            # Something is not as it was thought to be, or cannot be written. In steps the culprit
            # is found.
            self._undo(connection)
            if self._connection is None:
                raise AmbiguousCommitError(str(error), operations) from error
        except BaseException:
            self._undo(connection)
            raise
        if xid is None:
            self._remembered.was_wrong(known)
            return None
        self._remembered.was_right()
        self._remembered.keep(transaction.decided, xid)
        self._check_remembered(connection)
        self.counters.rows += rows
        return results

    def _find_known(self, operations: Sequence[Any]) -> LoadedRows | None:
        """Return the rows that operations touch, if they need not be loaded.

        What turns send to streams is written by statements of its own, in steps.

        A transaction whose id was not heard cannot be asked about. So this is for what is
        recognised when it is run again: turns, by their commit ids in the history. Behind a
        pooler a statement is prepared and run on one connection only within a transaction.
        """
        if self._address.is_pooled or self._hurry() or self._has_old_plans():
            return None
        if not all(map(is_known_by_id, operations)):
            return None
        self.learned.hand_over(operations, self._remembered, epoch_no=self._epoch_no)
        return self._remembered.find(operations)

    def _run_in_steps(self, connection: PostgresConnection, operations: Sequence[Any]) -> list[Any]:
        """Begin a transaction, run operations in it, and commit."""
        connection.xid, mark = None, self._mark
        try:
            connection.run_script(BEGIN + self._hurry() + self._refresh_plans())
            transaction = Transaction(
                connection,
                self._definitions,
                self._now(connection, operations),
                self.counters.transactions,
                waits=False,
            )
            results, rows = run_batch(transaction, operations)
            connection.send_writes()
            if connection.xid is None and not all(map(is_quiet, operations)):
                [(connection.xid,)] = connection.run("read_xid")
        except BaseException as error:
            self._undo(connection)
            if isinstance(error, UnicodeError):
                raise RowError(f"a text cannot be stored: {error}") from error
            raise
        try:
            self._commit(connection)
        except StoreUnavailableError as error:
            if self._connection is not None:
                raise
            self._lost_answers.keep(connection.xid, mark, operations, results)
            raise AmbiguousCommitError(str(error), operations) from error
        self._definitions.keep_fresh()
        self.counters.rows += rows
        if transaction.commit is not None and connection.xid is not None:
            self._remembered.keep(transaction.commit, connection.xid)
            if transaction.has_worked:
                # It may have changed the same rows, in the same transaction.
                self._remembered.forget_these(transaction.commit.rows)
            self._check_remembered(connection)
        return results

    def _check_remembered(self, connection: PostgresConnection) -> None:
        """Compare what is remembered with what is stored, where that is asked for."""
        if not self._checks_remembered:
            return
        try:
            check_remembered(self._remembered, connection, by="read_remembered")
        except (RememberedRowsError, StoreError):
            # What was committed is told whatever comes of it.
            logger.exception("what is remembered could not be confirmed")
            self._undo(connection)

    def _hurry(self) -> str:
        """Return what lets a transaction not wait for long, if others have waited in vain."""
        if time.monotonic() >= self._hurry_until_s:
            return ""
        return f"SET LOCAL lock_timeout = '{LOCK_SHORTLY}';"

    def _refresh_plans(self) -> str:
        """Return what makes the session forget its plans, if they are old."""
        if not self._has_old_plans():
            return ""
        self._plans_until_s = time.monotonic() + PLANS_LAST_S
        self._plans_until_rows = max(2 * self.counters.rows, FIRST_PLANS_LAST_ROWS)
        return "DISCARD PLANS;"

    def _has_old_plans(self) -> bool:
        is_late = time.monotonic() >= self._plans_until_s
        return is_late or self.counters.rows >= self._plans_until_rows

    def _commit(self, connection: PostgresConnection) -> None:
        try:
            connection.commit()
        except StoreError:
            self._undo(connection)
            raise

    def _find_out(self) -> None:
        """Ask what became of a commit whose answer was lost."""
        self._lost_answers.find_out(self._connected(), self._mark)
        # It was perhaps committed, and the callers were not told.
        self._stirred(Hint.BOTH)

    def _now(self, connection: PostgresConnection, operations: Sequence[Any]) -> int:
        if connection.clock is None or all(map(is_told_the_time, operations)):
            return self._clock()
        [(now_ms,)] = connection.run("read_now")
        return connection.clock.learn(now_ms)

    def _connected(self) -> PostgresConnection:
        if self._connection is not None and self._connection.is_broken:
            self.close()
        if self._connection is None:
            connection = connect_again(self._address)
            try:
                self.use(connection)
            except StoreError:
                connection.close()
                raise
        assert self._connection is not None
        if self._mark is None:
            self._mark = self._read_mark(self._connection)
            self._epoch.meet(self._mark)
        if self._epoch_no != self._epoch.number:
            self._epoch_no = self._epoch.number
            self._remembered.forget()
        return self._connection

    def _read_mark(self, connection: PostgresConnection) -> str | None:
        """Return what the server has as long as it does not crash, if that can be told now."""
        try:
            connection.run_script(f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {PIN}")
            # A statement that waited for another process to make it does not see it: the next does.
            found = connection.run("read_mark", mark=fresh_id())
            found = found or connection.run("read_mark", mark=fresh_id())
            connection.run_script("COMMIT")
        except StoreError:
            self.close()
            raise
        return found[0][0] if found else None

    def _undo(self, connection: PostgresConnection) -> None:
        self._remembered.forget()
        self._definitions.forget_fresh()
        connection.forget_writes()
        try:
            if connection.in_transaction():
                connection.run_script("ROLLBACK")
        except StoreError:
            self.close()
        if connection.is_broken:
            self.close()
