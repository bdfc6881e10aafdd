"""Histories of a file become instances of a store: such as have ended, to be looked at.

What an unfinished instance waits for, its jobs, timers and messages, is not in a file, and an
instance that lives in two stores would run its activities twice. So it is refused; nothing that was
imported ever runs. Everything else is as it was: ids, events and their times, values, reports, the
result. Written are the very turns that would have made the history, in one commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from perdure.checking.invariants import apply_kept, digest_of, history_problems
from perdure.client.client import Client
from perdure.client.histories.recorded import RecordedHistory
from perdure.core.turn_builder import outcome_of
from perdure.errors import PerdureError, UsageError
from perdure.ids import fresh_id
from perdure.model.admin import KvRow
from perdure.model.histories.events import (
    TERMINAL_KINDS,
    Body,
    Event,
    Reported,
    Started,
    StoredEvent,
    UnreadableEventError,
    read_event,
)
from perdure.model.instances import DefinitionKey, InstanceRow, NewInstance, Stamp
from perdure.model.turns import KvChange, Turn, TurnStatus

MAX_EVENTS = 100_000
"""The longest history that is imported (SEC-22)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of one history."""

    instance_id: str
    status: str
    events: int
    result: str
    """imported, there (it was imported before), or refused"""
    why: str = ""


async def import_histories(client: Client, histories: Sequence[RecordedHistory]) -> list[Imported]:
    """Import what can be imported, each instance by itself, in the order of the file."""
    return [await _import_one(client, one) for one in histories]


async def _import_one(client: Client, history: RecordedHistory) -> Imported:
    result, why = "imported", ""
    try:
        if not await _write(client, history):
            result = "there"
    except PerdureError as error:
        result, why = "refused", str(error)
    return Imported(
        instance_id=history.instance_id,
        status=history.status,
        events=len(history.events),
        result=result,
        why=why,
    )


async def _write(client: Client, history: RecordedHistory) -> bool:
    """Write an instance; False if it is there already.

    Raises:
        UsageError: It cannot be imported.
    """
    store = client._core.store
    _refuse_unfinished(history)
    events = _read(history)
    digest = digest_of(history.events)
    [existing] = await store.read_instances([history.instance_id])
    if existing is not None:
        _refuse_other(existing, history, digest)
        return False
    started = events[0]
    assert isinstance(started, Started)
    start = await _start_of(client, history, started)
    receipts = await store.commit(_turns(history, events, start, digest))
    if any(receipt.error is not None for receipt in receipts):
        raise next(receipt.error for receipt in receipts if receipt.error is not None)
    if any(receipt.status is not TurnStatus.ACCEPTED for receipt in receipts):
        raise UsageError("its id was taken meanwhile; import it again")
    return True


def _refuse_unfinished(history: RecordedHistory) -> None:
    if history.kind == "decider":
        raise UsageError(
            "it is a decider's: what projections have read of it, its keys and its receipts are "
            "not in a file"
        )
    if len(history.events) > MAX_EVENTS:
        raise UsageError(f"it has {len(history.events):,} events, and {MAX_EVENTS:,} is the most")
    if history.execution != 1:
        raise UsageError(
            f"it is execution {history.execution} of its instance, and those before it are "
            "another history: only instances that never continued as new can be imported"
        )
    last = history.events[-1].kind if history.events else "nothing"
    if last not in TERMINAL_KINDS:
        raise UsageError(
            f"it has not ended (its last event is {last}): what it waits for is not in a file, "
            "and it would run in two stores"
        )


def _read(history: RecordedHistory) -> list[Event]:
    """Return the events of a history that makes sense.

    Raises:
        UsageError: It does not.
    """
    try:
        events = [read_event(stored.kind, stored.body) for stored in history.events]
    except UnreadableEventError as error:
        raise UsageError(f"an event cannot be read: {error}") from error
    problems = history_problems(history.events)
    times = [stored.at_ms for stored in history.events]
    first, last = events[0], history.events[-1]
    if times != sorted(times):
        problems.append("its times go back")
    if last.kind != history.status:
        problems.append(f"it is said to be {history.status}, and ends with {last.kind}")
    if isinstance(first, Started) and (first.name, first.version) != (
        history.name,
        history.version,
    ):
        problems.append(f"it is said to be of {history.name}, and was started as {first.name}")
    if problems:
        raise UsageError(f"it is no history of one execution: {problems[0]}")
    return events


def _refuse_other(existing: InstanceRow, history: RecordedHistory, digest: bytes) -> None:
    if existing.incarnation != history.incarnation or existing.digest != digest:
        raise UsageError(
            f"the id is taken by another instance ({existing.name}, {existing.status.value}): "
            "delete that first, or import into another store"
        )


async def _start_of(client: Client, history: RecordedHistory, started: Started) -> NewInstance:
    first = history.events[0]
    parent = started.parent
    if parent is not None:
        [above] = await client._core.store.read_instances([parent.instance_id])
        if above is None or above.incarnation != parent.incarnation:
            raise UsageError(
                f"it is a child of {parent.instance_id!r}, which is not here: export that with "
                "--children, and import both"
            )
    return NewInstance(
        instance_id=history.instance_id,
        incarnation=history.incarnation,
        definition=DefinitionKey("orchestration", started.name, started.version, started.behaviour),
        input=bytes(started.input),
        start_kind=first.kind,
        start_body=first.body,
        created_ms=first.at_ms,
        parent_id=None if parent is None else parent.instance_id,
        parent_incarnation=None if parent is None else parent.incarnation,
        commit_id=fresh_id(),
    )


def _turns(
    history: RecordedHistory, events: Sequence[Event], start: NewInstance, digest: bytes
) -> list[Turn]:
    """Return the turns that make a history: one for all events of the same time."""
    turns: list[Turn] = []
    kept: dict[str, KvRow] = {}
    stamp = Stamp(history.incarnation, 1, 1)
    pairs = list(zip(history.events, events, strict=True))
    for at_ms, group in groupby(pairs, key=lambda pair: pair[0].at_ms):
        part: list[tuple[StoredEvent, Event]] = list(group)
        before = dict(kept)
        report = None
        for stored, event in part:
            apply_kept(kept, event, stored.at_ms)
            report = bytes(event.value) if isinstance(event, Reported) else report
        is_last = part[-1][0] is history.events[-1]
        turns.append(
            Turn(
                instance_id=history.instance_id,
                stamp=stamp,
                commit_id=fresh_id(),
                now_ms=at_ms,
                worker_id="",
                start=None if turns else start,
                events=tuple(Body(stored.kind, stored.body) for stored, _ in part),
                kv=_changed(before, kept),
                report=report,
                outcome=outcome_of(events[-1], digest) if is_last else None,
            )
        )
        stamp = turns[-1].next_stamp
    return turns


def _changed(before: dict[str, KvRow], now: dict[str, KvRow]) -> tuple[KvChange, ...]:
    keys = [key for key in before.keys() | now.keys() if before.get(key) != now.get(key)]
    return tuple(KvChange(key, now[key].value if key in now else None) for key in sorted(keys))
