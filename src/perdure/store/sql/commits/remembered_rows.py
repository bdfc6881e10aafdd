"""What a writer remembers of the rows it wrote last, so that it need not load them again.

Most turns follow one that was committed a moment ago by the same writer: their rows are known. What
is remembered is the truth only as long as no other process writes. Whether that is so is not
decided here: the batch that writes on the strength of it has the database check it in the same
transaction, and says when it was wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from perdure.model.instances import LiveRow, part_of
from perdure.model.jobs import JobKey
from perdure.model.turns import Turn
from perdure.store.sql.commits.changes import Changes
from perdure.store.sql.commits.commit import Commit
from perdure.store.sql.commits.rows import (
    Change,
    JobState,
    LiveState,
    LoadedRows,
    WantedRows,
    is_next,
)

MAX_REMEMBERED = 4_096
"""Instances whose rows are remembered, about a kilobyte each."""
MAX_PAUSE = 63
"""Batches for which nothing is found when that was wrong again and again."""


class RememberedRows:
    """The rows of the instances that were written last."""

    def __init__(self) -> None:
        self._live: dict[str, LiveState] = {}
        """Of instances that were started, the longest unchanged first."""
        self._jobs: dict[str, dict[JobKey, JobState]] = {}
        """Jobs of these instances that a worker has; there may be more."""
        self._wrongs = 0
        """How often in a row what was found was wrong."""
        self._pause_left = 0
        """For how many batches nothing is found because of that."""

    def __len__(self) -> int:
        return len(self._live)

    def find(self, changes: Sequence[Change]) -> LoadedRows | None:
        """Return the rows that changes touch, or None if one of them is not known.

        Instances that are started are taken for new: see `LoadedRows.assumed_new`. A batch that
        uses the rows says what came of it: `keep`, or `was_wrong`.
        """
        if self._pause_left:
            self._pause_left -= 1
            return None
        wanted = WantedRows()
        for change in changes:
            wanted.add(change)
        if not wanted.is_plain:
            return None
        rows = LoadedRows()
        for instance_id in wanted.ids:
            live = self._live.get(instance_id)
            if live is not None:
                rows.live[instance_id] = live
            elif instance_id in wanted.starts:
                rows.assumed_new.add(instance_id)
            else:
                return None
        if not _are_next(wanted.turns, rows):
            # One comes too late, or again: which of the two, the history tells.
            return None
        for key in wanted.jobs:
            job = self._jobs.get(key.instance_id, {}).get(key)
            if job is None:
                return None
            rows.jobs[key] = job
        rows.remembered = tuple(rows.live)
        return rows

    def was_wrong(self, rows: LoadedRows) -> None:
        """Forget rows that were found and are not the truth.

        After the second time in a row nothing is found for a batch, after the next for three,
        seven, and so on: where others change the same instances all the time, each try is in vain.
        """
        # Not those that are left: what has ended in vain is no longer among them.
        for instance_id in rows.remembered:
            self._forget(instance_id)
        self._pause_left = min(2**self._wrongs - 1, MAX_PAUSE)
        self._wrongs = min(self._wrongs + 1, MAX_PAUSE)

    def was_right(self) -> None:
        """What was found was the truth."""
        self._wrongs = 0

    def keep(self, commit: Commit, writer: str | None = None) -> None:
        """Remember the rows as a committed batch has left them. It must not be used any more.

        Args:
            commit: The batch.
            writer: The transaction, where each row is known by the one that has written it last.
        """
        for row in commit.rows.live.values():
            if row.dirty:
                row.writer = writer
            if writer is None or row.writer is not None:
                self._keep_live(row)
        for key, job in commit.rows.jobs.items():
            if job.token and key.instance_id in self._live:
                self._jobs.setdefault(key.instance_id, {})[key] = job
        for key in commit.changes.jobs_gone:
            jobs = self._jobs.get(key.instance_id)
            if jobs is not None:
                jobs.pop(key, None)
        for instance_id in _unknown_after(commit.changes):
            self._forget(instance_id)
        self._keep_newest()

    def learn(self, live: LiveRow, writer: str) -> None:
        """Remember a row as another process has left it.

        Args:
            live: The row.
            writer: The transaction that has written it.
        """
        known = self._live.get(live.instance_id)
        if known is not None and known.writer == writer and known.last_commit == live.stamp[3]:
            return
        self._forget(live.instance_id)
        if live.definition_no is not None:
            self._live[live.instance_id] = live_state(live, writer)
            self._keep_newest()

    def _keep_newest(self) -> None:
        while len(self._live) > MAX_REMEMBERED:
            self._forget(next(iter(self._live)))

    def newest(self, count: int = 100) -> list[LiveState]:
        """Return the rows that were remembered last, up to so many."""
        return list(islice(reversed(self._live.values()), count))

    def forget(self) -> None:
        """Remember nothing: another process may have changed the rows."""
        self._live.clear()
        self._jobs.clear()

    def forget_these(self, rows: LoadedRows) -> None:
        """Forget some rows."""
        for instance_id in rows.live:
            self._forget(instance_id)

    def _keep_live(self, row: LiveState) -> None:
        instance_id = row.instance_id
        if not row.is_born or row.is_due_unsure:
            # Of the unborn more has to be known than their live row; the other is corrected by the
            # database itself.
            self._forget(instance_id)
            return
        self._live.pop(instance_id, None)
        self._live[instance_id] = row
        row.stored = True
        row.dirty = False
        if row.messages:
            row.messages = []
        for pending in row.jobs:
            # What waits in a queue can only be claimed, and has another token then.
            if pending.token:
                key = JobKey(instance_id, row.incarnation, pending.execution, pending.job.seq)
                job = JobState(pending.token, 1, None, pending.job.session)
                self._jobs.setdefault(instance_id, {})[key] = job
        if row.jobs:
            row.jobs = []

    def _forget(self, instance_id: str) -> None:
        self._live.pop(instance_id, None)
        self._jobs.pop(instance_id, None)


def live_state(live: LiveRow, writer: str) -> LiveState:
    """Return a stored row as a batch works on it."""
    row = LiveState(part_of(live.instance_id), live.instance_id)
    row.stored = True
    row.writer = writer
    row.incarnation, row.execution, row.next_seq, row.last_commit = live.stamp
    row.definition_no = live.definition_no
    row.wake_at_ms = live.wake_at_ms
    row.lease = live.lease
    row.lease_until_ms = live.lease_until_ms
    row.home = live.home
    row.last_no = live.last_no
    row.last_at_ms = live.last_at_ms
    row.attempts = live.attempts
    row.blocked_by = live.blocked_by
    return row


def _are_next(turns: Sequence[Turn], rows: LoadedRows) -> bool:
    for turn in turns:  # noqa: SIM110  # a generator costs more than what it asks
        if not is_next(turn, rows):
            return False
    return True


def _unknown_after(changes: Changes) -> Iterator[str]:
    """Yield the instances that have ended, or of which statements leave other values, or fewer
    jobs, than are known here."""
    for ended in changes.ended:
        yield ended.row.instance_id
    for requeued in changes.requeued:
        yield requeued.key.instance_id
    for _, instance_id, _, _ in changes.left:
        yield instance_id
    for _, instance_id, _ in changes.vanished:
        yield instance_id
    for _, instance_id, _ in changes.revived:
        yield instance_id
