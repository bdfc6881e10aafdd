"""What clients are told about decisions: tried ones, observed ones, and those they wait for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec

from perdure.authoring.deciders.decider_definition import (
    AnyDecider,
    DeciderDefinition,
    definition_of,
)
from perdure.authoring.deciders.decision import Accepted, AlreadyCompleted, Rejected
from perdure.client.histories.histories import key_of, named_in_errors
from perdure.client.reading.info import Json
from perdure.clock import to_datetime
from perdure.codec import check_id
from perdure.core.deciders.answers import (
    AcceptedReceipt,
    CompletedReceipt,
    DirectInput,
    KeyTakenReceipt,
    RejectedReceipt,
    UnreadableReceipt,
    outcome_json,
    read_receipt,
)
from perdure.core.deciders.execution import DeciderExecution
from perdure.core.deciders.fold import refuse_removed
from perdure.core.turn_builder import TurnTerms
from perdure.errors import InstanceHeldError, NotRegisteredError, UniqueKeyError, UsageError
from perdure.limits import PAGE_MAX
from perdure.model.feeds import Observation
from perdure.model.histories.events import (
    ChildScheduled,
    EffectScheduled,
    EventRecorded,
    InputSent,
    StoredEvent,
    TimerArmed,
    TimerDisarmed,
    read_event,
)
from perdure.model.histories.removed import first_gap, last_number
from perdure.model.histories.rows import read_row
from perdure.model.instances import DECIDER, Stamp, Status
from perdure.store.base import Store
from perdure.turns.unserved import LIVE_WORKER_MS, served_by

MAX_STARTS = 10
"""How often the events of an answer are counted anew because earlier ones were just removed."""

E_co = TypeVar("E_co", covariant=True)
S_co = TypeVar("S_co", covariant=True)
X_co = TypeVar("X_co", covariant=True)


@dataclass(frozen=True, slots=True)
class TriedEffect:
    """An activity that a decision would have run."""

    activity: str
    arguments: dict[str, Json]
    """By name, as they would be stored."""


@dataclass(frozen=True, slots=True)
class DryRun(Generic[E_co, S_co, X_co]):
    """What an input would come to."""

    outcome: Accepted[E_co, S_co] | Rejected[X_co] | AlreadyCompleted
    effects: tuple[TriedEffect, ...] = ()
    timers: Mapping[str, datetime] = field(default_factory=lambda: MappingProxyType({}))
    """Timers that would be set, by key, and when they would be due."""
    cancelled_timers: tuple[str, ...] = ()
    sent: tuple[str, ...] = ()
    """Instances that would get an input."""
    started: tuple[str, ...] = ()
    """Orchestrations that would be started."""


def decider_name(decider: type[AnyDecider] | str) -> str:
    """Return the name of a decider that is given by its class, or by its name.

    Raises:
        DefinitionError: It is no decider, or cannot work as written.
        InvalidIdError: It is a text that is no name.
    """
    return check_id("decider", decider) if isinstance(decider, str) else definition_of(decider).name


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What an input would come to."""

    outcome: dict[str, Json]
    effects: tuple[TriedEffect, ...]
    timers: dict[str, datetime]
    cancelled_timers: tuple[str, ...]
    sent: tuple[str, ...]
    started: tuple[str, ...]


def check_addressee(definition: DeciderDefinition, tag: str, given: Any, instance_id: str) -> None:
    """Refuse an input for another instance than was named: it says by itself which it is for.

    Raises:
        UsageError: It is for another one.
    """
    stored_id = definition.instance_of(given)
    if definition.stored_id(instance_id) != stored_id:
        raise UsageError(
            f"input {tag} of decider {definition.name!r} is for instance "
            f"{definition.own_id(stored_id)!r}, not {instance_id!r}: leave instance_id out"
        )


