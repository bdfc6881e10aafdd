"""What a decider makes of its inputs: one turn, one value for one commit."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Never

import msgspec
import pytest

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decision import Accepted, AlreadyCompleted, Decision, Rejected
from perdure.core.deciders.answers import (
    AcceptedReceipt,
    answer_again,
    needs_history,
    outcome_json,
    read_receipt,
)
from perdure.core.guard import Guard
from perdure.errors import (
    DefinitionError,
    NondeterminismError,
    PayloadError,
    UniqueKeyError,
    UsageError,
    VersionConflictError,
)
from perdure.model.histories.events import (
    ActivityCompleted,
    CancelRequested,
    InputTaken,
    SignalReceived,
    Terminated,
)
from perdure.model.instances import Status
from perdure.model.turns import FedEvent, UniqueKey
from tests.core.desk import Desk
from tests.core.harness import CODE, GUARD, START_MS, raw
from tests.core.orders import (
    AlreadyPlaced,
    NotPlaced,
    Order,
    OrderState,
    Pay,
    PaymentFailed,
    Place,
    Placed,
    Remind,
    Ship,
    Snooze,
    Stock,
    StockState,
    Take,
    Taken,
    charge,
    deliver,
)


def placed() -> Desk:
    desk = Desk(Order)
    desk.execute(Place("o-1", ["a", "b"]))
    return desk


# ----------------------------------------------------------------------- accepted


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            b'{"tag":"Ship","input":{"order_id":"o-1"},"input_id":"","correlation":""}',
            id="with-defaults",
        ),
        pytest.param(
            b'{"tag": "Ship", "input": {"order_id": "o-1"}, "later": 1}', id="of-a-newer-version"
        ),
    ],
)
def test_a_message_is_on_record_in_the_bytes_in_which_it_came(body: bytes) -> None:
    desk = placed()
    message = desk.sent(Ship("o-1"))._replace(body=body)

    turn = desk.run([message])

    assert turn.events[0] == ("input_taken", body)
    desk.check()


def test_the_end_of_an_effect_is_on_record_in_the_bytes_in_which_it_came() -> None:
    desk = placed()
    seq = desk.seq_of("effect_scheduled")
    result = raw({"tag": "Pay", "input": {"order_id": "o-1", "amount": 3}})
    message = desk.message(ActivityCompleted(schedule=seq, result=result))
    with_defaults = message.body[:-1] + b',"failures":[]}'

    turn = desk.run([message._replace(body=with_defaults)])

    assert turn.events[0] == ("activity_completed", with_defaults)
    desk.check()


def test_an_accepted_input_is_on_record_with_all_that_follows() -> None:
    desk = Desk(Order)

    outcome = desk.execute(Place("o-1", ["a", "b"]), correlation="cart-7")

    assert outcome == Accepted((Placed(["a", "b"]),), OrderState("placed", ("a", "b")), 1)
    assert desk.kinds[:4] == ["started", "input_taken", "event_recorded", "effect_scheduled"]
    assert desk.kinds[4:] == ["timer_armed", "timer_armed"]
    started, taken = desk.events[:2]
    assert (started.name, started.version, started.code) == ("order", "", CODE)  # type: ignore[attr-defined]  # of that kind
    assert taken == InputTaken(
        tag="Place",
        input=raw({"order_id": "o-1", "items": ["a", "b"], "key": None}),
        cause="client",
        correlation="cart-7",
    )
    desk.check()


def test_events_go_to_the_feed_by_their_place_in_the_turn() -> None:
    desk = placed()

    desk.execute_all(Pay("o-1", 1), Pay("o-1", 2))

    assert desk.turns[-1].feed == (
        FedEvent(1, "Paid", 2, "client"),
        FedEvent(6, "Paid", 3, "client"),
    )
    assert desk.feed == [(3, "Placed"), (8, "Paid"), (13, "Paid")]


def test_an_acceptance_without_events_is_on_record_too() -> None:
    desk = placed()

    outcome = desk.execute(Snooze("o-1"))

    assert isinstance(outcome, Accepted)
    assert (outcome.events, outcome.version) == ((), 1)
    assert desk.kinds[-2:] == ["input_taken", "timer_armed"]


def test_a_reply_goes_to_who_asked_and_on_record() -> None:
    desk = placed()

    outcome = desk.execute(Pay("o-1", 3))

    assert isinstance(outcome, Accepted)
    assert outcome.reply == {"thanks": 3}
    assert bytes(desk.last("replied").value) == b'{"thanks":3}'


def test_several_callers_share_a_turn_in_order() -> None:
    desk = placed()

    answers = desk.execute_all(Pay("o-1", 1), Place("o-1"), Pay("o-1", 2))

    states = [getattr(answer.outcome, "state", None) for answer in answers]
    assert [state.paid if state else None for state in states] == [1, None, 3]
    assert answers[1].outcome == Rejected(AlreadyPlaced())
    assert len(desk.turns) == 2


def test_direct_inputs_are_decided_after_the_messages() -> None:
    desk = placed()
    desk.execution.give([desk.direct(Place("o-1"))])

    desk.run([desk.sent(Pay("o-1", 5))])

    assert desk.state.paid == 5
    assert desk.execution.answers[0].outcome == Rejected(AlreadyPlaced())


def test_who_decides_directly_minds_no_lease() -> None:
    desk = placed()

    assert desk.turns[-1].seize
    assert not desk.send(Pay("o-1", 3)).seize


def test_now_is_the_time_of_the_turn_and_never_goes_back() -> None:
    desk = placed()
    desk.now_ms = START_MS - 5_000

    desk.execute(Remind("o-1"))

    assert desk.turns[-1].now_ms == START_MS
    event: Any = desk.last("event_recorded")
    assert msgspec.json.decode(event.event)["at"].startswith("2027-01-15T08:00:00")


def test_now_is_right_again_after_a_turn_by_a_wrong_clock() -> None:
    desk = placed()
    desk.now_ms = START_MS - 60_001

    desk.execute(Remind("o-1"))

    assert desk.turns[-1].now_ms == START_MS - 60_001


# ----------------------------------------------------------------------- rejected


def test_a_direct_input_that_is_rejected_changes_nothing() -> None:
    desk = placed()
    before = list(desk.history)

    outcome = desk.execute(Place("o-1"))

    assert outcome == Rejected(AlreadyPlaced())
    assert desk.history == before
    assert desk.execution.is_unchanged


def test_a_message_that_is_rejected_is_on_record_with_the_reason() -> None:
    desk = placed()

    turn = desk.send(Place("o-1"))

    assert [kind for kind, _ in turn.events] == ["input_taken", "input_rejected"]
    assert desk.last("input_rejected").tag == "AlreadyPlaced"
    assert turn.consumed
    desk.check()


def test_a_first_input_that_is_rejected_leaves_nothing() -> None:
    desk = Desk(Order)

    assert desk.execute(Pay("o-1", 3)) == Rejected(NotPlaced("o-1"))

    turn = desk.turns[-1]
    assert turn.vanishes
    assert turn.events == ()
    assert desk.history == []


def test_a_first_message_that_is_rejected_takes_the_instance_away() -> None:
    desk = Desk(Order)

    turn = desk.send(Pay("o-1", 3), input_id="m-1")

    assert (turn.vanishes, turn.events) == (True, ())
    assert len(turn.consumed) == 2
    assert [receipt.input_id for receipt in turn.receipts] == ["m-1"]


def test_a_first_turn_with_one_accepted_input_stays() -> None:
    desk = Desk(Order)

    turn = desk.send(Pay("o-1", 3), Place("o-1"))

    assert not turn.vanishes
    assert desk.kinds[:5] == [
        "started", "input_taken", "input_rejected", "input_taken", "event_recorded",
    ]  # fmt: skip


def test_a_start_alone_stays() -> None:
    desk = Desk(Order)

    turn = desk.run([desk.start_message()])

    assert not turn.vanishes
    assert desk.kinds == ["started"]


# -------------------------------------------------------------------- expected version


def test_the_expected_version_is_checked_after_what_came_before() -> None:
    desk = placed()
    desk.execution.give(
        [
            desk.direct(Pay("o-1", 1), expected_version=1),
            desk.direct(Pay("o-1", 1), expected_version=1),
            desk.direct(Pay("o-1", 1), expected_version=2),
        ]
    )

    desk.run([])

    first, second, third = desk.execution.answers
    assert isinstance(first.outcome, Accepted)
    assert isinstance(second.error, VersionConflictError)
    assert (second.error.expected, second.error.found) == (1, 2)
    assert isinstance(third.outcome, Accepted)


def test_a_new_instance_is_at_version_zero() -> None:
    assert isinstance(Desk(Order).execute(Place("o-1"), expected_version=0), Accepted)
    with pytest.raises(VersionConflictError):
        Desk(Order).execute(Place("o-1"), expected_version=1)


# --------------------------------------------------------------------------- receipts


def test_an_input_with_an_id_leaves_a_receipt_that_gives_the_same_answer_again() -> None:
    desk = placed()
    outcome = desk.execute(Pay("o-1", 3), input_id="req-7")
    desk.execute(Pay("o-1", 4))

    receipt = read_receipt(desk.receipts["req-7"])

    assert isinstance(receipt, AcceptedReceipt)
    assert (receipt.first, receipt.last, needs_history(receipt)) == (2, 2, True)
    assert answer_again(desk.definition, receipt, desk.history, GUARD) == outcome


def test_a_rejection_with_an_id_leaves_a_receipt_and_nothing_else() -> None:
    desk = Desk(Order)

    outcome = desk.execute(Pay("o-1", 3), input_id="req-7")

    receipt = read_receipt(desk.receipts["req-7"])
    assert not needs_history(receipt)
    assert answer_again(desk.definition, receipt, [], GUARD) == outcome
    assert desk.history == []


def test_a_message_too_late_gets_the_receipt_completed() -> None:
    desk = completed()

    turn = desk.send(Pay("o-1", 3), input_id="m-1")

    assert desk.execution.notes.terminal is not None
    [receipt] = turn.receipts
    again = answer_again(desk.definition, read_receipt(receipt.outcome), [], GUARD)
    assert again == AlreadyCompleted()


def test_one_id_is_decided_once_within_a_turn() -> None:
    desk = placed()
    desk.execution.give([desk.direct(Pay("o-1", 5), input_id="x")] * 2)

    desk.run([desk.sent(Pay("o-1", 5), input_id="x")] * 2)

    assert desk.state.paid == 5
    first, second = desk.execution.answers
    assert first.outcome == second.outcome
    assert desk.tags == ["Placed", "Paid"]


def test_outcomes_as_json_name_tags() -> None:
    desk = placed()
    definition = desk.definition

    assert outcome_json(definition, desk.execute(Pay("o-1", 3))) == {
        "outcome": "accepted",
        "events": [{"tag": "Paid", "event": {"amount": 3}}],
        "state": {"status": "paid", "items": ["a", "b"], "paid": 3, "reminders": 0},
        "version": 2,
        "reply": {"thanks": 3},
    }
    assert outcome_json(definition, desk.execute(Place("o-1"))) == {
        "outcome": "rejected", "tag": "AlreadyPlaced", "reason": {},
    }  # fmt: skip
    assert outcome_json(definition, AlreadyCompleted()) == {"outcome": "completed"}


# ------------------------------------------------------------------------ unique keys


def test_an_accepted_input_brings_its_business_key() -> None:
    desk = Desk(Order)

    desk.execute(Place("o-1", key="basket-9"))

    assert desk.turns[-1].unique == UniqueKey("order", "basket-9")
    desk.execute(Pay("o-1", 3))
    assert desk.turns[-1].unique is None


def test_a_rejected_input_brings_no_key() -> None:
    desk = placed()

    desk.execute(Place("o-1", key="basket-9"))

    assert desk.turns[-1].unique is None


def test_a_taken_key_is_refused_to_its_own_input_only() -> None:
    desk = Desk(Order)
    desk.execution.taken_keys = {"basket-9": "order:o-7"}

    first, second = desk.execute_all(Place("o-1", key="basket-9"), Place("o-1", key="basket-8"))

    assert isinstance(first.error, UniqueKeyError)
    assert (first.error.key, first.error.holder) == ("basket-9", "o-7")
    assert isinstance(second.outcome, Accepted)


def test_a_message_with_a_taken_key_is_refused_on_record_and_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk(Order)
    desk.execution.taken_keys = {"basket-9": "order:o-7"}

    turn = desk.send(Place("o-1", key="basket-9"), input_id="m-1")

    assert turn.vanishes
    assert [record.getMessage() for record in caplog.records] == [
        "input Place (from client) of decider 'order', instance 'o-1', is refused: the unique key "
        "'basket-9' is taken by 'o-7'"
    ]
    with pytest.raises(UniqueKeyError, match="o-7"):
        answer_again(desk.definition, read_receipt(desk.receipts["m-1"]), [], GUARD)


# ------------------------------------------------------------------------- completion


def completed() -> Desk:
    desk = placed()
    desk.complete(desk.seq_of("effect_scheduled"))
    desk.execute(PaymentFailed("o-1", "no"))
    return desk


def test_a_terminal_state_ends_the_instance() -> None:
    desk = completed()

    turn = desk.turns[-1]
    assert desk.kinds[-2:] == ["event_recorded", "completed"]
    assert turn.outcome is not None
    assert turn.outcome.status is Status.COMPLETED
    assert turn.outcome.digest == desk.replayed().digest()
    assert turn.next_due_ms is None
    desk.check()


def test_inputs_after_the_end_are_answered_so_and_leave_nothing() -> None:
    desk = placed()
    desk.complete(desk.seq_of("effect_scheduled"))
    desk.execution.give([desk.direct(PaymentFailed("o-1", "no")), desk.direct(Pay("o-1", 3))])

    desk.run([])

    assert desk.execution.answers[1].outcome == AlreadyCompleted()
    assert desk.kinds[-1] == "completed"


def test_messages_after_the_end_in_the_same_turn_are_consumed_and_not_recorded() -> None:
    desk = placed()
    desk.complete(desk.seq_of("effect_scheduled"))

    turn = desk.send(PaymentFailed("o-1", "no"), Pay("o-1", 3))

    assert len(turn.consumed) == 2
    assert desk.kinds[-1] == "completed"


def test_a_message_behind_the_end_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    desk = placed()
    desk.complete(desk.seq_of("effect_scheduled"))

    desk.send(PaymentFailed("o-1", "no"), Pay("o-1", 3))

    [told] = [record.getMessage() for record in caplog.records]
    assert told == (
        "input Pay (from client) came too late: decider 'order', instance 'o-1', has completed"
    )


def test_a_message_for_an_instance_that_waits_for_its_effects_is_rejected_on_record() -> None:
    desk = placed()
    desk.execute(PaymentFailed("o-1", "no"))

    turn = desk.send(Pay("o-1", 3))

    assert [kind for kind, _ in turn.events] == ["input_taken", "input_rejected"]
    desk.check()
    desk.reload()
    assert desk.execute(Pay("o-1", 3)) == AlreadyCompleted()


def test_effects_that_were_asked_for_still_run_when_the_state_is_terminal() -> None:
    """The last decision's effects are not lost: the instance ends when they have."""
    desk = placed()
    desk.execute(Place("o-1", key="ignored"))
    desk.execute(PaymentFailed("o-1", "no"))

    assert desk.execution.notes.terminal is None
    assert desk.execution.is_completed
    assert set(desk.jobs) == {4}
    assert desk.timers.keys() == {"deadline:4"}
    assert desk.unique is None
    assert desk.execute(Pay("o-1", 3)) == AlreadyCompleted()
    desk.check()
    desk.reload()
    assert desk.execute(Pay("o-1", 3)) == AlreadyCompleted()

    turn = desk.return_input(4, Pay("o-1", 3))

    assert [kind for kind, _ in turn.events] == ["activity_completed", "completed"]
    assert turn.outcome is not None
    assert desk.state.paid == 0


