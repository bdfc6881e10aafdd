"""Check unfinished instances: all that they wait for is under way exactly once (S5, S7, S21)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from perdure.checking.decider_checks import armed_timers, waiting_effects
from perdure.checking.violations import (
    Violation,
    event_of,
    first_event,
    open_schedules,
    readable,
    removed_in,
    schedule_of,
)
from perdure.model.histories.events import (
    ActivityFailed,
    ActivityScheduled,
    ChildScheduled,
    EffectScheduled,
    Event,
    InlineScheduled,
    SignalAwaited,
    Started,
    StoredEvent,
    TimerScheduled,
    WentBack,
)
from perdure.model.instances import LiveRow
from perdure.model.messages import Message
from perdure.store.base import ExecutionKey, WaitingJob
from perdure.store.contents import Contents

KEYED = "key:"
"""Before the key of a decider's timer, in the inbox."""

_ANSWERED_BY_JOBS = ActivityScheduled | InlineScheduled | EffectScheduled


def check_live(contents: Contents) -> Iterator[Violation]:
    """Check every instance that has not ended."""
    for instance_id, live in contents.live.items():
        inbox = contents.inboxes.get(instance_id, [])
        if any(message.no > live.last_no for message in inbox):
            yield Violation("S21", instance_id, "a message has a number that was never given")
        if live.definition_no is None:
            continue  # Unborn: it has messages and nothing else.
        row = contents.instances.get(instance_id)
        if row is None or row.incarnation != live.stamp.incarnation:
            yield Violation("orphan", instance_id, "a live row without its instance")
            continue
        yield from _check_stamp(contents, live, inbox)
        yield from _check_begun(contents, live, inbox)
        if not any(message.kind == WentBack.kind for message in inbox):
            yield from _check_tokens(contents, live, inbox)


def _check_stamp(
    contents: Contents, live: LiveRow, inbox: Sequence[Message]
) -> Iterator[Violation]:
    events = contents.histories.get(ExecutionKey(live.instance_id, *live.stamp[:2]), [])
    last_seq = events[-1].seq if events else 0
    if live.stamp.next_seq != last_seq + 1:
        problem = f"next is {live.stamp.next_seq} after {last_seq} events"
        yield Violation("S7", live.instance_id, problem)
    if live.lease and live.wake_at_ms is None:
        yield Violation("S7", live.instance_id, "is leased and would never be found again")
    starts = sum(message.kind == Started.kind for message in inbox)
    if starts != (live.stamp.next_seq == 1):
        problem = f"execution {live.stamp.execution} has {starts} starts before it"
        yield Violation("S35", live.instance_id, problem)
    for message in inbox:
        if message.execution not in (0, live.stamp.execution):
            problem = f"message {message.no} is for execution {message.execution}"
            yield Violation("S35", live.instance_id, problem)


def _check_begun(
    contents: Contents, live: LiveRow, inbox: Sequence[Message]
) -> Iterator[Violation]:
    """S35: what was reset or forked is told so once, before anything else happens to it."""
    key = ExecutionKey(live.instance_id, *live.stamp[:2])
    first = first_event(contents, key)
    cut = 0 if first is None or first.origin is None else first.origin.cut
    told = sum(message.kind == WentBack.kind for message in inbox)
    events = contents.histories.get(key, [])
    if told != (0 < cut == len(events)):
        yield Violation("S35", live.instance_id, f"was told {told} times that it went back")
    if 0 < cut < len(events) and events[cut].kind != WentBack.kind:
        yield Violation("S35", live.instance_id, f"went on at {cut + 1} and did not go back")


# -------------------------------------------------------------------- conservation


def _check_tokens(
    contents: Contents, live: LiveRow, inbox: Sequence[Message]
) -> Iterator[Violation]:
    """S5: every open schedule has exactly one token, so that it will be answered exactly once."""
    events = contents.histories.get(ExecutionKey(live.instance_id, *live.stamp[:2]), [])
    asked = open_schedules(events)
    waiting = waiting_effects(events)
    jobs = [
        job
        for job in contents.jobs.get(live.instance_id, [])
        if job.key[1:3] == live.stamp[:2] and not is_rerun(contents, job)
    ]
    tokens = _tokens(jobs, live, inbox)
    timers = {
        message.timer_key: message.effective_at_ms
        for message in inbox
        if message.timer_key is not None
    }
    for seq, event in asked.items():
        found = tokens[seq]
        if isinstance(event, ChildScheduled):
            found += _is_running_child(contents, live, event)
        if isinstance(event, TimerScheduled):
            found += f"timer:{seq}" in timers
        if not isinstance(event, SignalAwaited) and found != (seq not in waiting):
            yield Violation(
                "S5", live.instance_id, f"schedule {seq} ({event.kind}) has {found} tokens"
            )
    for problem in (
        *_timer_problems(asked, jobs, timers, _cut_of(events)),
        *_key_problems(armed_timers(events), timers),
    ):
        yield Violation("S5", live.instance_id, problem)
    for job in jobs:
        if not isinstance(asked.get(job.key.seq), _ANSWERED_BY_JOBS):
            problem = f"job {job.key.seq} belongs to no open schedule"
            yield Violation("S5", live.instance_id, problem)


