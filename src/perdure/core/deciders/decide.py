"""Put one input to `decide`, and work out what an acceptance comes to, without recording it.

Whatever can fail fails here: user code that raises, events that cannot be stored, effects that
return something else than inputs. What comes out can be recorded as it is.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from perdure.authoring.deciders.decision import Acceptance, Effect, Rejection, Timer
from perdure.authoring.deciders.members import Tagged
from perdure.codec import check_id
from perdure.core.deciders.fold import Fold
from perdure.errors import LimitExceededError, NondeterminismError, PerdureError, UsageError
from perdure.limits import MAX_OPEN_CALLS
from perdure.model.histories.events import EventRecorded


class Refused(NamedTuple):
    """The input is rejected."""

    reason: Any
    tagged: Tagged


class AcceptedInput(NamedTuple):
    """The input is accepted, and this is what it comes to."""

    decision: Acceptance[Any, Any]
    written: tuple[EventRecorded, ...]
    events: tuple[Any, ...]
    """As they are read back."""
    state: Any
    """After the events."""
    shown: Any
    """The same for others, who may change it: it has nothing in common with `state`, unless that
    cannot be changed, or the caller wanted none."""
    is_terminal: bool
    key: str | None
    """The business key from now on; None: as before."""


def run_decide(
    fold: Fold, value: object, now: datetime, *, is_shown: bool, room: int = MAX_OPEN_CALLS
) -> AcceptedInput | Refused:
    """Decide an input, inside the fold's place and guard. The fold itself does not move on.

    Args:
        fold: The state.
        value: The input.
        now: The time that `decide` is told.
        is_shown: The new state is shown to others, and a failure must leave the old one as it was:
            `evolve` is tried on a copy first, if a state can be changed in place. Without it a
            failure may leave a state that is no fold of anything.
        room: How much may be asked for.

    Raises:
        Exception: What the decider's code raised.
        NondeterminismError: It did what cannot be repeated.
        UsageError: `decide` returned no decision.
    """
    definition, decider = fold.definition, fold.definition.decider
    before_it = _looked_at(fold)
    decision: object = decider.decide(fold.state, value, now)
    fold.refuse_violation()
    if before_it is not None and _looked_at(fold) != before_it:
        raise NondeterminismError(
            f"decide of decider {definition.name!r} has changed the state it was given, for "
            f"{type(value).__qualname__}: only evolve makes a new state"
        )
    if isinstance(decision, Rejection):
        reason = decision.reason
        return Refused(reason, decision.tagged or definition.rejections.encode(reason))
    if not isinstance(decision, Acceptance):
        raise UsageError(
            f"decide of decider {definition.name!r} returned {decision!r} for "
            f"{type(value).__qualname__}: return Decision.accept(...) or Decision.reject(...)"
        )
    written = decision.written
    if written is None:
        written = tuple([definition.write_event(event) for event in decision.events])
    is_tried = is_shown and not definition.has_immutable_state
    before = definition.copy_state(fold.state) if is_tried else fold.state
    state, events = _evolved(fold, before, written)
    _check_follow_ups(fold, decision, room)
    key = decider.unique_key(value) if definition.has_unique_key else None
    if key is not None:
        check_id(f"unique key of decider {definition.name!r}", key)
    # Nothing has happened before the first event, so nothing can be complete.
    is_terminal = bool(written or fold.version) and bool(decider.is_terminal(state))
    fold.refuse_violation()
    shown = state
    if is_tried:
        state, _ = _evolved(fold, fold.state, written)
    return AcceptedInput(decision, written, events, state, shown, is_terminal, key)


def _looked_at(fold: Fold) -> bytes | None:
    """Return the state as bytes where it may be changed and that is watched."""
    if fold.definition.has_immutable_state or not fold.guard.watches_closely:
        return None
    try:
        return fold.definition.state.encode(fold.state, "state")
    except PerdureError:
        return None  # Too large to be looked at.


def _evolved(
    fold: Fold, state: Any, written: tuple[EventRecorded, ...]
) -> tuple[Any, tuple[Any, ...]]:
    """Return a state after events, and the events as they are read back."""
    definition, events = fold.definition, []
    for recorded in written:
        # Not what `decide` made: user code may still have that, and change it.
        event = definition.read_event(recorded)
        state = definition.evolve(state, event)
        events.append(event)
    return state, tuple(events)


def _check_follow_ups(fold: Fold, decision: Acceptance[Any, Any], room: int) -> None:
    if len(decision.follow_ups) > room:
        raise LimitExceededError(
            "open effects and timers of one instance",
            allowed=MAX_OPEN_CALLS,
            found=MAX_OPEN_CALLS - room + len(decision.follow_ups),
            advice="spread the work over instances",
        )
    for follow_up in decision.follow_ups:
        if isinstance(follow_up, Effect):
            fold.definition.returns_input(follow_up.activity)
        elif isinstance(follow_up, Timer) and follow_up.tagged is None:
            fold.definition.inputs.encode(follow_up.input)
