"""Timers of deciders: keyed, replaced, taken back, set again by their own firing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Never

import msgspec

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decision import Accepted, Decision
from perdure.model.histories.events import InputTaken, read_event
from tests.core.desk import Desk
from tests.core.harness import START_MS
from tests.core.orders import HOUR, Order, Pay, Place, Remind, Snooze

MINUTE = 60_000


def placed() -> Desk:
    desk = Desk(Order)
    desk.execute(Place("o-1", ["a"]), correlation="cart-7")
    return desk


def test_a_timer_is_an_input_that_becomes_visible_later() -> None:
    desk = placed()

    timer = desk.timers["key:payment"]

    assert timer.due_ms == START_MS + 60 * MINUTE
    taken = read_event(timer.kind, timer.body)
    assert isinstance(taken, InputTaken)
    assert (taken.tag, taken.cause, taken.correlation) == (
        "PaymentTimeout", "timer:payment", "cart-7",
    )  # fmt: skip


def test_a_timer_that_fires_is_decided_and_gone() -> None:
    desk = placed()

    desk.fire("key:payment")

    assert desk.state.status == "given up"
    assert "key:payment" not in desk.timers
    desk.check()


def test_the_next_due_time_is_the_earliest_of_all() -> None:
    desk = placed()

    # The deadline of the effect comes before both timers.
    assert desk.turns[-1].next_due_ms == START_MS + 10 * MINUTE
    desk.complete(4)
    assert desk.turns[-1].next_due_ms == START_MS + 30 * MINUTE
    assert desk.replayed().notes.due_times.next_ms() == START_MS + 30 * MINUTE


def test_arming_an_armed_key_replaces_it() -> None:
    desk = placed()

    desk.execute(Snooze("o-1", 5))

    turn = desk.turns[-1]
    assert turn.timers_gone == ("key:remind",)
    assert [timer.key for timer in turn.timers] == ["key:remind"]
    assert desk.timers["key:remind"].due_ms == START_MS + 5 * MINUTE
    desk.check()


def test_a_timer_taken_back_is_gone() -> None:
    desk = placed()

    desk.execute(Pay("o-1", 1))

    assert desk.turns[-1].timers_gone == ("key:payment",)
    assert "key:payment" not in desk.timers
    desk.check()


def test_taking_back_what_is_not_there_leaves_no_trace() -> None:
    desk = placed()
    desk.execute(Pay("o-1", 1))

    desk.execute(Pay("o-1", 1))

    assert desk.turns[-1].timers_gone == ()
    assert desk.kinds.count("timer_disarmed") == 1


def test_a_timer_set_again_by_its_own_firing_is_kept() -> None:
    desk = placed()

    turn = desk.fire("key:remind")

    assert desk.state.reminders == 1
    assert turn.timers_gone == ()
    assert desk.timers["key:remind"].due_ms == START_MS + 90 * MINUTE
    desk.check()


def test_a_heartbeat_goes_on_for_ever() -> None:
    desk = placed()

    for _ in range(5):
        desk.fire("key:remind")
        desk.reload()

    assert desk.state.reminders == 5
    desk.check()


def test_a_timer_cancelled_by_an_input_of_the_same_turn_does_not_fire() -> None:
    """It was being delivered already: both messages were claimed together."""
    desk = placed()
    message = desk.due("key:payment")

    turn = desk.run([desk.sent(Pay("o-1", 1)), message])

    assert desk.state.status == "paid"
    assert message.no in turn.consumed
    desk.check()


def test_a_timer_set_anew_by_an_input_of_the_same_turn_does_not_fire_as_it_was() -> None:
    desk = placed()
    message = desk.due("key:remind")

    desk.run([desk.sent(Snooze("o-1", 5)), message])

    assert desk.state.reminders == 0
    assert desk.timers["key:remind"].due_ms == desk.now_ms + 5 * MINUTE
    desk.check()


def test_a_timer_that_was_cancelled_does_not_fire_when_its_message_comes_late() -> None:
    desk = placed()
    message = desk.due("key:payment")
    desk.execute(Pay("o-1", 1))
    before = list(desk.history)

    turn = desk.run([message])

    assert message.no in turn.consumed
    assert desk.history == before


# --------------------------------------------------------------- within one decision


@dataclass(frozen=True)
class Plan:
    steps: str


@dataclass(frozen=True)
class Tick:
    n: int


@dataclass(frozen=True)
class Ticked:
    n: int


class Planner(Decider[int, Plan | Tick, Ticked, Never]):
    name = "planner"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Plan | Tick, /) -> str:
        return "p"

    def decide(
        self, state: int, input: Plan | Tick, now: datetime, /
    ) -> Decision[Plan | Tick, Ticked, Never]:
        if isinstance(input, Tick):
            return Decision.accept(Ticked(input.n))
        decision = Decision.accept(Ticked(0)).timer("none", at=now, input=Tick(0))
        for number, step in enumerate(input.steps, 1):
            if step == "a":
                decision = decision.timer("k", after=HOUR, input=Tick(number))
            elif step == "p":
                decision = decision.timer("k", at=now - timedelta(days=1), input=Tick(number))
            else:
                decision = decision.cancel_timer("k")
        return decision

    def evolve(self, state: int, event: Ticked, /) -> int:
        return state + event.n


def plan(*steps: str) -> Desk:
    desk = Desk(Planner, "p")
    for each in steps:
        assert isinstance(desk.execute(Plan(each)), Accepted)
    desk.check()
    return desk


def armed(desk: Desk) -> int | None:
    """Return the number of the step whose timer is set."""
    timer = desk.timers.get("key:k")
    if timer is None:
        return None
    taken = read_event(timer.kind, timer.body)
    assert isinstance(taken, InputTaken)
    number: int = msgspec.json.decode(taken.input)["n"]
    return number


def test_cancel_then_arm_in_one_decision_is_a_fresh_timer() -> None:
    assert armed(plan("a", "ca")) == 2
    assert armed(plan("ca")) == 2


def test_arm_then_cancel_in_one_decision_is_none() -> None:
    assert armed(plan("ac")) is None
    assert armed(plan("a", "ac")) is None


def test_of_several_in_one_decision_the_last_counts() -> None:
    desk = plan("a", "aaca")

    assert armed(desk) == 4
    assert desk.turns[-1].timers_gone.count("key:k") == 1


def test_a_time_that_has_passed_is_due_at_once() -> None:
    desk = plan("p")

    assert desk.turns[-1].next_due_ms == START_MS - 24 * 60 * MINUTE
    desk.fire("key:k")
    assert desk.state == 1


def test_what_was_armed_in_another_turn_is_cancelled_by_key() -> None:
    desk = plan("a", "c")

    assert armed(desk) is None
    assert desk.turns[-1].timers_gone == ("key:none", "key:k")


def test_an_input_for_another_instance_is_sent_on() -> None:
    """What a timer or an effect gives back may be meant for another instance of the decider."""
    desk = Desk(Order)
    desk.execute(Place("o-1"))
    message = desk.due("key:remind")
    taken = read_event(message.kind, message.body)
    assert isinstance(taken, InputTaken)
    other = desk.definition.inputs.encode(Remind("o-2"))
    from perdure.model.histories.events import write_event

    moved = msgspec.structs.replace(taken, input=msgspec.Raw(other.data))

    turn = desk.run([message._replace(body=write_event(moved).body)])

    assert [kind for kind, _ in turn.events] == ["input_taken", "input_sent"]
    [child] = turn.children
    assert child.instance.instance_id == "order:o-2"
    assert desk.state.reminders == 0
