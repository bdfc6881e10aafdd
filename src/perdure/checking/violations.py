"""What the checker finds, and how it reads histories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from perdure.model.histories.events import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    ChildCancelled,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    DetachedRefused,
    DetachedScheduled,
    DetachedStarted,
    EffectScheduled,
    Event,
    EventsRemoved,
    InlineScheduled,
    SignalAwaited,
    SignalReceived,
    SignalWaitCancelled,
    Started,
    StoredEvent,
    TimerCancelled,
    TimerFired,
    TimerScheduled,
    UnreadableEventError,
    WentBack,
    read_event,
)
from perdure.model.histories.removed import find_removed, left_open
from perdure.model.messages import Message
from perdure.store.base import ExecutionKey
from perdure.store.contents import Contents

SCHEDULES = (
    ActivityScheduled,
    InlineScheduled,
    TimerScheduled,
    SignalAwaited,
    ChildScheduled,
    DetachedScheduled,
    EffectScheduled,
)
"""The events that wait for an answer."""

ANSWERS: dict[type[Event], tuple[type[Event], ...]] = {
    ActivityCompleted: (ActivityScheduled, InlineScheduled, EffectScheduled),
    ActivityFailed: (ActivityScheduled, InlineScheduled, EffectScheduled),
    ActivityCancelled: (ActivityScheduled, InlineScheduled),
    TimerFired: (TimerScheduled,),
    TimerCancelled: (TimerScheduled,),
    ChildCompleted: (ChildScheduled,),
    ChildFailed: (ChildScheduled,),
    ChildCancelled: (ChildScheduled,),
    DetachedStarted: (DetachedScheduled,),
    DetachedRefused: (DetachedScheduled,),
    SignalReceived: (SignalAwaited,),
    SignalWaitCancelled: (SignalAwaited,),
}
"""Which schedules an event answers."""


class Violation(NamedTuple):
    """A promise that does not hold."""

    invariant: str
    """Its number, or its name, in `docs/reference/invariants.md`."""
    instance_id: str
    problem: str


def readable(events: Sequence[StoredEvent]) -> Iterator[tuple[int, Event]]:
    """Return the events that can be read, with their numbers; of removed ones those that wait for
    something still."""
    for stored in events:
        event = event_of(stored)
        # Unreadable: written by a newer version, or damaged. S2 tells that at its end.
        if isinstance(event, EventsRemoved):
            yield stored.seq, event
            with suppress(UnreadableEventError):
                for one, left in left_open(event):
                    yield one.seq, left
        elif event is not None:
            yield stored.seq, event


def removed_in(events: Sequence[StoredEvent]) -> EventsRemoved | None:
    """Return what stands for removed events in a history, if it can be read."""
    with suppress(UnreadableEventError):
        return find_removed(events)
    return None


def event_of(stored: StoredEvent | Message) -> Event | None:
    """Return the event behind bytes, if they can be read."""
    try:
        return read_event(stored.kind, stored.body)
    except UnreadableEventError:
        return None


def schedule_of(event: Event) -> int | None:
    """Return the number of the schedule that an event answers, if it answers one."""
    if isinstance(event, SignalReceived):
        return event.wait
    schedule: int | None = getattr(event, "schedule", None)
    return schedule


def open_schedules(events: Sequence[StoredEvent]) -> dict[int, Event]:
    """Return what waits for an answer, by number."""
    asked: dict[int, Event] = {}
    for seq, event in readable(events):
        if isinstance(event, SCHEDULES):
            asked[seq] = event
        if isinstance(event, WentBack):
            _restart_children(asked, event)
        schedule = schedule_of(event)
        if schedule is not None:
            asked.pop(schedule, None)
    return asked


def _restart_children(asked: dict[int, Event], event: WentBack) -> None:
    for child in event.children:
        call = asked.get(child.schedule)
        if isinstance(call, ChildScheduled):
            asked[child.schedule] = msgspec.structs.replace(call, instance_id=child.instance_id)


def current_execution(contents: Contents, instance_id: str) -> ExecutionKey | None:
    """Return the present execution of an instance, or its last one."""
    live = contents.live.get(instance_id)
    if live is not None and live.definition_no is not None:
        return ExecutionKey(instance_id, *live.stamp[:2])
    row = contents.instances.get(instance_id)
    return None if row is None else ExecutionKey(instance_id, row.incarnation, row.execution)


def first_event(contents: Contents, key: ExecutionKey) -> Started | None:
    """Return how an execution started: the first event, or the message that becomes it."""
    events: Sequence[StoredEvent | Message] = contents.histories.get(key, [])
    if not events:
        inbox = contents.inboxes.get(key.instance_id, [])
        events = [message for message in inbox if message.kind == Started.kind]
    first = event_of(events[0]) if events else None
    return first if isinstance(first, Started) else None