def tried_json(definition: DeciderDefinition, tried: DryRun[Any, Any, Any]) -> Tried:
    """Return what an input would come to as every program can read it."""
    return Tried(
        outcome=outcome_json(definition, tried.outcome),
        effects=tried.effects,
        timers=dict(tried.timers),
        cancelled_timers=tried.cancelled_timers,
        sent=tried.sent,
        started=tried.started,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """An input that a decider's instance was given."""

    no: int
    """Its number among those of the instance."""
    at: datetime
    tag: str
    """Which of the decider's inputs."""
    input: Json
    outcome: str
    """accepted, rejected or completed"""
    rejection: Json
    """Why it was rejected."""
    input_id: str


def observed_of(one: Observation) -> Observed:
    """Return a stored observation as people see it."""
    return Observed(
        no=one.no,
        at=to_datetime(one.at_ms),
        tag=one.tag,
        input=json.loads(one.input),
        outcome=one.outcome,
        rejection=None if one.rejection is None else json.loads(one.rejection),
        input_id=one.input_id,
    )


def dry_run_of(
    execution: DeciderExecution, given: DirectInput, *, now_ms: int
) -> DryRun[Any, Any, Any]:
    """Decide an input on an execution that is thrown away.

    Raises:
        Exception: What the decider's code raised, or a conflict.
    """
    terms = TurnTerms(
        stamp=Stamp(execution.id.incarnation, execution.execution, execution.last_seq + 1),
        commit_id=0,
        worker_id="",
        seen_no=0,
        lease_until_ms=0,
        takes=lambda _: False,
    )
    execution.give([given])
    turn = execution.run((), terms, now_ms=now_ms)
    [answer] = execution.answers
    if answer.error is not None:
        raise answer.error
    assert answer.outcome is not None, "one of the two is set"
    asked = [read_event(kind, body) for kind, body in turn.events]
    armed = {event.key: event.due_ms for event in asked if isinstance(event, TimerArmed)}
    return DryRun(
        answer.outcome,
        tuple(
            TriedEffect(event.name, json.loads(bytes(event.input)))
            for event in asked
            if isinstance(event, EffectScheduled)
        ),
        {key: to_datetime(due_ms) for key, due_ms in armed.items()},
        tuple(event.key for event in asked if isinstance(event, TimerDisarmed)),
        tuple(event.instance_id for event in asked if isinstance(event, InputSent)),
        tuple(event.instance_id for event in asked if isinstance(event, ChildScheduled)),
    )


async def check_known(store: Store, decider: str, instance_id: str) -> None:
    """Refuse a decider that is not known anywhere, given by a client without its code.

    What is queued for a misspelled one would wait for ever. On a store where no worker was yet that
    has a decider, that cannot be told.

    Args:
        store: Where deciders have been seen.
        decider: Its name.
        instance_id: As stored.

    Raises:
        NotRegisteredError: No live worker has it, and the store has never seen it.
    """
    [row] = await store.read_instances([instance_id])
    if row is None:
        await refuse_unheard_of(
            store, decider, " For one whose workers come later give allow_unknown=True"
        )


async def refuse_unheard_of(store: Store, decider: str, way_out: str = "") -> None:
    """Refuse the name of a decider that no live worker has and the store has never seen.

    Args:
        store: Where deciders have been seen.
        decider: Its name.
        way_out: A sentence on what else can be done, with a space before it.

    Raises:
        NotRegisteredError: That is so, and others are known.
    """
    seen = {key.name for key in (await store.admin.definitions()).values() if key.kind == DECIDER}
    if decider in seen:
        return
    workers = await store.read_workers(seen_since_ms=store.clock() - LIVE_WORKER_MS)
    served = {key.name for key in served_by(workers) if key.kind == DECIDER}
    if decider in served or not (workers or seen):
        return
    raise NotRegisteredError(
        "decider",
        decider,
        known=sorted(seen | served),
        advice=f"no live worker has it, and this store has never seen it.{way_out}",
    )


async def check_takes_inputs(store: Store, instance_id: str, input_id: str) -> None:
    """Refuse to queue an input that would wait for an operator.

    Args:
        store: Where the instance is.
        instance_id: As stored.
        input_id: Of the input; one that has an outcome passes.

    Raises:
        InstanceHeldError: The instance is parked.
    """
    [row] = await store.read_instances([instance_id])
    if row is None or row.status is not Status.PARKED:
        return
    if (await store.deciders.read_receipts(instance_id, [input_id])).get(input_id) is None:
        raise InstanceHeldError(instance_id, row.status, row.reason or "")


async def receipt_json(
    store: Store, decider: str, instance_id: str, kept: bytes | None
) -> dict[str, Json]:
    """Return what an input came to as JSON, without the code of the decider.

    Args:
        store: Where the events are.
        decider: Its name.
        instance_id: As stored.
        kept: The receipt; None: the instance ended before it was decided.

    Raises:
        UniqueKeyError: Another instance has the business key.
        PayloadError: It is no input of the decider.
        EventsRemovedError: It was accepted, and its events were removed.
    """
    match None if kept is None else read_receipt(kept):
        case UnreadableReceipt() as unreadable:
            raise unreadable.error()
        case AcceptedReceipt(first=first, last=last, reply=reply):
            return {
                "outcome": "accepted",
                "events": await _events(store, instance_id, first, last),
                "state": None,
                "version": last,
                "reply": json.loads(bytes(reply)),
            }
        case RejectedReceipt(tag=tag, reason=reason):
            return {"outcome": "rejected", "tag": tag, "reason": json.loads(bytes(reason))}
        case KeyTakenReceipt(key=key, holder=holder):
            raise UniqueKeyError(key, decider=decider, holder=holder)
        case CompletedReceipt() | None:
            return {"outcome": "completed"}


async def _events(store: Store, instance_id: str, first: int, last: int) -> list[Json]:
    [row] = await store.read_instances([instance_id])
    if row is None or first > last:
        return []
    found: list[Json] = []
    after = version = starts = 0
    with named_in_errors(row):
        while True:
            [page] = await store.read_histories([key_of(row)], after_seq=after, limit=PAGE_MAX)
            if after == 0:
                version = refuse_removed(page, first - 1, "the answer to a repeated input")
            elif first_gap(page, after=after) is not None and starts < MAX_STARTS:
                # Events that were to be counted have been removed since the page before.
                found, after, starts = [], 0, starts + 1
                continue
            for stored in page:
                after = last_number(stored)
                if stored.kind == EventRecorded.kind:
                    version += 1
                    if first <= version <= last:
                        found.append(_told(stored))
            if version >= last or len(page) < PAGE_MAX:
                return found


def _told(stored: StoredEvent) -> Json:
    event = read_row(stored)
    assert isinstance(event, EventRecorded)
    return {"tag": event.tag, "event": json.loads(bytes(event.event))}
