"""The facts of a history, and how they are written down.

There are two sorts. A *message event* came from outside (a start, a result, a signal, a timer, a
cancel request) and makes the code run on; before it is recorded it travels as a message with the
same kind and body. An *asked event* is what the code asked for in reply (a call, a timer, a wait,
the end). A history is: a message event, what it caused, the next message event, and so on.

Histories are for ever: a kind is never renamed or reused, and a new field has a default. Payloads
are raw JSON inside the body and are never opened here.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from perdure.model.histories.event_base import NULL as NULL
from perdure.model.histories.event_base import AskedEvent as AskedEvent
from perdure.model.histories.event_base import Event as Event
from perdure.model.histories.event_base import KvEntry as KvEntry
from perdure.model.histories.event_base import MessageEvent as MessageEvent
from perdure.model.histories.failures import Cause as Cause
from perdure.model.histories.failures import Failure as Failure
from perdure.model.histories.lineage import Lineage
from perdure.model.histories.lineage import Parent as Parent
from perdure.model.histories.origins import Origin as Origin
from perdure.model.histories.origins import RestartedChild as RestartedChild
from perdure.model.histories.origins import Seed as Seed
from perdure.model.histories.removed_events import EventsRemoved as EventsRemoved
from perdure.model.histories.slot import StartedSlot
from perdure.model.histories.stored_events import Body as Body
from perdure.model.histories.stored_events import StoredEvent as StoredEvent
from perdure.model.histories.unreadable import UnreadableEventError as UnreadableEventError

# ------------------------------------------------------------------ messages


class Started(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The first event of an execution.

    While it is a message its version may be empty: the worker that takes it chooses one, and puts
    that on record. The last fields are what a continued instance takes over from the execution
    before it, so that a history can be replayed by itself.
    """

    kind: ClassVar[str] = "started"
    name: str
    version: str
    behaviour: int
    input: msgspec.Raw
    code: str = ""
    parent: Parent | None = None
    kv: tuple[KvEntry, ...] = ()
    report: msgspec.Raw = NULL
    previous: str = ""
    """Digest of the execution before this one, in hexadecimal: the link of the chain."""
    since_ms: int = 0
    """When the first execution started; 0 in that one."""
    started_by: str = ""
    """The instance that started this one and does not wait for it; empty: a client or a parent."""
    lineage: Lineage | None = None
    """Where a child is in its tree; None: its parent is no child itself."""
    slot: StartedSlot | None = None
    origin: Origin | None = None
    """The execution whose first events this one begins with: it was reset, or forked."""


