"""The part of the contract that people use: lists, counts, removal, repair.

Reads never wait for writers and take no lease. Writes here are rare; each is one transaction. What
removes rows of a live instance makes every commit that is under way for it fail its fence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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


class AdminStore(Protocol):
    """What administration needs of a store."""

    # ---------------------------------------------------------------- reading

    async def list_instances(
        self, filter: InstanceFilter, *, limit: int, after: PageMark | None = None
    ) -> list[InstanceRow]:
        """Return instances, newest first, from behind a mark on. Stable while others come and go:
        ordered by creation and then id, descending both. As many as there are up to the limit,
        even if all of the store has to be looked at for that."""
        ...

    async def list_page(
        self, filter: InstanceFilter, *, limit: int, after: PageMark | None = None
    ) -> InstancePage:
        """Return the same after looking at a bounded number of instances: the page may have fewer
        than there are, none even, and then says from where to go on."""
        ...

    async def count_instances(self, filter: InstanceFilter) -> int:
        """Return how many instances there are of this sort."""
        ...

    async def read_executions(self, instance_id: str) -> list[ExecutionRow]:
        """Return the executions of the id's present incarnation, oldest first."""
        ...

    async def read_children(self, instance_ids: Sequence[str]) -> list[InstanceRow]:
        """Return the children of the present incarnations of these instances."""
        ...

    async def instance_stats(self, instance_id: str) -> InstanceStats | None:
        """Return how much is stored for an instance; None if there is none."""
        ...

    async def totals(self) -> StoreTotals:
        """Return how much there is in all, in one snapshot."""
        ...

    async def queue_depths(self) -> list[QueueDepth]:
        """Return what waits, by definition; definitions for which nothing waits are left out."""
        ...

    async def count_leases(self, workers: Sequence[WorkerRow]) -> HeldLeases:
        """Return how many leases these workers hold, by definition.

        It looks at a bounded number of rows of each definition, whatever the store holds.
        """
        ...

    async def definitions(self) -> dict[int, DefinitionKey]:
        """Return every definition the store has seen, by number."""
        ...

    async def read_kv(self, instance_id: str, key: str | None = None) -> dict[str, KvRow]:
        """Return the values that an instance keeps, in order of their keys; or the one of a key."""
        ...

    async def read_reports(self, instance_ids: Sequence[str]) -> list[ReportRow | None]:
        """Return the reports of instances, None for one that has made none."""
        ...

    async def read_progress(self, instance_id: str) -> list[RunningJob]:
        """Return what the running jobs of an instance said of their progress."""
        ...

    async def read_secret(self) -> bytes:
        """Return the 32 bytes that tokens of promises are signed with. They are shown nowhere.

        Raises:
            StoreError: The role of the connection may not read them.
        """
        ...

    async def read_sessions(self) -> list[SessionRow]:
        """Return who has which session."""
        ...

    async def read_dead_jobs(self, *, limit: int, after: JobKey | None = None) -> list[DeadJob]:
        """Return dead jobs in an order that lasts, from behind one on."""
        ...

    # ---------------------------------------------------------------- writing

    async def delete(
        self, instances: Sequence[tuple[str, int]], *, force: bool = False
    ) -> DeletedCounts | None:
        """Remove every row of these incarnations, all or none.

        None, and nothing is removed, if one of them has a child that is not among them, or is not
        the id's present incarnation, or (without `force`) has not ended.
        """
        ...

    async def prune(
        self, instance_id: str, *, keep_last: int, ended_before_ms: int | None = None
    ) -> DeletedCounts:
        """Remove the histories of earlier executions. Never the current one, never of the last
        `keep_last` (the current one counts), never one that ended later."""
        ...

    async def retry_dead_jobs(self, keys: Sequence[JobKey]) -> list[bool]:
        """Put dead jobs back into their queues, with all their attempts before them. A worker that
        claims one is told that it is a rerun."""
        ...

    async def forget_dead_jobs(self, keys: Sequence[JobKey]) -> list[bool]:
        """Remove dead jobs."""
        ...

    async def end_job_by_hand(self, key: JobKey, kind: str, body: bytes) -> bool:
        """End a job, whichever worker runs it: its owner gets the message. False: there is none."""
        ...

    async def drop_message(self, instance_id: str, no: int) -> bool:
        """Remove a message or timer from an inbox; False: there is no such message. The start of an
        execution is none.

        Changes the instance's stamp: a turn that may have taken the message is refused. Its receipt
        goes with it, unless it was decided: it may be sent again under the same id.
        """
        ...

    async def expire(self, expiry: Expiry, *, limit: int) -> int:
        """Remove what is too old, at most so many of each sort; return how many. An unborn id and
        its messages count as one."""
        ...

    async def wake_stranded(self, *, limit: int) -> int:
        """Let ready what is ready by a time to come, and leases end soon that end in days, at most
        so many turns and jobs; return how many. A wrong clock has written them. Timers stay."""
        ...
