"""Check what only deciders have: the feed, business keys, snapshots, receipts, observed inputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from perdure.checking.violations import (
    Violation,
    current_execution,
    event_of,
    readable,
    removed_in,
)
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    EffectScheduled,
    EventRecorded,
    InputTaken,
    StoredEvent,
    TimerArmed,
    TimerDisarmed,
)
from perdure.model.instances import DECIDER
from perdure.store.base import ExecutionKey
from perdure.store.contents import Contents


def check_decisions(contents: Contents) -> Iterator[Violation]:
    """Check the rows that turns of deciders leave beside their histories."""
    yield from _check_feed(contents)
    yield from _check_snapshots(contents)
    yield from _check_receipts(contents)
    for instance_id, numbers in contents.observations.items():
        if numbers != list(range(1, len(numbers) + 1)):
            problem = f"observed inputs are numbered {numbers[:20]}"
            yield Violation("S1", instance_id, problem)


def waiting_effects(events: Sequence[StoredEvent]) -> set[int]:
    """Return the open effects that have no job yet, because another one must end before."""
    waits_for: dict[int, int] = {}
    for seq, event in readable(events):
        match event:
            case EffectScheduled(after=after):
                waits_for[seq] = after if after in waits_for else 0
            case ActivityCompleted(schedule=ended) | ActivityFailed(schedule=ended):
                # What waited for one that never began waits for what that one waited for.
                before = waits_for.pop(ended, 0)
                for one in [one for one, other in waits_for.items() if other == ended]:
                    waits_for[one] = before
    return {seq for seq, other in waits_for.items() if other}


def armed_timers(events: Sequence[StoredEvent]) -> dict[str, int]:
    """Return the timers that decisions have set and that have not fired, with their due times."""
    armed: dict[str, int] = {}
    for _, event in readable(events):
        match event:
            case TimerArmed(key=key, due_ms=due_ms):
                armed[key] = due_ms
            case TimerDisarmed(key=key):
                armed.pop(key, None)
            case InputTaken(cause=cause) if cause.startswith("timer:"):
                armed.pop(cause.removeprefix("timer:"), None)
    return armed


# -------------------------------------------------------------------------- the feed


def _check_feed(contents: Contents) -> Iterator[Violation]:
    """S33: the feed has every event of every history that is there, once and in order."""
    fed: dict[ExecutionKey, list[tuple[int, str | None]]] = defaultdict(list)
    for row in contents.feed:
        fed[row.execution].append((row.seq, row.tag))
    for key in {**contents.histories, **fed}:
        recorded = _recorded(contents.histories.get(key, []))
        # The tag of an event that cannot be read is not known.
        found = [(seq, None if (seq, None) in recorded else tag) for seq, tag in fed.get(key, [])]
        if found != recorded:
            problem = f"recorded {recorded[:20]}, the feed has {found[:20]}"
            yield Violation("S33", key.instance_id, problem)


def _recorded(events: Sequence[StoredEvent]) -> list[tuple[int, str | None]]:
    found: list[tuple[int, str | None]] = []
    for stored in events:
        if stored.kind == EventRecorded.kind:
            event = event_of(stored)
            found.append((stored.seq, event.tag if isinstance(event, EventRecorded) else None))
    return found


# ---------------------------------------------------------------- keys and snapshots


def check_keys(contents: Contents) -> Iterator[Violation]:
    """Check that the holder of a business key lives."""
    for (scope, key), (holder, incarnation) in contents.unique_keys.items():
        live = contents.live.get(holder)
        if live is None or live.definition_no is None or live.stamp.incarnation != incarnation:
            yield Violation("leftover", holder, f"has key {key!r} of {scope!r} and does not live")


def _check_snapshots(contents: Contents) -> Iterator[Violation]:
    for key, snapshot in contents.snapshots.items():
        if current_execution(contents, key.instance_id) != key:
            yield Violation("leftover", key.instance_id, "its snapshot is not of its execution")
            continue
        events = contents.histories.get(key, [])
        removed = removed_in(events)
        first, last = 1, events[-1].seq if events else 0
        version = sum(e.kind == EventRecorded.kind and e.seq <= snapshot.seq for e in events)
        if removed is not None:
            first, version = removed.upto, version + removed.version
        if not first <= snapshot.seq <= last:
            problem = f"its snapshot is of event {snapshot.seq}, and {first} to {last} are kept"
            yield Violation("fold", key.instance_id, problem)
        if snapshot.version != version:
            problem = f"its snapshot has version {snapshot.version} after {version} events"
            yield Violation("fold", key.instance_id, problem)


# -------------------------------------------------------------------------- receipts


def _check_receipts(contents: Contents) -> Iterator[Violation]:
    """S32: an input id is decided at most once, and what it came to is known."""
    for instance_id, row in contents.instances.items():
        key = current_execution(contents, instance_id)
        if row.kind != DECIDER or key is None:
            continue
        receipts = contents.receipts.get(instance_id, {})
        seen: set[str] = set()
        for _, event in readable(contents.histories.get(key, [])):
            if isinstance(event, InputTaken) and event.input_id:
                if event.input_id in seen:
                    yield Violation("S32", instance_id, f"input {event.input_id!r} decided twice")
                seen.add(event.input_id)
        for input_id in sorted(seen):
            # Those of an instance that has ended may have expired.
            is_kept = instance_id in contents.live or input_id in receipts
            if is_kept and receipts.get(input_id) is None:
                problem = f"what input {input_id!r} came to is lost"
                yield Violation("S32", instance_id, problem)
        yield from _check_waiting(contents, instance_id, receipts)


def _check_waiting(
    contents: Contents, instance_id: str, receipts: dict[str, bytes | None]
) -> Iterator[Violation]:
    for message in contents.inboxes.get(instance_id, []):
        event = event_of(message)
        if isinstance(event, InputTaken) and receipts.get(event.input_id) is not None:
            problem = f"input {event.input_id!r} waits and was decided"
            yield Violation("S32", instance_id, problem)
