"""Check that what a store holds keeps the promises of `docs/reference/invariants.md`.

Reads consistent pictures, so it may run beside working workers. It looks inside events, which the
store never does. Unit tests and chaos runs check all of a store at once; `checkup` does it slice by
slice, for `perdure doctor`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from perdure.checking.conservation import check_live, is_rerun
from perdure.checking.decider_checks import check_decisions, check_keys
from perdure.checking.stream_checks import check_streams
from perdure.checking.violations import (
    ANSWERS,
    SCHEDULES,
    Violation,
    current_execution,
    event_of,
    first_event,
    readable,
    removed_in,
    schedule_of,
)
from perdure.model.admin import KvRow
from perdure.model.histories.events import (
    LAST_KINDS,
    TERMINAL_KINDS,
    ActivityFailed,
    ContinuedAsNew,
    EffectRetried,
    Event,
    EventsRemoved,
    KvCleared,
    KvPruned,
    KvRemoved,
    KvSet,
    Reported,
    Started,
    StoredEvent,
)
from perdure.model.histories.removed import digest_over
from perdure.model.instances import InstanceRow
from perdure.store.base import ExecutionKey, Store
from perdure.store.contents import Contents, Inspectable

__all__ = [
    "Violation",
    "apply_kept",
    "check",
    "check_contents",
    "digest_of",
    "history_problems",
]


async def check(store: Store) -> list[Violation]:
    """Return every violation found; an empty list is good news."""
    if not isinstance(store, Inspectable):
        raise TypeError(f"{type(store).__name__} cannot be read as a whole")
    contents = await store.read_contents()
    return [
        *check_contents(contents),
        *check_keys(contents),
        *_check_sessions(contents, store.clock()),
    ]


def check_contents(contents: Contents) -> Iterator[Violation]:
    """Check all that belongs to single ids."""
    yield from _check_histories(contents)
    yield from _check_chains(contents)
    yield from _check_instances(contents)
    yield from check_live(contents)
    yield from _check_values(contents)
    yield from check_streams(contents)
    yield from check_decisions(contents)
    yield from _check_leftovers(contents)


def digest_of(events: Sequence[StoredEvent]) -> bytes:
    """Return the hash over the history of an execution, as the store and the next one keep it."""
    return digest_over(events).value()


# --------------------------------------------------------------------- histories


def _check_histories(contents: Contents) -> Iterator[Violation]:
    for key, events in contents.histories.items():
        for problem in _numbering(events):
            yield Violation("S1", key.instance_id, problem)
        for problem in _shape(events):
            yield Violation("S3", key.instance_id, problem)
        for problem in _answers(events):
            yield Violation("S4", key.instance_id, problem)


def history_problems(events: Sequence[StoredEvent]) -> list[str]:
    """Return what is wrong with the history of an execution by itself (S1, S3, S4)."""
    return [*_numbering(events), *_shape(events), *_answers(events)]


def _numbering(events: Sequence[StoredEvent]) -> Iterator[str]:
    numbers = [event.seq for event in events]
    removed = removed_in(events)
    expected = list(range(1, len(numbers) + 1))
    if removed is not None:
        expected = [1, 2, *range(removed.upto + 1, removed.upto + len(numbers) - 1)]
    if numbers != expected:
        yield f"events are numbered {numbers[:20]}"


def _shape(events: Sequence[StoredEvent]) -> Iterator[str]:
    kinds = [event.kind for event in events]
    if kinds[0] != Started.kind:
        yield f"the first event is {kinds[0]}"
    if Started.kind in kinds[1:]:
        yield "it was started twice"
    if EventsRemoved.kind in (*kinds[:1], *kinds[2:]):
        yield "what stands for removed events is not its second event"
    ends = [index for index, kind in enumerate(kinds, start=1) if kind in LAST_KINDS]
    if len(ends) > 1:
        yield f"it ended {len(ends)} times"
    if ends and ends[0] != len(kinds):
        yield f"events follow its end at number {ends[0]}"


def _answers(events: Sequence[StoredEvent]) -> Iterator[str]:
    asked: dict[int, Event] = {}
    answered: set[int] = set()
    failed: set[int] = set()
    removed = removed_in(events)
    # Whether a removed one has failed is not known any more.
    known_from = 0 if removed is None else removed.upto + 1
    for seq, event in readable(events):
        if isinstance(event, SCHEDULES):
            asked[seq] = event
        if isinstance(event, ActivityFailed):
            failed.add(event.schedule)
        if isinstance(event, EffectRetried):
            if event.effect >= known_from and event.effect not in failed:
                yield f"event {seq} ({event.kind}) retries {event.effect}, which has not failed"
            continue
        schedule = schedule_of(event)
        if schedule is None:
            continue
        if not isinstance(asked.get(schedule), ANSWERS[type(event)]):
            yield f"event {seq} ({event.kind}) answers {schedule}, which asked for no such thing"
        elif schedule in answered:
            yield f"event {seq} ({event.kind}) answers {schedule} a second time"
        answered.add(schedule)


# -------------------------------------------------------------------- executions


def _check_chains(contents: Contents) -> Iterator[Violation]:
    """S35: an execution ends by going on exactly if there is a next one, which knows it."""
    numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
    for key in contents.histories:
        numbers[key.instance_id, key.incarnation].append(key.execution)
    for instance_id in contents.instances:
        current = current_execution(contents, instance_id)
        assert current is not None
        known = numbers[current[:2]]
        if not known or known[-1] != current.execution:
            # The next execution may have begun with nothing but its start message.
            known.append(current.execution)
        for problem in _chain(contents, current, sorted(known)):
            yield Violation("S35", instance_id, problem)


def _chain(contents: Contents, current: ExecutionKey, known: Sequence[int]) -> Iterator[str]:
    # Earlier ones may have been pruned.
    if list(known) != list(range(known[0], current.execution + 1)):
        yield f"it is in execution {current.execution} and has {list(known)[:20]}"
    for number in known:
        key = current._replace(execution=number)
        events = contents.histories.get(key, [])
        goes_on = bool(events) and events[-1].kind == ContinuedAsNew.kind
        following = first_event(contents, key._replace(execution=number + 1))
        # One that was reset is left as it was.
        was_reset = following is not None and following.origin is not None
        if goes_on != (number < current.execution) and not was_reset:
            yield f"execution {number} of {current.execution} ends with {_last_kind(events)}"
        yield from _link(contents, key)


def _link(contents: Contents, key: ExecutionKey) -> Iterator[str]:
    """Check that an execution names the digest of the one before."""
    first = first_event(contents, key)
    before = contents.histories.get(key._replace(execution=key.execution - 1))
    if first is None or (before is None and key.execution > 1):
        return  # It cannot be read, or the one before was pruned.
    if first.previous != ("" if before is None else digest_of(before).hex()):
        yield f"execution {key.execution} follows another one than {key.execution - 1}"


def _last_kind(events: Sequence[StoredEvent]) -> str:
    return events[-1].kind if events else "nothing"


# --------------------------------------------------------------------- instances


def _check_instances(contents: Contents) -> Iterator[Violation]:
    for instance_id, row in contents.instances.items():
        current = current_execution(contents, instance_id)
        assert current is not None
        events = contents.histories.get(current, [])
        ended_as = events[-1].kind if events and events[-1].kind in TERMINAL_KINDS else None
        if row.status.is_terminal:
            yield from _check_end(contents, row, events, ended_as)
        else:
            if ended_as is not None:
                yield Violation("S9", instance_id, f"is {row.status} but its end is {ended_as}")
            if instance_id not in contents.live:
                yield Violation("S9", instance_id, f"is {row.status} but has no live row")


def _check_end(
    contents: Contents, row: InstanceRow, events: Sequence[StoredEvent], ended_as: str | None
) -> Iterator[Violation]:
    if ended_as != row.status.value:
        yield Violation("S9", row.instance_id, f"is {row.status} but its end is {ended_as}")
    if row.digest != digest_of(events):
        yield Violation("S2", row.instance_id, "its history is not the one it ended with")
    if row.instance_id in contents.live:
        yield Violation("leftover", row.instance_id, "has ended and has a live row")


# ------------------------------------------------------------- values and reports


def _check_values(contents: Contents) -> Iterator[Violation]:
    """What an instance keeps and reports follows from its present execution alone."""
    for instance_id in contents.instances:
        key = current_execution(contents, instance_id)
        assert key is not None
        first = first_event(contents, key)
        recorded = contents.histories.get(key, [])
        events = [event_of(stored) for stored in recorded]
        if first is None or None in events:
            continue
        kept = {entry.key: KvRow(bytes(entry.value), entry.updated_ms) for entry in first.kv}
        report = None if bytes(first.report) == b"null" else bytes(first.report)
        for stored, event in zip(recorded, events, strict=True):
            if isinstance(event, Reported):
                report = bytes(event.value)
            elif event is not None:
                apply_kept(kept, event, stored.at_ms)
        if _plain(contents.kv.get(instance_id, {})) != _plain(kept):
            yield Violation("fold", instance_id, "its values are not those of its history")
        row = contents.reports.get(instance_id)
        if _json(None if row is None else row.value) != _json(report):
            yield Violation("fold", instance_id, "its report is not that of its history")


def apply_kept(kept: dict[str, KvRow], event: Event, at_ms: int) -> None:
    """Change what an instance keeps as an event says."""
    match event:
        case KvSet(key=key, value=value):
            kept[key] = KvRow(bytes(value), at_ms)
        case KvRemoved(key=key):
            kept.pop(key, None)
        case KvCleared():
            kept.clear()
        case KvPruned(before_ms=before_ms):
            for key in [key for key, row in kept.items() if row.updated_ms < before_ms]:
                del kept[key]


def _plain(kept: dict[str, KvRow]) -> dict[str, tuple[object, int]]:
    return {key: (_json(row.value), row.updated_ms) for key, row in kept.items()}


def _json(value: bytes | None) -> object:
    """Return what bytes mean, or themselves if they are no JSON; none and null are the same."""
    try:
        return None if value is None else msgspec.json.decode(value)
    except msgspec.MsgspecError:
        return value


# ---------------------------------------------------------------------- sessions


def _check_sessions(contents: Contents, now_ms: int) -> Iterator[Violation]:
    """S27: of each session one worker at a time runs jobs of a queue."""
    for row in contents.sessions:
        if row.used_ms > row.until_ms:
            yield Violation("S27", row.session, "was used after its lease had run out")
    running: dict[tuple[object, str], set[str | None]] = defaultdict(set)
    for jobs in contents.jobs.values():
        for job in jobs:
            if job.session is not None and job.token and job.visible_at_ms > now_ms:
                running[job.queue, job.session].add(job.worker_id)
    for (_, session), workers in running.items():
        if len(workers) > 1:
            yield Violation("S27", session, f"{len(workers)} workers run jobs of it")


# --------------------------------------------------------------------- leftovers


def _check_leftovers(contents: Contents) -> Iterator[Violation]:
    for instance_id in contents.inboxes:
        if instance_id not in contents.live:
            yield Violation("leftover", instance_id, "has messages and no live row")
    for instance_id, jobs in contents.jobs.items():
        live = contents.live.get(instance_id)
        for job in jobs:
            # Of the execution it is in: `check_live` looks at those.
            is_owned = live is not None and job.key[1:3] == live.stamp[:2]
            if not is_owned and not is_rerun(contents, job):
                yield Violation("leftover", instance_id, f"job {job.key.seq} has no live owner")
    for key in contents.histories:
        row = contents.instances.get(key.instance_id)
        if row is None or row.incarnation != key.incarnation:
            yield Violation("orphan", key.instance_id, "has events and no instance")
    yield from _check_kept(contents, "values", contents.kv)
    yield from _check_kept(contents, "a report", contents.reports)
    yield from _check_kept(contents, "dead jobs", contents.dead_jobs)


def _check_kept(contents: Contents, what: str, ids: Iterable[str]) -> Iterator[Violation]:
    for instance_id in ids:
        if instance_id not in contents.instances:
            yield Violation("leftover", instance_id, f"has {what} and is no instance")
