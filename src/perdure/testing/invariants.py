"""Check that what a store holds is what `INVARIANTS.md` promises.

Reads one consistent picture of everything, so it may run beside working workers. It looks inside
events, which the store never does. Used by unit tests, chaos runs and `perdure doctor`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from perdure.model.events import (
    TERMINAL_KINDS,
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    ChildCancelled,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    Digest,
    Event,
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
    read_event,
)
from perdure.model.instances import InstanceRow, LiveRow
from perdure.model.messages import Message
from perdure.store.base import ExecutionKey, Store
from perdure.store.contents import Contents, Inspectable

_SCHEDULES = (ActivityScheduled, InlineScheduled, TimerScheduled, SignalAwaited, ChildScheduled)
_ANSWERS: dict[type[Event], tuple[type[Event], ...]] = {
    ActivityCompleted: (ActivityScheduled, InlineScheduled),
    ActivityFailed: (ActivityScheduled, InlineScheduled),
    ActivityCancelled: (ActivityScheduled, InlineScheduled),
    TimerFired: (TimerScheduled,),
    TimerCancelled: (TimerScheduled,),
    ChildCompleted: (ChildScheduled,),
    ChildFailed: (ChildScheduled,),
    ChildCancelled: (ChildScheduled,),
    SignalReceived: (SignalAwaited,),
    SignalWaitCancelled: (SignalAwaited,),
}
"""Which schedules an event answers."""


class Violation(NamedTuple):
    """A promise that does not hold."""

    invariant: str
    """Its number in INVARIANTS.md, or "leftover" or "orphan"."""
    instance_id: str
    problem: str


async def check(store: Store) -> list[Violation]:
    """Return every violation found; an empty list is good news."""
    if not isinstance(store, Inspectable):
        raise TypeError(f"{type(store).__name__} cannot be read as a whole")
    contents = await store.read_contents()
    return [
        *_check_histories(contents),
        *_check_instances(contents),
        *_check_live(contents),
        *_check_leftovers(contents),
    ]


def digest_of(events: Sequence[StoredEvent]) -> bytes:
    """Return the hash over a history that an ended instance keeps."""
    digest = Digest()
    for event in events:
        digest.feed(event.kind, event.at_ms, event.body)
    return digest.value()


# --------------------------------------------------------------------- histories


def _check_histories(contents: Contents) -> Iterator[Violation]:
    for key, events in contents.histories.items():
        for problem in _numbering(events):
            yield Violation("S1", key.instance_id, problem)
        for problem in _shape(events):
            yield Violation("S3", key.instance_id, problem)
        for problem in _answers(events):
            yield Violation("S4", key.instance_id, problem)


def _numbering(events: Sequence[StoredEvent]) -> Iterator[str]:
    numbers = [event.seq for event in events]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"events are numbered {numbers[:20]}"


def _shape(events: Sequence[StoredEvent]) -> Iterator[str]:
    kinds = [event.kind for event in events]
    if kinds[0] != Started.kind:
        yield f"the first event is {kinds[0]}"
    if Started.kind in kinds[1:]:
        yield "it was started twice"
    ends = [index for index, kind in enumerate(kinds, start=1) if kind in TERMINAL_KINDS]
    if len(ends) > 1:
        yield f"it ended {len(ends)} times"
    if ends and ends[0] != len(kinds):
        yield f"events follow its end at number {ends[0]}"


def _answers(events: Sequence[StoredEvent]) -> Iterator[str]:
    asked: dict[int, Event] = {}
    answered: set[int] = set()
    for seq, event in _readable(events):
        if isinstance(event, _SCHEDULES):
            asked[seq] = event
        schedule = _schedule_of(event)
        if schedule is None:
            continue
        if not isinstance(asked.get(schedule), _ANSWERS[type(event)]):
            yield f"event {seq} ({event.kind}) answers {schedule}, which asked for no such thing"
        elif schedule in answered:
            yield f"event {seq} ({event.kind}) answers {schedule} a second time"
        answered.add(schedule)


def _readable(events: Sequence[StoredEvent]) -> Iterator[tuple[int, Event]]:
    for stored in events:
        try:
            yield stored.seq, read_event(stored.kind, stored.body)
        except UnreadableEventError:
            continue  # Written by a newer version, or damaged: S2 tells that at its end.


def _schedule_of(event: Event) -> int | None:
    """Return the number of the schedule that an event answers, if it answers one."""
    if isinstance(event, SignalReceived):
        return event.wait
    schedule: int | None = getattr(event, "schedule", None)
    return schedule


# --------------------------------------------------------------------- instances


def _check_instances(contents: Contents) -> Iterator[Violation]:
    for instance_id, row in contents.instances.items():
        events = _whole_history(contents, row)
        ended_as = events[-1].kind if events and events[-1].kind in TERMINAL_KINDS else None
        if row.status.is_terminal:
            if ended_as != row.status.value:
                yield Violation("S9", instance_id, f"is {row.status} but its end is {ended_as}")
            if row.digest != digest_of(events):
                yield Violation("S2", instance_id, "its history is not the one it ended with")
            if instance_id in contents.live:
                yield Violation("leftover", instance_id, "has ended and has a live row")
        else:
            if ended_as is not None:
                yield Violation("S9", instance_id, f"is {row.status} but its end is {ended_as}")
            if instance_id not in contents.live:
                yield Violation("S9", instance_id, f"is {row.status} but has no live row")


def _whole_history(contents: Contents, row: InstanceRow) -> list[StoredEvent]:
    keys = sorted(
        key for key in contents.histories if key[:2] == (row.instance_id, row.incarnation)
    )
    return [event for key in keys for event in contents.histories[key]]


# ------------------------------------------------------------------ live instances


def _check_live(contents: Contents) -> Iterator[Violation]:
    for instance_id, live in contents.live.items():
        inbox = contents.inboxes.get(instance_id, [])
        if any(message.no > live.last_no for message in inbox):
            yield Violation("S21", instance_id, "a message has a number that was never given")
        row = contents.instances.get(instance_id)
        if live.definition_no is None:
            continue  # Unborn: it has messages and nothing else.
        if row is None or row.incarnation != live.stamp.incarnation:
            yield Violation("orphan", instance_id, "a live row without its instance")
            continue
        events = contents.histories.get(ExecutionKey(instance_id, *live.stamp[:2]), [])
        if live.stamp.next_seq != len(events) + 1:
            yield Violation(
                "S7", instance_id, f"next is {live.stamp.next_seq} after {len(events)} events"
            )
        if live.lease and live.wake_at_ms is None:
            yield Violation("S7", instance_id, "is leased and would never be found again")
        yield from _check_conservation(contents, live, events, inbox)


def _check_conservation(
    contents: Contents,
    live: LiveRow,
    events: Sequence[StoredEvent],
    inbox: Sequence[Message],
) -> Iterator[Violation]:
    """S5: every open schedule has exactly one token, so that it will be answered exactly once."""
    tokens = _tokens(contents, live, inbox)
    timers = {message.timer_key for message in inbox if message.timer_key is not None}
    expected_timers: set[str] = set()
    asked = _open_schedules(events)
    for seq, event in asked.items():
        found = tokens[seq]
        if isinstance(event, ChildScheduled):
            found += _is_running_child(contents, live, event)
        if isinstance(event, TimerScheduled):
            expected_timers.add(f"timer:{seq}")
            found += f"timer:{seq}" in timers
        if isinstance(event, ActivityScheduled) and event.deadline_ms is not None:
            expected_timers.add(f"deadline:{seq}")
            if f"deadline:{seq}" not in timers:
                yield Violation("S5", live.instance_id, f"schedule {seq} lost its deadline")
        if not isinstance(event, SignalAwaited) and found != 1:
            yield Violation(
                "S5", live.instance_id, f"schedule {seq} ({event.kind}) has {found} tokens"
            )
    for key in sorted(timers - expected_timers):
        yield Violation("S5", live.instance_id, f"{key} belongs to no open schedule")
    for job in contents.jobs.get(live.instance_id, []):
        if not isinstance(asked.get(job.key.seq), ActivityScheduled | InlineScheduled):
            problem = f"job {job.key.seq} belongs to no open schedule"
            yield Violation("S5", live.instance_id, problem)


def _open_schedules(events: Sequence[StoredEvent]) -> dict[int, Event]:
    asked: dict[int, Event] = {}
    for seq, event in _readable(events):
        if isinstance(event, _SCHEDULES):
            asked[seq] = event
        schedule = _schedule_of(event)
        if schedule is not None:
            asked.pop(schedule, None)
    return asked


def _tokens(contents: Contents, live: LiveRow, inbox: Sequence[Message]) -> Counter[int]:
    """Count the jobs and results that are under way for each schedule."""
    tokens: Counter[int] = Counter()
    for job in contents.jobs.get(live.instance_id, []):
        if job.key[1:3] == live.stamp[:2]:
            tokens[job.key.seq] += 1
    for message in inbox:
        if message.timer_key is None and message.execution in (0, live.stamp.execution):
            try:
                event = read_event(message.kind, message.body)
            except UnreadableEventError:
                continue
            schedule = _schedule_of(event)
            if schedule is not None:
                tokens[schedule] += 1
    return tokens


def _is_running_child(contents: Contents, live: LiveRow, event: ChildScheduled) -> bool:
    child = contents.instances.get(event.instance_id)
    return (
        child is not None
        and not child.status.is_terminal
        and (child.parent_id, child.parent_incarnation)
        == (live.instance_id, live.stamp.incarnation)
    )


# --------------------------------------------------------------------- leftovers


def _check_leftovers(contents: Contents) -> Iterator[Violation]:
    for instance_id in contents.inboxes:
        if instance_id not in contents.live:
            yield Violation("leftover", instance_id, "has messages and no live row")
    for instance_id, jobs in contents.jobs.items():
        live = contents.live.get(instance_id)
        for job in jobs:
            if live is None or job.key.incarnation != live.stamp.incarnation:
                yield Violation("leftover", instance_id, f"job {job.key.seq} has no live owner")
    for key in contents.histories:
        row = contents.instances.get(key.instance_id)
        if row is None or row.incarnation != key.incarnation:
            yield Violation("orphan", key.instance_id, "has events and no instance")
