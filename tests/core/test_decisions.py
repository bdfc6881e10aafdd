"""Decisions are values: made, checked where they are made, and compared."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.authoring.activity import activity
from perdure.authoring.deciders.decision import (
    Acceptance,
    Accepted,
    AlreadyCompleted,
    Decision,
    Rejected,
    Rejection,
)
from perdure.errors import (
    DefinitionError,
    InvalidIdError,
    LimitExceededError,
    PayloadError,
    UsageError,
)
from perdure.limits import MAX_PAYLOAD_BYTES
from tests.core.orders import (
    HOUR,
    NOON,
    NotPlaced,
    Order,
    OrderState,
    Paid,
    Placed,
    Remind,
    Stock,
    Take,
    charge,
    deliver,
    notify,
)


def test_every_method_returns_a_new_decision() -> None:
    first = Decision.accept(Paid(3))
    second = first.effect(notify, "o-1").timer("t", after=HOUR, input=Remind("o-1"))
    third = second.cancel_timer("u").send(Stock, Take("o-1", 1)).start(deliver, "o-1").reply(7)

    assert first.follow_ups == ()
    assert [type(each).__name__ for each in third.follow_ups] == [
        "Effect", "Timer", "CancelledTimer", "Sent", "Start",
    ]  # fmt: skip
    assert third.events == (Paid(3),)
    assert (second.reply_data, third.reply_data) == (None, b"7")
    assert not third.is_in_order
    assert third.in_order().is_in_order


def test_a_decision_cannot_be_changed() -> None:
    decision = Decision.accept(Paid(3))

    with pytest.raises(AttributeError, match="does not change"):
        decision.events = ()


def test_an_acceptance_may_have_no_events() -> None:
    assert Decision.accept().events == ()


def test_a_decision_shows_what_it_says() -> None:
    decision: Any = Decision.accept(Paid(3)).effect(notify, "o-1", text="hi").cancel_timer("t")

    assert repr(decision) == (
        "Decision.accept(Paid(amount=3)).effect(notify, order_id='o-1', text='hi')"
        ".cancel_timer('t')"
    )
    shown = Decision.accept().timer("t", after=HOUR, input=1).send(Stock, Take("o", 1))
    assert repr(shown.start("d-1", deliver, "o")) == (
        "Decision.accept().timer('t', after=1:00:00, input=1)"
        ".send(Stock, Take(order_id='o', parcels=1)).start('d-1', deliver, ...)"
    )
    assert repr(Decision.reject(NotPlaced("x"))) == "Decision.reject(NotPlaced(order_id='x'))"


def test_nothing_can_follow_from_a_rejection() -> None:
    rejection: Any = Decision.reject(NotPlaced("o-1"))

    with pytest.raises(AttributeError):
        rejection.effect(notify, "o-1")
    assert isinstance(rejection, Rejection)
    assert rejection == Decision.reject(NotPlaced("o-1"))


# -------------------------------------------------------------- checked at the call


def test_arguments_of_an_effect_are_bound_and_encoded_at_the_call() -> None:
    with pytest.raises(UsageError, match="missing"):
        Decision.accept().effect(notify)  # type: ignore[call-overload]  # the point
    with pytest.raises(PayloadError, match="amount"):
        Decision.accept().effect(charge, "o-1", "three")  # type: ignore[call-overload]  # the point


def test_what_an_effect_was_given_does_not_change_later() -> None:
    @activity
    async def pick(items: list[str]) -> None: ...

    items = ["a"]
    decision: Any = Decision.accept().effect(pick, items)
    items.append("b")

    [effect] = decision.follow_ups
    assert effect.arguments == {"items": ["a"]}


@pytest.mark.parametrize("what", [lambda: None, "notify", None])
def test_only_activities_are_effects(what: Any) -> None:
    with pytest.raises(UsageError, match=r"is no activity.*\.effect\(charge, order_id\)"):
        Decision.accept().effect(what, "o-1")


def test_only_orchestrations_are_started() -> None:
    start: Any = Decision.accept().start

    with pytest.raises(UsageError, match="is no orchestration"):
        start(notify, "o-1")
    with pytest.raises(UsageError, match="is no orchestration"):
        start("d-1")


def test_an_orchestration_is_started_by_name_with_arguments_that_were_encoded_before() -> None:
    data = deliver.definition.codec.encode(("o-1",), {})

    by_hand: Any = Decision.accept().start("d-1", deliver, "o-1")
    encoded: Any = Decision.accept().start_encoded(
        "d-1", deliver.name, data, version="1.0.0", delay=HOUR
    )

    [start], [same] = encoded.follow_ups, by_hand.follow_ups
    assert (start.orchestration, start.instance_id) == (same.orchestration.name, same.instance_id)
    assert start.input == same.input
    assert (start.version, start.delay_ms) == ("1.0.0", 3_600_000)
    assert repr(encoded) == f"Decision.accept().start_encoded('d-1', {deliver.name!r}, ...)"


@pytest.mark.parametrize(
    ("input", "error", "words"),
    [
        (b"{", PayloadError, "input of 'deliver': is no JSON"),
        (b"[1]", PayloadError, "no JSON object: give its arguments by name"),
        ("{}", UsageError, r"must be bytes, got str: what .*codec\.encode"),
        (None, UsageError, "must be bytes, got NoneType"),
        (b'{"a":"%b"}' % (b"x" * MAX_PAYLOAD_BYTES), LimitExceededError, "the size in bytes"),
    ],
    ids=["cut off", "list", "text", "nothing", "large"],
)
def test_only_what_a_codec_wrote_is_an_encoded_input(
    input: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Decision.accept().start_encoded("d-1", "deliver", input)


def test_what_is_started_by_name_has_a_name_a_version_and_a_delay() -> None:
    start: Any = Decision.accept().start_encoded

    with pytest.raises(UsageError, match=r"'perdure\.page' is one of perdure's own"):
        start("d-1", "perdure.page", b"{}")
    with pytest.raises(InvalidIdError, match="instance id '' has 0 bytes"):
        start("", "deliver", b"{}")
    with pytest.raises(InvalidIdError, match="orchestration name 3 is int"):
        start("d-1", 3, b"{}")
    for version in ("one", 3):
        with pytest.raises(UsageError, match="is not a semantic version"):
            start("d-1", "deliver", b"{}", version=version)
    with pytest.raises(UsageError, match="delay must not be negative"):
        start("d-1", "deliver", b"{}", delay=-1)


def test_only_deciders_are_sent_to() -> None:
    send: Any = Decision.accept().send

    with pytest.raises(DefinitionError, match="is no decider"):
        send(notify, Take("o-1", 1))
    with pytest.raises(PayloadError, match="none of its inputs"):
        send(Stock, Paid(3))


def test_a_timer_has_one_time_with_a_zone() -> None:
    timer: Any = Decision.accept().timer

    with pytest.raises(UsageError, match="say either after"):
        timer("t", input=Remind("o"))
    with pytest.raises(UsageError, match="say either after"):
        timer("t", after=HOUR, at=NOON, input=Remind("o"))
    with pytest.raises(UsageError, match="after must be a timedelta or a number of seconds, got"):
        timer("t", after="3", input=Remind("o"))
    with pytest.raises(UsageError, match="tzinfo=UTC"):
        timer("t", at=datetime(2027, 1, 1), input=Remind("o"))
    with pytest.raises(InvalidIdError, match="timer key"):
        timer("", after=HOUR, input=Remind("o"))


def test_a_timer_knows_when_it_is_due() -> None:
    [after] = Decision.accept().timer("t", after=timedelta(seconds=2), input=1).follow_ups
    [seconds] = Decision.accept().timer("t", after=2, input=1).follow_ups
    [at] = Decision.accept().timer("t", at=datetime(1970, 1, 2, tzinfo=UTC), input=1).follow_ups

    assert after.due_ms(1_000) == 3_000  # type: ignore[union-attr]  # it is a timer
    assert seconds == after
    assert at.due_ms(5) == 86_400_000  # type: ignore[union-attr]  # as above


def test_a_reply_is_plain_data_of_any_type() -> None:
    assert Decision.accept().reply([Paid(3)]).reply_data == b'[{"amount":3}]'
    with pytest.raises(PayloadError, match="reply"):
        Decision.accept().reply(object())


# ------------------------------------------------------------------------- outcomes


def test_outcomes_are_matched_by_position() -> None:
    outcomes: list[Any] = [
        Accepted((Placed([]),), OrderState(), 1),
        Rejected(3),
        AlreadyCompleted(),
    ]

    seen: list[object] = []
    for outcome in outcomes:
        match outcome:
            case Accepted(events, state, version):
                seen.append((events, state, version))
            case Rejected(reason):
                seen.append(reason)
            case AlreadyCompleted():
                seen.append("completed")

    assert seen == [((Placed([]),), OrderState(), 1), 3, "completed"]


def test_decide_can_be_called_by_itself() -> None:
    """A unit test of a decider needs nothing of perdure."""
    order = Order()

    decision = order.decide(order.initial(), Remind("o-1"), NOON)

    assert isinstance(decision, Rejection)
    accepted = order.decide(OrderState(status="placed"), Remind("o-1"), NOON)
    assert isinstance(accepted, Acceptance)
    assert order.evolve(OrderState(), accepted.events[0]).reminders == 1
