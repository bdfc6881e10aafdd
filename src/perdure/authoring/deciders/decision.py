"""Decisions: what comes of an input. Values; nothing happens by making one.

An acceptance carries the events that happened and what is to follow from them: effects, timers,
messages, started orchestrations, a reply. A rejection carries a reason and nothing else. What an
acceptance is given is bound, encoded and checked at the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Never,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
    overload,
)

from perdure.authoring.activity import Activity
from perdure.authoring.deciders.decider_definition import definition_of
from perdure.authoring.deciders.follow_ups import CancelledTimer as CancelledTimer
from perdure.authoring.deciders.follow_ups import Effect as Effect
from perdure.authoring.deciders.follow_ups import EncodedStart as EncodedStart
from perdure.authoring.deciders.follow_ups import FollowUp as FollowUp
from perdure.authoring.deciders.follow_ups import Sent as Sent
from perdure.authoring.deciders.follow_ups import Start as Start
from perdure.authoring.deciders.follow_ups import StopRun as StopRun
from perdure.authoring.deciders.follow_ups import Timer as Timer
from perdure.authoring.deciders.follow_ups import show_follow_up
from perdure.authoring.deciders.members import Tagged
from perdure.authoring.deciders.pure import current_decider
from perdure.authoring.kv import encode_value
from perdure.authoring.orchestration import Orchestration
from perdure.clock import to_ms
from perdure.codec import JSON, Json, check_id
from perdure.durations import Duration, as_duration
from perdure.errors import LimitExceededError, PayloadError, UsageError
from perdure.limits import MAX_PAYLOAD_BYTES
from perdure.model.builtins import RESERVED_PREFIX
from perdure.model.histories.events import EventRecorded
from perdure.model.versions import is_version

if TYPE_CHECKING:
    from perdure.authoring.deciders.decider import Decider

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
I = TypeVar("I")  # noqa: E741 - the contract's letter for an input
X = TypeVar("X")
I_co = TypeVar("I_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)
S_co = TypeVar("S_co", covariant=True)
X_co = TypeVar("X_co", covariant=True)


# ------------------------------------------------------------------------ decisions


class Decision(Protocol[I_co, E_co, X_co]):
    """What `decide` returns; made with `Decision.accept` and `Decision.reject`.

    A protocol, so that what an effect returns may be None without being an input: an acceptance
    whose effects give `Paid | None` is a decision about `Paid`. Only type checkers look at
    `_types`, for that.
    """

    __slots__ = ()

    @property
    def _types(self) -> tuple[I_co | None, E_co, X_co]: ...

    @overload
    @staticmethod
    def accept() -> Acceptance[Never, Never]: ...
    @overload
    @staticmethod
    def accept(a: A, /) -> Acceptance[Never, A]: ...
    @overload
    @staticmethod
    def accept(a: A, b: B, /) -> Acceptance[Never, A | B]: ...
    @overload
    @staticmethod
    def accept(a: A, b: B, c: C, /) -> Acceptance[Never, A | B | C]: ...
    @overload
    @staticmethod
    def accept(a: A, b: B, c: C, d: D, /) -> Acceptance[Never, A | B | C | D]: ...
    @overload
    @staticmethod
    def accept(*events: A) -> Acceptance[Never, A]: ...
    @staticmethod
    def accept(*events: Any) -> Acceptance[Any, Any]:
        """Return a decision that these events happened, in this order; none is fine.

        Raises (inside `decide`):
            PayloadError: One is no event of the decider, or cannot be stored.
        """
        definition = current_decider()
        if definition is None:
            return Acceptance(events=events)
        written = tuple([definition.write_event(event) for event in events])
        return Acceptance(events=events, written=written)

    @staticmethod
    def reject(reason: X) -> Rejection[X]:
        """Return a decision that the input changes nothing.

        Raises (inside `decide`):
            PayloadError: The reason is no rejection of the decider, or cannot be stored.
        """
        definition = current_decider()
        return Rejection(
            reason, None if definition is None else definition.rejections.encode(reason)
        )


class _Made:
    """What makes the two below fit the protocol: they can be asked for a decision too."""

    __slots__ = ()

    @staticmethod
    def accept(*events: Any) -> Any:
        """Return another decision."""
        return Decision.accept(*events)

    @staticmethod
    def reject(reason: Any) -> Any:
        """Return another decision."""
        return Decision.reject(reason)


class Rejection(_Made, Generic[X_co]):
    """A decision that an input changes nothing. Nothing can follow from it."""

    __slots__ = ("_reason", "tagged")

    if TYPE_CHECKING:

        @property
        def _types(self) -> tuple[None, Never, X_co]:
            raise NotImplementedError

    def __init__(self, reason: X_co, tagged: Tagged | None = None) -> None:
        self._reason = reason
        self.tagged = tagged
        """The reason as it is stored; None if it was made where no decider runs."""

    @property
    def reason(self) -> X_co:
        """Why."""
        return self._reason

    def __repr__(self) -> str:
        return f"Decision.reject({self.reason!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rejection) and self.reason == other.reason

    __hash__ = None  # type: ignore[assignment]  # what it holds may not have one


class Acceptance(_Made, Generic[I_co, E_co]):
    """A decision that events happened, and what follows. Every method returns a new one.

    Code that builds one step by step annotates it, with None beside the inputs if an effect may
    return that: `decision: Acceptance[Paid | Declined | None, Placed] = Decision.accept(Placed())`.
    """

    __slots__ = ("events", "follow_ups", "is_in_order", "reply_data", "written")

    if TYPE_CHECKING:

        @property
        def _types(self) -> tuple[I_co, E_co, Never]:
            raise NotImplementedError

    events: tuple[E_co, ...]
    follow_ups: tuple[FollowUp, ...]
    """What is to be done, in the order it was asked for."""
    is_in_order: bool
    """Whether each effect waits for the one before it."""
    reply_data: bytes | None
    """The answer to the caller that gave the input, as JSON."""
    written: tuple[EventRecorded, ...] | None
    """The events as they are stored; None if it was made where no decider runs."""

    def __init__(
        self,
        *,
        events: tuple[Any, ...] = (),
        written: tuple[EventRecorded, ...] | None = None,
        follow_ups: tuple[FollowUp, ...] = (),
        is_in_order: bool = False,
        reply_data: bytes | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "events", events)
        put(self, "follow_ups", follow_ups)
        put(self, "is_in_order", is_in_order)
        put(self, "reply_data", reply_data)
        put(self, "written", written)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a decision does not change: its methods return a new one")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Acceptance) and self._facts() == other._facts()

    __hash__ = None  # type: ignore[assignment]  # what it holds may not have one

    def _facts(self) -> tuple[object, ...]:
        return self.events, self.follow_ups, self.is_in_order, self.reply_data

    def __repr__(self) -> str:
        shown = ", ".join(repr(event) for event in self.events)
        return f"Decision.accept({shown})" + "".join(
            show_follow_up(each) for each in self.follow_ups
        )

    @overload
    def effect(self, activity: Activity[P, None], /, *args: P.args, **kwargs: P.kwargs) -> Self: ...
    @overload
    def effect(
        self, activity: Activity[P, I], /, *args: P.args, **kwargs: P.kwargs
    ) -> Acceptance[I_co | I, E_co]: ...
    def effect(self, activity: Activity[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run an activity. What it returns, if not None, is decided as the next input.

        Raises:
            UsageError: It is no activity, or the arguments do not fit.
            PayloadError: An argument cannot be stored.
            DefinitionError: (Inside `decide`.) It returns something that is no input.
        """
        if not isinstance(activity, Activity):
            raise UsageError(
                f"{activity!r} is no activity: .effect takes a function made with @activity and "
                "its arguments, as in .effect(charge, order_id)"
            )
        definition = current_decider()
        if definition is not None:
            definition.returns_input(activity)
        return self._with(Effect(activity, activity.definition.codec.encode(args, kwargs)))

    @overload
    def timer(self, key: str, /, *, after: Duration, input: I) -> Acceptance[I_co | I, E_co]: ...
    @overload
    def timer(self, key: str, /, *, at: datetime, input: I) -> Acceptance[I_co | I, E_co]: ...
    def timer(
        self,
        key: str,
        /,
        *,
        input: Any,
        after: Duration | None = None,
        at: datetime | None = None,
    ) -> Acceptance[Any, E_co]:
        """Decide an input later. A timer of the same key is replaced.

        Raises:
            UsageError: Not exactly one of `after` and `at` is given, or it is no time.
            PayloadError: (Inside `decide`.) The input is none of the decider.
        """
        check_id("timer key", key)
        if (after is None) == (at is None):
            raise UsageError(f"timer {key!r}: say either after=timedelta(...) or at=datetime(...)")
        if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
            raise UsageError(
                f"timer {key!r}: at must be a datetime with a time zone, got {at!r}; "
                "say datetime(..., tzinfo=UTC)"
            )
        definition = current_decider()
        tagged = None if definition is None else definition.inputs.encode(input)
        length = None if after is None else as_duration("after", after)
        return self._with(Timer(key, input, length, at, tagged))

    def cancel_timer(self, key: str, /) -> Self:
        """Take back the timer of a key; fine if there is none."""
        return cast(Self, self._with(CancelledTimer(check_id("timer key", key))))

    def send(self, decider: type[Decider[Any, I, Any, Any]], input: I, /) -> Self:
        """Give an input to an instance of a decider, which is started if it is not there.

        One that has completed takes nothing, and the sender is not told.

        Raises:
            DefinitionError: It is no decider, or a wrong one.
            PayloadError: The input is none of that decider.
        """
        definition = definition_of(decider)
        tagged = definition.inputs.encode(input)
        return cast(Self, self._with(Sent(decider, definition.instance_of(input), input, tagged)))

    @overload
    def start(
        self,
        instance_id: str,
        orchestration: Orchestration[P, Any],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Self: ...
    @overload
    def start(
        self, orchestration: Orchestration[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Self: ...
    def start(self, first: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Start an orchestration, under an id that is given or made. It goes on by itself; how it
        ends is told to `on_ended`.

        Raises:
            UsageError: It is no orchestration, or the arguments do not fit.
            PayloadError: An argument cannot be stored.
        """
        instance_id: str | None = None
        found: object = first
        if isinstance(first, str):
            instance_id = check_id("instance id", first)
            found, args = (args[0], args[1:]) if args else (None, args)
        if not isinstance(found, Orchestration):
            raise UsageError(
                f"{found!r} is no orchestration: .start takes an instance id, or none, a function "
                "made with @orchestration, and its arguments"
            )
        data = found.definition.codec.encode(args, kwargs)
        return self._with(Start(found, instance_id or found.options.instance_id, data))

    def start_encoded(
        self,
        instance_id: str,
        orchestration: str,
        input: bytes,
        /,
        *,
        version: str = "",
        delay: Duration | None = None,
    ) -> Self:
        """Start an orchestration by name, with arguments that its own codec has written before:
        `orchestration.definition.codec.encode(args, kwargs)`. Its code need not be here.

        Args:
            instance_id: Its id.
            orchestration: Its name.
            input: Its arguments, by name, as JSON.
            version: Which one; empty: the worker that begins it chooses.
            delay: How long after the start its first turn may run.

        Raises:
            UsageError: The name is one of perdure's own, or the version or the delay is none.
            PayloadError: The input is no JSON object.
            LimitExceededError: The input is too large.
        """
        check_id("instance id", instance_id)
        check_id("orchestration name", orchestration)
        if orchestration.startswith(RESERVED_PREFIX):
            raise UsageError(
                f"{orchestration!r} is one of perdure's own, which are started by what they are "
                f"for: names that begin with {RESERVED_PREFIX!r} are reserved"
            )
        if not isinstance(version, str) or (version and not is_version(version)):
            raise UsageError(f"version {version!r} is not a semantic version such as '1.0.0'")
        delay_ms = 0 if delay is None else to_ms(as_duration("delay", delay))
        if delay_ms < 0:
            raise UsageError(f"delay must not be negative, got {delay}")
        _check_encoded(f"input of {orchestration!r}", input)
        start = EncodedStart(
            orchestration=orchestration,
            version=version,
            instance_id=instance_id,
            input=bytes(input),
            delay_ms=delay_ms,
        )
        return cast(Self, self._with(start))

    def reply(self, value: object, /) -> Self:
        """Answer the caller that gave the input: the `reply` of `Accepted`. The last one counts.

        Raises:
            PayloadError: It cannot be stored.
        """
        changed: Acceptance[I_co, E_co] = Acceptance(
            events=self.events,
            written=self.written,
            follow_ups=self.follow_ups,
            is_in_order=self.is_in_order,
            reply_data=encode_value(value, "reply"),
        )
        return cast(Self, changed)

    def in_order(self) -> Self:
        """Let each effect of this decision wait until the one before it has ended."""
        changed: Acceptance[I_co, E_co] = Acceptance(
            events=self.events,
            written=self.written,
            follow_ups=self.follow_ups,
            is_in_order=True,
            reply_data=self.reply_data,
        )
        return cast(Self, changed)

    def _with(self, follow_up: FollowUp) -> Acceptance[Any, E_co]:
        return Acceptance(
            events=self.events,
            written=self.written,
            follow_ups=(*self.follow_ups, follow_up),
            is_in_order=self.is_in_order,
            reply_data=self.reply_data,
        )


# ------------------------------------------------------------------------- outcomes


@dataclass(frozen=True, slots=True)
class Accepted(Generic[E_co, S_co]):
    """An input was accepted, and what came of it is stored."""

    events: Sequence[E_co]
    state: S_co
    """After the events."""
    version: int
    """How many events the instance has."""
    reply: Json = None


@dataclass(frozen=True, slots=True)
class Rejected(Generic[X_co]):
    """An input was rejected; nothing was changed."""

    reason: X_co


@dataclass(frozen=True, slots=True)
class AlreadyCompleted:
    """The instance had completed before; nothing was changed."""


def _check_encoded(where: str, input: object) -> None:
    """Refuse what a codec of arguments cannot have written."""
    if not isinstance(input, bytes):
        raise UsageError(
            f"{where} must be bytes, got {type(input).__name__}: what "
            "orchestration.definition.codec.encode(args, kwargs) returns"
        )
    if len(input) > MAX_PAYLOAD_BYTES:
        raise LimitExceededError(
            f"{where}: the size in bytes",
            allowed=MAX_PAYLOAD_BYTES,
            found=len(input),
            advice="keep the data in a file or a bucket and hand over where it is",
        )
    try:
        arguments = JSON.decode(input)
    except PayloadError as error:
        raise PayloadError(where, "is no JSON: give its arguments by name") from error
    if not isinstance(arguments, dict):
        raise PayloadError(where, "is no JSON object: give its arguments by name")
