"""One turn: messages in, everything that follows out, as one value for one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.authoring.registry import BEHAVIOUR, activity_key, inline_key, orchestration_key
from perdure.authoring.scope import ActivityRequest, InlineRequest
from perdure.core.identity import child_incarnation
from perdure.core.pending import Ask, PendingCall
from perdure.core.replay import Execution
from perdure.model.events import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    Body,
    Cancelled,
    CancelRequested,
    ChildCancelled,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    Completed,
    Failed,
    Failure,
    InlineScheduled,
    MessageEvent,
    Parent,
    Started,
    Terminated,
    TimerCancelled,
    TimerFired,
    TimerScheduled,
    read_event,
    write_event,
)
from perdure.model.instances import DefinitionKey, NewInstance, Stamp, Status
from perdure.model.jobs import JobEnd, NewJob
from perdure.model.messages import Delivery, Message
from perdure.model.turns import ChildStart, NewTimer, Outcome, Turn


class TurnTerms(NamedTuple):
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


def run_turn(
    execution: Execution, messages: Sequence[Message], terms: TurnTerms, *, now_ms: int
) -> Turn:
    """Apply messages in order and work out everything that follows.

    Raises:
        UnreadableEventError: A message is damaged or of an unknown kind.
    """
    execution.now_ms = max(execution.now_ms, now_ms)
    changes = _Changes(execution, terms)
    with execution.entered():
        for message in messages:
            changes.take(message)
    return changes.turn()


class _Changes:
    """Collects what a turn changes."""

    def __init__(self, execution: Execution, terms: TurnTerms) -> None:
        self._execution = execution
        self._terms = terms
        self._events: list[Body] = []
        self._consumed: list[int] = []
        self._jobs: dict[int, NewJob] = {}
        self._jobs_gone: list[int] = []
        self._timers: dict[str, NewTimer] = {}
        self._timers_gone: list[str] = []
        self._children: list[ChildStart] = []
        self._deliveries: list[Delivery] = []

    def take(self, message: Message) -> None:
        """Apply a message, or drop it if it means nothing any more."""
        if message.no:
            self._consumed.append(message.no)
        execution = self._execution
        if execution.terminal is not None or message.execution not in (0, execution.execution):
            return
        event = read_event(message.kind, message.body)
        assert isinstance(event, MessageEvent), f"{message.kind} is not a message"
        if not execution.accepts(event):
            return
        self._settle(event, is_timer=message.timer_key is not None)
        for ask in execution.advance(event, self._events):
            self._change(ask)

    def turn(self) -> Turn:
        """Return everything as one value."""
        execution, terms = self._execution, self._terms
        outcome = None
        if execution.terminal is not None:
            outcome = self._end(execution.terminal)
            self._jobs.clear()
            self._timers.clear()
        return Turn(
            instance_id=execution.instance_id,
            stamp=terms.stamp,
            commit_id=terms.commit_id,
            now_ms=execution.now_ms,
            worker_id=terms.worker_id,
            lease=terms.lease,
            start=terms.start,
            seen_no=terms.seen_no,
            consumed=tuple(self._consumed),
            timers_gone=tuple(self._timers_gone),
            job_ends=terms.job_ends,
            events=tuple(self._events),
            jobs=tuple(self._jobs.values()),
            jobs_leased_until_ms=terms.lease_until_ms,
            jobs_gone=tuple(self._jobs_gone),
            timers=tuple(self._timers.values()),
            next_due_ms=None if outcome is not None else execution.next_due_ms(),
            deliveries=tuple(self._deliveries),
            children=tuple(self._children),
            outcome=outcome,
        )

    def _settle(self, event: MessageEvent, *, is_timer: bool) -> None:
        """Remove the rest of a call that is answered: a job past its deadline, or the deadline."""
        if isinstance(event, ActivityCompleted | ActivityFailed):
            if is_timer:
                self._drop_job(event.schedule)
            else:
                self._drop_deadline(event.schedule, self._execution.open[event.schedule])

    def _change(self, ask: Ask) -> None:
        seq = ask.seq
        assert seq is not None
        match ask.event:
            case ActivityScheduled() | InlineScheduled():
                self._add_job(ask, seq)
            case ActivityCancelled(schedule=schedule):
                self._drop_job(schedule)
                self._drop_deadline(schedule, ask.cancels)
            case TimerScheduled(due_ms=due_ms):
                self._add_timer(f"timer:{seq}", due_ms, TimerFired(schedule=seq))
            case TimerCancelled(schedule=schedule):
                self._drop_timer(f"timer:{schedule}")
            case ChildScheduled() as event:
                self._children.append(self._start_child(event, seq))
            case ChildCancelled(schedule=schedule):
                assert ask.cancels is not None
                self._cancel_child(schedule, ask.cancels, "its parent no longer waits for it")

    # -------------------------------------------------------------------- jobs

    def _add_job(self, ask: Ask, seq: int) -> None:
        assert isinstance(ask, PendingCall)
        request, event = ask.request, ask.event
        execution = self._execution
        if isinstance(request, ActivityRequest):
            queue = activity_key(request.label, request.tag)
            assert isinstance(event, ActivityScheduled)
            if event.deadline_ms is not None:
                late = Failure("DeadlineExceeded", f"{request.label} did not end in time")
                failed = ActivityFailed(schedule=seq, failures=(late,))
                self._add_timer(f"deadline:{seq}", event.deadline_ms, failed)
        else:
            assert isinstance(request, InlineRequest)
            queue = inline_key(execution.name, execution.version)
        self._jobs[seq] = NewJob(
            seq=seq,
            queue=queue,
            input=request.input,
            policy=request.policy,
            session=getattr(request, "session", None),
            leased=self._terms.takes(queue),
        )

    def _drop_job(self, schedule: int) -> None:
        if self._jobs.pop(schedule, None) is None:
            self._jobs_gone.append(schedule)

    def _add_timer(self, key: str, due_ms: int, event: MessageEvent) -> None:
        kind, body = write_event(event)
        self._timers[key] = NewTimer(key, due_ms, kind, body)

    def _drop_timer(self, key: str) -> None:
        if self._timers.pop(key, None) is None:
            self._timers_gone.append(key)

    def _drop_deadline(self, schedule: int, call: Ask | None) -> None:
        assert call is not None
        if isinstance(call.event, ActivityScheduled) and call.event.deadline_ms is not None:
            self._drop_timer(f"deadline:{schedule}")

    # ---------------------------------------------------------------- children

    def _start_child(self, event: ChildScheduled, seq: int) -> ChildStart:
        execution = self._execution
        incarnation = child_incarnation(execution.id, seq)
        parent = Parent(execution.instance_id, execution.id.incarnation, execution.execution, seq)
        definition = orchestration_key(event.name, event.version)
        kind, body = write_event(
            Started(
                name=event.name,
                version=event.version,
                behaviour=BEHAVIOUR,
                input=event.input,
                parent=parent,
            )
        )
        taken = ChildFailed(
            schedule=seq,
            status="not started",
            failure=Failure("AlreadyExistsError", f"the id {event.instance_id!r} is taken"),
        )
        return ChildStart(
            NewInstance(
                instance_id=event.instance_id,
                incarnation=incarnation,
                definition=definition,
                input=bytes(event.input),
                start_kind=kind,
                start_body=body,
                created_ms=execution.now_ms,
                parent_id=execution.instance_id,
                parent_incarnation=execution.id.incarnation,
            ),
            self._to(parent, taken),
        )

    def _cancel_child(self, schedule: int, call: Ask, reason: str) -> None:
        assert isinstance(call.event, ChildScheduled)
        child_id = call.event.instance_id
        self._deliveries.append(self._to_child(schedule, child_id, CancelRequested(reason=reason)))

    def _to_child(self, schedule: int, instance_id: str, event: MessageEvent) -> Delivery:
        kind, body = write_event(event)
        return Delivery(
            instance_id=instance_id,
            incarnation=child_incarnation(self._execution.id, schedule),
            kind=kind,
            body=body,
        )

    def _to(self, parent: Parent, event: MessageEvent) -> Delivery:
        kind, body = write_event(event)
        return Delivery(
            instance_id=parent.instance_id,
            incarnation=parent.incarnation,
            execution=parent.execution,
            kind=kind,
            body=body,
        )

    # ----------------------------------------------------------------- the end

    def _end(self, terminal: Any) -> Outcome:
        """Tell the parent and the children, and say how it ended."""
        execution = self._execution
        for schedule, ask in execution.open.items():
            if isinstance(ask.event, ChildScheduled):
                self._close_child(schedule, ask, ask.event)
        outcome = outcome_of(terminal, execution.digest())
        if execution.parent is not None:
            event = parent_message(execution.parent, terminal)
            self._deliveries.append(self._to(execution.parent, event))
        return outcome

    def _close_child(self, schedule: int, call: Ask, event: ChildScheduled) -> None:
        reason = f"its parent {self._execution.instance_id!r} has ended"
        match event.on_parent_close:
            case "cancel":
                self._cancel_child(schedule, call, reason)
            case "terminate":
                message = Terminated(reason=reason)
                self._deliveries.append(self._to_child(schedule, event.instance_id, message))


def outcome_of(terminal: Any, digest: bytes) -> Outcome:
    """Return what the store keeps of the last event."""
    match terminal:
        case Completed(result=result):
            return Outcome(Status.COMPLETED, bytes(result), None, digest)
        case Failed(failure=failure):
            return Outcome(Status.FAILED, msgspec.json.encode(failure), failure.message, digest)
        case Cancelled(reason=reason):
            return Outcome(Status.CANCELLED, None, reason, digest)
        case Terminated(reason=reason):
            return Outcome(Status.TERMINATED, None, reason, digest)
    raise AssertionError(f"{terminal!r} ends nothing")


def parent_message(parent: Parent, terminal: Any) -> MessageEvent:
    """Return how the parent hears of a child's end."""
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
