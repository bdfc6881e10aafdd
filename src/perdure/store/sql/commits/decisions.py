"""Decide, in memory, what becomes of the part of a turn that only deciders have.

What always holds: an input with an id is decided once (S32), because a turn that decides one again
is refused; a business key of a scope has one holder, the first that asked; an event is in the feed
exactly if it is in the history.
"""

from __future__ import annotations

from perdure.errors import RowError
from perdure.model.instances import part_of
from perdure.model.turns import Turn, TurnReceipt, TurnStatus, UniqueKey
from perdure.store.sql.commits.changes import Changes, ObservationRow, SnapshotRow
from perdure.store.sql.commits.row_types import FeedValues, ReceiptValues
from perdure.store.sql.commits.rows import RANK_START, LiveState, LoadedRows, ReceiptState, mark_of

_REFUSED = TurnReceipt(TurnStatus.REFUSED)


class Decisions:
    """The share of deciders in one batch."""

    def __init__(self, rows: LoadedRows, changes: Changes) -> None:
        self._rows = rows
        self._changes = changes

    def obstacle(self, turn: Turn) -> TurnReceipt | None:
        """Return why a turn cannot be accepted although it has the right to commit."""
        receipts = self._rows.receipts
        inputs = [receipt.input_id for receipt in turn.receipts if not receipt.keeps_first]
        stored = [receipts.get((turn.instance_id, input_id)) for input_id in inputs]
        is_decided = any(receipt is not None and receipt.is_decided for receipt in stored)
        if is_decided or len(set(inputs)) < len(inputs):
            return _REFUSED
        for passed in turn.passed_keys:
            holder = self._rows.holders.get(passed)
            if holder not in (None, turn.instance_id):
                return TurnReceipt(TurnStatus.KEY_TAKEN, holder=holder, passed_key=passed.key)
        if turn.unique is not None:
            holder = self._rows.holders.get(turn.unique)
            if holder not in (None, turn.instance_id):
                return TurnReceipt(TurnStatus.KEY_TAKEN, holder=holder)
        return None

    def keep(self, turn: Turn, row: LiveState, first_seq: int) -> None:
        """Take over what an accepted turn brings, after its events were appended."""
        changes = self._changes.decisions
        changes.is_there = True
        self._keep_outcomes(turn, row.part, row)
        if turn.unique is not None:
            self._take_key(turn.unique, row)
        if turn.snapshot is not None:
            changes.snapshots[row.instance_id] = SnapshotRow(
                row.part,
                row.incarnation,
                row.execution,
                row.next_seq - 1,
                turn.now_ms,
                turn.snapshot,
            )
        assert row.definition_no is not None
        for index, tag, version, cause, correlation in turn.feed:
            if not 0 <= index < len(turn.events):
                raise RowError(f"{row.instance_id!r} feeds event {index} of {len(turn.events)}")
            place = (row.part, row.instance_id, row.incarnation, row.execution, first_seq + index)
            origin = (version, cause, correlation)
            changes.feed.append(FeedValues(*place, row.definition_no, tag, *origin))

    def _keep_outcomes(self, turn: Turn, part: int, row: LiveState | None) -> None:
        """Keep what inputs came to and what was observed of them."""
        changes = self._changes.decisions
        changes.is_there = True
        for input_id, outcome, _ in turn.receipts:
            earlier = self._rows.receipts.get((turn.instance_id, input_id))
            if earlier is not None and earlier.is_decided:
                continue  # The first outcome stays.
            if row is not None and earlier is not None and earlier.no not in turn.consumed:
                self._drop_message(row, earlier.no)
            self._rows.receipts[turn.instance_id, input_id] = ReceiptState(None, is_decided=True)
            changes.outcomes[part, turn.instance_id, input_id] = outcome
        if turn.observations:
            last = self._rows.observed.get(turn.instance_id, 0)
            for no, seen in enumerate(turn.observations, start=last + 1):
                changes.observations.append(
                    ObservationRow(part, turn.instance_id, no, turn.now_ms, seen)
                )
            self._rows.observed[turn.instance_id] = last + len(turn.observations)

    def _drop_message(self, row: LiveState, no: int | None) -> None:
        """Remove an input that waits in the inbox and was decided on another way."""
        if no is not None:
            self._changes.consumed.append((row.part, row.instance_id, no))
            row.messages = [message for message in row.messages if message.no != no]

    # --------------------------------------------------------- business keys

    def _take_key(self, unique: UniqueKey, row: LiveState) -> None:
        holders, changes = self._rows.holders, self._changes.decisions
        if holders.get(unique) == row.instance_id:
            return
        self._forget_keys(row.instance_id, unique.scope)
        changes.keys_freed[row.instance_id, unique.scope] = None
        if unique.key is not None:
            holders[unique] = row.instance_id
            changes.keys_taken[unique] = (row.instance_id, row.incarnation)

    def free_keys(self, row: LiveState) -> None:
        """Free all keys of an instance that ends."""
        changes = self._changes.decisions
        changes.is_there = True
        changes.holders_gone.append((row.part, row.instance_id))
        self._forget_keys(row.instance_id, None)

    def _forget_keys(self, instance_id: str, scope: str | None) -> None:
        holders, taken = self._rows.holders, self._changes.decisions.keys_taken
        for unique, holder in list(holders.items()):
            if holder == instance_id and scope in (None, unique.scope):
                del holders[unique]
                taken.pop(unique, None)

    # -------------------------------------------------------------- vanishing

    def has_vanished(self, turn: Turn) -> bool:
        """Return whether this very turn has made its instance vanish before."""
        return (turn.instance_id, mark_of(turn)) in self._rows.receipts

    def vanish(self, turn: Turn, row: LiveState | None) -> bool:
        """Remove an instance whose first turn accepted nothing, unless there is more for it.

        If there are messages that the turn has not taken, those it has taken go and the start
        stays: the next turn is the first one again. Returns whether the instance is gone.
        """
        if turn.stamp.next_seq != 1 or turn.job_ends:
            raise RowError(f"{turn.instance_id!r} has had turns and cannot vanish")
        if turn.start is not None and turn.start.messages:
            raise RowError(f"{turn.instance_id!r} cannot vanish with messages nobody has taken")
        part = part_of(turn.instance_id)
        self._keep_outcomes(turn, part, row)
        if row is not None and self._has_more(turn, row):
            return False
        # Nothing else would tell that the turn was accepted, if it is sent again.
        self._rows.receipts[turn.instance_id, mark_of(turn)] = ReceiptState(None)
        self._changes.receipts.append(ReceiptValues(part, turn.instance_id, mark_of(turn), None))
        if row is not None:
            self._remove(row)
        return True

    def _has_more(self, turn: Turn, row: LiveState) -> bool:
        """Drop messages that a turn has taken, but not the start; return whether some are left."""
        ranks = {**self._rows.waiting.get(row.instance_id, {})}
        ranks.update((message.no, message.rank) for message in row.messages)
        taken = {no for no in turn.consumed if ranks.get(no) != RANK_START}
        taken.update(no for _, owner, no in self._changes.consumed if owner == row.instance_id)
        self._changes.consumed += [(row.part, row.instance_id, no) for no in sorted(taken)]
        row.messages = [message for message in row.messages if message.no not in taken]
        return any(no not in taken and rank != RANK_START for no, rank in ranks.items())

    def _remove(self, row: LiveState) -> None:
        changes = self._changes
        changes.started = [
            started
            for started in changes.started
            if started.instance.incarnation != row.incarnation
        ]
        changes.statuses.pop(row.instance_id, None)
        if row.stored:
            changes.vanished.append((row.part, row.instance_id, row.incarnation))
        row.gone = True
        row.messages.clear()
        del self._rows.live[row.instance_id]
        if row.is_born:
            self._rows.wide.pop(row.instance_id, None)
