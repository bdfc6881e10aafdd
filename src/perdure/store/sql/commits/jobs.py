"""Decide, in memory, what becomes of jobs: those that turns add and end, and attempts that end.

What always holds: an attempt ends its job only under the token that the job has, so it is ended
once (S5, S7); a job that dies is kept in the transaction that takes it out of its queue.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure.model.instances import DefinitionKey
from perdure.model.jobs import BuriedJob, JobEnd, JobFailures, JobKey, NewJob
from perdure.model.turns import Turn
from perdure.store.sql.commits.changes import Changes, DeadJobRow, RequeuedJob, UnqueuedJob
from perdure.store.sql.commits.rows import JobState, LiveState, LoadedRows, PendingJob
from perdure.store.sql.commits.streams import SentBatch

_failures = msgspec.json.Decoder(JobFailures)
_encoder = msgspec.json.Encoder()


class Jobs:
    """The jobs of one batch."""

    def __init__(
        self,
        rows: LoadedRows,
        changes: Changes,
        number_of: Callable[[DefinitionKey], int],
        *,
        now_ms: int,
    ) -> None:
        self._rows = rows
        self._changes = changes
        self._number_of = number_of
        self._now_ms = now_ms
        self._left: set[tuple[str, int, int]] = set()

    # --------------------------------------------------------------- attempts

    def held(self, end: JobEnd) -> JobState | None:
        """Return the job whose attempt ends, if the worker that ends it has it still."""
        job = self._rows.jobs.get(end.key)
        if job is None or job.gone or end.token == 0 or job.token != end.token:
            return None
        if self._left and end.key[:3] in self._left:
            return None
        return job

    def finish(self, end: JobEnd) -> None:
        """Remove a job that has its result, or that will not be tried again."""
        job = self._rows.jobs[end.key]
        job.gone = True
        self._changes.jobs_gone.append(end.key)
        self._note_session(job)
        if end.sent is not None:
            self._changes.senders.append(end)
            self._changes.sent.append(SentBatch(end.key, end.attempt, 0, self._now_ms, end.sent))
        if end.is_dead:
            self._changes.dead.append(DeadJobRow(end.key, _failures_after(end, job)))

    def requeue(self, end: JobEnd, visible_at_ms: int) -> None:
        """Put a job back into its queue."""
        job = self._rows.jobs[end.key]
        job.failures = _failures_after(end, job)
        attempt = max(job.attempt - 1, 0) if end.refund else job.attempt
        job.token = 0
        self._note_session(job)
        self._changes.requeued.append(
            RequeuedJob(end.key, visible_at_ms, attempt, job.failures, end.details)
        )

    def _note_session(self, job: JobState) -> None:
        if job.session is not None:
            self._changes.sessions_used[job.session] = None

    # ------------------------------------------------------------------ turns

    def change(self, turn: Turn, row: LiveState) -> None:
        """Add and remove the jobs of a turn."""
        if turn.jobs_gone and row.jobs:
            # Added by an earlier turn of this batch.
            row.jobs = [pending for pending in row.jobs if pending.job.seq not in turn.jobs_gone]
        for job in turn.jobs:
            if job.seq in turn.jobs_gone:
                continue  # Asked for and given up within one turn.
            leased = job.leased
            row.jobs.append(
                PendingJob(
                    row.execution,
                    job,
                    self._number_of(job.queue),
                    turn.commit_id if leased else 0,
                    turn.worker_id if leased else None,
                    turn.jobs_leased_until_ms if leased else self._now_ms,
                )
            )
        for seq in turn.jobs_gone:
            self._remove(JobKey(row.instance_id, row.incarnation, row.execution, seq))

    def bury(self, turn: Turn, row: LiveState) -> None:
        """Keep the jobs that a turn ends as dead, before they go."""
        for buried in turn.jobs_buried:
            key = JobKey(row.instance_id, row.incarnation, row.execution, buried.seq)
            job = self._rows.jobs.get(key)
            if job is not None and not job.gone:
                failures = _failures_of(job).plus(buried.failure)
                self._changes.dead.append(DeadJobRow(key, _encoder.encode(failures)))
            elif (unqueued := _unqueued(buried, row)) is not None:
                self._bury_unqueued(key, unqueued, buried, row)

    def _bury_unqueued(self, key: JobKey, job: NewJob, buried: BuriedJob, row: LiveState) -> None:
        """Let a job that has no row have one for a moment, and die of it."""
        pending = PendingJob(
            execution=row.execution,
            job=job,
            queue_no=self._number_of(job.queue),
            token=0,
            worker_id=None,
            visible_at_ms=self._now_ms,
        )
        self._changes.unqueued.append(UnqueuedJob(row, row.incarnation, pending))
        failures = JobFailures().plus(buried.failure)
        self._changes.dead.append(DeadJobRow(key, _encoder.encode(failures)))
        self._remove(key)

    def leave(self, row: LiveState) -> None:
        """The execution of an instance is followed by the next one: its jobs belong to no
        execution."""
        self._left.add((row.instance_id, row.incarnation, row.execution))
        row.jobs = [pending for pending in row.jobs if pending.execution != row.execution]

    def _remove(self, key: JobKey) -> None:
        job = self._rows.jobs.get(key)
        if job is not None:
            job.gone = True
        self._changes.jobs_gone.append(key)


def _unqueued(buried: BuriedJob, row: LiveState) -> NewJob | None:
    """Return a job that is to die and has no row: never queued, or by this very batch."""
    added = (pending.job for pending in row.jobs if pending.job.seq == buried.seq)
    return buried.unqueued or next(added, None)


def _failures_after(end: JobEnd, job: JobState) -> bytes | None:
    if end.failure is None and not end.misfit:
        return job.failures
    return _encoder.encode(_failures_of(job).after(end))


def _failures_of(job: JobState) -> JobFailures:
    try:
        return JobFailures() if job.failures is None else _failures.decode(job.failures)
    except msgspec.MsgspecError:
        # The claim has told of the damage; the job must not be stuck because of it.
        return JobFailures()
