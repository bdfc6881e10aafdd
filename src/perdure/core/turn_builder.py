"""What the turns of orchestrations and of deciders share: their terms, and how an end is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from perdure.model.histories.events import (
    Cancelled,
    ChildCompleted,
    ChildFailed,
    Completed,
    Failed,
    Failure,
    MessageEvent,
    Parent,
    Terminated,
    write_event,
)
from perdure.model.instances import DefinitionKey, NewInstance, Stamp, Status
from perdure.model.jobs import JobEnd
from perdure.model.messages import Delivery
from perdure.model.turns import InstanceEnd


class TurnTerms(msgspec.Struct, frozen=True):
    """What the worker brings to a turn: its claim, and what it can take on at once."""

    stamp: Stamp
    commit_id: int
    worker_id: str
    seen_no: int
    lease_until_ms: int
    takes: Callable[[DefinitionKey], bool]
    """Tells whether the worker runs such a job right after the commit."""
    lease: int = 0
    start: NewInstance | None = None
    job_ends: tuple[JobEnd, ...] = ()
    loop: asyncio.AbstractEventLoop | None = None
    """Its own event loop, if it is known."""


def outcome_of(terminal: Any, digest: bytes) -> InstanceEnd:
    """Return what the store keeps of the last event."""
    match terminal:
        case Completed(result=result):
            return InstanceEnd(Status.COMPLETED, bytes(result), None, digest)
        case Failed(failure=failure):
            return InstanceEnd(Status.FAILED, msgspec.json.encode(failure), failure.message, digest)
        case Cancelled(reason=reason):
            return InstanceEnd(Status.CANCELLED, None, reason, digest)
        case Terminated(reason=reason):
            return InstanceEnd(Status.TERMINATED, None, reason, digest)
    raise AssertionError(f"{terminal!r} ends nothing")


def answer_to(call: Parent, event: MessageEvent) -> Delivery:
    """Return an event as a message to the execution that made a call."""
    kind, body = write_event(event)
    return Delivery(
        instance_id=call.instance_id,
        incarnation=call.incarnation,
        execution=call.execution,
        kind=kind,
        body=body,
    )


def told_to_parent(parent: Parent, terminal: Any) -> Delivery:
    """Return the message by which the parent hears of a child's end."""
    return answer_to(parent, _end_of_child(parent, terminal))


def _end_of_child(parent: Parent, terminal: Any) -> MessageEvent:
    match terminal:
        case Completed(result=result):
            return ChildCompleted(schedule=parent.seq, result=result)
        case Failed(failure=failure):
            return ChildFailed(schedule=parent.seq, status="failed", failure=failure)
        case Cancelled(reason=reason):
            failure = Failure("Cancelled", reason)
            return ChildFailed(schedule=parent.seq, status="was cancelled", failure=failure)
        case Terminated(reason=reason):
            failure = Failure("Terminated", reason)
            return ChildFailed(schedule=parent.seq, status="was terminated", failure=failure)
    raise AssertionError(f"{terminal!r} ends nothing")
