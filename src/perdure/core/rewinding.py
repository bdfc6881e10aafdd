"""Going back: how much of a history is kept, and what an execution needs that begins with that.

Pure, and without the code of the orchestration: what is open is known from the history, and opened
again by the worker that takes the first turn. A history is kept up to where the code stood still,
between a stretch and the next message. If the place that was asked for lies within a stretch, the
message that began the stretch comes again, and today's code answers to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypedDict

import msgspec

from perdure.core.identity import ExecutionId, given_id, is_made, restarted_id
from perdure.core.orchestrations.values import Values
from perdure.core.summary import Summary, closed_children
from perdure.model.histories.digests import digest_for
from perdure.model.histories.events import (
    KINDS,
    LAST_KINDS,
    NULL,
    ActivityCompleted,
    ActivityFailed,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    DetachedScheduled,
    Event,
    KvCleared,
    KvPruned,
    KvRemoved,
    KvSet,
    MessageEvent,
    Origin,
    PromiseMade,
    Reported,
    RestartedChild,
    Seed,
    SignalReceived,
    Started,
    StoredEvent,
    Terminated,
    WentBack,
    read_event,
    write_event,
)
from perdure.model.histories.rewinds import RestoredValue, Rewind
from perdure.model.message_ids import message_id_of
from perdure.model.messages import CarriedMessage, Delivery
from perdure.model.promises import promise_message_id, promise_name
from perdure.model.updates import UPDATE_PREFIX

_KV = (KvSet, KvRemoved, KvCleared, KvPruned)
_STARTS = (ChildScheduled.kind, DetachedScheduled.kind)


class Cut(NamedTuple):
    """How much of a history is kept."""

    kept: int
    """How many events."""
    answer: int = 0
    """Number of the message behind them that comes again; 0: none does."""
    result: bytes | None = None
    """What the call that it answers returned instead; None: what is recorded."""


def cut_at(history: Sequence[StoredEvent], number: int) -> Cut:
    """Return the cut that keeps what happened up to an event, this one included."""
    first = number
    while not _is_message(history[first - 1].kind):
        first -= 1
    last = number
    while last < len(history) and not _is_message(history[last].kind):
        last += 1
    if last == number and history[last - 1].kind not in LAST_KINDS:
        return _begun(number)
    if history[first - 1].kind == Terminated.kind:
        return _begun(first - 1)
    return Cut(first - 1, first)


def cut_before(history: Sequence[StoredEvent], number: int) -> Cut:
    """Return the cut that keeps what happened before an event: a message never came, and what the
    code asked for it asks for again."""
    is_message = _is_message(history[number - 1].kind)
    return _begun(number - 1) if is_message else cut_at(history, number - 1)


def _begun(kept: int) -> Cut:
    """Return the cut that keeps so many events. The start alone is not kept but comes again: an
    instance that is terminated before its first turn has nothing else, and its code never ran."""
    return Cut(kept) if kept > 1 else Cut(0, 1)


def _is_message(kind: str) -> bool:
    known = KINDS.get(kind)
    return known is not None and issubclass(known, MessageEvent)


class Source(NamedTuple):
    """An execution as it is recorded."""

    id: ExecutionId
    history: Sequence[StoredEvent]
    has_ended: bool
    waiting: int = 0
    """How many events at its end are not recorded yet: an answer that an earlier reset has kept."""

    def digest(self) -> bytes:
        """Return the hash over all that is recorded."""
        digest = digest_for(self.history[0])
        for stored in self.history[: len(self.history) - self.waiting]:
            digest.feed(stored.kind, stored.at_ms, stored.body)
        return digest.value()


class NewBeginning(NamedTuple):
    """What a reset or fork writes."""

    rewind: Rewind
    deliveries: tuple[Delivery, ...]
    """What the children are told that are left behind."""
    start: Started


class MovedVersion(NamedTuple):
    """The version that an execution runs on, if it is another than that of the one before."""

    version: str
    code: str
    """The digest of its code, as far as it is known."""


def reset_of(
    source: Source,
    cut: Cut,
    *,
    commit_id: int,
    reason: str,
    moved: MovedVersion | None = None,
) -> NewBeginning:
    """Return how the next execution of the same instance begins."""
    own = source.id._replace(execution=source.id.execution + 1)
    begun = _Beginning(source, cut, own, commit_id=commit_id, reason=reason, moved=moved)
    closed = () if source.has_ended else closed_children(source.id, begun.whole, "was reset")
    return NewBeginning(begun.rewind(is_fork=False), tuple(closed), begun.start)


def fork_of(
    source: Source,
    cut: Cut,
    own: ExecutionId,
    *,
    commit_id: int,
    moved: MovedVersion | None = None,
) -> NewBeginning:
    """Return how another instance begins with events of this one."""
    begun = _Beginning(source, cut, own, commit_id=commit_id, reason="", moved=moved)
    return NewBeginning(begun.rewind(is_fork=True), (), begun.start)


class _Beginning:
    """Works out how an execution begins that takes over a part of another one."""

    def __init__(
        self,
        source: Source,
        cut: Cut,
        own: ExecutionId,
        *,
        commit_id: int,
        reason: str,
        moved: MovedVersion | None,
    ) -> None:
        self._source = source
        self._cut = cut
        self._own = own
        self._reason = reason
        self._moved = moved
        self._kept = source.history[: cut.kept]
        self.whole = Summary(source.history)
        self._summary = Summary(self._kept)
        self.start = self._started(commit_id)

    def rewind(self, *, is_fork: bool) -> Rewind:
        source, cut = self._source, self._cut
        answer = self._answer()
        first = write_event(self._marker(answer) if cut.kept else self.start)
        kept, before = _kept_values(self._kept, self.start), KeptFacts({}, None)
        if not is_fork:
            before = _kept_values(source.history, self.start)
        return Rewind(
            prefix=self._prefix(),
            first=first,
            answer=None if answer is None or not cut.kept else _carried(source, cut, answer),
            unread=tuple(_unread(source.history, cut)),
            kv=tuple(_changes(before.values, kept.values)),
            report=None if kept.report == before.report else kept.report or bytes(NULL),
            reason=self._row_reason(),
            reopened=tuple(
                seq for seq in self._summary.open if seq != getattr(answer, "schedule", 0)
            ),
            **_heard(source),
        )

    def _row_reason(self) -> str:
        where = f"reset to event {self._cut.kept}" if self._cut.kept else "reset to its start"
        return f"{where}: {self._reason}" if self._reason else where

    def _prefix(self) -> tuple[StoredEvent, ...]:
        if not self._kept:
            return ()
        kind, body = write_event(self.start)
        first = self._kept[0]
        return (StoredEvent(1, kind, first.at_ms, body), *self._kept[1:])

    def _started(self, commit_id: int) -> Started:
        source, cut = self._source, self._cut
        first = read_event(source.history[0].kind, source.history[0].body)
        assert isinstance(first, Started), "a history begins with its start"
        before, hexdigest = first.origin, source.digest().hex()
        seed = before.seed if before is not None and before.seed is not None else Seed(*source.id)
        is_same = self._own.instance_id == source.id.instance_id
        version, code = self._moved or (first.version, first.code)
        return msgspec.structs.replace(
            first,
            version=version,
            code=code,
            parent=first.parent if is_same else None,
            lineage=first.lineage if is_same else None,
            started_by=first.started_by if is_same else "",
            previous=hexdigest if is_same else "",
            since_ms=(first.since_ms or source.history[0].at_ms) if is_same else 0,
            origin=Origin(
                *source.id,
                cut=cut.kept,
                seed=seed if cut.kept else None,
                digest=hexdigest,
                commit_id=commit_id,
                reason=self._reason,
                taken=() if cut.kept else tuple(_taken(source.history, cut)),
            ),
        )

    def _answer(self) -> MessageEvent | None:
        """Return the message that comes again."""
        if not self._cut.answer:
            return None
        stored = self._source.history[self._cut.answer - 1]
        event = read_event(stored.kind, stored.body)
        assert isinstance(event, MessageEvent)
        if isinstance(event, SignalReceived):
            return msgspec.structs.replace(event, wait=None)
        if self._cut.result is None:
            return event
        raw = msgspec.Raw(self._cut.result)
        if isinstance(event, ChildCompleted | ChildFailed):
            return ChildCompleted(schedule=event.schedule, result=raw, edited=True)
        assert isinstance(event, ActivityCompleted | ActivityFailed)
        return ActivityCompleted(schedule=event.schedule, result=raw, edited=True)

    def _marker(self, answer: MessageEvent | None) -> WentBack:
        answered: int = getattr(answer, "schedule", 0)
        children = tuple(
            RestartedChild(seq, restarted_id(event.instance_id, self._own))
            for seq, (event, _) in self._summary.open.items()
            if isinstance(event, ChildScheduled) and seq != answered
        )
        return WentBack(
            seed=Seed(*self._own),
            answered=answered,
            children=children,
            taken=tuple(_taken(self._source.history, self._cut)),
            reason=self._reason,
        )


def _taken(history: Sequence[StoredEvent], cut: Cut) -> list[str]:
    """Return the ids that the code gave to instances behind a cut, or before it went back to one
    that is behind it."""
    found: set[str] = set()
    for stored in history:
        if stored.kind not in (*_STARTS, WentBack.kind, Started.kind):
            continue
        event = read_event(stored.kind, stored.body)
        if isinstance(event, WentBack):
            found.update(event.taken)
        elif isinstance(event, Started) and event.origin is not None:
            found.update(event.origin.taken)
        elif isinstance(event, ChildScheduled | DetachedScheduled):
            is_given = stored.seq > cut.kept and not is_made(event.instance_id)
            found.update([given_id(event.instance_id)] if is_given else [])
    return sorted(found)


class _Heard(TypedDict, total=False):
    """What an instance that has ended knew of what was sent to it."""

    heard: tuple[str, ...]
    unkept: tuple[str, ...]
    digest: bytes


def _heard(source: Source) -> _Heard:
    """Return what was sent to an instance that has ended, as far as it had taken it."""
    if not source.has_ended:
        return {}
    heard = {message_id_of(event) or "" for _, event in _signals(source.history)}
    updates = sorted(one for one in heard if one.startswith(UPDATE_PREFIX))
    unkept = sorted(_promised(source.history) - heard)
    return {"heard": tuple(updates), "unkept": tuple(unkept), "digest": source.digest()}


def _promised(history: Sequence[StoredEvent]) -> set[str]:
    """Return the ids under which the promises are kept that were made in these events."""
    made = (read_event(one.kind, one.body) for one in history if one.kind == PromiseMade.kind)
    return {
        promise_message_id(event.execution, event.number)
        for event in made
        if isinstance(event, PromiseMade)
    }


def _signals(history: Sequence[StoredEvent]) -> Iterator[tuple[StoredEvent, SignalReceived]]:
    for stored in history:
        if stored.kind == SignalReceived.kind:
            event = read_event(stored.kind, stored.body)
            assert isinstance(event, SignalReceived)
            yield stored, event


def _carried(source: Source, cut: Cut, answer: MessageEvent) -> CarriedMessage:
    return CarriedMessage(source.history[cut.answer - 1].at_ms, *write_event(answer))


def _unread(history: Sequence[StoredEvent], cut: Cut) -> Iterator[CarriedMessage]:
    """Yield the signals behind a cut, but for one that comes again as the next message.

    A promise that was made behind the cut is made anew, with another token: what kept the old one
    is not for it, though a fork counts its own from the same number.
    """
    promised = _promised(history[: cut.kept])
    for stored, event in _signals(history[cut.kept :]):
        is_answer = stored.seq == cut.answer and cut.kept
        is_void = promise_name(event.name) is not None and message_id_of(event) not in promised
        if not is_answer and not is_void:
            body = write_event(msgspec.structs.replace(event, wait=None))
            yield CarriedMessage(stored.at_ms, *body)


class KeptFacts(NamedTuple):
    """What an instance shows to others."""

    values: dict[str, tuple[bytes, int]]
    report: bytes | None


def _kept_values(history: Sequence[StoredEvent], start: Started) -> KeptFacts:
    """Return what an instance keeps and reports after these events."""
    values = Values(start.kv)
    report: bytes | None = bytes(start.report)
    for stored in history:
        known = KINDS.get(stored.kind)
        if known is None or not issubclass(known, (*_KV, Reported)):
            continue
        event: Event = read_event(stored.kind, stored.body)
        if isinstance(event, Reported):
            report = bytes(event.value)
        else:
            assert isinstance(event, _KV)
            values.apply(event, stored.at_ms)
    found = {entry.key: (bytes(entry.value), entry.updated_ms) for entry in values.entries.values()}
    return KeptFacts(found, None if report == b"null" else report)


def _changes(
    before: dict[str, tuple[bytes, int]], after: dict[str, tuple[bytes, int]]
) -> Iterator[RestoredValue]:
    for key in sorted({**before, **after}):
        if key not in after:
            yield RestoredValue(key, None, 0)
        elif before.get(key) != after[key]:
            yield RestoredValue(key, *after[key])
