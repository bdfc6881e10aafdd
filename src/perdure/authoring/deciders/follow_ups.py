"""What may follow from a decision: effects, timers, messages, starts. Values; nothing is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure.authoring.activity import Activity
from perdure.authoring.deciders.members import Tagged
from perdure.authoring.orchestration import Orchestration
from perdure.clock import from_datetime, to_ms
from perdure.codec import JSON, Json
from perdure.model.histories.slot import StartedSlot

if TYPE_CHECKING:
    from perdure.authoring.deciders.decider import Decider


@dataclass(frozen=True, slots=True)
class Effect:
    """An activity to be run."""

    activity: Activity[..., Any]
    input: bytes
    """Its arguments, as stored."""

    @property
    def name(self) -> str:
        """The activity's name."""
        return self.activity.name

    @property
    def arguments(self) -> dict[str, Json]:
        """Its arguments by name, as JSON."""
        found: dict[str, Json] = JSON.decode(self.input)
        return found


@dataclass(frozen=True, slots=True)
class Timer:
    """An input to be decided later, under a key."""

    key: str
    input: Any
    after: timedelta | None = None
    at: datetime | None = None
    tagged: Tagged | None = field(default=None, compare=False)
    """The input as it is stored; None if it was made where no decider runs."""

    def due_ms(self, now_ms: int) -> int:
        """Return when it is due if it is set at that time."""
        if self.at is not None:
            return from_datetime(self.at)
        assert self.after is not None, "one of the two is given"
        return now_ms + to_ms(self.after)


@dataclass(frozen=True, slots=True)
class CancelledTimer:
    """A timer to be taken back."""

    key: str


@dataclass(frozen=True, slots=True)
class Sent:
    """An input for an instance of some decider."""

    decider: type[Decider[Any, Any, Any, Any]]
    instance_id: str
    """As stored, with the decider's name before it."""
    input: Any
    tagged: Tagged


@dataclass(frozen=True, slots=True)
class Start:
    """An orchestration to be started."""

    orchestration: Orchestration[..., Any]
    instance_id: str | None
    """Its id; None: one is made."""
    input: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedStart:
    """An orchestration to be started whose code need not be here."""

    orchestration: str
    """Its name."""
    version: str
    """Empty: the worker that begins it chooses."""
    instance_id: str
    input: bytes
    """Its arguments, as its own codec wrote them."""
    delay_ms: int = 0
    slot: StartedSlot | None = None


@dataclass(frozen=True, slots=True)
class StopRun:
    """An orchestration to be stopped that the decider has started."""

    instance_id: str
    how: str
    """*cancel* or *terminate*."""
    reason: str


FollowUp: TypeAlias = Effect | Timer | CancelledTimer | Sent | Start | EncodedStart | StopRun


def show_follow_up(follow_up: FollowUp) -> str:
    """Return what asks for it, as it is written."""
    match follow_up:
        case Effect():
            given = ", ".join(f"{name}={value!r}" for name, value in follow_up.arguments.items())
            return f".effect({follow_up.name}{', ' if given else ''}{given})"
        case Timer(key=key, input=input, after=after, at=at):
            when = f"at={at}" if after is None else f"after={after}"
            return f".timer({key!r}, {when}, input={input!r})"
        case CancelledTimer(key=key):
            return f".cancel_timer({key!r})"
        case Sent(decider=decider, input=input):
            return f".send({decider.__name__}, {input!r})"
        case Start(orchestration=orchestration, instance_id=instance_id):
            given = "" if instance_id is None else f"{instance_id!r}, "
            return f".start({given}{orchestration.name}, ...)"
        case EncodedStart(orchestration=name, instance_id=instance_id):
            return f".start_encoded({instance_id!r}, {name!r}, ...)"
        case StopRun(instance_id=instance_id, how=how):
            return f".{how}({instance_id!r})"
