"""One turn: messages in, everything that follows out, as one value for one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.authoring.registry import BEHAVIOUR, activity_key, inline_key, orchestration_key
from perdure.authoring.scope import ActivityRequest, InlineRequest
from perdure.clock import not_before
from perdure.core.identity import child_incarnation
from perdure.core.orchestrations.ending import continuation
from perdure.core.orchestrations.execution import Execution
from perdure.core.orchestrations.pending import Answering, Ask, PendingCall
from perdure.core.orchestrations.updates import receipt_of, receipt_unanswered, warn_unanswered
from perdure.core.turn_builder import TurnTerms, answer_to, outcome_of, told_to_parent
from perdure.limits import MAX_CHILD_DEPTH as MAX_CHILD_DEPTH
from perdure.model.histories.events import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    Body,
    CancelRequested,
    ChildCancelled,
    ChildFailed,
    ChildScheduled,
    ContinuedAsNew,
    DetachedRefused,
    DetachedScheduled,
    DetachedStarted,
    Failure,
    InlineScheduled,
    MessageEvent,
    Started,
    Terminated,
    TimerCancelled,
    TimerFired,
    TimerScheduled,
    UpdateAnswered,
    WentBack,
    write_event,
)
from perdure.model.histories.lineage import FIRST, Lineage, Parent, lineage_below
from perdure.model.histories.rows import read_message
from perdure.model.instances import DefinitionKey, NewInstance
from perdure.model.jobs import NewJob
from perdure.model.messages import Delivery, Message
from perdure.model.streams import ForwardedItems, SentItems
from perdure.model.turns import (
    ChildStart,
    Continuation,
    InputReceipt,
    InstanceEnd,
    NewTimer,
    Turn,
    have_sent,
    with_more,
)

MAX_SHOWN = 5
"""How many of those above a child an error names."""


def run_turn(
    execution: Execution, messages: Sequence[Message], terms: TurnTerms, *, now_ms: int
) -> Turn:
    """Apply messages in order and work out everything that follows.

    Raises:
        UnreadableEventError: A message is damaged or of an unknown kind.
    """
    scope = execution.scope
    now_ms = scope.now_ms = not_before(scope.now_ms, now_ms)
    changes = _Changes(execution, terms, now_ms)
    if not messages and terms.lease:
        execution.calls.drop_start_due(now_ms)
    with execution.entered(terms.loop):
        for message in messages:
            changes.take(message)
    return changes.turn()


class _Besides:
    """What few turns change besides events and jobs."""

    __slots__ = ("children", "deliveries", "jobs_gone", "receipts", "timers", "timers_gone")

    def __init__(self) -> None:
        self.jobs_gone: list[int] = []
        self.timers: dict[str, NewTimer] = {}
        self.timers_gone: list[str] = []
        self.children: list[ChildStart] = []
        self.deliveries: list[Delivery] = []
        self.receipts: list[InputReceipt] = []

    def added_to(self, turn: Turn) -> Turn:
        """Return a turn with these."""
        return with_more(
            turn,
            jobs_gone=tuple(self.jobs_gone),
            timers=tuple(self.timers.values()),
            timers_gone=tuple(self.timers_gone),
            children=tuple(self.children),
            deliveries=tuple(self.deliveries),
            receipts=tuple(self.receipts),
        )


class _Changes:
    """Collects what a turn changes."""

    def __init__(self, execution: Execution, terms: TurnTerms, now_ms: int) -> None:
        self._execution = execution
        self._terms = terms
        self._now_ms = now_ms
        self._events: list[Body] = []
        self._consumed: list[int] = []
        self._jobs: dict[int, NewJob] = {}
        self._more: _Besides | None = None

    @property
    def _besides(self) -> _Besides:
        if self._more is None:
            self._more = _Besides()
        return self._more

    def take(self, message: Message) -> None:
        """Apply a message, or drop it if it means nothing any more."""
        execution = self._execution
        last = execution.terminal
        if last is not None and isinstance(last, ContinuedAsNew):
            return  # It stays in the inbox, for the next execution.
        if message.no:
            self._consumed.append(message.no)
        if last is not None or message.execution not in (0, execution.execution):
            return
        event = read_message(message)
        assert isinstance(event, MessageEvent), f"{message.kind} is not a message"
        if not execution.accepts(event):
            return
        self._settle(event, message.timer_key)
        came = Body(message.kind, message.body)
        last_seq = execution.last_seq
        for ask in execution.advance(event, self._events, came):
            if ask.event is not execution.terminal:
                self._change(ask)
        if execution.scope.sent is not None:
            execution.scope.sent.end_stretch(last_seq + 1)
        if isinstance(event, WentBack):
            self._open_again(event)

    def _open_again(self, event: WentBack) -> None:
        """Put all under way that is open, but for the call whose answer was kept."""
        for seq, ask in self._execution.open.items():
            if seq != event.answered:
                self._change(ask)

    def turn(self) -> Turn:
        """Return everything as one value."""
        execution, terms = self._execution, self._terms
        last = execution.terminal
        outcome: InstanceEnd | None = None
        continued: Continuation | None = None
        if last is not None:
            if isinstance(last, ContinuedAsNew):
                self._close_children("has continued as new")
                self._leave_updates()
                continued = continuation(execution, last)
            else:
                outcome = self._end(last)
            self._jobs.clear()
            if self._more is not None:
                self._more.timers.clear()
        definition: DefinitionKey | None = None
        if execution.has_chosen:
            execution.has_chosen = False
            definition = orchestration_key(execution.name, execution.version)
        turn = Turn(
            instance_id=execution.instance_id,
            stamp=terms.stamp,
            commit_id=terms.commit_id,
            now_ms=self._now_ms,
            worker_id=terms.worker_id,
            lease=terms.lease,
            start=terms.start,
            seen_no=terms.seen_no,
            consumed=tuple(self._consumed),
            job_ends=terms.job_ends,
            events=tuple(self._events),
            jobs=tuple(self._jobs.values()),
            jobs_leased_until_ms=terms.lease_until_ms,
            next_due_ms=None if last is not None else execution.calls.next_due_ms(),
            definition=definition,
            continued=continued,
            outcome=outcome,
            is_plain=definition is None and continued is None and not have_sent(terms.job_ends),
        )
        if self._more is not None:
            turn = self._more.added_to(turn)
        return self._with_shown(turn) if execution.scope.has_shown else turn

    def _with_shown(self, turn: Turn) -> Turn:
        """Return a turn with what the code shows to others: values, its report, streams."""
        scope = self._execution.scope
        values, report = scope.values, scope.new_report
        scope.new_report = None
        sent: tuple[SentItems, ...] = ()
        forwarded: tuple[ForwardedItems, ...] = ()
        if scope.sent is not None:
            forwarded = tuple(map(self._for_call, scope.sent.forwarded))
            sent, scope.sent = scope.sent.take(), None
        return with_more(
            turn,
            kv=() if values is None or not values.changed else values.take_changes(),
            report=report,
            sent=sent,
            forwarded=forwarded,
        )

    def _for_call(self, items: ForwardedItems) -> ForwardedItems:
        """Say for which call of an instance above items are sent to it."""
        lineage = self._execution.lineage or FIRST
        for above in lineage.above:
            if (above.instance_id, above.incarnation) == items[:2]:
                return items._replace(execution=above.execution, seq=above.seq)
        return items

    def _settle(self, event: MessageEvent, timer_key: str | None) -> None:
        """Remove the rest of a call that is answered: a job that is late, and timers."""
        match event:
            case ActivityCompleted(schedule=schedule) | ActivityFailed(schedule=schedule):
                if timer_key is not None:
                    self._drop_job(schedule)
                self._drop_timers_of(schedule, self._execution.open[schedule], timer_key)

    def _change(self, ask: Ask) -> None:
        seq = ask.seq
        assert seq is not None
        match ask.event:
            case ActivityScheduled() | InlineScheduled():
                self._add_job(ask, seq)
            case ActivityCancelled(schedule=schedule):
                self._drop_job(schedule)
                self._drop_timers_of(schedule, ask.cancels)
            case TimerScheduled(due_ms=due_ms):
                self._add_timer(f"timer:{seq}", due_ms, TimerFired(schedule=seq))
            case TimerCancelled(schedule=schedule):
                self._drop_timer(f"timer:{schedule}")
            case ChildScheduled() as event:
                self._call_child(event, seq)
            case ChildCancelled(schedule=schedule):
                assert ask.cancels is not None
                self._cancel_child(schedule, ask.cancels, "its parent no longer waits for it")
            case DetachedScheduled() as event:
                self._besides.children.append(self._start_detached(event, seq))
            case UpdateAnswered() as event:
                assert isinstance(ask, Answering)
                self._besides.receipts.append(receipt_of(event, ask.taken))

    def _leave_updates(self) -> None:
        """Say of the updates that were taken and not answered that they will not be, in the very
        commit by which the instance goes on: their callers would wait for ever."""
        for update in self._execution.calls.updates.values():
            self._besides.receipts.append(receipt_unanswered(update))
            warn_unanswered(self._execution.id, self._execution.name, update)

    # -------------------------------------------------------------------- jobs

    def _add_job(self, ask: Ask, seq: int) -> None:
        assert isinstance(ask, PendingCall)
        request, event = ask.request, ask.event
        execution = self._execution
        session: str | None = None
        start_by_ms: int | None = None
        if isinstance(request, ActivityRequest):
            queue = activity_key(request.label, request.tag)
            session = request.session
            assert isinstance(event, ActivityScheduled)
            start_by_ms = event.start_by_ms
            if event.deadline_ms is not None:
                late = Failure("DeadlineExceeded", f"{request.label} did not end in time")
                self._add_failure(f"deadline:{seq}", event.deadline_ms, seq, late)
        else:
            assert isinstance(request, InlineRequest)
            queue = inline_key(execution.name, execution.version)
        # Who may run a job with a session is decided when it is claimed.
        leased = session is None and self._terms.takes(queue)
        if start_by_ms is not None and not leased:
            late = Failure("StartedTooLate", f"no worker started {request.label} in time")
            self._add_failure(f"start:{seq}", start_by_ms, seq, late)
            execution.calls.await_start(start_by_ms, seq)
        self._jobs[seq] = NewJob(
            seq=seq,
            queue=queue,
            input=request.input,
            policy=request.policy,
            session=session,
            start_by_ms=start_by_ms,
            leased=leased,
        )

    def _add_failure(self, key: str, due_ms: int, seq: int, late: Failure) -> None:
        """Set a timer that fails a call."""
        self._add_timer(key, due_ms, ActivityFailed(schedule=seq, failures=(late,)))

    def _drop_job(self, schedule: int) -> None:
        if self._jobs.pop(schedule, None) is None:
            self._besides.jobs_gone.append(schedule)

    def _add_timer(self, key: str, due_ms: int, event: MessageEvent) -> None:
        kind, body = write_event(event)
        self._besides.timers[key] = NewTimer(key, due_ms, kind, body)

    def _drop_timer(self, key: str) -> None:
        if self._besides.timers.pop(key, None) is None:
            self._besides.timers_gone.append(key)

    def _drop_timers_of(self, schedule: int, call: Ask | None, fired: str | None = None) -> None:
        """Remove the timers of a call, but for one that has fired."""
        assert call is not None
        event = call.event
        if not isinstance(event, ActivityScheduled):
            return
        if event.deadline_ms is not None and fired != f"deadline:{schedule}":
            self._drop_timer(f"deadline:{schedule}")
        if event.start_by_ms is not None and fired != f"start:{schedule}":
            self._drop_timer(f"start:{schedule}")

    # ---------------------------------------------------------- other instances

    def _call_child(self, event: ChildScheduled, seq: int) -> None:
        me, execution = self._parent(seq), self._execution
        lineage = lineage_below(
            execution.parent,
            execution.lineage,
            is_cancelled=execution.cancel_reason is not None,
            is_abandoned=event.on_parent_close == "abandon",
        )
        if lineage.depth > MAX_CHILD_DEPTH:
            self._besides.deliveries.append(answer_to(me, _too_deep(me, lineage)))
            return
        failure = Failure("AlreadyExistsError", f"the id {event.instance_id!r} is taken")
        taken = ChildFailed(schedule=seq, status="not started", failure=failure)
        new = self._new_instance(event, seq, me, lineage)
        self._besides.children.append(ChildStart(new, answer_to(me, taken)))

    def _start_detached(self, event: DetachedScheduled, seq: int) -> ChildStart:
        me = self._parent(seq)
        failure = Failure("AlreadyExistsError", f"the id {event.instance_id!r} is taken")
        return ChildStart(
            self._new_instance(event, seq, None),
            if_taken=answer_to(me, DetachedRefused(schedule=seq, failure=failure)),
            if_started=answer_to(me, DetachedStarted(schedule=seq)),
        )

    def _parent(self, seq: int) -> Parent:
        instance_id, incarnation, number = self._execution.id
        return Parent(instance_id, incarnation, number, seq)

    def _new_instance(
        self,
        event: ChildScheduled | DetachedScheduled,
        seq: int,
        parent: Parent | None,
        lineage: Lineage = FIRST,
    ) -> NewInstance:
        execution = self._execution
        kind, body = write_event(
            Started(
                name=event.name,
                version=event.version,
                behaviour=BEHAVIOUR,
                input=event.input,
                parent=parent,
                started_by=execution.instance_id if parent is None else "",
                lineage=None if lineage == FIRST else lineage,
            )
        )
        return NewInstance(
            instance_id=event.instance_id,
            incarnation=child_incarnation(execution.id if parent else execution.asked_by(seq), seq),
            definition=orchestration_key(event.name, event.version),
            input=bytes(event.input),
            start_kind=kind,
            start_body=body,
            created_ms=self._now_ms,
            visible_at_ms=self._now_ms + event.delay_ms if event.delay_ms else 0,
            parent_id=None if parent is None else parent.instance_id,
            parent_incarnation=None if parent is None else parent.incarnation,
        )

    def _cancel_child(self, schedule: int, call: Ask, reason: str) -> None:
        assert isinstance(call.event, ChildScheduled)
        if self._unstart(schedule):
            return
        child_id = call.event.instance_id
        self._besides.deliveries.append(
            self._to_child(schedule, child_id, CancelRequested(reason=reason))
        )

    def _unstart(self, schedule: int) -> bool:
        """Take a child back that this very turn would start; return whether it would."""
        incarnation = child_incarnation(self._execution.id, schedule)
        kept = [
            child for child in self._besides.children if child.instance.incarnation != incarnation
        ]
        is_found = len(kept) < len(self._besides.children)
        self._besides.children = kept
        return is_found

    def _to_child(self, schedule: int, instance_id: str, event: MessageEvent) -> Delivery:
        kind, body = write_event(event)
        return Delivery(
            instance_id=instance_id,
            incarnation=child_incarnation(self._execution.id, schedule),
            kind=kind,
            body=body,
            hurries=True,
        )

    # ----------------------------------------------------------------- the end

    def _end(self, terminal: Any) -> InstanceEnd:
        """Tell the parent and the children, and say how it ended."""
        execution = self._execution
        if execution.open:
            self._close_children("has ended")
        outcome = outcome_of(terminal, execution.digest())
        if execution.parent is not None:
            self._besides.deliveries.append(told_to_parent(execution.parent, terminal))
        return outcome

    def _close_children(self, how: str) -> None:
        """Let go of the children that are open, each as it was started."""
        for schedule, ask in self._execution.open.items():
            if isinstance(ask.event, ChildScheduled):
                self._close_child(schedule, ask, ask.event, how)

    def _close_child(self, schedule: int, call: Ask, event: ChildScheduled, how: str) -> None:
        reason = f"its parent {self._execution.instance_id!r} {how}"
        if event.on_parent_close != "abandon" and self._unstart(schedule):
            return
        match event.on_parent_close:
            case "cancel":
                self._cancel_child(schedule, call, reason)
            case "terminate":
                message = Terminated(reason=reason)
                self._besides.deliveries.append(
                    self._to_child(schedule, event.instance_id, message)
                )


def _too_deep(me: Parent, lineage: Lineage) -> ChildFailed:
    """Return why a child was not started that would be deeper than children may be."""
    above = [parent.instance_id for parent in (me, *lineage.above)]
    shown = above if len(above) <= MAX_SHOWN else [*above[: MAX_SHOWN - 1], "...", above[-1]]
    failure = Failure(
        "LimitExceededError",
        f"it would be {lineage.depth} levels deep, and {MAX_CHILD_DEPTH} are allowed; above it are "
        f"{', '.join(shown)}. If the depth is meant, let ctx.start begin what nobody waits for",
    )
    return ChildFailed(schedule=me.seq, status="not started", failure=failure)
