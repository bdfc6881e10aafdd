"""What a history says without running code: what is open, who the parent is, what a stop needs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from perdure.core.identity import ExecutionId, child_incarnation
from perdure.core.turn_builder import outcome_of, told_to_parent
from perdure.model.histories.digests import Digest, digest_for
from perdure.model.histories.events import (
    AskedEvent,
    Body,
    CancelRequested,
    ChildScheduled,
    EffectScheduled,
    Event,
    EventsRemoved,
    MessageEvent,
    Parent,
    PromiseMade,
    RestartedChild,
    SignalReceived,
    SignalTaken,
    Started,
    StoredEvent,
    Terminated,
    UnreadableEventError,
    WentBack,
    read_event,
    write_event,
)
from perdure.model.histories.removed import digest_over, left_open
from perdure.model.messages import Delivery
from perdure.model.promises import promise_signal
from perdure.model.turns import InstanceEnd


class OpenPromise(NamedTuple):
    """A promise that was made, and that is not known to be kept."""

    seq: int
    at_ms: int
    made: PromiseMade


class Summary:
    """The fold of a history, or of its beginning: what comes behind that can be added."""

    def __init__(self, history: Sequence[StoredEvent] = ()) -> None:
        self.started: Started | None = None
        self.open: dict[int, tuple[AskedEvent, int]] = {}
        """What has no answer yet, and since when, by the number of the event that asked for it."""
        self.unread: dict[int, str] = {}
        """The signals that were kept and that no code has taken, by the number of their event."""
        self.promises: dict[str, OpenPromise] = {}
        """The promises that are not kept, oldest first, by the signal that keeps each."""
        self.cancel_reason: str | None = None
        self.last_seq = 0
        """The number of the last event; 0: there is none."""
        self.last_ms = 0
        """When that was recorded."""
        self._digest: Digest | None = None
        self.add(history)

    def add(self, events: Sequence[StoredEvent]) -> None:
        """Fold the next events of the history, too."""
        if events:
            self._digest = digest_over(events, self._digest)
            self.last_seq, self.last_ms = events[-1].seq, events[-1].at_ms
        for stored in events:
            with suppress(UnreadableEventError):  # a damaged row says nothing; others still do
                event = read_event(stored.kind, stored.body)
                if isinstance(event, EventsRemoved):
                    self._take_over(event)
                else:
                    self._take(event, stored)

    def copy(self) -> Summary:
        """Return one that stays as this is now."""
        other = Summary()
        other.started, other.cancel_reason = self.started, self.cancel_reason
        other.open, other.unread = dict(self.open), dict(self.unread)
        other.promises = dict(self.promises)
        other.last_seq, other.last_ms = self.last_seq, self.last_ms
        other._digest = None if self._digest is None else self._digest.copy()
        return other

    @property
    def parent(self) -> Parent | None:
        """The call that the instance answers to."""
        return None if self.started is None else self.started.parent

    def digest_with(self, events: Sequence[Body], at_ms: int) -> bytes:
        """Return the hash of the history once these events are appended."""
        digest = digest_for(events[0]) if self._digest is None else self._digest.copy()
        for kind, body in events:
            digest.feed(kind, at_ms, body)
        return digest.value()

    def _take(self, event: Event, stored: StoredEvent) -> None:
        match event:
            case Started():
                self.started = event
            case CancelRequested(reason=reason):
                self.cancel_reason = reason
            case SignalReceived():
                self._take_signal(event, stored.seq)
            case SignalTaken(signal=seq):
                self.unread.pop(seq, None)
            case PromiseMade(name=name, execution=execution, number=number):
                signal = promise_signal(name, execution, number)
                self.promises[signal] = OpenPromise(stored.seq, stored.at_ms, event)
            case WentBack(children=children):
                for child in children:
                    self._rename_child(child)
            case _:
                schedule = getattr(event, "schedule", None)
                if schedule is not None:
                    self.open.pop(schedule, None)
                elif isinstance(event, AskedEvent) and stored.kind.endswith(_OPENING):
                    self.open[stored.seq] = (event, stored.at_ms)

    def _take_signal(self, signal: SignalReceived, seq: int) -> None:
        self.open.pop(signal.wait or 0, None)
        self.promises.pop(signal.name, None)
        if signal.wait is None:
            self.unread[seq] = signal.name

    def _take_over(self, removed: EventsRemoved) -> None:
        for stored, event in left_open(removed):
            if isinstance(event, ChildScheduled | EffectScheduled):
                self.open[stored.seq] = (event, stored.at_ms)

    def _rename_child(self, child: RestartedChild) -> None:
        call, since_ms = self.open.get(child.schedule, (None, 0))
        if isinstance(call, ChildScheduled):
            renamed = msgspec.structs.replace(call, instance_id=child.instance_id)
            self.open[child.schedule] = (renamed, since_ms)


_OPENING = ("_scheduled", "_awaited")


class Stop:
    """What it takes to end an instance without asking its code."""

    def __init__(
        self,
        id: ExecutionId,
        summary: Summary,
        unstarted: Started | None,
        reason: str,
        now_ms: int,
    ) -> None:
        """Work it out.

        Args:
            id: The execution to end.
            summary: Of its history; an empty one if its first turn has not run.
            unstarted: The start message that its first turn would have taken.
            reason: Why it is ended.
            now_ms: The time of the new events.
        """
        end = Terminated(reason=reason)
        first: list[MessageEvent] = [] if unstarted is None or summary.last_seq else [unstarted]
        self.events: tuple[Body, ...] = tuple(write_event(event) for event in (*first, end))
        self.outcome: InstanceEnd = outcome_of(end, summary.digest_with(self.events, now_ms))
        parent = summary.parent or (unstarted.parent if unstarted else None)
        self.deliveries: tuple[Delivery, ...] = (
            *(() if parent is None else (told_to_parent(parent, end),)),
            *closed_children(id, summary, "was terminated"),
        )


def closed_children(id: ExecutionId, summary: Summary, how: str) -> list[Delivery]:
    """Return what the open children of an execution are told that ends without its code."""
    deliveries = []
    for seq, (event, _) in summary.open.items():
        if not isinstance(event, ChildScheduled) or event.on_parent_close == "abandon":
            continue
        reason = f"its parent {id.instance_id!r} {how}"
        message = (
            Terminated(reason=reason)
            if event.on_parent_close == "terminate"
            else CancelRequested(reason=reason)
        )
        kind, body = write_event(message)
        deliveries.append(
            Delivery(
                instance_id=event.instance_id,
                incarnation=child_incarnation(id, seq),
                kind=kind,
                body=body,
                hurries=True,
            )
        )
    return deliveries