def test_a_closing_instance_frees_its_key_at_once() -> None:
    desk = Desk(Order)
    desk.execute(Place("o-1", key="k"))

    desk.execute(PaymentFailed("o-1", "no"))

    assert desk.turns[-1].unique == UniqueKey("order", None)


# -------------------------------------------------------------------------- stopping


def test_a_cancel_request_ends_it_as_cancelled_without_asking() -> None:
    desk = placed()

    turn = desk.deliver(CancelRequested(reason="enough"))

    assert desk.kinds[-2:] == ["cancel_requested", "cancelled"]
    assert turn.outcome is not None
    assert (turn.outcome.status, turn.outcome.reason) == (Status.CANCELLED, "enough")
    assert (turn.jobs, turn.timers) == ((), ())


def test_a_termination_ends_it() -> None:
    desk = placed()

    turn = desk.deliver(Terminated(reason="stop"))

    assert turn.outcome is not None
    assert turn.outcome.status is Status.TERMINATED
    assert desk.kinds[-1] == "terminated"


def test_messages_that_mean_nothing_are_consumed_and_not_recorded() -> None:
    desk = placed()
    before = list(desk.history)

    turn = desk.deliver(SignalReceived(name="hello", value=raw(1)))

    assert turn.consumed
    assert desk.history == before


