"""Put messages into the inboxes of a batch: numbered, deduplicated, in order.

Numbers rise by one under the instance's row, so a lower one never appears later (S21). Messages
that a continued instance gives to its next execution have numbers below zero: they come before all
others, the older ones first.
"""

from __future__ import annotations

from perdure.model.blocked import is_held
from perdure.model.instances import part_of
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.turns import CarriedMessage, Turn
from perdure.store.sql.commits.changes import Changes
from perdure.store.sql.commits.row_types import ReceiptValues
from perdure.store.sql.commits.rows import (
    RANK_MESSAGE,
    LiveState,
    LoadedRows,
    PendingMessage,
    ReceiptState,
)


class Inboxes:
    """The inboxes that a batch touches."""

    def __init__(self, rows: LoadedRows, changes: Changes, *, now_ms: int) -> None:
        self._rows = rows
        self._changes = changes
        self._now_ms = now_ms

    def deliver(self, delivery: Delivery) -> DeliveryStatus:
        """Put a message into an inbox, if it has an addressee."""
        message_id = delivery.message_id
        if message_id is not None and (delivery.instance_id, message_id) in self._rows.receipts:
            return self._delivered_before(delivery)
        row = self._rows.live.get(delivery.instance_id)
        if row is not None and row.is_born:
            if delivery.incarnation not in (None, row.incarnation):
                return DeliveryStatus.ABSENT
            if delivery.execution not in (0, row.execution):
                return DeliveryStatus.ABSENT
            status = DeliveryStatus.DELIVERED
        else:
            wide = self._rows.wide.get(delivery.instance_id)
            if wide is not None and delivery.incarnation in (None, wide.incarnation):
                return DeliveryStatus.ENDED
            if wide is not None or delivery.incarnation is not None:
                return DeliveryStatus.ABSENT
            if delivery.if_absent != "buffer":
                return DeliveryStatus.ABSENT
            row = row or self._make_unborn(delivery.instance_id)
            status = DeliveryStatus.BUFFERED
        self.put(
            row,
            delivery.kind,
            delivery.body,
            execution=0 if delivery.outlives else delivery.execution,
            hurries=delivery.hurries,
        )
        self._keep_receipt(row, message_id)
        if delivery.call_id is not None:
            self._note_id(row, delivery.call_id)
        return status

    def _delivered_before(self, delivery: Delivery) -> DeliveryStatus:
        """Return what a call is told whose message is there: by itself, unheard, or by another."""
        is_ours = (delivery.instance_id, delivery.call_id) in self._rows.receipts
        return DeliveryStatus.DELIVERED if is_ours else DeliveryStatus.DUPLICATE

    def may_arrive(self, row: LiveState, turn: Turn) -> bool:
        """Return whether messages that a turn took without the inbox come in their order, and for
        the first time."""
        receipts = self._rows.receipts
        is_new = not any((row.instance_id, one) in receipts for one in turn.arrived)
        return is_new and row.last_no <= turn.seen_no

    def note_arrived(self, row: LiveState, turn: Turn) -> None:
        """Count messages as delivered that a turn took without the inbox."""
        decided = {receipt.input_id for receipt in turn.receipts}
        for message_id in turn.arrived:
            # What is decided in the same turn has its receipt with the outcome.
            if message_id not in decided:
                self._note_id(row, message_id)

    def _note_id(self, row: LiveState, message_id: str) -> None:
        """Keep an id under which nothing is in the inbox."""
        self._rows.receipts[row.instance_id, message_id] = ReceiptState(None)
        place = (row.part, row.instance_id, message_id)
        self._changes.receipts.append(ReceiptValues(*place, None))

    def _make_unborn(self, instance_id: str) -> LiveState:
        row = self._rows.live[instance_id] = LiveState(part_of(instance_id), instance_id)
        return row

    def _keep_receipt(self, row: LiveState, message_id: str | None) -> None:
        if message_id is not None:
            no = row.last_no
            self._rows.receipts[row.instance_id, message_id] = ReceiptState(no)
            self._changes.receipts.append(ReceiptValues(row.part, row.instance_id, message_id, no))

    def put(
        self,
        row: LiveState,
        kind: str,
        body: bytes,
        *,
        execution: int = 0,
        rank: int = RANK_MESSAGE,
        hurries: bool = False,
    ) -> None:
        """Put a message into the inbox of an instance, and wake it if that is its moment."""
        row.last_no += 1
        row.last_at_ms = max(self._now_ms, row.last_at_ms)
        row.messages.append(
            PendingMessage(
                no=row.last_no,
                effective_at_ms=row.last_at_ms,
                rank=rank,
                kind=kind,
                body=body,
                execution=execution,
            )
        )
        row.dirty = True
        if self._may_wake(row, hurries=hurries):
            row.wake_at_ms = min(self._now_ms, row.wake_at_ms or self._now_ms)
            row.is_due_unsure = False

    def emptied(self, row: LiveState) -> None:
        """No message waits any more: one that came while the clock was wrong is in order with
        nothing, so arrivals go by the clock again."""
        row.last_at_ms = min(row.last_at_ms, self._now_ms)

    @staticmethod
    def _may_wake(row: LiveState, *, hurries: bool) -> bool:
        """Return whether a message makes the instance ready.

        Not under a lease: its commit will see the message (and `wake_at` is the lease's end). Not
        when held. Not before the first turn, which has its own time, unless the message hurries.
        Not unborn.
        """
        if not row.is_born or row.lease != 0 or is_held(row.blocked_by):
            return False
        return row.next_seq > 1 or hurries

    @staticmethod
    def carry(row: LiveState, unread: tuple[CarriedMessage, ...], *, execution: int = 0) -> None:
        """Put messages that were taken and not used back, before all that have come since.

        Their numbers are below zero and below those of all that were put back earlier, because the
        inbox may still have messages that arrived in the same millisecond.
        """
        row.last_no += len(unread)
        for no, message in enumerate(unread, start=-row.last_no):
            row.messages.append(
                PendingMessage(
                    no=no,
                    effective_at_ms=message.effective_at_ms,
                    rank=RANK_MESSAGE,
                    kind=message.kind,
                    body=message.body,
                    execution=execution,
                )
            )
