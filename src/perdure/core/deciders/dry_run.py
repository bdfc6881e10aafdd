"""Try an input without recording anything: what would come of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from perdure.authoring.deciders.decision import (
    Acceptance,
    CancelledTimer,
    Decision,
    Effect,
    Rejection,
    Sent,
    Start,
    Timer,
)
from perdure.codec import JSON
from perdure.core.deciders.decide import AcceptedInput, Refused, run_decide
from perdure.core.deciders.fold import Fold

S = TypeVar("S")
E = TypeVar("E")
X = TypeVar("X")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedInput(Generic[S, E, X]):
    """What would come of an input."""

    decision: Decision[Any, E, X]
    """As `decide` returned it; equal to one that is written down the same way."""
    events: tuple[E, ...]
    state: S
    """After the events; as it was, if the input is rejected."""
    version: int
    """How many events there would be."""
    rejection: X | None
    """Why it is rejected; None if it is not. See `is_accepted` where None may be a reason."""
    is_terminal: bool
    """Whether the instance would be complete."""
    unique_key: str | None
    """The business key that the input brings."""

    @property
    def is_accepted(self) -> bool:
        """Whether the input is accepted."""
        return isinstance(self.decision, Acceptance)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The activities that would run; each has a `name` and `arguments`."""
        return self._follow_ups(Effect)

    @property
    def timers(self) -> tuple[Timer, ...]:
        """The timers that would be set; each has a `key`, an `input`, and `after` or `at`."""
        return self._follow_ups(Timer)

    @property
    def cancelled_timers(self) -> tuple[str, ...]:
        """The keys of timers that would be taken back."""
        return tuple(each.key for each in self._follow_ups(CancelledTimer))

    @property
    def sent(self) -> tuple[Sent, ...]:
        """What would be sent to deciders; each has an `instance_id` and an `input`."""
        return self._follow_ups(Sent)

    @property
    def started(self) -> tuple[Start, ...]:
        """The orchestrations that would be started."""
        return self._follow_ups(Start)

    @property
    def reply(self) -> Any:
        """What the caller would be told, as JSON."""
        data = self.decision.reply_data if isinstance(self.decision, Acceptance) else None
        return None if data is None else JSON.decode(data)

    def _follow_ups(self, kind: type[T]) -> tuple[T, ...]:
        if not isinstance(self.decision, Acceptance):
            return ()
        return tuple(each for each in self.decision.follow_ups if isinstance(each, kind))


def try_input(fold: Fold, value: object, now: datetime) -> TriedInput[Any, Any, Any]:
    """Return what would come of an input. The fold stays as it is.

    Raises:
        Exception: What the decider's code raised, or whatever is wrong with its decision.
    """
    definition = fold.definition
    state = definition.copy_state(fold.state)
    tried = Fold(definition, fold.guard)
    tried.state, tried.version = state, fold.version
    with tried.place, tried.guard:
        # The input as a turn would have it, which is not the caller's object.
        value = definition.inputs.decode(*definition.inputs.encode(value))
        judged = run_decide(tried, value, now, is_shown=True)
    if isinstance(judged, Refused):
        rejection: Rejection[Any] = Rejection(judged.reason)
        return TriedInput(
            decision=rejection,
            events=(),
            state=state,
            version=fold.version,
            rejection=judged.reason,
            is_terminal=False,
            unique_key=None,
        )
    assert isinstance(judged, AcceptedInput)
    if judged.events:
        definition.check_evolved(judged.shown, judged.events[-1])
    return TriedInput(
        decision=judged.decision,
        events=judged.events,
        state=judged.shown,
        version=fold.version + len(judged.events),
        rejection=None,
        is_terminal=judged.is_terminal,
        unique_key=judged.key,
    )