# ------------------------------------------------------------------- what goes wrong


def test_an_exception_of_decide_reaches_its_caller_and_nobody_else() -> None:
    desk = Desk(Stock, "main")

    first, second = desk.execute_all(Take("a", -1), Take("b", 1))

    assert isinstance(first.error, ValueError)
    assert isinstance(second.outcome, Accepted)
    assert desk.tags == ["Taken"]
    desk.check()


def test_an_exception_of_evolve_leaves_the_state_as_it_was() -> None:
    desk = Desk(Stock, "main")
    desk.execute(Take("a", 1))

    with pytest.raises(RuntimeError, match="cannot evolve"):
        desk.execute(Take("broken", 1))

    assert desk.state == StockState(["a"])
    desk.check()


def test_a_state_that_is_handed_out_may_be_changed() -> None:
    desk = Desk(Stock, "main")
    outcome = desk.execute(Take("a", 1))
    assert isinstance(outcome, Accepted)

    outcome.state.orders.append("forged")

    assert desk.state == StockState(["a"])


def test_an_exception_while_a_message_is_decided_fails_the_turn() -> None:
    desk = Desk(Stock, "main")
    desk.execute(Take("a", 1))

    with pytest.raises(ValueError, match="no such number"):
        desk.send(Take("b", -1))


