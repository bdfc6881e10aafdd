"""Decide, in memory and in order of submission, what becomes of each change of a batch.

Works on the rows that `rows.load` brought and leaves behind what `flush` writes. Nothing here
touches the database, except that a definition seen for the first time is given its number.

What always holds: a turn is accepted only if its stamp is the stored one, the commit that it is
based on included, and the lease is its own or there is none (S7). One that was accepted is found by
its commit id in the history, for ever; so a refused one never happened (S8, S45). An accepted turn
appends from the stored next number on, so there is no gap and no repeat (S1); an ended instance has
no live row, so nothing can follow its end (S3, S9). A refused change leaves nothing behind but the
results of its jobs.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure.errors import RowError
from perdure.model.blocked import going_on, held_by, is_held
from perdure.model.histories.rewinds import Rewind
from perdure.model.instances import DECIDER, DefinitionKey, NewInstance, Status, part_of
from perdure.model.jobs import JobEnd
from perdure.model.turns import (
    NOBODY,
    ChildStart,
    Continuation,
    Hold,
    InstanceEnd,
    Turn,
    TurnReceipt,
    TurnStatus,
)
from perdure.store.sql.commits.changes import (
    AppendedEvents,
    Changes,
    EndedInstance,
    KvRowChange,
    MovedInstance,
    ReportChange,
    StartedInstance,
    StatusChange,
)
from perdure.store.sql.commits.decisions import Decisions
from perdure.store.sql.commits.inboxes import Inboxes
from perdure.store.sql.commits.jobs import Jobs
from perdure.store.sql.commits.rewinds import Rewinds
from perdure.store.sql.commits.rows import (
    RANK_START,
    RANK_TIMER,
    LiveState,
    LoadedRows,
    PendingMessage,
    WideState,
)
from perdure.store.sql.commits.streams import RewoundStreams, sent_by_turn

_REFUSED = TurnReceipt(TurnStatus.REFUSED)
_TAKEN = TurnReceipt(TurnStatus.TAKEN)
_ACCEPTED = TurnReceipt(TurnStatus.ACCEPTED)


class Commit:
    """One batch under decision."""

    def __init__(
        self,
        rows: LoadedRows,
        number_of: Callable[[DefinitionKey], int],
        kind_of: Callable[[int], str],
        *,
        now_ms: int,
    ) -> None:
        self.met_alive: set[str] = set()
        """Instances that have got what came with a start of their id."""
        self.rows = rows
        self.changes = Changes()
        self._number_of = number_of
        self._kind_of = kind_of
        self._now_ms = now_ms
        self.inboxes = Inboxes(rows, self.changes, now_ms=now_ms)
        self._jobs = Jobs(rows, self.changes, number_of, now_ms=now_ms)

    def _decisions(self) -> Decisions:  # Made when it is needed, as most batches have none.
        return Decisions(self.rows, self.changes)

    def _rewinds(self) -> Rewinds:
        return Rewinds(self.rows, self.changes, self.inboxes, now_ms=self._now_ms)

    def has_started_assumed(self) -> bool:
        """Return whether all instances were started that were taken for new: see `LoadedRows`."""
        assumed = self.rows.assumed_new
        return not assumed or assumed <= {one.instance.instance_id for one in self.changes.started}

    # ------------------------------------------------------------------ turns

    def commit_turn(self, turn: Turn) -> TurnReceipt:
        """Accept a turn, or say why not."""
        if (again := self._sent_again(turn)) is not None:
            return again
        if turn.start is not None:
            _check_first(turn, turn.start)
            if self._is_taken(turn.start):
                self._deliver_if_live(turn.start)
                return _TAKEN
            return self._obstacle(turn) or self._accept_first(turn, turn.start)
        row = self.rows.live.get(turn.instance_id)
        if turn.rewound is not None:
            return self._rewind(turn, row, turn.rewound)
        if row is None or not self._is_fenced_in(turn, row) or not self._holds_jobs(turn):
            if row is not None and turn.lease and row.fits(turn.stamp) and row.attempts > 1:
                # Late, and overtaken by another claim, but alive: its worker did not die of it.
                row.attempts = 1
                row.dirty = True
            return self._keep_ends(turn, _REFUSED)
        if turn.is_plain:
            return self._accept(turn, row)
        if turn.arrived and not self.inboxes.may_arrive(row, turn):
            return self._keep_ends(turn, _REFUSED)
        obstacle = self._obstacle(turn)
        if obstacle is not None:
            return self._keep_ends(turn, obstacle)
        return self._vanish(turn, row) if turn.vanishes else self._accept(turn, row)

    def _keep_ends(self, turn: Turn, receipt: TurnReceipt) -> TurnReceipt:
        """Put the results of a turn's jobs into the inbox although the turn is not accepted."""
        kept = tuple([self.end_job(end) for end in turn.job_ends])
        return receipt._replace(ends_kept=kept) if any(kept) else receipt

    def _obstacle(self, turn: Turn) -> TurnReceipt | None:
        return self._decisions().obstacle(turn) if turn.receipts or turn.unique else None

    def _accept_first(self, turn: Turn, start: NewInstance) -> TurnReceipt:
        if turn.vanishes:
            return self._vanish(turn, self.rows.live.get(turn.instance_id))
        self._make_live(start)
        for message in start.messages:
            self.inboxes.deliver(message)
        return self._accept(turn, self.rows.live[turn.instance_id])

    def _vanish(self, turn: Turn, row: LiveState | None) -> TurnReceipt:
        """Let an instance have never been there, or begin with what else has come for it."""
        is_gone = self._decisions().vanish(turn, row)
        self._tell_others(turn)
        if is_gone or row is None:
            return _ACCEPTED
        self._settle(turn, row)
        row.wake_at_ms = self._now_ms if row.is_born else None
        return TurnReceipt(TurnStatus.ACCEPTED, row.last_no, has_unseen=True)

    def _sent_again(self, turn: Turn) -> TurnReceipt | None:
        """Return the first answer if this turn was accepted before."""
        if turn.vanishes and self._decisions().has_vanished(turn):
            return _ACCEPTED
        row = self.rows.live.get(turn.instance_id)
        if row is not None and row.last_commit == turn.commit_id:
            has_unseen = bool(turn.continued or turn.rewound or turn.vanishes)
            has_unseen = has_unseen or row.last_no > turn.seen_no + len(turn.timers)
            return TurnReceipt(TurnStatus.ACCEPTED, row.last_no, has_unseen)
        if turn.commit_id not in self.rows.accepted:
            return None
        # Others have gone on from it, or it has ended: a worker that has it in memory reads it
        # again.
        last_no = 0 if row is None else row.last_no
        return TurnReceipt(TurnStatus.ACCEPTED, last_no, has_unseen=row is not None)

    def _is_fenced_in(self, turn: Turn, row: LiveState) -> bool:
        if not row.is_born or not row.fits(turn.stamp) or not self.rows.has_taken(turn):
            return False
        if row.blocked_by == NOBODY and not turn.lease:
            # It waits for an operator, who may end or reset it; inputs of callers are not decided,
            # and who still has it in memory does not go on.
            if turn.rewound is not None:
                return True
            return turn.outcome is not None and turn.outcome.status is Status.TERMINATED
        if turn.seize or self._holds(turn.lease, row):
            return True
        # The short way of a worker that has claimed the instance at the same time: it holds the
        # lease, and its claim is void once the stamp has moved on.
        return turn.lease == 0 and row.home == turn.worker_id

    def _holds(self, lease: int, row: LiveState) -> bool:
        """Return whether a lease is the stored one; without one, whether there is none now."""
        if lease:
            return row.lease == lease
        return row.lease == 0 or row.lease_until_ms <= self._now_ms

    def _holds_jobs(self, turn: Turn) -> bool:
        for end in turn.job_ends:  # noqa: SIM110  # a generator costs more than all the rest
            if self._jobs.held(end) is None:
                return False
        return True

    def _accept(self, turn: Turn, row: LiveState) -> TurnReceipt:
        for end in turn.job_ends:
            self._jobs.finish(end)
        if turn.is_plain:
            self._append(turn, row)
        else:
            self._append_with_more(turn, row)
        has_unseen = row.last_no > turn.seen_no
        if not has_unseen:
            self.inboxes.emptied(row)
        self._settle(turn, row)
        if turn.outcome is not None:
            self._end(turn, row, turn.outcome)
        elif turn.continued is not None:
            self._continue(turn, row, turn.continued)
            has_unseen = True
        else:
            at_ms = row.wake_at_ms = self._now_ms if has_unseen else turn.next_due_ms
            # A claim of a job may have removed a timer that the turn still counts on. It must not
            # wake the instance for ever, so what is due already is compared with the inbox.
            row.is_due_unsure = at_ms is not None and not has_unseen and at_ms <= self._now_ms
            if turn.consumed or not turn.is_plain:
                self._change_inbox(turn, row)
            self._jobs.change(turn, row)
        if turn.children or turn.deliveries:
            last_no = row.last_no
            self._tell_others(turn)
            has_unseen = has_unseen or row.last_no > last_no
        # Nothing was ever in the inbox of most.
        is_plain = not (row.last_no or has_unseen)
        return _ACCEPTED if is_plain else TurnReceipt(TurnStatus.ACCEPTED, row.last_no, has_unseen)

    def _append_with_more(self, turn: Turn, row: LiveState) -> None:
        """Append the events of a turn, and keep what few turns have beside them."""
        if turn.jobs_buried:
            self._jobs.bury(turn, row)
        first_seq = row.next_seq
        self._append(turn, row)
        if turn.arrived:
            self.inboxes.note_arrived(row, turn)
        if turn.definition is not None:
            row.definition_no = self._number_of(turn.definition)
            self._move(row, row.definition_no)
        if turn.feed or turn.receipts or turn.observations or turn.unique or turn.snapshot:
            self._decisions().keep(turn, row, first_seq)
        if turn.kv or turn.report is not None or turn.sent or turn.forwarded:
            self._keep_shown(turn, row, first_seq)

    def _tell_others(self, turn: Turn) -> None:
        for child in turn.children:
            self._start_child(child)
        for delivery in turn.deliveries:
            self.inboxes.deliver(delivery)

    def _append(self, turn: Turn, row: LiveState) -> None:
        appended = AppendedEvents(row, row.incarnation, row.execution, row.next_seq, turn)
        self.changes.events.append(appended)
        row.next_seq += len(turn.events)
        self.rows.accepted.add(turn.commit_id)

    def _change_inbox(self, turn: Turn, row: LiveState) -> None:
        part, instance_id = row.part, row.instance_id
        self.changes.consumed += [(part, instance_id, no) for no in turn.consumed]
        self.changes.timers_gone += [(part, instance_id, key) for key in turn.timers_gone]
        if turn.timers_gone and row.messages:
            # Set by an earlier turn of this batch.
            row.messages = [m for m in row.messages if m.timer_key not in turn.timers_gone]
        for timer in turn.timers:
            row.last_no += 1
            row.messages.append(
                PendingMessage(
                    no=row.last_no,
                    effective_at_ms=timer.due_ms,
                    rank=RANK_TIMER,
                    kind=timer.kind,
                    body=timer.body,
                    execution=row.execution,
                    timer_key=timer.key,
                )
            )

    def _settle(self, turn: Turn, row: LiveState) -> None:
        """End the lease, and leave the instance hot at the worker that committed."""
        if row.blocked_by is not None and is_held(row.blocked_by):
            self.changes.statuses[row.instance_id] = StatusChange(row, Status.RUNNING, None)
            row.blocked_by = going_on(row.blocked_by)
        row.lease = 0
        row.lease_until_ms = 0
        row.attempts = 0
        row.home = turn.worker_id
        row.last_commit = turn.commit_id
        row.dirty = True

    # --------------------------------------------------- what turns change besides

    def _move(self, row: LiveState, definition_no: int, next_input: bytes | None = None) -> None:
        """Have the wide row follow the live one."""
        earlier = self.changes.moved.get(row.instance_id)
        if next_input is None and earlier is not None:
            next_input = earlier.input
        self.changes.moved[row.instance_id] = MovedInstance(
            row.part, row.instance_id, row.incarnation, row.execution, definition_no, next_input
        )

    def _keep_shown(self, turn: Turn, row: LiveState, first_seq: int) -> None:
        """Keep what the instance shows to others: items of streams, values under keys, and its
        report."""
        if turn.sent or turn.forwarded:
            self.changes.sent += sent_by_turn(turn, row, first_seq, self.rows.live)
        for key, value in turn.kv:
            place = (row.part, row.instance_id, key)
            self.changes.kv[place] = KvRowChange(turn.now_ms, value)
        if turn.report is not None:
            earlier = self.changes.reports.get(row.instance_id)
            turns = 1 if earlier is None else earlier.turns + 1
            self.changes.reports[row.instance_id] = ReportChange(
                row.part, turns, turn.now_ms, turn.report
            )

    def _continue(self, turn: Turn, row: LiveState, following: Continuation) -> None:
        """Leave an execution with all that is addressed to it, and begin the next one (S35)."""
        self._leave(turn, row)
        row.next_seq = 1
        row.definition_no = self._number_of(following.definition)
        kind, body = following.start
        self.inboxes.put(row, kind, body, execution=row.execution, rank=RANK_START)
        self.inboxes.carry(row, following.unread)
        row.wake_at_ms = self._now_ms
        row.is_due_unsure = False
        self._move(row, row.definition_no, following.input)

    def _leave(self, turn: Turn, row: LiveState) -> None:
        old = row.execution
        self.changes.left.append((row.part, row.instance_id, row.incarnation, old))
        self._jobs.leave(row)
        for no in turn.consumed:
            self.changes.consumed.append((row.part, row.instance_id, no))
        row.messages = [message for message in row.messages if message.execution != old]
        row.execution = old + 1
        row.blocked_by = None

    def _rewind(self, turn: Turn, row: LiveState | None, rewind: Rewind) -> TurnReceipt:
        """Leave an execution as it is, and begin the next one with a part of its history (S35)."""
        row = row or self._rewinds().revive(turn, rewind)
        if row is None or not self._is_fenced_in(turn, row):
            return _REFUSED
        if turn.definition is not None:
            row.definition_no = self._number_of(turn.definition)
        assert row.definition_no is not None
        self._settle(turn, row)
        row.home = None  # No worker has it in memory as it is now.
        self._leave(turn, row)
        self._rewinds().begin(row, rewind, turn.commit_id)
        self.changes.rewound.append(
            RewoundStreams(
                row.part,
                row.instance_id,
                row.execution - 1,
                len(rewind.prefix),
                rewind.reopened,
            )
        )
        self.changes.statuses[row.instance_id] = StatusChange(row, Status.RUNNING, rewind.reason)
        self._move(row, row.definition_no)
        self._tell_others(turn)
        return TurnReceipt(TurnStatus.ACCEPTED, row.last_no, has_unseen=True)

    def _end(self, turn: Turn, row: LiveState, outcome: InstanceEnd) -> None:
        if turn.continued is not None:
            raise RowError(f"{row.instance_id!r} cannot both end and continue")
        if not outcome.status.is_terminal:
            raise RowError(f"{row.instance_id!r} cannot end as {outcome.status.value!r}")
        self.changes.ended.append(
            EndedInstance(row, row.incarnation, row.execution, turn.commit_id, outcome)
        )
        self.changes.statuses.pop(row.instance_id, None)
        assert row.definition_no is not None
        self.rows.wide[row.instance_id] = WideState(
            row.incarnation, row.definition_no, ended_here=True
        )
        if self._kind_of(row.definition_no) == DECIDER:
            self._decisions().free_keys(row)
        row.gone = True
        row.messages.clear()
        row.jobs.clear()
        del self.rows.live[row.instance_id]

    def _start_child(self, child: ChildStart) -> None:
        if not self.start(child.instance):
            if child.if_taken is not None:
                self.inboxes.deliver(child.if_taken)
        elif child.if_started is not None:
            self.inboxes.deliver(child.if_started)

    # ----------------------------------------------------------------- starts

    def start(self, instance: NewInstance) -> bool:
        """Start an instance and put its start message; False means that the id is taken."""
        if self._has_started(instance):
            return True
        if self._is_taken(instance):
            self._deliver_if_live(instance)
            return False
        row = self._make_live(instance)
        if instance.forked is not None:
            row.last_commit = instance.commit_id
            self._rewinds().begin(row, instance.forked, instance.commit_id)
            return True
        self.inboxes.put(row, instance.start_kind, instance.start_body, rank=RANK_START)
        row.last_commit = instance.commit_id
        row.wake_at_ms = max(self._now_ms, instance.visible_at_ms)
        for message in instance.messages:
            self.inboxes.deliver(message)
        return True

    def _deliver_if_live(self, instance: NewInstance) -> None:
        """Deliver what comes with a start to the instance that has the id already."""
        if instance.messages and instance.instance_id in self.rows.live:
            self.met_alive.add(instance.instance_id)
            for message in instance.messages:
                self.inboxes.deliver(message)

    def _has_started(self, instance: NewInstance) -> bool:
        """Return whether this very start was accepted before. Incarnations are never reused."""
        row = self.rows.live.get(instance.instance_id)
        if row is not None and row.is_born:
            return row.incarnation == instance.incarnation
        wide = self.rows.wide.get(instance.instance_id)
        return wide is not None and wide.incarnation == instance.incarnation

    def _is_taken(self, instance: NewInstance) -> bool:
        """Return whether an id belongs to another instance that is not to be replaced."""
        row = self.rows.live.get(instance.instance_id)
        if row is not None and row.is_born:
            return True
        wide = self.rows.wide.get(instance.instance_id)
        # What this very batch ended is not replaced: its events are still to be written.
        return wide is not None and (wide.incarnation != instance.replaces or wide.ended_here)

    def _make_live(self, instance: NewInstance) -> LiveState:
        """Give an instance its rows. Messages sent before it stay."""
        row = self.rows.live.get(instance.instance_id)
        wide = self.rows.wide.get(instance.instance_id)
        part = part_of(instance.instance_id) if row is None else row.part
        if wide is not None:
            self._replace(part, instance.instance_id, wide)
        if row is None:
            row = self.rows.live[instance.instance_id] = LiveState(part, instance.instance_id)
        row.definition_no = self._number_of(instance.definition)
        row.incarnation = instance.incarnation
        row.execution = 1
        row.next_seq = 1
        row.dirty = True
        self.rows.wide[instance.instance_id] = WideState(instance.incarnation, row.definition_no)
        self.changes.started.append(StartedInstance(part, row.definition_no, instance))
        return row

    def _replace(self, part: int, instance_id: str, old: WideState) -> None:
        place = (part, instance_id, old.incarnation)
        self.changes.replaced.append(place)
        if self._kind_of(old.definition_no) == DECIDER:
            self.changes.replaced_deciders.append(place)
        receipts = self.rows.receipts
        for key in [key for key in receipts if key[0] == instance_id]:
            del receipts[key]

    # ------------------------------------------------------------------- jobs

    def end_job(self, end: JobEnd) -> bool:
        """End an attempt; False means that its lease was lost."""
        if self._jobs.held(end) is None:
            return False
        if end.retry_at_ms is not None:
            self._jobs.requeue(end, end.retry_at_ms)
            return True
        if end.kind is None:
            raise RowError(f"the end of job {end.key} has neither a result nor a time to retry")
        self._jobs.finish(end)
        row = self.rows.live.get(end.key.instance_id)
        if row is not None and (row.incarnation, row.execution) == end.key[1:3]:
            self.inboxes.put(row, end.kind, end.body, execution=row.execution)
        return True

    # ------------------------------------------------------------------ holds

    def hold(self, hold: Hold) -> bool:
        """Stop trying an instance; False means that the stamp or lease no longer fits."""
        row = self.rows.live.get(hold.instance_id)
        if row is None or not row.is_born or not row.fits(hold.stamp):
            return False
        if not self._holds(hold.lease, row):
            return False
        row.blocked_by = held_by(row.blocked_by, hold.blocked_by)
        row.wake_at_ms = None
        row.lease = 0
        row.lease_until_ms = 0
        row.attempts = 0  # The worker that holds it has not died of it.
        row.dirty = True
        self.changes.statuses[hold.instance_id] = StatusChange(row, hold.status, hold.reason)
        return True


def _check_first(turn: Turn, start: NewInstance) -> None:
    """Refuse a first turn that could be made live and then not be accepted."""
    if turn.stamp.place != (start.incarnation, 1, 1) or turn.instance_id != start.instance_id:
        raise RowError(f"the first turn of {turn.instance_id!r} does not fit its start")
    if (not turn.events and not turn.vanishes) or turn.job_ends:
        raise RowError(f"the first turn of {turn.instance_id!r} must have events and end no jobs")
