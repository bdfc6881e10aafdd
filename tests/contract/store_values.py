"""Turns, starts and claims with everything filled in, for tests of a store."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.errors import StoreError
from perdure.ids import fresh_id
from perdure.model.histories.events import Body
from perdure.model.instances import DefinitionKey, NewInstance, Stamp, Status
from perdure.model.jobs import ClaimedJob, JobEnd, JobKey, NewJob
from perdure.model.messages import Delivery
from perdure.model.turns import (
    CarriedMessage,
    ClaimedTurn,
    Continuation,
    FedEvent,
    InputReceipt,
    InstanceEnd,
    JobClaim,
    NewObservation,
    NewTimer,
    SessionClaim,
    Turn,
    TurnClaim,
    TurnReceipt,
    TurnStatus,
    has_more,
)
from perdure.store.base import ExecutionKey, Store

ORCHESTRATION = DefinitionKey("orchestration", "greet", "1.0.0", 1)
ORDER = DefinitionKey("decider", "order", "", 1)
QUEUE = DefinitionKey("activity", "say_hello", "")
LEASE_MS = 30_000
STARTED = Body("started", b'{"name":"greet","version":"1.0.0","behaviour":1,"input":null}')
SCHEDULED = Body("activity_scheduled", b'{"name":"say_hello","input":null}')
COMPLETED = Body("completed", b'{"result":null}')
CONTINUED = Body("continued_as_new", b'{"version":"1.0.0","input":null}')
PLACED = Body("event_recorded", b'{"tag":"Placed","event":null}')
FED = FedEvent(0, "Placed")
"""Of a turn whose first event is `PLACED`."""


def token() -> int:
    """Return a fresh random number for an incarnation, a lease or a commit."""
    return fresh_id()


def new_instance(instance_id: str = "i", **fields: Any) -> NewInstance:
    """Return an instance to be started."""
    values: dict[str, Any] = {
        "instance_id": instance_id,
        "incarnation": token(),
        "definition": ORCHESTRATION,
        "input": b"null",
        "start_kind": STARTED.kind,
        "start_body": STARTED.body,
        "created_ms": 1,
    }
    return NewInstance(**{**values, **fields})


def first_turn(start: NewInstance, **fields: Any) -> Turn:
    """Return a turn that starts its instance."""
    values: dict[str, Any] = {
        "instance_id": start.instance_id,
        "stamp": Stamp(start.incarnation, 1, 1),
        "commit_id": token(),
        "now_ms": 2,
        "worker_id": "w1",
        "start": start,
        "events": (STARTED,),
    }
    return _said_plain(Turn(**{**values, **fields}))


def next_turn(instance_id: str, stamp: Stamp, **fields: Any) -> Turn:
    """Return a turn of an instance that was started."""
    values: dict[str, Any] = {
        "instance_id": instance_id,
        "stamp": stamp,
        "commit_id": token(),
        "now_ms": 3,
        "worker_id": "w1",
    }
    return _said_plain(Turn(**{**values, **fields}))


def _said_plain(turn: Turn) -> Turn:
    """Let a turn say that it is plain if it is, as those of orchestrations do."""
    return msgspec.structs.replace(turn, is_plain=not has_more(turn))


def turn_of(claimed: ClaimedTurn, **fields: Any) -> Turn:
    """Return the turn that takes all messages of a claim."""
    values: dict[str, Any] = {
        "lease": claimed.lease,
        "seen_no": claimed.last_no,
        "consumed": tuple(message.no for message in claimed.messages),
        "events": tuple(Body(message.kind, message.body) for message in claimed.messages),
    }
    return next_turn(claimed.instance_id, claimed.stamp, **{**values, **fields})


def message(instance_id: str = "i", text: str = "hello", **fields: Any) -> Delivery:
    """Return a message for an instance."""
    values: dict[str, Any] = {
        "instance_id": instance_id,
        "kind": "signal_received",
        "body": text.encode(),
    }
    return Delivery(**{**values, **fields})


def decider(instance_id: str = "order:1", **fields: Any) -> NewInstance:
    """Return a decider instance to be started."""
    return new_instance(instance_id, **{"definition": ORDER, **fields})


def given(text: str = "ok", input_id: str = "x") -> InputReceipt:
    """Return what an input with an id came to."""
    return InputReceipt(input_id, text.encode())


def observed(text: str = "1", outcome: str = "accepted", **fields: Any) -> NewObservation:
    """Return an input that was observed."""
    return NewObservation("Place", text.encode(), outcome, **fields)


def queued(instance_id: str = "order:1", input_id: str | None = "x", **fields: Any) -> Delivery:
    """Return an input for the inbox of a decider instance."""
    values: dict[str, Any] = {
        "instance_id": instance_id,
        "kind": "input_taken",
        "body": b'{"tag":"Place","input":null,"input_id":"%s"}' % (input_id or "").encode(),
        "message_id": input_id,
    }
    return Delivery(**{**values, **fields})


def job(seq: int = 2, **fields: Any) -> NewJob:
    """Return a job to be added."""
    values: dict[str, Any] = {"seq": seq, "queue": QUEUE, "input": b"null", "policy": b"{}"}
    return NewJob(**{**values, **fields})


def timer(seq: int, due_ms: int) -> NewTimer:
    """Return a timer to be set."""
    return NewTimer(f"timer:{seq}", due_ms, "timer_fired", b'{"schedule":%d}' % seq)


def result_of(key: JobKey, token: int, text: str = "done") -> JobEnd:
    """Return the end of a job with a result."""
    return JobEnd(key=key, token=token, kind="activity_completed", body=text.encode())


def start_timer(seq: int, due_ms: int) -> NewTimer:
    """Return the timer of a job that must start in time."""
    body = b'{"schedule":%d,"failures":[{"type_name":"StartedTooLate","message":""}]}' % seq
    return NewTimer(f"start:{seq}", due_ms, "activity_failed", body)


def continuation(text: str = "next", *unread: CarriedMessage, **fields: Any) -> Continuation:
    """Return the next execution of an instance."""
    values: dict[str, Any] = {
        "definition": ORCHESTRATION,
        "start": Body(STARTED.kind, text.encode()),
        "input": text.encode(),
        "unread": unread,
    }
    return Continuation(**{**values, **fields})


def carried(text: str, at_ms: int = 0) -> CarriedMessage:
    """Return a message that an execution gives to the next one."""
    return CarriedMessage(at_ms, "signal_received", text.encode())


def outcome(status: Status = Status.COMPLETED, **fields: Any) -> InstanceEnd:
    """Return how an instance ended."""
    values: dict[str, Any] = {"output": b"null", "reason": None, "digest": b"\0" * 16}
    return InstanceEnd(status, **{**values, **fields})


async def accepted(store: Store, turn: Turn) -> TurnReceipt:
    """Commit a turn that must be accepted."""
    [receipt] = await store.commit([turn])
    assert receipt.status is TurnStatus.ACCEPTED, receipt
    return receipt


async def failed(store: Store, turn: Turn) -> StoreError:
    """Commit a turn that the store does not take, and return why."""
    [receipt] = await store.commit([turn])
    assert receipt.status is TurnStatus.FAILED, receipt
    assert receipt.error is not None
    return receipt.error


async def begun(store: Store, instance_id: str = "i", **fields: Any) -> Stamp:
    """Start an instance with its first turn, and return the stamp after it."""
    turn = first_turn(new_instance(instance_id), **fields)
    await accepted(store, turn)
    return turn.next_stamp


async def latest(store: Store, instance_id: str = "i") -> Stamp:
    """Return the stamp of an instance as it is stored."""
    live = await store.read_live(instance_id)
    assert live is not None, f"{instance_id!r} has ended"
    return live.stamp


async def decided(store: Store, instance_id: str = "order:1", **fields: Any) -> Stamp:
    """Start a decider instance with its first turn, and return the stamp after it."""
    turn = first_turn(decider(instance_id), **{"events": (STARTED, PLACED), **fields})
    await accepted(store, turn)
    return turn.next_stamp


async def ended(store: Store, instance_id: str = "i") -> int:
    """Start and end an instance, and return its incarnation."""
    turn = first_turn(new_instance(instance_id), events=(STARTED, COMPLETED), outcome=outcome())
    await accepted(store, turn)
    return turn.stamp.incarnation


async def claim(
    store: Store,
    worker_id: str = "w1",
    *,
    limit: int = 100,
    code: str = "c1",
    definitions: tuple[DefinitionKey, ...] = (ORCHESTRATION,),
    **fields: Any,
) -> list[ClaimedTurn]:
    """Claim turns with a fresh lease."""
    served = tuple((number, code) for number in await store.intern(definitions))
    return await store.claim_turns(
        TurnClaim(worker_id, served, limit, LEASE_MS, token())._replace(**fields)
    )


async def claim_blocked(store: Store, *, code: str) -> list[ClaimedTurn]:
    """Claim blocked instances with a fresh lease."""
    [number] = await store.intern([ORCHESTRATION])
    return await store.claim_blocked(TurnClaim("w1", ((number, code),), 100, LEASE_MS, token()))


async def claim_jobs(
    store: Store,
    worker_id: str = "w1",
    *,
    limit: int = 100,
    queues: tuple[DefinitionKey, ...] = (QUEUE,),
    sessions: SessionClaim | None = None,
    is_harmless: bool = False,
    **fields: Any,
) -> list[ClaimedJob]:
    """Claim jobs with a fresh token."""
    numbers = tuple(await store.intern(queues))
    claim = JobClaim(worker_id, numbers, limit, LEASE_MS, token(), sessions)
    harmless = numbers if is_harmless else ()
    return await store.claim_jobs(claim._replace(harmless=harmless, **fields))


async def claim_bound(
    store: Store,
    owner: str = "w1",
    *,
    busy: tuple[str, ...] = (),
    more: int = 10,
    lease_ms: int = LEASE_MS,
    **fields: Any,
) -> list[ClaimedJob]:
    """Claim jobs with and without a session."""
    terms = SessionClaim(owner, lease_ms, busy, more)
    return await claim_jobs(store, owner, sessions=terms, **fields)


async def events_of(store: Store, instance_id: str, incarnation: int) -> list[Body]:
    """Return the history of the first execution, without numbers and times."""
    [history] = await store.read_histories([ExecutionKey(instance_id, incarnation, 1)])
    assert [event.seq for event in history] == list(range(1, len(history) + 1))
    return [Body(event.kind, event.body) for event in history]