def test_a_first_input_whose_decide_fails_leaves_nothing() -> None:
    desk = Desk(Stock, "main")

    with pytest.raises(ValueError, match="no such number"):
        desk.execute(Take("a", -1))

    assert desk.turns[-1].vanishes
    assert desk.history == []


@dataclass(frozen=True)
class Do:
    what: str


@dataclass(frozen=True)
class Done:
    what: str


WRONG_DECISIONS: dict[str, Callable[[datetime], Any]] = {
    "none": lambda now: None,
    "event": lambda now: Decision.accept(Taken("x")),
    "timer": lambda now: Decision.accept().timer("t", at=now, input=Pay("o", 1)),
    "effect": lambda now: Decision.accept().effect(charge, "o-1", 3),
}


class Odd(Decider[int, Do, Done, Never]):
    """Does what it is told and should not."""

    name = "odd"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Do, /) -> str:
        return "odd"

    def decide(self, state: int, input: Do, now: datetime, /) -> Any:
        if input.what in WRONG_DECISIONS:
            return WRONG_DECISIONS[input.what](now)
        match input.what:
            case "time":
                time.time()
            case "swallow":
                try:
                    random.random()
                except Exception:
                    return Decision.accept(Done("swallowed"))
            case "activity":
                _ = charge("o-1", 3)
            case "child":
                _ = deliver("o-1")
            case "loop":
                asyncio.get_running_loop().time()
            case "file":
                open("/dev/null").close()
        return Decision.accept(Done(input.what))

    def evolve(self, state: int, event: Done, /) -> int:
        if event.what == "evolve":
            time.time()
        return state + 1


