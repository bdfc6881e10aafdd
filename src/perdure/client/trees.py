"""Instances and the ones they started and wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.client.info import InstanceTree, info_of
from perdure.errors import LimitExceededError
from perdure.model.instances import InstanceRow
from perdure.store.base import Store


async def read_tree(
    store: Store, roots: Sequence[InstanceRow], *, limit: int | None = None
) -> list[InstanceRow]:
    """Return instances and everything below them, parents before their children.

    One question per level, not per instance.

    Raises:
        LimitExceededError: There are more than `limit`.
    """
    found = {row.instance_id: row for row in roots}
    level = list(roots)
    while level:
        incarnations = {row.instance_id: row.incarnation for row in level}
        level = []
        for row in await store.read_children(list(incarnations)):
            is_child = row.parent_incarnation == incarnations.get(row.parent_id or "")
            if is_child and row.instance_id not in found:
                found[row.instance_id] = row
                level.append(row)
        if limit is not None and len(found) > limit:
            raise LimitExceededError(
                "a tree that is shown as a whole",
                allowed=limit,
                found=len(found),
                advice="list the children page by page with client.instances(parent=...)",
            )
    return list(found.values())


def nested(rows: Sequence[InstanceRow], unclaimed: Mapping[str, str | None]) -> InstanceTree:
    """Return rows as one tree.

    Args:
        rows: Parents before their children, the root first.
        unclaimed: What nobody serves, by instance.
    """
    children: dict[str, list[InstanceTree]] = {row.instance_id: [] for row in rows}
    # From the last to the first, so that a node's children are complete when it is made.
    for row in reversed(rows):
        below = sorted(
            children[row.instance_id],
            key=lambda node: (node.info.created_at, node.info.instance_id),
        )
        node = InstanceTree(
            info=info_of(row, unclaimed=unclaimed.get(row.instance_id)), children=tuple(below)
        )
        if row is rows[0]:
            return node
        children[row.parent_id or ""].append(node)
    raise AssertionError("a tree has a root")
