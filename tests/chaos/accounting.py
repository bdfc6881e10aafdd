"""The last look: does what the store holds agree with what really happened?"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from perdure.checking.invariants import check
from perdure.model.builtins import RESERVED_PREFIX
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityScheduled,
    EffectScheduled,
    Origin,
    Started,
    StoredEvent,
    WentBack,
    read_event,
)
from perdure.model.jobs import JobKey
from perdure.store.base import ExecutionKey, Store
from perdure.store.contents import Contents, Inspectable
from tests.chaos.ledger import Line

SCHEDULES = ("activity_scheduled", "inline_scheduled", "effect_scheduled")


async def problems_in(store: Store, ledger: list[Line], *, paused: set[int]) -> list[str]:
    """Return everything that is wrong once all work is done.

    Args:
        store: What the workers left behind.
        ledger: What they did.
        paused: Processes that stood still for longer than a lease. Such a one cannot know that its
            lease is gone and may begin what others have finished; what it does is refused.
    """
    assert isinstance(store, Inspectable)
    contents = await store.read_contents()
    return [
        *(f"{each.instance_id}: {each.invariant} {each.problem}" for each in await check(store)),
        *_unfinished(contents),
        *_lost_starts(contents, ledger),
        *_unscheduled(contents, ledger),
        *_runs(contents, ledger, paused),
    ]


def _unfinished(contents: Contents) -> Iterator[str]:
    for instance_id, row in contents.instances.items():
        if not row.status.is_terminal:
            yield f"{instance_id}: is {row.status} ({row.reason})"
    for what, rows in (
        ("a live row", contents.live),
        ("messages", contents.inboxes),
        ("jobs", contents.jobs),
    ):
        for instance_id in rows:
            yield f"{instance_id}: has {what} left"


def _lost_starts(contents: Contents, ledger: list[Line]) -> Iterator[str]:
    for line in ledger:
        if line.what == "started" and line.key not in contents.instances:
            yield f"{line.key}: its start was acknowledged and it is not there"


def _unscheduled(contents: Contents, ledger: list[Line]) -> Iterator[str]:
    """A run that nobody asked for: its turn was not committed when it began."""
    scheduled = {
        _job_key(key, event.seq)
        for key, events in contents.histories.items()
        for event in events
        if event.kind in SCHEDULES
    }
    for line in ledger:
        if line.what == "begin" and line.key not in scheduled:
            yield f"{line.key}: {line.activity} ran and was never scheduled"


def _runs(contents: Contents, ledger: list[Line], paused: set[int]) -> Iterator[str]:
    """Compare recorded results with the runs that made them."""
    begins: dict[str, list[Line]] = defaultdict(list)
    ends: set[tuple[str, int]] = set()
    for line in ledger:
        if line.what == "begin":
            begins[line.key].append(line)
        elif line.what == "end":
            ends.add((line.key, line.attempt))
    recorded = recorded_attempts(contents)
    for key, attempt in recorded.items():
        if (key, attempt) not in ends:
            yield f"{key}: attempt {attempt} is recorded and never ended"
        for line in begins[key]:
            # A later attempt took the lease over: the end of this one had to be refused.
            if line.attempt > attempt:
                yield f"{key}: attempt {attempt} is recorded and {line.attempt} began"
    for key, lines in begins.items():
        attempts = [line.attempt for line in lines if line.pid not in paused]
        if attempts != sorted(set(attempts)):
            yield f"{key}: attempts began in the order {[line.attempt for line in lines]}"


def recorded_attempts(contents: Contents) -> dict[str, int]:
    """Return which attempt of each call made the recorded result."""
    return {
        _job_key(key, event.schedule): _attempt_in(json.loads(bytes(event.result)))
        for key, events in contents.histories.items()
        for event in _completions(events)
    }


def _attempt_in(result: dict[str, Any]) -> int:
    """Return the attempt that a result tells; one that is an input is wrapped as such."""
    attempt: int = result.get("input", result)["attempt"]
    return attempt


def _completions(events: list[StoredEvent]) -> Iterator[ActivityCompleted]:
    """Yield the results of activities that tell their attempt; built-in ones do not, and what was
    taken over from another execution is told of there."""
    built_in = set()
    cut = answered = 0
    for stored in events:
        event = read_event(stored.kind, stored.body)
        match event:
            case Started(origin=Origin(cut=cut)):
                continue
            case WentBack() if stored.seq == cut + 1:
                answered = event.answered
            case ActivityCompleted(schedule=schedule) if stored.seq <= cut or schedule == answered:
                continue
            case ActivityScheduled(name=name) | EffectScheduled(name=name):
                if name.startswith(RESERVED_PREFIX):
                    built_in.add(stored.seq)
            case ActivityCompleted(schedule=schedule) if schedule not in built_in:
                yield event


def _job_key(key: ExecutionKey, seq: int) -> str:
    return JobKey(*key, seq).idempotency_key


def overtaken(ledger: list[Line], paused: set[int]) -> set[str]:
    """Return the calls that several processes began, one of which had stood still."""
    runners: dict[str, set[int]] = defaultdict(set)
    for line in ledger:
        if line.what == "begin":
            runners[line.key].add(line.pid)
    return {key for key, pids in runners.items() if pids & paused and len(pids) > 1}