@pytest.mark.parametrize(
    ("what", "error", "text"),
    [
        ("time", NondeterminismError, "use the `now` that decide is given"),
        ("swallow", NondeterminismError, "random"),
        ("evolve", NondeterminismError, "time.time"),
        ("file", NondeterminismError, r"as .effect\(activity, ...\)"),
        ("loop", UsageError, r"asyncio was used inside decider 'odd' \(loop.time\)"),
        ("none", UsageError, "decide of decider 'odd' returned None for Do"),
        ("activity", UsageError, r"charge was called inside.*\.effect\(charge, \.\.\.\)"),
        ("child", UsageError, r"deliver was called inside.*\.start\(deliver, \.\.\.\)"),
        ("event", PayloadError, "got Taken, which is none of its events"),
        ("timer", PayloadError, "got Pay, which is none of its inputs"),
        ("effect", DefinitionError, r"effect 'charge' .* returns Pay, which is no input"),
    ],
)  # fmt: skip
def test_what_a_decider_must_not_do_is_refused_at_the_call(
    what: str, error: type[Exception], text: str
) -> None:
    desk = Desk(Odd, "odd", guard=Guard(watch_calls=True))
    desk.execute(Do("fine"))

    with pytest.raises(error, match=text):
        desk.execute(Do(what))

    assert desk.tags == ["Done"]
    desk.execute(Do("fine"))
    desk.check()


