"""The test kit for deciders: given these events, when this input, then what."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Never

import pytest
from hypothesis import strategies as st

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decision import Decision
from perdure.errors import NondeterminismError, PayloadError, UsageError
from perdure.testing import check_invariants, given
from tests.core.orders import (
    HOUR,
    NOON,
    AlreadyPlaced,
    GivenUp,
    Order,
    OrderInput,
    OrderState,
    Paid,
    Pay,
    PaymentFailed,
    PaymentTimeout,
    Place,
    Placed,
    Remind,
    Ship,
    Stock,
    StockState,
    Take,
    Taken,
    deliver,
    notify,
)

# --------------------------------------------------------------------------- given, when


def test_an_accepted_input_shows_all_that_follows() -> None:
    result = given(Order).when(Place("o-1", ["a"], key="k"))

    assert result.is_accepted
    assert result.events == (Placed(["a"]),)
    assert result.state == OrderState("placed", ("a",))
    assert result.version == 1
    assert [(effect.name, effect.arguments) for effect in result.effects] == [
        ("charge", {"order_id": "o-1", "amount": 1})
    ]
    payment, remind = result.timers
    assert (payment.key, payment.after, payment.input) == ("payment", HOUR, PaymentTimeout("o-1"))
    assert remind.input == Remind("o-1")
    assert result.unique_key == "k"
    assert result.rejection is None
    assert (result.sent, result.started, result.cancelled_timers) == ((), (), ())


def test_the_decision_is_equal_to_one_written_down() -> None:
    result = given(Order, Placed(["a"])).when(Pay("o-1", 3))

    assert result.decision == (
        Decision.accept(Paid(3))
        .cancel_timer("payment")
        .effect(notify, "o-1", text="paid")
        .reply({"thanks": 3})
    )
    assert result.decision != Decision.accept(Paid(3))
    assert result.reply == {"thanks": 3}
    assert result.cancelled_timers == ("payment",)


def test_a_rejection_is_a_result() -> None:
    result = given(Order, Placed([])).when(Place("o-1"))

    assert result.rejection == AlreadyPlaced()
    assert not result.is_accepted
    assert (result.events, result.effects, result.timers, result.reply) == ((), (), (), None)
    assert (result.state, result.version) == (OrderState("placed"), 1)


def test_what_is_sent_and_started_is_shown() -> None:
    result = given(Order, Placed([])).when(Ship("o-1", 2))

    [sent] = result.sent
    assert (sent.decider, sent.instance_id, sent.input) == (Stock, "stock:main", Take("o-1", 2))
    [started] = result.started
    assert (started.orchestration, started.instance_id) == (deliver, "d-o-1")


def test_the_time_is_what_the_test_says() -> None:
    result = given(Order, Placed([])).when(Remind("o-1"), now=NOON)

    assert result.events[0].at == NOON  # type: ignore[union-attr]  # it is a Reminded


def test_an_end_is_shown() -> None:
    assert given(Order, Placed([])).when(PaymentFailed("o-1", "x")).is_terminal
    assert given(Order, Placed([]), GivenUp("x")).state.status == "given up"


def test_one_beginning_serves_many_inputs() -> None:
    beginning = given(Stock, Taken("a"))

    first, second = beginning.when(Take("b", 1)), beginning.when(Take("c", 1))

    assert (first.state.orders, second.state.orders) == (["a", "b"], ["a", "c"])
    assert beginning.state == StockState(["a"])


def test_an_event_of_something_else_is_refused() -> None:
    with pytest.raises(PayloadError, match="none of its events"):
        given(Order, Taken("a"))  # type: ignore[misc]  # the point


def test_errors_of_the_decider_are_the_tests_own() -> None:
    with pytest.raises(ValueError, match="no such number"):
        given(Stock).when(Take("a", -1))


@dataclass(frozen=True)
class Do:
    what: str


@dataclass(frozen=True)
class Done:
    what: str


@dataclass
class Log:
    lines: list[str] = field(default_factory=list)


class Sloppy(Decider[Log, Do, Done, Never]):
    name = "sloppy"

    def initial(self) -> Log:
        return Log()

    def instance_id(self, input: Do, /) -> str:
        return "s"

    def decide(self, state: Log, input: Do, now: datetime, /) -> Decision[Do, Done, Never]:
        if input.what == "change":
            state.lines.append("I was here")
        if input.what == "clock":
            time.time()
        return Decision.accept(Done(input.what))

    def evolve(self, state: Log, event: Done, /) -> Log:
        state.lines.append(event.what)
        return state


def test_a_decide_that_changes_the_state_is_found_out() -> None:
    with pytest.raises(NondeterminismError, match="has changed the state it was given, for Do"):
        given(Sloppy).when(Do("change"))


def test_a_decide_that_reads_a_clock_is_found_out() -> None:
    with pytest.raises(NondeterminismError, match="use the `now` that decide is given"):
        given(Sloppy).when(Do("clock"))


def test_an_evolve_that_changes_the_state_in_place_is_fine() -> None:
    assert given(Sloppy, Done("a")).when(Do("b")).state == Log(["a", "b"])


# ------------------------------------------------------------------------- invariants

INPUTS: st.SearchStrategy[OrderInput] = st.one_of(
    st.builds(Place, st.just("o-1"), st.lists(st.text(max_size=2), max_size=2)),
    st.builds(Pay, st.just("o-1"), st.integers(0, 5)),
    st.builds(Remind, st.just("o-1")),
    st.builds(Ship, st.just("o-1")),
)


def test_an_invariant_that_holds_is_found_to() -> None:
    check_invariants(Order, inputs=INPUTS, invariant=lambda state: state.paid >= 0, runs=30)


def test_an_invariant_that_does_not_hold_names_the_inputs() -> None:
    def never_much(state: OrderState) -> bool:
        return state.paid < 7

    with pytest.raises(AssertionError, match="the invariant does not hold") as found:
        check_invariants(Order, inputs=INPUTS, invariant=never_much, runs=300)

    assert "Place(order_id='o-1', items=[]" in str(found.value)


def test_without_hypothesis_a_list_or_a_function_will_do() -> None:
    def never_two(state: StockState) -> None:
        assert len(state.orders) < 2, "two orders"

    def some(chance: random.Random) -> Take:
        return Take(chance.choice("ab"), 1)

    with pytest.raises(AssertionError, match=r"(?s)two orders.* after Take.*, Take"):
        check_invariants(Stock, inputs=[Take("a", 1), Take("b", 1)], invariant=never_two)
    with pytest.raises(AssertionError, match=r"two orders"):
        check_invariants(Stock, inputs=some, invariant=never_two)


def test_the_shortest_row_is_told() -> None:
    with pytest.raises(AssertionError) as found:
        check_invariants(
            Stock, inputs=[Take("a", 1)], invariant=lambda state: len(state.orders) < 3
        )

    assert str(found.value).count("Take(") == 3


def test_an_exception_of_the_decider_names_the_inputs_too() -> None:
    with pytest.raises(AssertionError, match=r"ValueError: no such number .* after Take\(.*-1\)"):
        check_invariants(Stock, inputs=[Take("a", -1)], invariant=lambda state: True)


def test_the_first_state_is_checked_too() -> None:
    with pytest.raises(AssertionError, match="after no input"):
        check_invariants(Stock, inputs=[Take("a", 1)], invariant=lambda state: False)


def test_a_row_ends_when_the_instance_is_complete() -> None:
    seen: list[OrderState] = []
    check_invariants(
        Order,
        inputs=[PaymentFailed("o-1", "x")],
        events=[Placed([])],
        invariant=seen.append,
        runs=20,
    )

    assert max(len(row.split()) for row in _rows(seen)) == 1


def _rows(seen: list[OrderState]) -> list[str]:
    """Return the states "given up" between two beginnings, one word each."""
    marks = ["|" if state.status == "placed" else "x " for state in seen]
    return "".join(marks).split("|")


# ------------------------------------------------------------------ what evolve returns


class Mistyped(Stock):
    """Its `evolve` returns the event where it should return the state."""

    name = "mistyped"

    def evolve(self, state: StockState, event: Taken, /) -> StockState:
        return event  # type: ignore[return-value]  # the mistake


def test_a_state_of_another_type_is_refused_where_it_is_tried() -> None:
    with pytest.raises(UsageError, match=r"returned what is no state .*got Taken.*StockState"):
        given(Mistyped).when(Take("a", 1))


def test_a_state_of_another_type_is_refused_where_it_is_given() -> None:
    with pytest.raises(UsageError, match=r"for event Taken: return the new state \(StockState\)"):
        given(Mistyped, Taken("a"))
