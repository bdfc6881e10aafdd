"""Write what a batch decided: few statements, in a fixed order, none for nothing.

What goes away is deleted first and what comes is inserted after it; what came and went within the
batch was never more than a value in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.model.instances import part_of
from perdure.store.sql.commits.changes import Changes, StartedInstance
from perdure.store.sql.commits.commit import Commit
from perdure.store.sql.commits.decision_rows import delete_decider_rows, write_decisions
from perdure.store.sql.commits.row_types import (
    DeadJobValues,
    EndedValues,
    EventValues,
    InstanceValues,
    JobValues,
    KvValues,
    LiveValues,
    MessageValues,
    MovedValues,
    ReportValues,
    RequeuedJobValues,
    StatusValues,
)
from perdure.store.sql.commits.rows import LiveState, PendingJob
from perdure.store.sql.commits.streams import lock_heads, rewind_streams, write_sent
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import Bulk, Rows, pack
from perdure.store.sql.sessions import touch_sessions


def flush(connection: Connection, commit: Commit, *, now_ms: int, alone: bool) -> int:
    """Write a decided batch and return how many rows that were.

    Raises:
        BatchTooLargeError: It has too many bytes for one transaction and is not `alone`.
    """
    return _Flush(connection, commit, now_ms=now_ms, alone=alone).run()


class _Flush:
    def __init__(self, connection: Connection, commit: Commit, *, now_ms: int, alone: bool) -> None:
        self._bulk = Bulk(connection, alone=alone)
        self._changes: Changes = commit.changes
        self._dirty = [row for row in commit.rows.live.values() if row.dirty]
        self._assumed_new = commit.rows.assumed_new
        self._now_ms = now_ms

    def run(self) -> int:
        """Write what there is. What a batch has none of is passed over where it is listed, so that
        the common one takes few steps."""
        self._delete_gone()
        if self._dirty:
            self._put_dirty()
        if self._changes.events:
            self._append_events()
        if self._changes.kept:
            self._append_kept()
        self._write_instances()
        self._write_beside()
        return self._bulk.written

    def _delete_gone(self) -> None:
        changes = self._changes
        if changes.replaced:
            self._delete_replaced()
        if changes.dead:
            self._bury_jobs()
        if changes.jobs_gone or changes.requeued:
            self._delete_jobs()
        if changes.consumed:
            self._bulk.run_keys("delete_messages", changes.consumed)
        if changes.timers_gone:
            self._bulk.run_keys("delete_timers", changes.timers_gone)
        if changes.left:
            self._bulk.run_keys("delete_execution_jobs", changes.left)
            self._bulk.run_keys("delete_execution_messages", changes.left)
        if changes.ended:
            self._delete_ended()
        if changes.vanished:
            self._delete_vanished()

    def _write_instances(self) -> None:
        changes = self._changes
        if changes.revived:
            # Not with the others: only a reset has it, which can wait for a statement of its own.
            keys = pack(changes.revived)
            self._bulk.connection.change("revive_instances", keys=keys, now_ms=self._now_ms)
        for part, instance_id, heard, unkept in changes.unheard:
            place: dict[str, int | str] = {"part": part, "instance_id": instance_id}
            names = {"heard": pack(heard), "unkept": pack(unkept)}
            self._bulk.connection.change("forget_unheard", **place, **names)
        if changes.started:
            self._put_instances(changes.started)
        if changes.moved:
            self._move_instances()
        if changes.ended:
            self._end_instances()
        if changes.statuses:
            self._set_statuses()

    def _write_beside(self) -> None:
        """Write what few batches have."""
        changes = self._changes
        if changes.receipts:
            self._bulk.write("insert_receipts", changes.receipts, now_ms=self._now_ms)
        if changes.decisions.is_there:
            write_decisions(self._bulk, changes.decisions, now_ms=self._now_ms)
        if changes.kv:
            self._put_kv()
        if changes.reports:
            self._put_reports()
        if changes.rewound:
            self._rewind_streams()
        if changes.sent:
            write_sent(self._bulk, changes.sent, changes.senders)
        if changes.sessions_used:
            touch_sessions(self._bulk.connection, list(changes.sessions_used), now_ms=self._now_ms)

    def _rewind_streams(self) -> None:
        connection, changes = self._bulk.connection, self._changes
        sending = [one.key.instance_id for one in changes.sent]
        lock_heads(connection, [*[one.instance_id for one in changes.rewound], *sending])
        for rewound in changes.rewound:
            rewind_streams(connection, rewound)

    # --------------------------------------------------------------- deletes

    def _delete_replaced(self) -> None:
        replaced = self._changes.replaced
        self._bulk.run_keys("delete_history", replaced)
        self._bulk.run_keys("delete_receipts", replaced)
        self._bulk.run_keys("delete_instances", replaced)
        self._bulk.run_keys("free_children", replaced)
        self._bulk.run_keys("delete_kv", replaced)
        self._bulk.run_keys("delete_reports", replaced)
        self._bulk.run_keys("delete_stream_heads", replaced)
        self._bulk.run_keys("delete_streams", replaced)
        self._bulk.run_keys("delete_dead_jobs_of", replaced)
        # A dead job may have been put back after its instance had ended.
        self._bulk.run_keys("delete_jobs_of", replaced)
        delete_decider_rows(self._bulk, self._changes.replaced_deciders)

    def _delete_jobs(self) -> None:
        changes = self._changes
        # The jobs of an ended instance go all at once.
        ended = {(end.row.instance_id, end.incarnation) for end in changes.ended if end.row.stored}
        gone = [
            (part_of(key.instance_id), *key) for key in changes.jobs_gone if key[:2] not in ended
        ]
        if gone:
            self._bulk.run_keys("delete_jobs", gone)
        if changes.requeued:
            rows = Rows()
            for job in changes.requeued:
                rows.rows.append(
                    RequeuedJobValues(
                        part_of(job.key.instance_id),
                        *job.key,
                        job.visible_at_ms,
                        job.attempt,
                        *rows.place_maybe(job.failures),
                        *rows.place_maybe(job.details),
                    )
                )
            self._bulk.write_rows("requeue_jobs", rows)

    def _bury_jobs(self) -> None:
        """Copy jobs that are dead; after that they go like others."""
        unqueued = Rows()
        for row, incarnation, pending in self._changes.unqueued:
            unqueued.rows.append(_job_values(unqueued, row, incarnation, pending))
        self._bulk.write_rows("insert_jobs", unqueued, now_ms=self._now_ms)
        rows = Rows()
        for key, failures in self._changes.dead:
            values = DeadJobValues(part_of(key.instance_id), *key, *rows.place_maybe(failures))
            rows.rows.append(values)
        self._bulk.write_rows("bury_jobs", rows, now_ms=self._now_ms)

    def _delete_ended(self) -> None:
        stored: list[LiveState] = []
        passing: list[LiveState] = []
        for end in self._changes.ended:
            (stored if end.row.stored else passing).append(end.row)
        if passing:
            self._pass_through(passing)
        if stored:
            keys = [(row.part, row.instance_id) for row in stored]
            self._bulk.run_keys("delete_live", keys)
            self._bulk.run_keys("delete_jobs_of", keys)
            # An instance that never had a message has no inbox.
            self._bulk.run_keys(
                "delete_inbox", [(row.part, row.instance_id) for row in stored if row.last_no]
            )

    def _pass_through(self, rows: Sequence[LiveState]) -> None:
        """Let instances that begin and end in this batch have a row for a moment.

        Nothing is locked where no row is: a transaction that puts a message for such an id at the
        same time waits here until we are through, and then finds that it has ended. Where no other
        process can write, it shows whether one that was taken for new has messages that came before
        it.
        """
        if not self._bulk.connection.locks:
            rows = [row for row in rows if row.instance_id in self._assumed_new]
        keys = [(row.part, row.instance_id) for row in rows]
        self._bulk.run_keys("insert_passing", keys)
        self._bulk.run_keys("delete_live", keys)

    def _delete_vanished(self) -> None:
        vanished = self._changes.vanished
        self._bulk.run_keys("delete_live", vanished)
        self._bulk.run_keys("delete_inbox", vanished)
        self._bulk.run_keys("delete_jobs_of", vanished)
        self._bulk.run_keys("delete_instances", vanished)

    # --------------------------------------------------------------- inserts

    def _put_dirty(self) -> None:
        """Write rows of instances, and what they have got."""
        has_messages = has_jobs = False
        unsure: list[tuple[int, str]] = []
        for row in self._dirty:
            has_messages = has_messages or bool(row.messages)
            has_jobs = has_jobs or bool(row.jobs)
            if row.is_due_unsure:
                unsure.append((row.part, row.instance_id))
        self._put_live()
        if has_messages:
            self._put_messages()
        if has_jobs:
            self._put_jobs()
        if unsure:
            self._bulk.connection.write("correct_wakes", keys=pack(unsure))

    def _put_live(self) -> None:
        if not self._bulk.connection.locks:
            fresh: list[LiveValues] = []
            known: list[LiveValues] = []
            for row in self._dirty:
                (known if row.stored else fresh).append(_live_values(row))
            if fresh:
                self._bulk.write("insert_live", fresh)
            if known:
                self._bulk.write("put_live", known)
        else:
            self._bulk.write("put_live", [_live_values(row) for row in self._dirty])
            # An unborn row is made where there was no such instance. Is that so still?
            unborn = [row for row in self._dirty if not row.stored and not row.is_born]
            self._bulk.run_keys("refuse_unborn", [(row.part, row.instance_id) for row in unborn])

    def _put_messages(self) -> None:
        rows = Rows()
        for row in self._dirty:
            for message in row.messages:
                rows.rows.append(
                    MessageValues(
                        row.part,
                        row.instance_id,
                        message.no,
                        message.effective_at_ms,
                        message.rank,
                        message.execution,
                        message.kind,
                        message.timer_key,
                        rows.place(message.body),
                        len(message.body),
                    )
                )
        self._bulk.write_rows("insert_messages", rows)

    def _put_jobs(self) -> None:
        rows = Rows()
        for row in self._dirty:
            for pending in row.jobs:
                rows.rows.append(_job_values(rows, row, row.incarnation, pending))
        self._bulk.write_rows("insert_jobs", rows, now_ms=self._now_ms)

    def _append_events(self) -> None:
        rows = Rows()
        append, keep, body_begin = rows.rows.append, rows.keep, rows.end
        for appended in self._changes.events:
            row, turn, seq = appended.row, appended.turn, appended.first_seq
            part, instance_id, at_ms = row.part, row.instance_id, turn.now_ms
            incarnation, execution = appended.incarnation, appended.execution
            commit_id: int | None = turn.commit_id
            for kind, body in turn.events:
                body_length = len(body)
                append(
                    EventValues(
                        part,
                        instance_id,
                        incarnation,
                        execution,
                        seq,
                        kind,
                        at_ms,
                        body_begin,
                        body_length,
                        commit_id,
                    )
                )
                keep(body)
                body_begin += body_length
                seq += 1
                commit_id = None  # Kept with the first event of the turn.
        rows.end = body_begin
        self._bulk.write_rows("insert_events", rows)

    def _append_kept(self) -> None:
        """Write the events that executions take over from others, with the times they had."""
        rows = Rows()
        for row, incarnation, execution, commit_id, prefix in self._changes.kept:
            for seq, kind, at_ms, body in prefix:
                rows.rows.append(
                    EventValues(
                        row.part,
                        row.instance_id,
                        incarnation,
                        execution,
                        seq,
                        kind,
                        at_ms,
                        rows.place(body),
                        len(body),
                        commit_id if seq == 1 else None,
                    )
                )
        self._bulk.write_rows("insert_events", rows)

    def _put_instances(self, started: Sequence[StartedInstance]) -> None:
        rows = Rows()
        for one in started:
            instance = one.instance
            rows.rows.append(
                InstanceValues(
                    one.part,
                    instance.instance_id,
                    instance.incarnation,
                    one.definition_no,
                    instance.created_ms,
                    instance.parent_id,
                    instance.parent_incarnation,
                    rows.place(instance.input),
                    len(instance.input),
                )
            )
        self._bulk.write_rows("insert_instances", rows)

    def _move_instances(self) -> None:
        rows = Rows()
        for moved in self._changes.moved.values():
            rows.rows.append(MovedValues(*moved[:5], *rows.place_maybe(moved.input)))
        self._bulk.write_rows("move_instances", rows, now_ms=self._now_ms)

    def _put_kv(self) -> None:
        rows = Rows()
        gone = []
        for place, (updated_ms, value) in self._changes.kv.items():
            if value is None:
                gone.append(place)
            else:
                rows.rows.append(KvValues(*place, updated_ms, rows.place(value), len(value)))
        self._bulk.run_keys("delete_values", gone)
        self._bulk.write_rows("put_kv", rows)

    def _put_reports(self) -> None:
        rows = Rows()
        for instance_id, (part, turns, updated_ms, value) in self._changes.reports.items():
            values = (part, instance_id, turns, updated_ms, rows.place(value), len(value))
            rows.rows.append(ReportValues(*values))
        self._bulk.write_rows("put_reports", rows)

    def _end_instances(self) -> None:
        rows = Rows()
        for ended in self._changes.ended:
            row, outcome = ended.row, ended.outcome
            rows.rows.append(
                EndedValues(
                    row.part,
                    row.instance_id,
                    ended.incarnation,
                    ended.execution,
                    outcome.status.value,
                    ended.last_commit,
                    *rows.place_maybe(outcome.digest),
                    *rows.place_maybe(_utf8(outcome.reason)),
                    *rows.place_maybe(outcome.output),
                )
            )
        self._bulk.write_rows("end_instances", rows, now_ms=self._now_ms)

    def _set_statuses(self) -> None:
        rows = Rows()
        for row, status, reason in self._changes.statuses.values():
            rows.rows.append(
                StatusValues(
                    row.part,
                    row.instance_id,
                    row.incarnation,
                    status.value,
                    *rows.place_maybe(_utf8(reason)),
                )
            )
        self._bulk.write_rows("set_statuses", rows, now_ms=self._now_ms)


def _live_values(row: LiveState) -> LiveValues:
    return LiveValues(
        row.part,
        row.instance_id,
        row.definition_no,
        row.incarnation,
        row.execution,
        row.next_seq,
        row.wake_at_ms,
        row.lease,
        row.lease_until_ms,
        row.home,
        row.last_no,
        row.last_at_ms,
        row.last_commit,
        row.attempts,
        row.blocked_by,
        1 if row.stored else 0,
    )


def _job_values(rows: Rows, row: LiveState, incarnation: int, pending: PendingJob) -> JobValues:
    job = pending.job
    return JobValues(
        row.part,
        row.instance_id,
        incarnation,
        pending.execution,
        job.seq,
        pending.queue_no,
        pending.visible_at_ms,
        pending.token,
        pending.worker_id,
        1 if pending.token else 0,
        job.session,
        rows.place(job.policy),
        len(job.policy),
        rows.place(job.input),
        len(job.input),
        # One that starts at once has no timer that its claim would remove.
        None if pending.token else job.start_by_ms,
    )


def _utf8(text: str | None) -> bytes | None:
    """Return free text as bytes: it travels with the bodies, because it may hold NUL."""
    return None if text is None else text.encode()
