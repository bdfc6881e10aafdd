"""The part of a store that people use.

What is said in `perdure.store.admin` is not repeated here. Lists and counts are in `lists` and
`overview`, removal in `removal`, what an operator does by hand in `repair`, what a wrong clock left
in `stranded`.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.model.admin import (
    DeadJob,
    DeletedCounts,
    ExecutionRow,
    Expiry,
    HeldLeases,
    InstanceFilter,
    InstancePage,
    InstanceStats,
    KvRow,
    PageMark,
    QueueDepth,
    ReportRow,
    RunningJob,
    SessionRow,
    StoreTotals,
)
from perdure.model.instances import DefinitionKey, InstanceRow
from perdure.model.jobs import JobKey
from perdure.model.turns import WorkerRow
from perdure.store.admin import AdminStore
from perdure.store.observer import Observer
from perdure.store.observing import observable
from perdure.store.sql import removal, repair, stranded, worker_rows
from perdure.store.sql.access import StoreAccess
from perdure.store.sql.questions import lists, overview
from perdure.store.sql.twice import (
    done_once,
    each_done_once,
    removed_once,
    removed_once_if_any,
)


@observable(AdminStore)
class SqlAdmin:
    """See `perdure.store.admin.AdminStore`."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    @property
    def observer(self) -> Observer | None:
        """Who is told of each operation."""
        return self._store.observer

    # ---------------------------------------------------------------- reading

    async def list_instances(
        self, filter: InstanceFilter, *, limit: int, after: PageMark | None = None
    ) -> list[InstanceRow]:
        """Return instances, newest first, from behind a mark on."""
        return await self._store.read(
            lambda c: lists.list_instances(c, filter, limit=limit, after=after)
        )

    async def list_page(
        self, filter: InstanceFilter, *, limit: int, after: PageMark | None = None
    ) -> InstancePage:
        """Return a page of instances after looking at a bounded number of them."""
        return await self._store.read(
            lambda c: lists.list_page(c, filter, limit=limit, after=after)
        )

    async def count_instances(self, filter: InstanceFilter) -> int:
        """Return how many instances there are of this sort."""
        return await self._store.read(lambda c: lists.count_instances(c, filter))

    async def read_executions(self, instance_id: str) -> list[ExecutionRow]:
        """Return the executions of the id's present incarnation, oldest first."""
        return await self._store.read(lambda c: overview.read_executions(c, instance_id))

    async def read_children(self, instance_ids: Sequence[str]) -> list[InstanceRow]:
        """Return the children of the present incarnations of these instances, oldest first."""
        return await self._store.read(lambda c: overview.read_children(c, instance_ids))

    async def instance_stats(self, instance_id: str) -> InstanceStats | None:
        """Return how much is stored for an instance; None if there is none."""
        return await self._store.read(lambda c: overview.instance_stats(c, instance_id))

    async def totals(self) -> StoreTotals:
        """Return how much there is in all, in one snapshot."""
        return await self._store.read(overview.totals)

    async def queue_depths(self) -> list[QueueDepth]:
        """Return what waits, by definition."""
        now_ms = self._store.clock()
        return await self._store.read(lambda c: overview.queue_depths(c, now_ms=now_ms))

    async def count_leases(self, workers: Sequence[WorkerRow]) -> HeldLeases:
        """Count which leases these workers hold."""
        now_ms = self._store.clock()
        return await self._store.read(lambda c: worker_rows.count_leases(c, workers, now_ms=now_ms))

    async def definitions(self) -> dict[int, DefinitionKey]:
        """Return every definition the store has seen, by number."""
        return await self._store.read(overview.read_definitions)

    async def read_kv(self, instance_id: str, key: str | None = None) -> dict[str, KvRow]:
        """Return the values that an instance keeps, in order of their keys; or the one of a key."""
        return await self._store.read(lambda c: overview.read_kv(c, instance_id, key))

    async def read_reports(self, instance_ids: Sequence[str]) -> list[ReportRow | None]:
        """Return the reports of instances, None for one that has made none."""
        return await self._store.read(lambda c: overview.read_reports(c, instance_ids))

    async def read_progress(self, instance_id: str) -> list[RunningJob]:
        """Return what the running jobs of an instance said of their progress."""
        return await self._store.read(lambda c: overview.read_progress(c, instance_id))

    async def read_secret(self) -> bytes:
        """Return the 32 bytes that tokens of promises are signed with."""
        return await self._store.read(overview.read_secret)

    async def read_sessions(self) -> list[SessionRow]:
        """Return who has which session."""
        return await self._store.read(overview.read_sessions)

    async def read_dead_jobs(self, *, limit: int, after: JobKey | None = None) -> list[DeadJob]:
        """Return dead jobs in order of their keys, from behind one on."""
        return await self._store.read(
            lambda c: overview.read_dead_jobs(c, limit=limit, after=after)
        )

    # ---------------------------------------------------------------- writing

    async def delete(
        self, instances: Sequence[tuple[str, int]], *, force: bool = False
    ) -> DeletedCounts | None:
        """Remove every row of these incarnations, all or none."""
        return await self._store.work(
            lambda t: removal.delete(t.connection, instances, force=force),
            if_twice=removed_once_if_any,
        )

    async def prune(
        self, instance_id: str, *, keep_last: int, ended_before_ms: int | None = None
    ) -> DeletedCounts:
        """Remove the histories of earlier executions."""
        return await self._store.work(
            lambda t: removal.prune(
                t.connection, instance_id, keep_last=keep_last, ended_before_ms=ended_before_ms
            ),
            if_twice=removed_once,
        )

    async def retry_dead_jobs(self, keys: Sequence[JobKey]) -> list[bool]:
        """Put dead jobs back into their queues, with all their attempts before them."""
        return await self._store.work(
            lambda t: repair.retry_dead_jobs(t.connection, keys, now_ms=t.now_ms),
            if_twice=each_done_once,
        )

    async def forget_dead_jobs(self, keys: Sequence[JobKey]) -> list[bool]:
        """Remove dead jobs."""
        return await self._store.work(
            lambda t: repair.forget_dead_jobs(t.connection, keys), if_twice=each_done_once
        )

    async def end_job_by_hand(self, key: JobKey, kind: str, body: bytes) -> bool:
        """End a job, whichever worker runs it: its owner gets the message."""
        return await self._store.work(
            lambda t: repair.end_job(t, key, kind, body), if_twice=done_once
        )

    async def drop_message(self, instance_id: str, no: int) -> bool:
        """Remove a message or timer from an inbox, and end the instance's lease."""
        return await self._store.work(
            lambda t: repair.drop_message(t.connection, instance_id, no, now_ms=t.now_ms),
            if_twice=done_once,
        )

    async def expire(self, expiry: Expiry, *, limit: int) -> int:
        """Remove what is too old, at most so many rows of each sort; return how many."""
        if limit < 1:
            return 0
        now_ms = self._store.clock()
        expired = await self._store.read(
            lambda c: removal.find_expired(c, expiry, limit=limit, now_ms=now_ms)
        )
        if not any(expired):
            return 0
        return await self._store.work(
            lambda t: removal.remove_expired(t.connection, expired, expiry, now_ms=now_ms)
        )

    async def wake_stranded(self, *, limit: int) -> int:
        """Wake what a wrong clock has put into a time to come; return how many turns and jobs."""
        now_ms = self._store.clock()
        found = await self._store.read(
            lambda c: stranded.find_stranded(c, limit=limit, now_ms=now_ms)
        )
        await self._store.work(lambda t: stranded.wake_stranded(t.connection, found, now_ms=now_ms))
        return len(found.turns) + len(found.jobs)
