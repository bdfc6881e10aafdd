"""Removing instances with all that belongs to them, and histories that are not needed any more.

A tree (an instance and the ones it started and waits for) goes in one transaction or not at all. A
child that appears after the tree was read makes the store refuse, and the tree is read again: so
none is left without its root. By force, the root is ended before that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from perdure.client.acting.stopping import stop
from perdure.client.reading.trees import read_tree
from perdure.errors import (
    InstanceNotFoundError,
    InstanceRunningError,
    NotRootError,
    StoreUnavailableError,
    UnexpectedCountError,
    UsageError,
)
from perdure.limits import PAGE_MAX
from perdure.model.admin import DeletedCounts, InstanceFilter, PageMark
from perdure.model.instances import ENDED, InstanceRow, is_own_root
from perdure.store.base import Store

MAX_TRIES = 100
"""How often a tree that keeps growing is read again."""

TREES_AT_ONCE = 100
"""How many trees a bulk deletion removes in one transaction."""


class Removal:
    """Deletes and prunes.

    Args:
        store: Where.
        gone: Called with the id and incarnation of everything that was deleted.
    """

    def __init__(self, store: Store, gone: Callable[[str, int], None]) -> None:
        self._store = store
        self._gone = gone

    async def delete(self, instance_id: str, *, force: bool) -> DeletedCounts:
        """Delete a root and its whole tree.

        Raises:
            InstanceNotFoundError: There is no such instance.
            NotRootError: Another instance has it as a child.
            InstanceRunningError: Something of the tree has not ended, and `force` is not given.
        """
        for _ in range(MAX_TRIES):
            row = await self._row(instance_id)
            await self._refuse_child(row)
            tree = await read_tree(self._store, [row])
            running = next((one for one in tree if not one.status.is_terminal), None)
            if running is not None and not force:
                below = "" if running is row else f", which is below {instance_id!r}"
                raise InstanceRunningError(
                    running.instance_id,
                    f"{running.status}{below}",
                    "end it first, or delete with force=True, which drops its work as it stands",
                )
            if row.parent_id is not None and not row.status.is_terminal:
                # The schedule that has started it waits for its end, and is told by that.
                if not await self._stop(row):
                    continue
                tree = await read_tree(self._store, [row])
            counts = await self._remove(tree, force=force)
            if counts is not None:
                return counts
            if force:
                await self._stop(row)
        raise StoreUnavailableError(
            f"{instance_id!r} could not be deleted: its tree kept changing during {MAX_TRIES} "
            "tries; terminate it first, then delete it"
        )

    async def delete_ended(
        self, filter: InstanceFilter, *, expect: int | None, limit: int
    ) -> DeletedCounts:
        """Delete the trees of ended roots; those with something that still runs are left alone.

        Raises:
            UsageError: There are more or fewer than expected; nothing was deleted.
        """
        statuses = filter.statuses or ENDED
        wanted = replace(
            filter,
            roots_only=True,
            statuses=tuple(status for status in statuses if status.is_terminal),
        )
        if not wanted.statuses:
            raise UsageError(
                f"status={', '.join(statuses)}: only instances that have ended are deleted by a "
                f"filter ({', '.join(ENDED)}); delete running ones by id, with force=True"
            )
        # All of them first: what is deleted on the way must not shift the list, and what ends
        # meanwhile was not expected.
        rows = [row async for row in self._matching(wanted, limit=limit)]
        if expect is not None:
            await self._refuse_unexpected(expect, len(rows), wanted, limit=limit)
        total = DeletedCounts()
        for start in range(0, len(rows), TREES_AT_ONCE):
            total = _sum(total, await self._delete_some(rows[start : start + TREES_AT_ONCE]))
        return total

    async def delete_children(self, row: InstanceRow) -> None:
        """Delete what is below an ended instance whose id is about to be used again.

        Or the children would have no root, and their ids be in the way of the new ones. What has
        not ended is left alone.
        """
        children = await self._store.admin.read_children([row.instance_id])
        await self._delete_some(
            [child for child in children if child.parent_incarnation == row.incarnation]
        )

    async def prune(
        self, instance_id: str, *, keep_last: int, before_ms: int | None
    ) -> DeletedCounts:
        """Remove the histories of earlier executions of one instance.

        Raises:
            InstanceNotFoundError: There is no such instance.
        """
        await self._row(instance_id)
        return await self._store.admin.prune(
            instance_id, keep_last=keep_last, ended_before_ms=before_ms
        )

    async def prune_all(
        self, filter: InstanceFilter, *, keep_last: int, before_ms: int | None, limit: int
    ) -> DeletedCounts:
        """Remove the histories of earlier executions of many instances, running ones included."""
        total = DeletedCounts()
        async for row in self._matching(filter, limit=None):
            if row.execution <= keep_last:
                continue
            if limit <= 0:
                break
            counts = await self._store.admin.prune(
                row.instance_id, keep_last=keep_last, ended_before_ms=before_ms
            )
            if counts.executions:
                limit -= 1
            total = _sum(total, counts)
        return total

    # ------------------------------------------------------------------ inside

    async def _stop(self, row: InstanceRow) -> bool:
        """End a root: then its tree grows no more. False: it has moved on meanwhile."""
        live = await self._store.read_live(row.instance_id)
        if live is None or live.stamp.incarnation != row.incarnation:
            return True
        return await stop(self._store, live, "it is being deleted") is not None

    async def _row(self, instance_id: str) -> InstanceRow:
        [row] = await self._store.read_instances([instance_id])
        if row is None:
            raise InstanceNotFoundError(instance_id)
        return row

    async def _refuse_child(self, row: InstanceRow) -> None:
        root = row
        while not is_own_root(root):
            assert root.parent_id is not None
            [parent] = await self._store.read_instances([root.parent_id])
            if parent is None or parent.incarnation != root.parent_incarnation:
                # Its parent's id was used again: no instance has it as a child any more.
                break
            root = parent
        if root is not row:
            raise NotRootError(row.instance_id, root.instance_id)

    async def _refuse_unexpected(
        self, expect: int, found: int, filter: InstanceFilter, *, limit: int
    ) -> None:
        if expect > limit:
            raise UsageError(
                f"expect={expect:,} is more than limit={limit:,}, the most that one call deletes; "
                "raise limit= too"
            )
        if found == limit:
            found = max(found, await self._store.admin.count_instances(filter))
        if found != expect:
            raise UnexpectedCountError(
                f"expect={expect:,}, but the filter matches {found:,} ended instances that are no "
                "children; nothing was deleted",
                expected=expect,
                found=found,
            )

    async def _remove(self, rows: Sequence[InstanceRow], *, force: bool) -> DeletedCounts | None:
        if not rows:
            return DeletedCounts()
        counts = await self._store.admin.delete(
            [(row.instance_id, row.incarnation) for row in rows], force=force
        )
        if counts is not None:
            for row in rows:
                self._gone(row.instance_id, row.incarnation)
        return counts

    async def _delete_some(self, roots: Sequence[InstanceRow]) -> DeletedCounts:
        """Delete the trees of these roots, together; one by one if one of them is in the way."""
        counts = await self._remove(await self._ended_trees(roots), force=False)
        if counts is not None:
            return counts
        total = DeletedCounts()
        for root in roots:
            alone = await self._remove(await self._ended_trees([root]), force=False)
            total = _sum(total, alone or DeletedCounts())
        return total

    async def _ended_trees(self, roots: Sequence[InstanceRow]) -> list[InstanceRow]:
        """Return the trees of these roots in which nothing runs."""
        rows = await read_tree(self._store, roots)
        by_id = {row.instance_id: row for row in rows}
        root_of: dict[str, str] = {root.instance_id: root.instance_id for root in roots}
        for row in rows:
            if row.instance_id not in root_of:
                # Parents come before their children.
                root_of[row.instance_id] = root_of[row.parent_id or ""]
        busy = {root_of[row.instance_id] for row in rows if not row.status.is_terminal}
        return [by_id[one] for one, root in root_of.items() if root not in busy]

    async def _matching(
        self, filter: InstanceFilter, *, limit: int | None
    ) -> AsyncIterator[InstanceRow]:
        mark: PageMark | None = None
        left = limit
        while left is None or left > 0:
            size = PAGE_MAX if left is None else min(PAGE_MAX, left)
            rows, mark = await self._store.admin.list_page(filter, limit=size, after=mark)
            for row in rows:
                yield row
            if mark is None:
                return
            left = None if left is None else left - len(rows)


def _sum(one: DeletedCounts, other: DeletedCounts) -> DeletedCounts:
    return DeletedCounts(*(a + b for a, b in zip(one, other, strict=True)))
