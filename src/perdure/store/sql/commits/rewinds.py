"""Decide, in memory, how an execution begins with events of another one: resets and forks."""

from __future__ import annotations

from perdure.model.histories.rewinds import Rewind
from perdure.model.instances import part_of
from perdure.model.turns import Turn
from perdure.model.updates import UPDATE_PREFIX
from perdure.store.sql.commits.changes import (
    Changes,
    KeptEvents,
    KvRowChange,
    ReportChange,
    UnheardMessages,
)
from perdure.store.sql.commits.inboxes import Inboxes
from perdure.store.sql.commits.rows import RANK_START, LiveState, LoadedRows


class Rewinds:
    """The executions of a batch that begin so."""

    def __init__(
        self, rows: LoadedRows, changes: Changes, inboxes: Inboxes, *, now_ms: int
    ) -> None:
        self._rows = rows
        self._changes = changes
        self._inboxes = inboxes
        self._now_ms = now_ms

    def begin(self, row: LiveState, rewind: Rewind, commit_id: int) -> None:
        """Give an execution its first events, and what its first turn takes."""
        row.next_seq = len(rewind.prefix) + 1
        self._rows.accepted.add(commit_id)
        if rewind.prefix:
            kept = KeptEvents(row, row.incarnation, row.execution, commit_id, rewind.prefix)
            self._changes.kept.append(kept)
        kind, body = rewind.first
        self._inboxes.put(row, kind, body, execution=row.execution, rank=RANK_START)
        self._inboxes.carry(row, rewind.unread)
        if rewind.answer is not None:
            # After the others, so that it comes before them.
            self._inboxes.carry(row, (rewind.answer,), execution=row.execution)
        row.wake_at_ms = self._now_ms
        row.is_due_unsure = False
        for key, value, updated_ms in rewind.kv:
            place = (row.part, row.instance_id, key)
            self._changes.kv[place] = KvRowChange(updated_ms, value)
        if rewind.report is not None:
            report = ReportChange(row.part, 1, self._now_ms, rewind.report)
            self._changes.reports[row.instance_id] = report

    def revive(self, turn: Turn, rewind: Rewind) -> LiveState | None:
        """Return a live row for an instance that has ended as the turn says, and goes on."""
        ended = self._rows.ended.get(turn.instance_id)
        if ended is None or ended[:2] != turn.stamp.key or ended.digest != rewind.digest:
            return None
        row = LiveState(part_of(turn.instance_id), turn.instance_id)
        row.incarnation, row.execution, row.definition_no = ended[:3]
        row.next_seq, row.last_commit = turn.stamp.next_seq, turn.stamp.commit_id
        self._rows.live[turn.instance_id] = row
        self._changes.revived.append((row.part, row.instance_id, row.incarnation))
        self._forget_unheard(
            UnheardMessages(row.part, row.instance_id, rewind.heard, rewind.unkept)
        )
        return row

    def _forget_unheard(self, unheard: UnheardMessages) -> None:
        """Let what the instance never took be sent again: it went with its inbox."""
        self._changes.unheard.append(unheard)
        receipts = self._rows.receipts
        for owner, message_id in list(receipts):
            if owner == unheard.instance_id and not receipts[owner, message_id].is_decided:
                is_update = message_id.startswith(UPDATE_PREFIX) and message_id not in unheard.heard
                if is_update or message_id in unheard.unkept:
                    del receipts[owner, message_id]