class WentBack(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """What is above was taken over from another execution; from here on it is this one's own. All
    that is open here is opened again: calls get jobs, timers their due times, children new ids."""

    kind: ClassVar[str] = "went_back"
    seed: Seed
    """Whose ids and random numbers are drawn from here on."""
    answered: int = 0
    """The call whose answer was kept and comes next; 0: none."""
    children: tuple[RestartedChild, ...] = ()
    taken: tuple[str, ...] = ()
    """Ids that the code gave to instances behind the cut. If it gives them again, others are made
    of them: the instances that have them are still there."""
    reason: str = ""


class InputTaken(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A decider was given an input, which it decides next."""

    kind: ClassVar[str] = "input_taken"
    tag: str
    """Which of the decider's inputs it is."""
    input: msgspec.Raw
    input_id: str = ""
    cause: str = ""
    """Where it came from: a client, a timer, an effect, another instance."""
    correlation: str = ""
    """What it belongs to, in the words of its sender."""


class ActivityCompleted(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The result of an activity or of inline code, with the attempts that failed before."""

    kind: ClassVar[str] = "activity_completed"
    schedule: int
    result: msgspec.Raw
    failures: tuple[Failure, ...] = ()
    began_ms: int = 0
    """When the attempt began that returned it, if others went before or it had waited; else 0."""
    edited: bool = False
    """Whether a person put the result in the place of the recorded one."""


class ActivityFailed(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """An activity failed for good. The last failure is why; of very many only some are kept."""

    kind: ClassVar[str] = "activity_failed"
    schedule: int
    failures: tuple[Failure, ...]
    attempts: int = 1
    """How many attempts failed; of an effect how many there were, as its dead job says."""


class EffectRetried(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A dead effect was put back by a person, and its job has ended once more."""

    kind: ClassVar[str] = "effect_retried"
    effect: int
    activity: str
    result: msgspec.Raw = NULL
    failures: tuple[Failure, ...] = ()
    attempts: int = 0
    """How many attempts failed if it is dead again; 0: it returned."""
    returns_input: bool = False
    input: msgspec.Raw = NULL
    """Its arguments, if it is dead again: the decider is told of them."""
    correlation: str = ""


class TimerFired(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A timer became due."""

    kind: ClassVar[str] = "timer_fired"
    schedule: int


class SignalReceived(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A signal arrived. `wait` is the open wait that got it; without one it is kept for later."""

    kind: ClassVar[str] = "signal_received"
    name: str
    value: msgspec.Raw
    wait: int | None = None
    rejected: str | None = None
    """Why a promise was rejected; its value is null then."""


class ChildCompleted(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A child returned."""

    kind: ClassVar[str] = "child_completed"
    schedule: int
    result: msgspec.Raw
    edited: bool = False


class ChildFailed(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A child ended in another way than by returning; `status` says how."""

    kind: ClassVar[str] = "child_failed"
    schedule: int
    status: str
    failure: Failure


class DetachedStarted(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A detached instance was started."""

    kind: ClassVar[str] = "detached_started"
    schedule: int


class DetachedRefused(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A detached instance could not be started: its id is taken."""

    kind: ClassVar[str] = "detached_refused"
    schedule: int
    failure: Failure


class CancelRequested(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A client or the parent asked the instance to stop."""

    kind: ClassVar[str] = "cancel_requested"
    reason: str


class Terminated(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The instance was stopped from outside; its code was not asked. Always the last event."""

    kind: ClassVar[str] = "terminated"
    reason: str


# ----------------------------------------------------------------- asked for


class ActivityScheduled(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code called an activity."""

    kind: ClassVar[str] = "activity_scheduled"
    name: str
    input: msgspec.Raw
    tag: str | None = None
    session: str | None = None
    deadline_ms: int | None = None
    start_by_ms: int | None = None


class InlineScheduled(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code asked for a callable of its own to be run and recorded."""

    kind: ClassVar[str] = "inline_scheduled"
    name: str
    input: msgspec.Raw


class ActivityCancelled(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code gave up on an activity or inline call before its result was recorded."""

    kind: ClassVar[str] = "activity_cancelled"
    schedule: int


class TimerScheduled(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code set a timer."""

    kind: ClassVar[str] = "timer_scheduled"
    due_ms: int


class TimerCancelled(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code no longer needs a timer."""

    kind: ClassVar[str] = "timer_cancelled"
    schedule: int


class SignalAwaited(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code waits for a signal and none was kept for it."""

    kind: ClassVar[str] = "signal_awaited"
    name: str


class SignalTaken(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code took the signal recorded as event number `signal`, which had been kept."""

    kind: ClassVar[str] = "signal_taken"
    name: str
    signal: int


class SignalWaitCancelled(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code stopped waiting for a signal before one came."""

    kind: ClassVar[str] = "signal_wait_cancelled"
    schedule: int


class PromiseMade(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code made a promise, and has its token. It is kept by a signal."""

    kind: ClassVar[str] = "promise_made"
    name: str
    number: int
    """Counted from 1 in the execution."""
    execution: int
    """The one that made it: of a beginning that was taken over, an earlier one."""
    token: str


class ChildScheduled(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code started a child and waits for it."""

    kind: ClassVar[str] = "child_scheduled"
    name: str
    version: str
    instance_id: str
    input: msgspec.Raw
    on_parent_close: str = "cancel"
    delay_ms: int = 0


class ChildCancelled(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code no longer waits for a child, which is asked to stop."""

    kind: ClassVar[str] = "child_cancelled"
    schedule: int


class DetachedScheduled(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code started an instance that it does not wait for."""

    kind: ClassVar[str] = "detached_scheduled"
    name: str
    version: str
    instance_id: str
    input: msgspec.Raw
    delay_ms: int = 0


class EventRecorded(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A decider accepted an input: this is what happened. Its state is the fold of these."""

    kind: ClassVar[str] = "event_recorded"
    tag: str
    """Which of the decider's events it is."""
    event: msgspec.Raw
    event_version: int = 1
    """The shape it was written in."""


class InputRejected(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A decider refused an input that had come through its inbox."""

    kind: ClassVar[str] = "input_rejected"
    tag: str
    reason: msgspec.Raw


class EffectScheduled(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A decision asked for an activity to be run."""

    kind: ClassVar[str] = "effect_scheduled"
    name: str
    input: msgspec.Raw
    tag: str | None = None
    session: str | None = None
    deadline_ms: int | None = None
    start_by_ms: int | None = None
    returns_input: bool = False
    """Whether what it returns is an input of the decider."""
    after: int = 0
    """Number of the effect that must have ended before; 0: none."""
    policy: msgspec.Raw = NULL
    """How it is retried, of one that waits for another and has no job yet."""


class TimerArmed(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A decision set a timer under a key, in place of the one that was there."""

    kind: ClassVar[str] = "timer_armed"
    key: str
    due_ms: int
    tag: str
    input: msgspec.Raw


class TimerDisarmed(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A decision took back the timer of a key."""

    kind: ClassVar[str] = "timer_disarmed"
    key: str


class InputSent(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A decision sent an input to a decider instance."""

    kind: ClassVar[str] = "input_sent"
    instance_id: str
    tag: str
    input: msgspec.Raw


class Replied(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A decision answered the caller that gave the input."""

    kind: ClassVar[str] = "replied"
    value: msgspec.Raw


class UpdateAnswered(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code answered an update that it had taken, or refused it."""

    kind: ClassVar[str] = "update_answered"
    update_id: str
    answer: msgspec.Raw = NULL
    refusal: str | None = None


class KvSet(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code set a value of the instance."""

    kind: ClassVar[str] = "kv_set"
    key: str
    value: msgspec.Raw


class KvRemoved(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code removed a value of the instance."""

    kind: ClassVar[str] = "kv_removed"
    key: str


class KvCleared(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code removed all values of the instance."""

    kind: ClassVar[str] = "kv_cleared"


class KvPruned(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code removed the values that were set before a point in time."""

    kind: ClassVar[str] = "kv_pruned"
    before_ms: int


class Reported(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code said how far it is. `null` takes the report back."""

    kind: ClassVar[str] = "reported"
    value: msgspec.Raw


class Patched(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """From here on this execution takes the new side of a change of its code."""

    kind: ClassVar[str] = "patched"
    change: str


class ContinuedAsNew(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code ended this execution and began the next one with another input."""

    kind: ClassVar[str] = "continued_as_new"
    version: str
    input: msgspec.Raw


class Completed(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code returned."""

    kind: ClassVar[str] = "completed"
    result: msgspec.Raw


class Failed(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code raised."""

    kind: ClassVar[str] = "failed"
    failure: Failure


class Cancelled(AskedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The code was asked to stop, and did."""

    kind: ClassVar[str] = "cancelled"
    reason: str


# ------------------------------------------------------------- writing down

KINDS: dict[str, type[Event]] = {
    kind.kind: kind for sort in (MessageEvent, AskedEvent) for kind in sort.__subclasses__()
}
"""Every event kind by the name it is stored under."""

TERMINAL_KINDS = frozenset({Completed.kind, Failed.kind, Cancelled.kind, Terminated.kind})
"""The kinds that end an instance. Nothing follows them."""

LAST_KINDS = TERMINAL_KINDS | {ContinuedAsNew.kind}
"""The kinds that end an execution. Nothing follows them in it."""

_encoder = msgspec.json.Encoder()
_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(kind) for name, kind in KINDS.items()
}


def write_event(event: Event) -> Body:
    """Return an event as kind and bytes."""
    # Not `Body(...)`: that is a function in Python, and this is done for every event.
    return tuple.__new__(Body, (event.kind, _encoder.encode(event)))


def read_event(kind: str, body: bytes) -> Event:
    """Return the event behind stored bytes.

    Raises:
        UnreadableEventError: The kind is unknown (written by a newer perdure) or the bytes are
            damaged.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        raise UnreadableEventError(f"event kind {kind!r} is not known to this version of perdure")
    try:
        event: Event = decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise UnreadableEventError(f"stored event of kind {kind!r} is damaged: {error}") from error
    return event