def test_a_message_that_makes_decide_impure_fails_the_turn() -> None:
    desk = Desk(Odd, "odd", guard=Guard(watch_calls=True))
    desk.execute(Do("fine"))

    with pytest.raises(NondeterminismError):
        desk.send(Do("swallow"))


async def test_a_decider_does_not_see_the_loop_it_is_run_in() -> None:
    desk = Desk(Odd, "odd")

    desk.execute(Do("fine"))
    with pytest.raises(UsageError, match="was called inside decider"):
        desk.execute(Do("activity"))


def test_an_input_that_this_code_cannot_read_waits_for_code_that_can() -> None:
    """It may come from newer code: it must not be lost, and must not be guessed at."""
    desk = placed()
    newer = InputTaken(tag="GiftWrap", input=raw({"order_id": "o-1"}), cause="client")

    with pytest.raises(NondeterminismError, match="was given an input that this code cannot read"):
        desk.deliver(newer)


@dataclass(frozen=True)
class Add:
    items: list[str]


@dataclass(frozen=True)
class Added:
    items: list[str]


@dataclass
class Basket:
    items: list[str]


class Shared(Decider[Basket, Add, Added, Never]):
    """Keeps what it is given, without a copy."""

    name = "shared"

    def initial(self) -> Basket:
        return Basket([])

    def instance_id(self, input: Add, /) -> str:
        return "s"

    def decide(self, state: Basket, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
        return Decision.accept(Added(input.items))

    def evolve(self, state: Basket, event: Added, /) -> Basket:
        state.items = event.items
        return state


def test_what_others_hold_in_their_hands_is_not_the_state() -> None:
    desk = Desk(Shared, "s")
    given = ["a"]

    outcome = desk.execute(Add(given))
    assert isinstance(outcome, Accepted)
    given.append("forged")
    outcome.events[0].items.append("forged")
    outcome.state.items.append("forged")

    assert desk.state == Basket(["a"])
    desk.check()


# ------------------------------------------------------------------------ observations


def test_inputs_are_observed_with_what_they_came_to() -> None:
    desk = Desk(Stock, "main")

    desk.execute(Take("a", 1), input_id="r-1")
    desk.send(Take("b", 1))

    seen = [(each.tag, each.outcome, each.rejection, each.input_id) for each in desk.observations]
    assert seen == [("Take", "accepted", None, "r-1"), ("Take", "accepted", None, "")]


class ObservedOrder(Order):
    name = "observed"
    observe_inputs = True


def test_rejected_and_late_inputs_are_observed_too() -> None:
    desk = Desk(ObservedOrder)
    desk.execute(Ship("o-1"))
    desk.execute(Place("o-1"))
    desk.execute(PaymentFailed("o-1", "no"))
    desk.execute(Pay("o-1", 3))

    assert [(each.tag, each.outcome, each.rejection) for each in desk.observations] == [
        ("Ship", "rejected", b'{"order_id":"o-1"}'),
        ("Place", "accepted", None),
        ("PaymentFailed", "accepted", None),
        ("Pay", "completed", None),
    ]


def test_nothing_is_observed_unless_asked_for() -> None:
    assert placed().observations == []
