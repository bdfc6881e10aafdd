"""Removing what the retention policy lets go: ended trees, earlier executions, old receipts. And
what deciders do not keep, see `old_events`.

A tree is an instance that no live instance has started as a child, with its children and
theirs. It goes as a whole, and only when every member has ended before the time that is kept: a
member that lives, or ended later, keeps all of it. Deleting is one transaction that checks this
once more, so several workers may do it at the same time; the one that comes second removes nothing.

Pages of `for_each` go first of all, and without the rest of their tree: what they came to is in the
history of their parent, and there may be very many.

Each round does a bounded part of the work, in small transactions, and says whether there is more.

What is removed is gone, so nothing is removed for its age by a clock that may be wrong: it has to
run steadily for a while first, and for long if the store knows of no time near it. After a jump,
what a wrong clock has put into a time to come is brought back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.clock import JUMP_MS, Clock, to_datetime, to_ms
from perdure.clock_watch import LASTS_MS, jumps, steady_ms
from perdure.limits import BULK_MAX
from perdure.model.admin import DeletedCounts, Expiry, InstanceFilter, PageMark
from perdure.model.histories.paging import PAGE as PAGE_OF_ITEMS
from perdure.model.instances import ENDED, DefinitionKey, InstanceRow, Status, is_own_root
from perdure.model.options import Retention, WorkerOptions
from perdure.store.base import Store
from perdure.telemetry import Metrics
from perdure.worker.old_events import OldEvents

logger = logging.getLogger(__name__)

PAGE = 200
"""How many instances are looked at together. Rows hold inputs and results, so not too many."""

MAX_PAGES = 20
"""How many pages of instances one round looks through."""

PAGES_OF_ITEMS = 20
"""How many pages of `for_each` are looked at together: their inputs are large."""

MAX_TREE = 100_000
"""The largest tree that is removed. A larger one is left to `client.delete`."""

MAX_CONTINUED = 100_000
"""How many instances that continued as new are remembered for the next round; others are found
when all are looked through."""

STEADY_FIRST_MS = 3_600_000
"""How long a worker's clock must have been steady, from its start or a jump on. A machine that
starts with a wrong time, or was paused, has asked a time server for the right one by then."""

FAR_BEHIND_MS = 7 * 24 * 3_600_000
"""When the newest in the store is so much older than the clock, no worker ran for long, or the
clock is wrong."""

STEADY_IF_FAR_MS = 24 * 3_600_000
"""How long the clock must have been steady then."""

PAUSE_S = 1.0
"""Pause between rounds while there is more to do."""

UNNEEDED = (Status.COMPLETED, Status.CANCELLED)
"""How pages of `for_each` have ended that no person will look at."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What one round removed."""

    instances: int = 0
    executions: int = 0
    events: int = 0
    expired: int = 0
    """Receipts, messages for ids that were never started, dead jobs, rows of streams, sessions."""
    has_more: bool = False
    """Whether the round ended before everything was looked at."""

    def __bool__(self) -> bool:
        return bool(self.instances or self.executions or self.events or self.expired)


class TreeMember(NamedTuple):
    """One instance of a tree."""

    instance_id: str
    incarnation: int
    ended_ms: int | None
    """None: it lives."""

    @classmethod
    def of(cls, row: InstanceRow) -> TreeMember:
        """Return what is needed of a row."""
        ended_ms = row.ended_ms if row.status.is_terminal else None
        if ended_ms is not None:
            # A clock that was behind when it ended would have it removed too early.
            ended_ms = max(ended_ms, row.created_ms)
        return cls(row.instance_id, row.incarnation, ended_ms)

    @property
    def key(self) -> tuple[str, int]:
        """What the store deletes it by."""
        return self.instance_id, self.incarnation


