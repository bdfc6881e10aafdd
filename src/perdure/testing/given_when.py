"""Test a decider without a store: given these events, when this input, then what?

    result = given(Order, Placed(["book"])).when(Pay("o-1", 12))
    assert result.events == (Paid(12),)

Whatever a worker would refuse is refused here too: a clock that is read, a state that `decide`
changes, an event that cannot be stored.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import DeciderDefinition, definition_of
from perdure.authoring.deciders.describing import Transition
from perdure.core.deciders.dry_run import TriedInput, try_input
from perdure.core.deciders.fold import Fold, state_name, transitions
from perdure.core.guard import Guard
from perdure.errors import PerdureError, UsageError
from perdure.model.histories.events import StoredEvent

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - the contract's letter for an input
E = TypeVar("E")
X = TypeVar("X")

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
"""The time of a test that says none."""


class Given(Generic[S, I, E, X]):
    """A state that some events have led to."""

    def __init__(self, decider: type[Decider[S, I, E, X]], events: Sequence[E]) -> None:
        self._definition = definition_of(decider)
        self._fold = _folded(self._definition, events)

    @property
    def state(self) -> S:
        """The state after the events."""
        state: S = self._definition.copy_state(self._fold.state)
        return state

    def when(self, input: I, /, *, now: datetime | None = None) -> TriedInput[S, E, X]:
        """Return what comes of an input. A rejection is a result like any other.

        Args:
            input: What is decided.
            now: The time that `decide` is told; some noon if not given.

        Raises:
            NondeterminismError: It read a clock, or changed the state it was given, or the like.
            Exception: What the decider's code raised.
        """
        result: TriedInput[S, E, X] = try_input(self._fold, input, NOON if now is None else now)
        return result


def given(decider: type[Decider[S, I, E, X]], /, *events: E) -> Given[S, I, E, X]:
    """Begin a test of a decider whose instance has recorded these events so far.

    Raises:
        DefinitionError: The decider cannot work as written.
        PayloadError: One is no event of the decider.
    """
    return Given(decider, events)


def check_invariants(
    decider: type[Decider[S, I, E, X]],
    /,
    *,
    inputs: Any,
    invariant: Callable[[S], object],
    events: Sequence[E] = (),
    max_inputs: int = 30,
    runs: int = 200,
    seed: int = 0,
) -> None:
    """Check that something holds of every state that random inputs lead to.

    Args:
        decider: What is checked.
        inputs: Where the inputs come from: a hypothesis strategy for one input, a list to choose
            from, or a function that makes one of a `random.Random`.
        invariant: Is given each state, from the first one on. It returns False or raises if
            something is wrong.
        events: What has happened before.
        max_inputs: How many inputs are tried in a row.
        runs: How many rows are tried.
        seed: Of the random numbers, where no strategy is given.

    Raises:
        AssertionError: With the inputs that lead to a wrong state, as few as were found.
        UsageError: The inputs or the invariant are of another kind.
    """
    definition = definition_of(decider)
    if not callable(invariant):
        raise UsageError(f"invariant must be a function of a state, got {invariant!r}")

    def check(row: Sequence[Any]) -> None:
        _check_row(definition, events, row, invariant)

    if hasattr(inputs, "filter") and hasattr(inputs, "example"):
        _check_with_hypothesis(check, inputs, max_inputs, runs)
        return
    if not callable(inputs) and not (isinstance(inputs, Sequence) and inputs):
        raise UsageError(
            "inputs must be a list of inputs, a function of a random.Random or a hypothesis "
            f"strategy, got {inputs!r}"
        )
    chance = random.Random(seed)
    make = inputs if callable(inputs) else (lambda source: source.choice(inputs))
    for _ in range(runs):
        row = [make(chance) for _ in range(chance.randint(0, max_inputs))]
        try:
            check(row)
        except AssertionError:
            check(_shortest(check, row))
            raise


def observed_transitions(
    decider: type[Decider[S, Any, Any, Any]],
    histories: Iterable[Sequence[StoredEvent]],
    *,
    name_of: Callable[[S], str] = state_name,
) -> list[Transition]:
    """Return which inputs led from which state to which in histories, for `describe`.

    Args:
        decider: Whose histories they are.
        histories: Each of one instance.
        name_of: Names a state; by default its `status`, else its class.
    """
    definition, guard = definition_of(decider), Guard(watch_calls=False)
    return [
        transition
        for history in histories
        for transition in transitions(definition, history, guard, name_of=name_of)
    ]


def _folded(definition: DeciderDefinition, events: Sequence[Any]) -> Fold:
    fold = Fold(definition, Guard(watch_calls=True))
    with fold.place, fold.guard:
        for number, event in enumerate(events, 1):
            folded = fold.add(definition.write_event(event), number)
            definition.check_evolved(fold.state, folded)
    fold.refuse_violation()
    return fold


def _check_row(
    definition: DeciderDefinition,
    events: Sequence[Any],
    row: Sequence[Any],
    invariant: Callable[[Any], object],
) -> None:
    fold = _folded(definition, events)
    _check_state(fold.state, (), invariant)
    for number, value in enumerate(row, 1):
        try:
            tried = try_input(fold, value, NOON)
        except PerdureError:
            raise
        except Exception as error:
            raise AssertionError(
                f"{type(error).__name__}: {error}, after {_shown(row[:number])}"
            ) from error
        fold.state, fold.version = tried.state, tried.version
        _check_state(definition.copy_state(tried.state), row[:number], invariant)
        if tried.is_terminal:
            return


def _check_state(state: Any, row: Sequence[Any], invariant: Callable[[Any], object]) -> None:
    try:
        holds = invariant(state) is not False
    except AssertionError as error:
        raise AssertionError(f"{error} in {state!r}, after {_shown(row)}") from error
    if not holds:
        raise AssertionError(f"the invariant does not hold in {state!r}, after {_shown(row)}")


def _shown(row: Sequence[Any]) -> str:
    return ", ".join(repr(value) for value in row) or "no input"


def _shortest(check: Callable[[Sequence[Any]], None], row: list[Any]) -> list[Any]:
    """Leave out inputs one by one as long as the rest still leads to a wrong state."""
    index = 0
    while index < len(row):
        shorter = row[:index] + row[index + 1 :]
        try:
            check(shorter)
        except AssertionError:
            row = shorter
        else:
            index += 1
    return row


def _check_with_hypothesis(
    check: Callable[[Sequence[Any]], None], inputs: Any, max_inputs: int, runs: int
) -> None:
    # Not a dependency: a test that hands over a strategy has it.
    import hypothesis

    rows = hypothesis.strategies.lists(inputs, max_size=max_inputs)
    settings = hypothesis.settings(max_examples=runs, deadline=None, database=None)
    settings(hypothesis.given(rows)(check))()
