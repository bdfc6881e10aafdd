"""What one turn of a decider records and changes, collected while its inputs are decided."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from perdure.authoring.deciders.decision import StopRun
from perdure.authoring.registry import (
    BEHAVIOUR,
    activity_key,
    decider_key,
    orchestration_key,
)
from perdure.core.deciders.answers import InputOutcome
from perdure.core.deciders.notes import DeciderNotes, OpenCall
from perdure.core.identity import child_incarnation
from perdure.core.turn_builder import TurnTerms, answer_to, outcome_of, told_to_parent
from perdure.model.fingerprints import Fingerprint
from perdure.model.histories.events import (
    NULL,
    ActivityFailed,
    Body,
    CancelRequested,
    ChildFailed,
    ChildScheduled,
    EffectScheduled,
    Event,
    EventRecorded,
    Failure,
    InputRejected,
    InputSent,
    InputTaken,
    MessageEvent,
    Parent,
    Replied,
    Started,
    Terminated,
    write_event,
)
from perdure.model.histories.rows import read_message
from perdure.model.histories.slot import StartedSlot
from perdure.model.instances import NewInstance
from perdure.model.jobs import BuriedJob, JobPolicy, NewJob
from perdure.model.messages import Delivery, Message
from perdure.model.turns import (
    ChildStart,
    FedEvent,
    InputReceipt,
    NewObservation,
    NewTimer,
    Snapshot,
    Turn,
    UniqueKey,
)

KEYED = "key:"
"""Before the key of a decider's own timer, in the inbox."""

_NO_BODY = Body("", b"")

_UNNOTED = frozenset({EventRecorded, InputRejected, InputSent, Replied})
"""Events that say nothing but what the fold and the turn make of them."""


@lru_cache(maxsize=1024)
def policy_for_input(policy: bytes) -> bytes:
    """Return the policy of a job whose result is written as an input."""
    read = msgspec.json.decode(policy, type=JobPolicy)
    return msgspec.json.encode(msgspec.structs.replace(read, returns_input=True))


def _policy_within(policy: bytes, correlation: str) -> bytes:
    """Return the policy of a job that belongs to something, which a retry by hand must know."""
    if not correlation:
        return policy
    read = msgspec.json.decode(policy, type=JobPolicy)
    return msgspec.json.encode(msgspec.structs.replace(read, correlation=correlation))


def _new_job(seq: int, call: OpenCall, event: EffectScheduled, policy: bytes) -> NewJob:
    """Return the job of an effect, for any worker at any time."""
    return NewJob(
        seq=seq,
        queue=activity_key(event.name, event.tag),
        input=bytes(event.input),
        policy=_policy_within(policy, call.correlation),
        session=event.session,
    )


