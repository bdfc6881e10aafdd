"""Deciders: event-sourced instances whose state is the fold of what they decided.

A decider is a class of pure functions. `decide` looks at the state and an input and returns a
decision: events that happened, with what follows from them, or a rejection. `evolve` folds an event
into the state. The class is never run here; it is checked and made ready by `definition_of`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from perdure.codec import Json

if TYPE_CHECKING:
    from perdure.authoring.deciders.decision import Decision

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - the contract's letter for an input
E = TypeVar("E")
X = TypeVar("X")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadEffect:
    """An effect that failed for good."""

    instance_id: str
    """The instance that asked for it, by the id that its decider gives it."""
    activity: str
    arguments: Mapping[str, Json]
    """By parameter name, as JSON."""
    type_name: str
    """The class of the last exception."""
    message: str
    attempts: int = 1
    """How many there were, as `dead_jobs()` tells them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedOrchestration:
    """How an orchestration ended that a decision had started."""

    instance_id: str
    """The decider's instance that started it, by the id that its decider gives it."""
    orchestration_id: str
    orchestration: str
    status: str
    """completed, failed, was cancelled, was terminated, or not started: its id was taken."""
    result: Json = None
    """What it returned, as JSON."""
    type_name: str = ""
    message: str = ""


class Decider(ABC, Generic[S, I, E, X]):
    """A state, the inputs it takes, the events it records, the reasons it rejects for.

    The four types are unions of dataclasses, msgspec structs, pydantic models or any other data,
    told apart by the class's name, or by its `tag` if it has one. Use `Never` as the last type if
    nothing is ever rejected. Make the state immutable if that is no trouble: then it is never
    copied.
    """

    name: ClassVar[str]
    """What instances are recorded under; never changes."""

    snapshot_every: ClassVar[int] = 100
    """After so many events a snapshot is kept, so that a load folds no more than those; 0: none."""

    schema: ClassVar[int] = 1
    """Number of the state's shape and of what `evolve` does. Raise it when one of them changes:
    snapshots with another number are ignored."""

    keep_events: ClassVar[int | None] = None
    """How many of its newest events an instance keeps; housekeeping removes older ones, a day
    after they were recorded and once every projection and subscription has passed them. None: all.
    What is left counts on, and the state is what it was. Ask for removed ones, and you get an
    `EventsRemovedError`."""

    observe_inputs: ClassVar[bool] = False
    """Whether every input is kept with what it came to, rejected ones too."""

    event_versions: ClassVar[Mapping[type, int]] = MappingProxyType({})
    """In which shape events are written now, 1 where nothing is said. See `upcast`."""

    states: ClassVar[Mapping[str, Sequence[tuple[str, str]]]] = MappingProxyType({})
    """For `describe`: by name of a state, which input leads to which state."""

    @abstractmethod
    def initial(self) -> S:
        """Return the state before the first event."""

    @abstractmethod
    def instance_id(self, input: I, /) -> str:
        """Return which instance an input is for."""

    @abstractmethod
    def decide(self, state: S, input: I, now: datetime, /) -> Decision[I, E, X]:
        """Return what comes of an input. Pure: no clock but `now`, no I/O, state left as it is."""

    @abstractmethod
    def evolve(self, state: S, event: E, /) -> S:
        """Return the state after an event. Pure, and never fails on an event that was recorded."""

    def is_terminal(self, state: S, /) -> bool:
        """Return whether the instance is complete. It takes no more inputs then, its timers are
        gone, and it ends when the effects that were asked for have ended."""
        return False

    def unique_key(self, input: I, /) -> str | None:
        """Return the business key that the instance has once this input is accepted.

        No two instances have the same until one completes. None: whatever it has.
        """
        return None

    def on_dead(self, effect: DeadEffect, /) -> I | None:
        """Return what to decide when an effect has failed for good; None: nothing.

        Asked again if a person retries it and it fails once more. If it returns then, what it
        returns is an input as ever: be ready for it after the failure.
        """
        return None

    def on_ended(self, ended: EndedOrchestration, /) -> I | None:
        """Return what to decide when an orchestration has ended that a decision started."""
        return None

    def upcast(self, tag: str, version: int, data: Json, /) -> tuple[str, Json]:
        """Return an event that was written in another shape as it would be written now.

        Called for events with an older number than `event_versions` has, or with a tag that is no
        longer among the events.
        """
        return tag, data

    def upcast_state(self, schema: int, state: Json, /) -> Json:
        """Return a state that was written under another `schema` as it would be written now.

        Called where events were removed (`keep_events`), since their state cannot be folded anew.
        """
        raise NotImplementedError

    def should_snapshot(self, state: S, version: int, /) -> bool:
        """Return whether to keep a snapshot now, besides those of `snapshot_every`."""
        return False