class Housekeeping:
    """Applies a worker's retention policy, now and then."""

    def __init__(
        self,
        store: Store,
        options: WorkerOptions,
        *,
        worker_id: str,
        metrics: Metrics,
        deciders: Mapping[DefinitionKey, DeciderDefinition],
    ) -> None:
        self._store = store
        self._clock: Clock = store.clock
        self._keep: Retention = options.retention
        self._every_s = options.housekeeping_every.total_seconds()
        self._worker_id = worker_id
        self._metrics = metrics
        self._old_events = OldEvents(store, deciders, worker_id=worker_id)
        self._ended_from: PageMark | None = None
        self._items_from: PageMark | None = None
        self._executions_from: PageMark | None = None
        self._has_looked_through = False
        self._continued: set[str] = set()
        self._steady_first_ms = STEADY_FIRST_MS
        self._jumps = -1
        """After how many jumps of the clock what they stranded was looked for. Once in any case: an
        earlier process may have died before it looked."""

    async def open(self) -> None:
        """Compare the clock with what the store knew before this worker writes anything."""
        newest = await self._store.admin.list_instances(InstanceFilter(), limit=1)
        if not newest:
            return
        ahead_ms = self._clock() - newest[0].created_ms
        facts = {"ahead_ms": ahead_ms, "worker_id": self._worker_id}
        if ahead_ms < -JUMP_MS:
            logger.warning(
                "the newest instance in the store is from %s, which is still to come by the clock: "
                "it is wrong now, or was then",
                to_datetime(newest[0].created_ms).isoformat(timespec="seconds"),
                extra=facts,
            )
        elif ahead_ms > FAR_BEHIND_MS:
            self._steady_first_ms = STEADY_IF_FAR_MS
            logger.info(
                "the newest instance in the store is from %s: nobody worked since, or the clock is "
                "wrong; housekeeping removes nothing for a day",
                to_datetime(newest[0].created_ms).isoformat(timespec="seconds"),
                extra=facts,
            )

    def continued(self, instance_id: str) -> None:
        """An instance continued as new: it may have more executions now than are kept."""
        if self._keep.executions is None:
            return
        if len(self._continued) < MAX_CONTINUED:
            self._continued.add(instance_id)
        elif instance_id not in self._continued:
            self._has_looked_through = False

    async def run(self) -> None:
        """Keep house for ever. Ends only by cancellation."""
        while True:
            await asyncio.sleep(self._every_s)
            removed = await self.run_once()
            while removed.has_more:
                await asyncio.sleep(PAUSE_S)
                removed = await self.run_once()

    async def run_once(self) -> Removed:
        """Do one round; of what goes by age nothing, if the clock may be wrong."""
        deleted, more_items, more_ended = DeletedCounts(), False, False
        expired, more_expired = 0, False
        old_events, more_old = 0, False
        if steady_ms(self._clock) >= self._steady_first_ms:
            pages, more_items = await self._remove_pages_of_items()
            deleted, more_ended = await self._remove_ended()
            deleted = _sum(pages, deleted)
            expired, more_expired = await self._expire()
            old_events, more_old = await self._old_events.remove()
        pruned, more_executions = await self._prune_executions()
        await self._wake_stranded()
        removed = Removed(
            instances=deleted.instances,
            executions=deleted.executions + pruned.executions,
            events=deleted.events + pruned.events + old_events,
            expired=expired,
            has_more=more_items or more_ended or more_executions or more_expired or more_old,
        )
        if removed:
            self._say(removed)
        return removed

    def _say(self, removed: Removed) -> None:
        facts = {
            "instances": removed.instances,
            "executions": removed.executions,
            "events": removed.events,
            "expired": removed.expired,
        }
        for what, count in facts.items():
            self._metrics.removed.add((what,), by=count)
        # The names of facts must not be those of logging's own.
        logger.info(
            "housekeeping removed what is no longer kept",
            extra={f"removed_{what}": count for what, count in facts.items()}
            | {"worker_id": self._worker_id},
        )

    # ----------------------------------------------------------------- ended trees

    async def _remove_ended(self) -> tuple[DeletedCounts, bool]:
        before_ms = self._before(self._keep.ended)
        if before_ms is None:
            return DeletedCounts(), False
        # What ended before then was created before then, and creation is what is indexed.
        wanted = InstanceFilter(
            statuses=ENDED, ended_before_ms=before_ms, created_before_ms=before_ms
        )
        deleted = DeletedCounts()
        for _ in range(MAX_PAGES):
            page, reached = await self._store.admin.list_page(
                wanted, limit=PAGE, after=self._ended_from
            )
            trees = await self._trees(await self._roots(page))
            ripe = [tree for tree in trees if _is_ripe(tree, before_ms)]
            deleted = _sum(deleted, await self._delete(ripe))
            self._ended_from = reached
            if self._ended_from is None:
                return deleted, False
        return deleted, True

    async def _remove_pages_of_items(self) -> tuple[DeletedCounts, bool]:
        """Remove ended pages of `for_each`, with what they started, from below their parents."""
        before_ms = self._before(self._keep.pages)
        if before_ms is None:
            return DeletedCounts(), False
        wanted = InstanceFilter(
            name=PAGE_OF_ITEMS,
            statuses=UNNEEDED,
            ended_before_ms=before_ms,
            created_before_ms=before_ms,
        )
        deleted = DeletedCounts()
        for _ in range(MAX_PAGES):
            page, self._items_from = await self._store.admin.list_page(
                wanted, limit=PAGES_OF_ITEMS, after=self._items_from
            )
            trees = await self._trees([TreeMember.of(row) for row in page])
            ripe = [tree for tree in trees if _is_ripe(tree, before_ms)]
            deleted = _sum(deleted, await self._delete(ripe))
            if self._items_from is None:
                return deleted, False
        return deleted, True

    async def _roots(self, rows: Sequence[InstanceRow]) -> list[TreeMember]:
        """Return those whose parent is not in the store: there is none, or it was removed. What a
        schedule has started stands for itself."""
        rows_below = [row for row in rows if not is_own_root(row)]
        parent_ids = list({row.parent_id for row in rows_below if row.parent_id is not None})
        parents = await self._store.read_instances(parent_ids) if parent_ids else []
        here = {(row.instance_id, row.incarnation) for row in parents if row is not None}
        return [
            TreeMember.of(row)
            for row in rows
            if is_own_root(row) or (row.parent_id, row.parent_incarnation) not in here
        ]

    async def _trees(self, roots: Sequence[TreeMember]) -> list[list[TreeMember]]:
        """Return instances, each with all below it. Trees that are too large are left out."""
        tree_of = {root.key: [root] for root in roots}
        trees = list(tree_of.values())
        generation = [root.key for root in roots]
        while generation:
            born: list[tuple[str, int]] = []
            for begin in range(0, len(generation), PAGE):
                some = [instance_id for instance_id, _ in generation[begin : begin + PAGE]]
                for row in await self._store.admin.read_children(some):
                    tree = tree_of.get((row.parent_id or "", row.parent_incarnation or 0))
                    if tree is None or len(tree) > MAX_TREE:
                        continue
                    child = TreeMember.of(row)
                    tree.append(child)
                    tree_of[child.key] = tree
                    born.append(child.key)
            generation = born
        return [tree for tree in trees if self._is_small(tree)]

    def _is_small(self, tree: Sequence[TreeMember]) -> bool:
        if len(tree) <= MAX_TREE:
            return True
        logger.warning(
            "instance %r and what is below it are too many to be removed by housekeeping; "
            "client.delete(...) removes them",
            tree[0].instance_id,
            extra={"instance_id": tree[0].instance_id, "worker_id": self._worker_id},
        )
        return False

    async def _delete(self, trees: Sequence[Sequence[TreeMember]]) -> DeletedCounts:
        """Delete trees, several in one transaction; those that no longer may go stay."""
        deleted = DeletedCounts()
        for batch in _batches(trees):
            found = await self._store.admin.delete(_keys(batch))
            if found is not None:
                deleted = _sum(deleted, found)
                continue
            for tree in batch:
                # One of them changed in the meantime: another worker was here, or it has a new
                # child, or its id a new incarnation.
                deleted = _sum(deleted, await self._store.admin.delete(_keys([tree])))
        return deleted

    # -------------------------------------------------------------- executions

    async def _prune_executions(self) -> tuple[DeletedCounts, bool]:
        keep = self._keep.executions
        if keep is None:
            return DeletedCounts(), False
        keep_last = keep + 1  # the current one too
        pruned = DeletedCounts()
        for instance_id in sorted(self._continued):
            # Before: it may continue once more while the store is at it.
            self._continued.discard(instance_id)
            try:
                pruned = _sum(
                    pruned, await self._store.admin.prune(instance_id, keep_last=keep_last)
                )
            except BaseException:
                self._continued.add(instance_id)
                raise
        if self._has_looked_through:
            return pruned, False
        # Once in a worker's life: what continued where no worker kept house. And once more if there
        # were too many to remember.
        for _ in range(MAX_PAGES):
            page, reached = await self._store.admin.list_page(
                InstanceFilter(), limit=PAGE, after=self._executions_from
            )
            for row in page:
                if row.execution > keep_last:
                    done = await self._store.admin.prune(row.instance_id, keep_last=keep_last)
                    pruned = _sum(pruned, done)
            self._executions_from = reached
            if self._executions_from is None:
                self._has_looked_through = True
                return pruned, False
        return pruned, True

    # ---------------------------------------------------------------- stranded

    async def _wake_stranded(self) -> None:
        """Look for what was written by a wrong clock, when there may have been one and time is
        steady now."""
        seen = jumps(self._clock)
        if seen == self._jumps or steady_ms(self._clock) < LASTS_MS:
            return
        while count := await self._store.admin.wake_stranded(limit=BULK_MAX):
            logger.warning(
                "work was ready, or under a lease, by a time that a wrong clock wrote; it goes on",
                extra={"stranded": count, "worker_id": self._worker_id},
            )
        self._jumps = seen

    # ------------------------------------------------------------------ expiry

    async def _expire(self) -> tuple[int, bool]:
        keep = self._keep
        expiry = Expiry(
            receipts_before_ms=self._before(keep.receipts),
            unborn_before_ms=self._before(keep.unborn),
            dead_jobs_before_ms=self._before(keep.dead_jobs),
            streams_before_ms=self._before(keep.streams),
            sessions=True,
        )
        expired = 0
        for _ in range(MAX_PAGES):
            count = await self._store.admin.expire(expiry, limit=BULK_MAX)
            expired += count
            if count == 0:
                return expired, False
        return expired, True

    def _before(self, age: timedelta | None) -> int | None:
        return None if age is None else self._clock() - to_ms(age)


def _is_ripe(tree: Sequence[TreeMember], before_ms: int) -> bool:
    return all(member.ended_ms is not None and member.ended_ms < before_ms for member in tree)


def _batches(trees: Iterable[Sequence[TreeMember]]) -> Iterator[list[Sequence[TreeMember]]]:
    """Yield trees in groups of at most `BULK_MAX` instances; a larger tree goes alone."""
    batch: list[Sequence[TreeMember]] = []
    size = 0
    for tree in trees:
        if batch and size + len(tree) > BULK_MAX:
            yield batch
            batch, size = [], 0
        batch.append(tree)
        size += len(tree)
    if batch:
        yield batch


def _keys(trees: Iterable[Sequence[TreeMember]]) -> list[tuple[str, int]]:
    return [member.key for tree in trees for member in tree]


def _sum(one: DeletedCounts, other: DeletedCounts | None) -> DeletedCounts:
    if other is None:
        return one
    return DeletedCounts(*(a + b for a, b in zip(one, other, strict=True)))