class DeciderChanges:
    """Collects what a turn changes besides the state in memory, and has the notes follow.

    Outcomes (`outcomes.py`) and follow-ups (`follow_ups.py`) of inputs are written into it.
    """

    def __init__(self, notes: DeciderNotes, terms: TurnTerms) -> None:
        self.notes = notes
        self._id = notes.id
        self._terms = terms
        self._now_ms = notes.now_ms
        self._event: Event | None = None
        """What the newest message has become."""
        self._came = _NO_BODY
        """That message."""
        self.events: list[Body] = []
        self.consumed: list[int] = []
        self.unique: UniqueKey | None = None
        self._passed_keys: list[UniqueKey] = []
        self.feed: list[FedEvent] = []
        self.receipts: dict[str, bytes] = {}
        self.outcomes: dict[str, tuple[InputOutcome, Fingerprint]] = {}
        """What inputs came to, by id of the input; and which input it was."""
        self.observations: list[NewObservation] = []
        self.accepted = 0
        """How many inputs were accepted."""
        self.refused = 0
        """How many were not, for whatever reason."""
        self._jobs: dict[int, NewJob] = {}
        self._jobs_gone: list[int] = []
        self._jobs_buried: list[BuriedJob] = []
        self._timers: dict[str, NewTimer] = {}
        self._timers_gone: dict[str, None] = {}
        self._children: list[ChildStart] = []
        self._deliveries: list[Delivery] = []

    def take(self, message: Message) -> Event:
        """Return the event that a message becomes. If it is put on record as it is, then in the
        bytes in which it came.

        Raises:
            UnreadableEventError: It is damaged or of an unknown kind.
        """
        if message.no:
            self.consumed.append(message.no)
        self._event = read_message(message)
        self._came = Body(message.kind, message.body)
        return self._event

    def append(self, event: Event) -> int:
        """Put an event on record; return its number."""
        notes = self.notes
        written = self._came if event is self._event else write_event(event)
        seq = notes.last_seq = notes.last_seq + 1
        notes.digest.feed(written.kind, self._now_ms, written.body)
        self.events.append(written)
        if type(event) not in _UNNOTED:
            notes.note(event, seq)
        return seq

    def take_key(self, unique: UniqueKey) -> None:
        """The instance has another business key from now on."""
        if self.unique is not None and self.unique.key is not None:
            self._passed_keys.append(self.unique)
        self.unique = unique

    # -------------------------------------------------------------------- jobs

    def add_job(self, seq: int, call: OpenCall, event: EffectScheduled, policy: bytes) -> bool:
        """Have an effect run; return whether a timer watches that a worker begins it in time."""
        start_by_ms = call.start_by_ms
        queue = activity_key(event.name, event.tag)
        # Which worker may run a job with a session is decided when it is claimed.
        leased = event.session is None and self._terms.takes(queue)
        is_watched = start_by_ms is not None and not leased
        if start_by_ms is not None and is_watched:
            late = Failure("StartedTooLate", f"no worker started {event.name} in time")
            self.fail_later(f"start:{seq}", start_by_ms, seq, late)
        self._jobs[seq] = msgspec.structs.replace(
            _new_job(seq, call, event, policy), start_by_ms=start_by_ms, leased=leased
        )
        return is_watched

    def drop_job(self, seq: int, call: OpenCall, event: EffectScheduled) -> NewJob | None:
        """Take back an effect that is late; return its job, if that is in no queue."""
        if call.waits_for:
            return _new_job(seq, call, event, bytes(event.policy))
        job = self._jobs.pop(seq, None)
        if job is None:
            self._jobs_gone.append(seq)
        return job

    def bury_job(
        self, seq: int, event: EffectScheduled, failure: Failure, unqueued: NewJob | None
    ) -> None:
        """Keep an effect as dead that was taken back, and of which no input came."""
        failure = msgspec.structs.replace(failure, at_ms=self._now_ms)
        queue = activity_key(event.name, event.tag)
        self._jobs_buried.append(BuriedJob(seq, queue, failure, unqueued))

    # ------------------------------------------------------------------- timers

    def fail_later(self, key: str, due_ms: int, seq: int, late: Failure) -> None:
        """Set a timer that fails an effect."""
        self.set_timer(key, due_ms, ActivityFailed(schedule=seq, failures=(late,)))

    def set_timer(self, key: str, due_ms: int, event: MessageEvent) -> None:
        """Set a timer, in place of one of this turn."""
        kind, body = write_event(event)
        self._timers[key] = NewTimer(key, due_ms, kind, body)

    def replace_timer(self, key: str) -> None:
        """The timer of a key that is set is to go, before this turn's own of that key comes."""
        if key not in self._timers:
            self._timers_gone[key] = None

    def drop_timer(self, key: str) -> None:
        """Take a timer back."""
        if self._timers.pop(key, None) is None:
            self._timers_gone[key] = None

    def has_set(self, key: str) -> bool:
        """Return whether this turn has set the timer that a key has now."""
        return key in self._timers

    # ---------------------------------------------------------- other instances

    def start_child(self, event: ChildScheduled, seq: int, slot: StartedSlot | None = None) -> None:
        """Start an orchestration."""
        me = Parent(*self._id, seq)
        failure = Failure("AlreadyExistsError", f"the id {event.instance_id!r} is taken")
        taken = ChildFailed(schedule=seq, status="not started", failure=failure)
        started = Started(
            name=event.name,
            version=event.version,
            behaviour=BEHAVIOUR,
            input=event.input,
            parent=me,
            slot=slot,
        )
        kind, body = write_event(started)
        new = NewInstance(
            instance_id=event.instance_id,
            incarnation=child_incarnation(self._id, seq),
            definition=orchestration_key(event.name, event.version),
            input=bytes(event.input),
            start_kind=kind,
            start_body=body,
            created_ms=self._now_ms,
            visible_at_ms=self._now_ms + event.delay_ms if event.delay_ms else 0,
            parent_id=me.instance_id,
            parent_incarnation=me.incarnation,
        )
        self._children.append(ChildStart(new, answer_to(me, taken)))

    def stop_child(self, stop: StopRun) -> None:
        """Have an orchestration stopped that was started here, if it has not ended."""
        reason = stop.reason
        message: MessageEvent = CancelRequested(reason=reason)
        if stop.how == "terminate":
            message = Terminated(reason=reason)
        kind, body = write_event(message)
        for seq, call in self.notes.open.items():
            if (
                isinstance(call.event, ChildScheduled)
                and call.event.instance_id == stop.instance_id
            ):
                self._deliveries.append(
                    Delivery(
                        instance_id=stop.instance_id,
                        incarnation=child_incarnation(self._id, seq),
                        kind=kind,
                        body=body,
                        hurries=True,
                    )
                )

    def send(self, event: InputSent, seq: int, name: str, correlation: str) -> None:
        """Give an input to a decider's instance, which is started if it is not there."""
        taken = InputTaken(
            tag=event.tag,
            input=event.input,
            cause=f"decider:{self._id.instance_id}",
            correlation=correlation,
        )
        new = start_of(
            name,
            event.instance_id,
            taken,
            incarnation=child_incarnation(self._id, seq),
            now_ms=self._now_ms,
            started_by=self._id.instance_id,
        )
        self._children.append(ChildStart(new, if_taken=None))

    # ---------------------------------------------------------------- the value

    def turn(
        self,
        *,
        snapshot: Snapshot | None,
        is_direct: bool,
        vanishes: bool,
    ) -> Turn:
        """Return everything as one value."""
        terms, notes = self._terms, self.notes
        terminal = notes.terminal
        deliveries = tuple(self._deliveries)
        if terminal is not None:
            self._jobs.clear()
            self._timers.clear()
            if notes.parent is not None:
                deliveries = (*deliveries, told_to_parent(notes.parent, terminal))
        return Turn(
            instance_id=self._id.instance_id,
            stamp=terms.stamp,
            commit_id=terms.commit_id,
            now_ms=self._now_ms,
            worker_id=terms.worker_id,
            lease=terms.lease,
            # A lease elsewhere does not hinder a direct decision: the stamp alone counts.
            seize=is_direct,
            start=terms.start,
            seen_no=terms.seen_no,
            consumed=tuple(self.consumed),
            timers_gone=tuple(self._timers_gone),
            job_ends=terms.job_ends,
            events=() if vanishes else tuple(self.events),
            jobs=tuple(self._jobs.values()),
            jobs_leased_until_ms=terms.lease_until_ms,
            jobs_gone=tuple(self._jobs_gone),
            jobs_buried=tuple(self._jobs_buried),
            timers=tuple(self._timers.values()),
            next_due_ms=None if terminal is not None else notes.due_times.next_ms(),
            deliveries=deliveries,
            children=tuple(self._children),
            receipts=tuple(InputReceipt(*receipt) for receipt in self.receipts.items()),
            unique=self.unique,
            passed_keys=tuple(self._passed_keys),
            snapshot=snapshot,
            feed=tuple(self.feed),
            observations=tuple(self.observations),
            vanishes=vanishes,
            outcome=None if terminal is None else outcome_of(terminal, notes.digest.value()),
        )


