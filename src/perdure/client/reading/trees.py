"""Instances, the ones they started and wait for, and the deciders they called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from perdure.client.reading.info import InstanceTree, info_of
from perdure.errors import LimitExceededError
from perdure.limits import MAX_EXECUTIONS_SEARCHED
from perdure.model.builtins import EXECUTE, SEND_INPUT, GiveInput
from perdure.model.histories.events import (
    ActivityScheduled,
    InputSent,
    StoredEvent,
    UnreadableEventError,
    read_event,
)
from perdure.model.histories.paging import FOR_EACH, PAGE
from perdure.model.instances import InstanceRow
from perdure.store.base import ExecutionKey, Store

HISTORIES_PER_READ = 100
"""How many histories are searched for calls at once."""
EVENTS_PER_READ = 1_000
"""How much of each is in memory at once; those of deciders may be long."""


async def read_tree(store: Store, roots: Sequence[InstanceRow]) -> list[InstanceRow]:
    """Return instances and everything below them, parents before their children.

    One question per level, not per instance.
    """
    found = {row.instance_id: row for row in roots}
    await _add_below(store, found, roots, limit=None)
    return list(found.values())


async def read_shown(
    store: Store, root: InstanceRow, *, calls: bool, limit: int
) -> tuple[list[InstanceRow], dict[str, str]]:
    """Return an instance and everything below it, and who called what of that.

    Pages of a `for_each` are not among it, since there may be thousands: they are below its
    coordinator if that is the root.

    Args:
        store: Where they are.
        root: Comes first; every other one comes behind the one that started or called it.
        calls: Whether deciders that were given inputs, and what is below them, belong to it.
        limit: How many they may be.

    Raises:
        LimitExceededError: They are more.
    """
    found = {root.instance_id: root}
    callers: dict[str, str] = {}
    level = [root]
    while level:
        below = await _add_below(store, found, level, limit=limit)
        below = [row for row in below if row.name not in (FOR_EACH, PAGE)]  # They call none.
        level = []
        for first in range(0, len(below) if calls else 0, HISTORIES_PER_READ):
            called = await _find_calls(store, below[first : first + HISTORIES_PER_READ])
            unknown = [instance_id for instance_id in called if instance_id not in found]
            for row in await store.read_instances(unknown):
                # A call that no worker has taken yet may be for one that is not there yet.
                if row is not None and row.kind == "decider":
                    found[row.instance_id] = row
                    callers[row.instance_id] = called[row.instance_id]
                    level.append(row)
            _check_size(found, limit)
    return list(found.values()), callers


def nested(
    rows: Sequence[InstanceRow], callers: Mapping[str, str], unclaimed: Mapping[str, str | None]
) -> InstanceTree:
    """Return rows as one tree.

    Args:
        rows: Each behind the one that started or called it, the root first.
        callers: Who called it, by instance; the others were started by their parents.
        unclaimed: What no worker serves, by instance.
    """
    children: dict[str, list[InstanceTree]] = {row.instance_id: [] for row in rows}
    calls: dict[str, list[InstanceTree]] = {row.instance_id: [] for row in rows}
    # From the last to the first, so that what is below a node is complete when it is made.
    for row in reversed(rows):
        below = sorted(
            children[row.instance_id],
            key=lambda node: (node.info.created_at, node.info.instance_id),
        )
        node = InstanceTree(
            info=info_of(row, unclaimed=unclaimed.get(row.instance_id)),
            children=tuple(below),
            calls=tuple(reversed(calls[row.instance_id])),
        )
        if row is rows[0]:
            return node
        caller = callers.get(row.instance_id)
        if caller is None:
            children[row.parent_id or ""].append(node)
        else:
            calls[caller].append(node)
    raise AssertionError("a tree has a root")


async def _add_below(
    store: Store,
    found: dict[str, InstanceRow],
    roots: Sequence[InstanceRow],
    *,
    limit: int | None,
) -> list[InstanceRow]:
    """Add everything below some instances to what is found; return them and what is new. With a
    limit without what is below coordinators of a `for_each`."""
    added = list(roots)
    level = list(roots)
    while level:
        incarnations = {row.instance_id: row.incarnation for row in level}
        level = []
        for row in await store.admin.read_children(list(incarnations)):
            is_child = row.parent_incarnation == incarnations.get(row.parent_id or "")
            if is_child and row.instance_id not in found:
                found[row.instance_id] = row
                level.append(row)
        added += level
        if limit is not None:
            level = [row for row in level if row.name != FOR_EACH]
        if limit is not None:
            _check_size(found, limit)
    return added


def _check_size(found: Mapping[str, InstanceRow], limit: int) -> None:
    if len(found) > limit:
        raise LimitExceededError(
            "a tree that is shown as a whole",
            allowed=limit,
            found=len(found),
            advice="leave out the deciders it called with tree(calls=False), or list the "
            "children page by page with client.instances(parent=...)",
        )


async def _find_calls(store: Store, rows: Sequence[InstanceRow]) -> dict[str, str]:
    """Return which deciders some instances gave inputs to, each with the first that did."""
    keys = [
        ExecutionKey(row.instance_id, row.incarnation, execution)
        for row in rows
        for execution in range(
            max(1, row.execution - MAX_EXECUTIONS_SEARCHED + 1), row.execution + 1
        )
    ]
    called: dict[str, str] = {}
    for first in range(0, len(keys), HISTORIES_PER_READ):
        found = await _targets_of(store, keys[first : first + HISTORIES_PER_READ])
        for key, targets in found.items():
            for target in targets:
                called.setdefault(target, key.instance_id)
    return called


async def _targets_of(
    store: Store, keys: Sequence[ExecutionKey]
) -> dict[ExecutionKey, dict[str, None]]:
    """Return which deciders each execution gave inputs to, in order; none if it was pruned."""
    targets: dict[ExecutionKey, dict[str, None]] = {key: {} for key in keys}
    after = 0
    while keys:
        histories = await store.read_histories(keys, after_seq=after, limit=EVENTS_PER_READ)
        for key, history in zip(keys, histories, strict=True):
            found = (_target_of(stored) for stored in history)
            targets[key] |= dict.fromkeys(each for each in found if each is not None)
        full = [
            (key, history[-1].seq)
            for key, history in zip(keys, histories, strict=True)
            if len(history) == EVENTS_PER_READ
        ]
        after += EVENTS_PER_READ
        keys = [key for key, last in full if last == after]
        for key, last in full:
            if last != after:  # Some of its events were removed, so its numbers are higher.
                targets[key] |= await _targets_behind(store, key, last)
    return targets


async def _targets_behind(store: Store, key: ExecutionKey, after: int) -> dict[str, None]:
    targets: dict[str, None] = {}
    while True:
        [history] = await store.read_histories([key], after_seq=after, limit=EVENTS_PER_READ)
        found = (_target_of(stored) for stored in history)
        targets |= dict.fromkeys(each for each in found if each is not None)
        if len(history) < EVENTS_PER_READ:
            return targets
        after = history[-1].seq


def _target_of(stored: StoredEvent) -> str | None:
    """Return which decider instance an event gave an input to; None if it did not."""
    if stored.kind not in (ActivityScheduled.kind, InputSent.kind):
        return None
    try:
        event = read_event(stored.kind, stored.body)
        if isinstance(event, ActivityScheduled) and event.name in (EXECUTE, SEND_INPUT):
            return msgspec.json.decode(event.input, type=GiveInput).instance_id
    except (UnreadableEventError, msgspec.MsgspecError):
        # A damaged row does not hide the rest of the tree.
        return None
    return event.instance_id if isinstance(event, InputSent) else None
