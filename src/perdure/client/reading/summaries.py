"""What histories say, read a page at a time and never held whole.

The sentence on an instance is made from the fold of its history. The fold of a history that is
longer than a page is kept, with the last event that is in it, and a later look begins at that
event: if it is there as it was, what lies behind it is added. If it is not, the history is read
from its beginning.

That event is enough to tell. Within one execution events are only appended, and two things take
some away. `keep_events` removes a beginning behind the start, and puts one event for it: as long as
the last event that was folded is there, all that has gone was in the fold. A database that goes
back, also a transaction of the user's in which a history was read, takes away an end: the events
that are written then are of another commit. Reset, `continue_as_new`, and an id that is used again
are other executions or incarnations.

What is kept is bounded, in number and in bytes; what was asked for least lately goes first. Looks
at the same instance share a fold. A page that one of them reads is added only if no other has added
one meanwhile, so each event is folded once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from perdure.core.summary import Summary
from perdure.limits import PAGE_MAX
from perdure.model.histories.events import StoredEvent
from perdure.store.base import ExecutionKey, Store

PAGE = PAGE_MAX
"""How many events are read at a time. A history that has fewer is read as quickly as what is new of
a longer one, and is not kept."""
MAX_KEPT = 500
"""How many histories are kept."""
MAX_KEPT_BYTES = 16 * 1024 * 1024
"""How much of them is kept, about: a single one that has more is read from its beginning each
time."""
ITEM_BYTES = 500
"""What an open call or promise, or an unread signal, takes besides the body of its event, about."""
_FIRST = (1, 2)
"""The numbers of the start, and of what stands for removed events."""


class ReadSummary(NamedTuple):
    """What one look at a history found."""

    summary: Summary
    events: int
    """How many events were read for it."""


class _EventMark(NamedTuple):
    """Tells one event from all others, without its body."""

    seq: int
    kind: str
    at_ms: int
    digest: bytes


def _mark_of(event: StoredEvent) -> _EventMark:
    return _EventMark(
        event.seq, event.kind, event.at_ms, blake2b(event.body, digest_size=16).digest()
    )


class _Fold:
    """The summary of a history up to an event."""

    def __init__(self) -> None:
        self.summary = Summary()
        self.last: _EventMark | None = None
        """The event that was folded last; None: none was."""
        self.size = ITEM_BYTES
        """How many bytes it takes, about."""
        self._bodies: dict[int, int] = {}
        """How long the bodies are of which it holds parts, by the numbers of their events."""

    @property
    def upto(self) -> int:
        """The number of the last event."""
        return 0 if self.last is None else self.last.seq

    def add(self, events: Sequence[StoredEvent]) -> None:
        """Fold the next events."""
        if not events:
            return
        told = self.summary
        told.add(events)
        self.last = _mark_of(events[-1])
        bodies = self._bodies | {one.seq: len(one.body) for one in events}
        held = (*_FIRST, *told.open, *(promise.seq for promise in told.promises.values()))
        self._bodies = {seq: bodies[seq] for seq in held if seq in bodies}
        items = 1 + len(told.open) + len(told.unread) + len(told.promises)
        self.size = sum(self._bodies.values()) + ITEM_BYTES * items


class Summaries:
    """Reads summaries of histories, and keeps those of long ones."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, ExecutionKey], _Fold] = OrderedDict()

    async def read(self, store: Store, key: ExecutionKey) -> Summary:
        """Return the summary of a history as it is now; of one that is not there an empty one.

        One who gives up before it is read loses nothing: the next one goes on from there.
        """
        return (await self.look(store, key)).summary

    async def look(self, store: Store, key: ExecutionKey) -> ReadSummary:
        """Return the summary as `read` does, and what it has cost."""
        fold = _Fold()
        events = 0
        while True:
            place = (store.epoch.number, key)
            fold = self._kept.get(place, fold)
            last = fold.last
            after = 0 if last is None else last.seq - 1
            [page] = await store.read_histories([key], after_seq=after, limit=PAGE)
            events += len(page)
            if fold.last is not last:
                continue  # Another look has added what is behind the event.
            if last is not None and (not page or _mark_of(page[0]) != last):
                self._drop(place, fold)
                fold = _Fold()
                continue
            fold.add(page if last is None else page[1:])
            if fold.upto >= PAGE:
                self._keep(place, fold)
            if len(page) < PAGE:
                return ReadSummary(fold.summary.copy(), events)

    def _keep(self, place: tuple[int, ExecutionKey], fold: _Fold) -> None:
        other = self._kept.get(place)
        if other is None or other.upto <= fold.upto:
            self._kept[place] = fold
        self._kept.move_to_end(place)
        size = sum(one.size for one in self._kept.values())
        while len(self._kept) > MAX_KEPT or size > MAX_KEPT_BYTES:
            _, gone = self._kept.popitem(last=False)
            size -= gone.size

    def _drop(self, place: tuple[int, ExecutionKey], fold: _Fold) -> None:
        if self._kept.get(place) is fold:
            del self._kept[place]
