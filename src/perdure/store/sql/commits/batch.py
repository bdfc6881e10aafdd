"""Run a batch of operations inside one transaction.

Locked turns are thought first. Then come changes of instances, these turns among them: load the
rows they touch, decide in memory, flush. Then whatever is a statement of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from perdure.model.instances import NewInstance, before_its_end
from perdure.model.jobs import JobEnd
from perdure.model.messages import Delivery
from perdure.model.turns import Hold, Turn, TurnReceipt, TurnStatus
from perdure.store.batching import LATER
from perdure.store.locked_turns import LockedTurn
from perdure.store.sql.commits.commit import Commit
from perdure.store.sql.commits.flush import flush
from perdure.store.sql.commits.rows import LoadedRows, ids_of, load
from perdure.store.sql.connection import Connection
from perdure.store.sql.definitions import Definitions
from perdure.store.sql.locking import PutOffError
from perdure.store.sql.questions import reading
from perdure.store.sql.questions.looking import Look, look_together
from perdure.store.sql.questions.news import find_held, think_locked


class Transaction(msgspec.Struct):
    """What a statement-shaped operation works with."""

    connection: Connection
    definitions: Definitions
    now_ms: int
    """When it began; from its first load on, when that was over."""
    number: int
    """Counts transactions; claims begin with another definition each time."""
    waits: bool = True
    """Whether a batch waits for instances that another transaction has locked. If not, what touches
    them comes back as `LATER`."""
    known: LoadedRows | None = None
    """The rows that the changes of instances touch, if they need not be loaded."""
    count_changes: Callable[[], int] | None = None
    """Returns how many rows were changed so far, where that can be asked."""
    commit: Commit | None = None
    """What was decided about instances, if the batch changes any."""
    has_worked: bool = False
    """Whether `Operation` has changed rows, or may have."""
    only_claims: bool = False
    """Whether nothing follows the changes of instances but claims, which do not change what another
    of them has taken."""

    @property
    def decided(self) -> Commit:
        """What was decided about instances, by a batch that changes some."""
        assert self.commit is not None, "the batch changes no instance"
        return self.commit


@dataclass(slots=True, frozen=True)
class Operation:
    """An operation that runs its own statements, after the batch's changes were flushed."""

    run: Callable[[Transaction], Any]
    is_quiet: bool = False
    """Whether no other process wants to know of it: leases, signs of life."""
    is_news: bool = False
    """Whether it concerns those alone who wait for news."""
    look: Look | None = None
    """What it asks before it runs, together with others of the batch."""
    if_twice: Callable[[Any, Any], Any] | None = None
    """Makes one answer of two, if it has to be run again and the first time may have counted: see
    `perdure.store.sql.twice`. None: the second is as good."""


def run_batch(transaction: Transaction, operations: Sequence[Any]) -> tuple[list[Any], int]:
    """Run operations; return their results and how many rows of instances were written."""
    results: list[Any] = [None] * len(operations)
    changes = [
        (index, operation)
        for index, operation in enumerate(operations)
        if type(operation) is not Operation and type(operation) is not LockedTurn
    ]
    if len(changes) == len(operations):
        return results, _change(transaction, changes, results) if changes else 0
    locked = [(index, one) for index, one in enumerate(operations) if type(one) is LockedTurn]
    waiting = {index: one for index, one in locked if one.is_waiting}
    held = think_locked(transaction.connection, list(waiting.values())) if waiting else None
    # What was thought before, in a transaction that has to be run again, is what it was.
    changes += [(index, one.turn) for index, one in locked if one.turn is not None]
    if held is not None and transaction.known is None:
        transaction.known = find_held([change for _, change in changes], held)
    rows = _change(transaction, changes, results) if changes else 0
    for index in waiting:
        if results[index] is LATER:
            # Another instance that it touches is locked. It was thought just now, so it never
            # happened; to wait with it would only make it old.
            results[index] = TurnReceipt(TurnStatus.REFUSED)
    _work(transaction, operations, results)
    return results, rows


def _work(transaction: Transaction, operations: Sequence[Any], results: list[Any]) -> None:
    work = [one for one in operations if type(one) is Operation]
    looks = [one.look for one in work if one.look is not None]
    transaction.only_claims = len(looks) == len(work)
    if looks:
        now_ms = transaction.now_ms
        transaction.now_ms = look_together(transaction.connection, looks, now_ms=now_ms)
    count = transaction.count_changes
    before = None if count is None else count()
    for index, operation in enumerate(operations):
        if type(operation) is Operation:
            try:
                results[index] = operation.run(transaction)
            except PutOffError:
                results[index] = LATER
    transaction.has_worked = count is None or count() != before


def _put_off(
    changes: Sequence[tuple[int, Any]], busy: Container[str], results: list[Any]
) -> list[tuple[int, Any]]:
    """Leave out what touches instances that another transaction has locked."""
    rest = []
    for index, change in changes:
        if any(instance_id in busy for instance_id in ids_of(change)):
            results[index] = LATER
        else:
            rest.append((index, change))
    return rest


def _change(
    transaction: Transaction, changes: Sequence[tuple[int, Any]], results: list[Any]
) -> int:
    """Load, decide, flush. Returns how many rows were written."""
    connection, definitions = transaction.connection, transaction.definitions
    rows = transaction.known
    if rows is None:
        rows = load(connection, [change for _, change in changes], waits=transaction.waits)
    if connection.loaded_at_ms is not None:
        transaction.now_ms = connection.loaded_at_ms
    if rows.busy:
        changes = _put_off(changes, rows.busy, results)
    commit = transaction.commit = Commit(
        rows,
        partial(definitions.number, connection),
        partial(definitions.kind, connection),
        now_ms=transaction.now_ms,
    )
    decide: dict[type, Callable[[Any], Any]] = {
        Turn: commit.commit_turn,
        NewInstance: commit.start,
        Delivery: commit.inboxes.deliver,
        JobEnd: commit.end_job,
        Hold: commit.hold,
    }
    taken: list[int] = []
    for index, change in changes:
        result = decide[type(change)](change)
        if type(change) is not NewInstance:
            results[index] = result
        elif not result:
            taken.append(index)
    written = flush(connection, commit, now_ms=transaction.now_ms, alone=len(changes) == 1)
    if taken:
        ids = [change.instance_id for index, change in changes if index in set(taken)]
        for index, row in zip(taken, reading.read_instances(connection, ids), strict=True):
            has_met = row is not None and row.instance_id in commit.met_alive
            # It may have ended later in this batch; the caller is told how it was met.
            results[index] = before_its_end(row) if row is not None and has_met else row
    return written