def _timer_problems(
    asked: dict[int, Event], jobs: Sequence[WaitingJob], timers: Mapping[str, int], cut: int
) -> Iterator[str]:
    calls = {
        seq: event
        for seq, event in asked.items()
        if isinstance(event, ActivityScheduled | EffectScheduled)
    }
    # Of a call that was taken over, the code that opened it again tells whether it has one.
    expected = {
        f"deadline:{seq}"
        for seq, event in calls.items()
        if event.deadline_ms is not None and seq > cut
    }
    # The claim of a job removes it together with the time that is stored with the job.
    expected |= {f"start:{job.key.seq}" for job in jobs if job.start_by_ms is not None}
    allowed = {f"timer:{seq}" for seq, event in asked.items() if isinstance(event, TimerScheduled)}
    allowed |= {f"start:{seq}" for seq, event in calls.items() if event.start_by_ms is not None}
    allowed |= {f"{kind}:{seq}" for kind in ("deadline", "start") for seq in calls if seq <= cut}
    for key in sorted(expected - timers.keys()):
        yield f"{key} was lost"
    for key in sorted(timers.keys() - expected - allowed):
        if not key.startswith(KEYED):
            yield f"{key} belongs to no open schedule"


def _cut_of(events: Sequence[StoredEvent]) -> int:
    """Return how many events of an execution were taken over from another one."""
    first = event_of(events[0]) if events else None
    return first.origin.cut if isinstance(first, Started) and first.origin is not None else 0


def _key_problems(armed: Mapping[str, int], timers: Mapping[str, int]) -> Iterator[str]:
    """Compare the timers that decisions have set with those in the inbox."""
    found = {key.removeprefix(KEYED): due for key, due in timers.items() if key.startswith(KEYED)}
    for key in sorted({**armed, **found}):
        if key not in found:
            yield f"timer {key!r} was lost"
        elif key not in armed:
            yield f"timer {key!r} was set by no decision"
        elif armed[key] != found[key]:
            yield f"timer {key!r} is due at {found[key]} and was set for {armed[key]}"


def _tokens(jobs: Sequence[WaitingJob], live: LiveRow, inbox: Sequence[Message]) -> Counter[int]:
    """Count the jobs and answers that are under way for each schedule."""
    tokens: Counter[int] = Counter(job.key.seq for job in jobs)
    for message in inbox:
        if message.timer_key is None and message.execution in (0, live.stamp.execution):
            event = event_of(message)
            schedule = None if event is None else schedule_of(event)
            if schedule is not None:
                tokens[schedule] += 1
    return tokens


def _is_running_child(contents: Contents, live: LiveRow, event: ChildScheduled) -> bool:
    parent = (live.instance_id, live.stamp.incarnation)
    return contents.children.get(event.instance_id) == parent


def is_rerun(contents: Contents, job: WaitingJob) -> bool:
    """Return whether a person put a dead job back: then its call has failed for good.

    Of an execution whose history was pruned that cannot be told, and is believed.
    """
    if not job.is_rerun:
        return False
    events = contents.histories.get(ExecutionKey(*job.key[:3]))
    if events is None:
        return job.key.instance_id in contents.instances
    removed = removed_in(events)
    if removed is not None and job.key.seq <= removed.upto:
        return job.key.seq not in open_schedules(events)
    waiting: list[Event | None] = [
        event_of(message)
        for message in contents.inboxes.get(job.key.instance_id, [])
        if message.timer_key is None and message.execution in (0, job.key.execution)
    ]
    return any(
        isinstance(event, ActivityFailed) and event.schedule == job.key.seq
        for event in [*(event for _, event in readable(events)), *waiting]
    )