def start_of(
    name: str,
    stored_id: str,
    taken: InputTaken | None,
    *,
    incarnation: int,
    now_ms: int,
    started_by: str = "",
    commit_id: int = 0,
    message_id: str | None = None,
) -> NewInstance:
    """Return the start of a decider's instance, with its first input.

    Args:
        name: The decider's.
        stored_id: With the decider's name before it.
        taken: An input that is delivered after the start, also if the instance is there already;
            None: none.
        incarnation: Random, or made from the id of what starts it.
        now_ms: The time.
        started_by: The instance that starts it.
        commit_id: Sent again with the same number, the start is accepted once.
        message_id: Sent again with the same id, the input is delivered once.
    """
    started = Started(name=name, version="", behaviour=BEHAVIOUR, input=NULL, started_by=started_by)
    kind, body = write_event(started)
    messages: tuple[Delivery, ...] = ()
    if taken is not None:
        messages = (
            Delivery(
                instance_id=stored_id,
                kind=taken.kind,
                body=write_event(taken).body,
                message_id=message_id,
            ),
        )
    return NewInstance(
        instance_id=stored_id,
        incarnation=incarnation,
        definition=decider_key(name),
        input=b"null",
        start_kind=kind,
        start_body=body,
        created_ms=now_ms,
        commit_id=commit_id,
        messages=messages,
    )
