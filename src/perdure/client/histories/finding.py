"""Some events of a history: by their kind, by what they are about, or what tells of a failure.

A history is looked through in order, a part at a time, and nothing of it is kept but what is found:
however long it is, one look at it has a bound.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from perdure.client.histories.event_texts import answered_by, own_names, own_subject
from perdure.client.histories.histories import execution_key
from perdure.client.reading.info import HistoryEvent, event_of
from perdure.client.reading.lists import check_count
from perdure.codec import check_text
from perdure.errors import InstanceNotFoundError, UsageError
from perdure.limits import PAGE_MAX
from perdure.model.histories.events import KINDS
from perdure.store.base import ExecutionKey, Store

LOOKS = 20_000
"""How many events one request looks at; what comes behind them is for the next one."""
FAILED_ENDINGS = ("failed", "refused", "rejected")
"""How kinds end that are failures by themselves."""

ReadEvents = Callable[[int, int], Awaitable[Sequence[HistoryEvent]]]
"""Reads events behind a number, so many at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedEvents:
    """Which events of a history are wanted; all conditions must hold."""

    kind: str | None = None
    """Their kind, or how it begins: `activity` for `activity_scheduled` and the like."""
    name: str | None = None
    """What they are about, or the call is that they answer."""
    failures: bool = False
    """Whether they tell of a failure: also of an attempt of what has succeeded then."""

    def __post_init__(self) -> None:
        if self.kind is not None:
            check_text("kind", self.kind)
            if not any(map(self.is_kind, KINDS)):
                raise UsageError(_unknown(self.kind))
        if self.name is not None:
            check_text("name", self.name)

    @property
    def is_empty(self) -> bool:
        """Whether every event is wanted."""
        return self.kind is None and self.name is None and not self.failures

    def is_kind(self, kind: str) -> bool:
        """Return whether events of a kind may be wanted."""
        wanted = self.kind
        return wanted is None or kind == wanted or kind.startswith(f"{wanted}_")

    def fits(self, event: HistoryEvent) -> bool:
        """Return whether an event is of the kind, and a failure if those are wanted."""
        return self.is_kind(event.kind) and (not self.failures or tells_of_failure(event))


class FoundEvents(NamedTuple):
    """What was found in a part of a history."""

    events: list[HistoryEvent]
    upto: int
    """The number of the last event that was looked at."""
    has_more: bool
    """Whether there may be more behind it."""


def tells_of_failure(event: HistoryEvent) -> bool:
    """Return whether something failed or was refused, be it one attempt of several."""
    data = event.data
    is_failed = event.kind.endswith(FAILED_ENDINGS) or "damaged" in data
    return is_failed or any(data.get(one) for one in ("failure", "failures", "rejected", "refusal"))


def matching(events: Sequence[HistoryEvent], which: WantedEvents) -> list[HistoryEvent]:
    """Return the events of a whole history that are wanted."""
    named = {one.seq for one in events if which.name is None or which.name in own_names(one)}
    return [one for one in events if which.fits(one) and {one.seq, answered_by(one)} & named]


async def look_through(
    store: Store,
    instance_id: str,
    which: WantedEvents,
    execution: int | None = None,
    *,
    after: int = 0,
    limit: int | None = None,
    looks: int | None = None,
) -> FoundEvents:
    """Return the events of an execution that are wanted.

    Args:
        store: Where to look.
        instance_id: Which instance.
        which: The conditions.
        execution: Which execution, from 1; the current one if not given.
        after: Events behind this one.
        limit: How many at most; all if not given.
        looks: How many events are looked at, at most.

    Raises:
        InstanceNotFoundError: There is no such instance.
        UsageError: There was no such execution, or a number is not valid.
    """
    [row] = await store.read_instances([instance_id])
    if row is None:
        raise InstanceNotFoundError(instance_id)
    key = execution_key(row, execution)
    check_count("after", after, least=0)
    if limit is not None:
        check_count("limit", limit, least=1)
    return await _Search(store, key, which, after).run(limit, looks)


class _Search:
    """Looks through one history, and remembers which calls have the name that is wanted."""

    def __init__(self, store: Store, key: ExecutionKey, which: WantedEvents, after: int) -> None:
        self._store = store
        self._key = key
        self._which = which
        self._begin = self._upto = after
        self._named: set[int] = set()

    async def run(self, limit: int | None, looks: int | None) -> FoundEvents:
        found: list[HistoryEvent] = []
        looked = 0
        # All are wanted: one more than that tells whether there are others.
        size = limit + 1 if self._which.is_empty and limit is not None else PAGE_MAX
        while looks is None or looked < looks:
            [part] = await self._store.read_histories([self._key], after_seq=self._upto, limit=size)
            looked += len(part)
            some = [event_of(one) for one in part if self._is_read(one.kind)]
            if self._which.name is not None:
                some = await self._of_name(self._which.name, some)
            for event in filter(self._which.fits, some):
                found.append(event)
                if len(found) == limit:
                    has_more = event.seq != part[-1].seq or len(part) == size
                    return FoundEvents(found, event.seq, has_more)
            if part:
                self._upto = part[-1].seq
            if len(part) < size:
                return FoundEvents(found, self._upto, has_more=False)
        return FoundEvents(found, self._upto, has_more=True)

    def _is_read(self, kind: str) -> bool:
        # Of whatever kind a call is: its answers have its name.
        return self._which.name is not None or self._which.is_kind(kind)

    async def _of_name(self, name: str, events: Sequence[HistoryEvent]) -> list[HistoryEvent]:
        """Return the events that are about a name, or answer what is."""
        asked = (number for event in events if (number := answered_by(event)) is not None)
        earlier = await read_asked((one for one in asked if one <= self._begin), self._read)
        self._named |= {one.seq for one in (*earlier, *events) if name in own_names(one)}
        return [one for one in events if {one.seq, answered_by(one)} & self._named]

    async def _read(self, after: int, limit: int) -> Sequence[HistoryEvent]:
        [part] = await self._store.read_histories([self._key], after_seq=after, limit=limit)
        return [event_of(one) for one in part]


async def read_subjects(events: Sequence[HistoryEvent], read: ReadEvents) -> dict[int, str]:
    """Return what events are about, by their numbers, and what those are that they answer: of which
    some are before them, or were left out."""
    here = {event.seq for event in events}
    asked = {number for event in events if (number := answered_by(event)) is not None}
    others = await read_asked(asked - here, read)
    return {one.seq: own_subject(one) for one in (*events, *others) if own_subject(one)}


async def read_asked(numbers: Iterable[int], read: ReadEvents) -> list[HistoryEvent]:
    """Return the events of some numbers. Those that lie close together are read at once."""
    wanted = sorted(set(numbers))
    found: list[HistoryEvent] = []
    begin = 0
    while begin < len(wanted):
        first = wanted[begin]
        end = bisect_right(wanted, first + PAGE_MAX - 1)
        some = set(wanted[begin:end])
        part = await read(first - 1, wanted[end - 1] - first + 1)
        found += [one for one in part if one.seq in some]
        begin = end
    return found


def _unknown(kind: str) -> str:
    words = dict.fromkeys(_words())
    near = get_close_matches(kind, words, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(KINDS))}"
    return f"no event is of kind {kind!r}, and none begins so: {hint}"


def _words() -> Iterator[str]:
    yield from KINDS
    yield from (kind.partition("_")[0] for kind in KINDS)
