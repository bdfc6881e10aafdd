"""What a writer remembers of the rows it wrote last, so that it need not load them again.

Most turns follow one that was committed a moment ago by the same writer: their rows are known. What
is remembered is the truth only as long as nobody else writes. Whether that is so is not decided
here: whoever writes on the strength of it has the database check it in the same transaction, and
forgets everything when it is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.model.jobs import JobKey
from perdure.store.sql.commit import Commit
from perdure.store.sql.rows import Change, JobState, LiveState, LoadedRows, Wanted

MAX_KEPT = 4_096
"""Instances whose rows are remembered, about a kilobyte each."""


class KeptRows:
    """The rows of the instances that were written last."""

    def __init__(self) -> None:
        self._live: dict[str, LiveState] = {}
        """Of instances that were started, the longest unchanged first."""
        self._jobs: dict[str, dict[JobKey, JobState]] = {}
        """Jobs of these instances that somebody has; there may be more."""

    def __len__(self) -> int:
        return len(self._live)

    def find(self, changes: Sequence[Change], *, may_assume: bool) -> LoadedRows | None:
        """Return the rows that changes touch, or None if one of them is not known.

        Args:
            changes: Of instances.
            may_assume: Whether instances that are started may be taken for new: see
                `LoadedRows.assumed_new`.
        """
        wanted = Wanted()
        for change in changes:
            wanted.add(change)
        if not wanted.is_plain:
            return None
        rows = LoadedRows()
        for instance_id in wanted.ids:
            live = self._live.get(instance_id)
            if live is not None:
                rows.live[instance_id] = live
            elif may_assume and instance_id in wanted.starts:
                rows.assumed_new.add(instance_id)
            else:
                return None
        for key in wanted.jobs:
            job = self._jobs.get(key.instance_id, {}).get(key)
            if job is None:
                return None
            rows.jobs[key] = job
        return rows

    def keep(self, commit: Commit) -> None:
        """Remember the rows as a committed batch has left them. It must not be used any more."""
        changes = commit.changes
        for row in commit.rows.live.values():
            self._keep_live(row)
        for key, job in commit.rows.jobs.items():
            if job.token and key.instance_id in self._live:
                self._jobs.setdefault(key.instance_id, {})[key] = job
        for key in changes.jobs_gone:
            self._jobs.get(key.instance_id, {}).pop(key, None)
        for ended in changes.ended:
            self._forget(ended.row.instance_id)
        # Their statements leave other values, or other jobs, than are known here.
        for requeued in changes.requeued:
            self._forget(requeued.key.instance_id)
        for left in changes.left:
            self._forget(left[1])
        for vanished in changes.vanished:
            self._forget(vanished[1])
        while len(self._live) > MAX_KEPT:
            self._forget(next(iter(self._live)))

    def forget(self) -> None:
        """Remember nothing: somebody else may have changed the rows."""
        self._live.clear()
        self._jobs.clear()

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
            # What waits in a queue can only be claimed, and after that everything is forgotten.
            if pending.token:
                key = JobKey(instance_id, row.incarnation, pending.execution, pending.job.seq)
                job = JobState(pending.token, 1, None, pending.job.session)
                self._jobs.setdefault(instance_id, {})[key] = job
        if row.jobs:
            row.jobs = []

    def _forget(self, instance_id: str) -> None:
        self._live.pop(instance_id, None)
        self._jobs.pop(instance_id, None)
