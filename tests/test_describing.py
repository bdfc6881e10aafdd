"""What is known of a decider without running it, and its picture."""

from __future__ import annotations

import pytest

from perdure.authoring.deciders.describing import describe
from perdure.errors import DefinitionError
from perdure.testing import observed_transitions
from tests.core.desk import Desk
from tests.core.orders import Order, Pay, PaymentFailed, Place, Remind, Stock


class Drawn(Order):
    """An order with a picture."""

    name = "drawn"
    states = {  # noqa: RUF012 - a constant
        "new": [("Place", "placed")],
        "placed": [("Pay", "paid"), ("Remind", "placed"), ("PaymentTimeout", "given up")],
        "paid": [("Ship", "shipped"), ("Snooze", "paid")],
    }


def test_a_description_names_inputs_events_and_rejections() -> None:
    found = describe(Order)

    assert found.name == "order"
    assert found.state == "OrderState"
    assert [each.tag for each in found.inputs][:3] == ["Place", "Pay", "PaymentFailed"]
    assert found.inputs[1].fields == {"order_id": "str", "amount": "int"}
    assert [each.tag for each in found.events] == [
        "Placed", "Paid", "Reminded", "Shipped", "GivenUp",
    ]  # fmt: skip
    assert [each.tag for each in found.rejections] == ["NotPlaced", "AlreadyPlaced"]
    assert describe(Stock).rejections == ()
    assert describe(Drawn).text == "An order with a picture."


def test_what_the_source_asks_for_is_found() -> None:
    found = describe(Order)

    assert set(found.effects) == {"charge", "notify", "pack"}
    assert set(found.timers) == {"payment", "remind"}
    assert found.sends == ("stock",)
    assert found.starts == ("deliver",)


def test_what_a_base_class_asks_for_is_found_too() -> None:
    assert set(describe(Drawn).effects) == {"charge", "notify", "pack"}


def test_declared_states_are_drawn_for_mermaid() -> None:
    assert describe(Drawn).mermaid() == (
        "stateDiagram-v2\n"
        '    state "new" as s0\n'
        '    state "placed" as s1\n'
        '    state "paid" as s2\n'
        '    state "given up" as s3\n'
        '    state "shipped" as s4\n'
        "    [*] --> s0\n"
        "    s0 --> s1 : Place\n"
        "    s1 --> s2 : Pay\n"
        "    s1 --> s1 : Remind\n"
        "    s1 --> s3 : PaymentTimeout\n"
        "    s2 --> s4 : Ship\n"
        "    s2 --> s2 : Snooze\n"
        "    s3 --> [*]\n"
        "    s4 --> [*]\n"
    )


def test_declared_states_are_drawn_for_graphviz() -> None:
    drawn = describe(Drawn).dot()

    assert drawn.startswith('digraph "drawn" {\n    rankdir=LR;\n    "new" [shape=ellipse];\n')
    assert '    "shipped" [shape=doublecircle];\n' in drawn
    assert '    "placed" -> "given up" [label="PaymentTimeout"];\n' in drawn


def test_observed_transitions_are_drawn_where_none_are_declared() -> None:
    desk = Desk(Order)
    for value in (Place("o-1"), Remind("o-1"), Pay("o-1", 1), Pay("o-1", 1)):
        desk.execute(value)

    found = describe(Order, observed=observed_transitions(Order, [desk.history, desk.history]))

    assert found.observed == (
        ("new", "Place", "placed"),
        ("placed", "Remind", "placed"),
        ("placed", "Pay", "paid"),
        ("paid", "Pay", "paid"),
    )
    assert "    s1 --> s2 : Pay\n" in found.mermaid()


def test_two_inputs_between_the_same_states_share_an_arrow() -> None:
    found = describe(Order, observed=[("a", "Pay", "b"), ("a", "Ship", "b")])

    assert "s0 --> s1 : Pay, Ship" in found.mermaid()


def test_what_was_observed_and_not_declared_is_told() -> None:
    desk = Desk(Drawn)
    for value in (Place("o-1"), PaymentFailed("o-1", "x")):
        desk.execute(value)

    found = describe(Drawn, observed=observed_transitions(Drawn, [desk.history]))

    assert found.undeclared == (("placed", "PaymentFailed", "given up"),)


def test_a_declared_input_must_exist() -> None:
    class Wrong(Order):
        states = {"new": [("Plaice", "placed")]}  # noqa: RUF012 - a constant

    with pytest.raises(DefinitionError, match="'Plaice' leads from 'new' to 'placed'"):
        describe(Wrong)


def test_nothing_declared_and_nothing_observed_is_an_empty_picture() -> None:
    assert describe(Order).mermaid() == "stateDiagram-v2\n"


def test_names_are_quoted() -> None:
    drawn = describe(Order, observed=[('say "hi"', "Pay", "b\\c")])

    assert '"say \\"hi\\"" -> "b\\\\c"' in drawn.dot()
