"""Removing events of deciders that say how many they keep (`keep_events`).

What goes is one stretch behind the start of a history. In its place comes one event that says what
all of it came to, so this worker folds it first; that is why it looks only at deciders that it
serves. Never removed is what the newest `keep_events` are, what lies behind the newest snapshot,
what some reader of the feed has not passed, and what is younger than a day: a turn that is sent
again must find its commit.

Each transaction is of one instance and of a bounded number of events, and looks at all this again.
So several workers may do it at the same time; the one that comes second removes nothing.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.core.deciders.execution import DeciderExecution
from perdure.core.deciders.snapshots import stand_for_removed
from perdure.core.guard import Guard
from perdure.core.identity import ExecutionId
from perdure.errors import LimitExceededError, NondeterminismError, PayloadError
from perdure.model.histories.events import (
    EventRecorded,
    InputTaken,
    StoredEvent,
    UnreadableEventError,
    write_event,
)
from perdure.model.histories.removals import EventRemoval, SnapshotPlace
from perdure.model.histories.removed import find_removed
from perdure.model.instances import DefinitionKey, part_of
from perdure.store.base import ExecutionKey, Store
from perdure.store.contents import FIRST_PLACE, SlicePlace
from perdure.telemetry import shown_error

logger = logging.getLogger(__name__)

PAGE = 200
"""How many snapshots are looked at together."""

MAX_LOOKS = 1_000
"""How often one round looks at an instance, or removes some of its events."""

EVENTS_AT_ONCE = 1_000
"""How many events one transaction removes; more, if one decision has more."""

MOST_AT_ONCE = 32 * EVENTS_AT_ONCE

LOOK_EVERY_MS = 3_600_000
"""Pause between looks at all instances."""

YOUNG_MS = 24 * 3_600_000
"""What is younger is never removed."""


class OldEvents:
    """Removes them, a bounded part at a time."""

    def __init__(
        self, store: Store, deciders: Mapping[DefinitionKey, DeciderDefinition], *, worker_id: str
    ) -> None:
        self._store = store
        self._deciders = {
            key: decider for key, decider in deciders.items() if decider.keep_events is not None
        }
        self._worker_id = worker_id
        self._places: deque[SnapshotPlace] = deque()
        self._listed_to = FIRST_PLACE
        self._look_at_ms = 0

    async def remove(self) -> tuple[int, bool]:
        """Do one round; return how many events were removed, and whether there is more to do."""
        removed = 0
        if not self._deciders or self._look_at_ms > self._store.clock():
            return removed, False
        for _ in range(MAX_LOOKS):
            if not self._places and not await self._list_more():
                self._look_at_ms = self._store.clock() + LOOK_EVERY_MS
                return removed, False
            count = await self._remove_from(self._places[0])
            removed += count
            if not count:
                self._places.popleft()
        return removed, True

    async def _list_more(self) -> bool:
        """List more instances; False if all were listed, and the next time begins anew."""
        above = min(decider.keep_events or 0 for decider in self._deciders.values())
        page = await self._store.deciders.list_snapshots(
            after=self._listed_to, above=above, limit=PAGE
        )
        self._places.extend(page)
        last_id = page[-1].instance_id if page else ""
        self._listed_to = SlicePlace(part_of(last_id), last_id) if page else FIRST_PLACE
        return bool(page)

    async def _remove_from(self, place: SnapshotPlace) -> int:
        """Remove a part of what one instance does not keep; return how many events."""
        definition = self._deciders.get(await self._store.definition(place.definition_no))
        if definition is None:
            return 0
        key = ExecutionKey(*place[:3])
        try:
            removal = await self._plan(definition, key, place)
        except (NondeterminismError, UnreadableEventError, PayloadError, LimitExceededError) as why:
            logger.warning(
                "no events of instance %r (decider %s) can be removed, since it cannot be told "
                "what they came to: %s",
                key.instance_id,
                definition.name,
                shown_error(why),
                extra={"instance_id": key.instance_id, "worker_id": self._worker_id},
            )
            return 0
        if removal is None:
            return 0
        before_ms = self._store.clock() - YOUNG_MS
        is_done = await self._store.deciders.remove_events(removal, before_ms=before_ms)
        return removal.rows if is_done else 0

    async def _plan(
        self, definition: DeciderDefinition, key: ExecutionKey, place: SnapshotPlace
    ) -> EventRemoval | None:
        """Return what can be removed of an instance now, and what is to stand for it."""
        most = place.version - (definition.keep_events or 0)
        [head] = await self._store.read_histories([key], limit=2)
        removed = find_removed(head)
        if removed is not None and removed.version >= most:
            return None
        unread = await self._store.deciders.first_unread(key)
        upto = place.seq if unread is None else min(place.seq, unread - 1)
        before_ms = self._store.clock() - YOUNG_MS
        limit = EVENTS_AT_ONCE
        while limit <= MOST_AT_ONCE:
            # From the start on, in one look: another worker may remove events meanwhile.
            [history] = await self._store.read_histories([key], limit=limit)
            going = removable(history, most=most, upto=upto, before_ms=before_ms)
            if going:
                return _removal(definition, key, [history[0], *going])
            limit = 2 * limit if len(history) == limit else MOST_AT_ONCE + 1
        return None


def _removal(
    definition: DeciderDefinition, key: ExecutionKey, history: Sequence[StoredEvent]
) -> EventRemoval:
    """Return the removal of a beginning of a history, but for its start."""
    execution = DeciderExecution(definition, ExecutionId(*key), "", Guard(watch_calls=False))
    execution.replay(history)
    standing = write_event(stand_for_removed(execution.fold, execution.notes))
    last = history[-1]
    return EventRemoval(*key, last.seq, len(history) - 1, last.at_ms, standing)


def removable(
    history: Sequence[StoredEvent], *, most: int, upto: int, before_ms: int
) -> Sequence[StoredEvent]:
    """Return the longest stretch of events behind the start that may be removed, with what stands
    for those that were removed before; nothing, if no other can go.

    It ends where a decision ends, so that what is kept begins with the input of its events.

    Args:
        history: In order, from its start on.
        most: How many of the decider's events may be gone in all.
        upto: The last event that may go.
        before_ms: When it was recorded at the latest.
    """
    removed = find_removed(history)
    version, first = (0, 1) if removed is None else (removed.version, 2)
    end = first
    for index, stored in enumerate(history[first:], start=first):
        if stored.kind == InputTaken.kind:
            end = index
        version += stored.kind == EventRecorded.kind
        if stored.seq > upto or stored.at_ms >= before_ms or version > most:
            break
    return history[1:end] if end > first else ()
