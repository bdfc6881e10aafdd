"""An input id stands for one input: given again with another one, that is told."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from perdure import Accepted, Rejected
from perdure.core.deciders.answers import UNCHECKED, DirectInput
from perdure.core.deciders.fingerprints import TAG, check_same, fingerprint
from perdure.errors import InputIdReusedError
from tests import rows
from tests.engine.fed import Order, Place, Ship
from tests.engine.stage import Stage

OTHER_SKU = r"input id 'req-1' was given to instance 'order:o-1' before, .*\(other in sku\)"


async def test_another_input_under_an_id_that_was_decided_is_refused(stage: Stage) -> None:
    client = await stage.client()
    first = await client.execute(Order, Place("o-1", "book"), input_id="req-1")

    assert await client.execute(Order, Place("o-1", "book"), input_id="req-1") == first
    await client.send(Order, Place("o-1", "book"), input_id="req-1")
    with pytest.raises(InputIdReusedError, match=OTHER_SKU):
        await client.execute(Order, Place("o-1", "lamp"), input_id="req-1")
    with pytest.raises(InputIdReusedError, match=OTHER_SKU):
        await client.send(Order, Place("o-1", "lamp"), input_id="req-1")
    with pytest.raises(InputIdReusedError, match="other in its kind"):
        await client.execute(Order, Ship("o-1"), input_id="req-1")

    assert len(await client.events(Order, "o-1")) == 1


async def test_another_input_under_the_id_of_a_rejected_one_is_refused(stage: Stage) -> None:
    client = await stage.client()
    await client.execute(Order, Ship("o-1"))
    assert isinstance(await client.execute(Order, Ship("o-1"), input_id="req-1"), Rejected)

    with pytest.raises(InputIdReusedError, match="other in its kind"):
        await client.execute(Order, Place("o-1"), input_id="req-1")


async def test_another_input_under_the_id_of_a_queued_one_is_refused(stage: Stage) -> None:
    client = await stage.client()
    await client.send(Order, Place("o-1", "book"), input_id="req-1")

    await client.send(Order, Place("o-1", "book"), input_id="req-1")
    with pytest.raises(InputIdReusedError, match=OTHER_SKU):
        await client.send(Order, Place("o-1", "lamp"), input_id="req-1")
    with pytest.raises(InputIdReusedError, match=OTHER_SKU):
        await client.execute(Order, Place("o-1", "lamp"), input_id="req-1")
    with pytest.raises(InputIdReusedError, match=OTHER_SKU):
        await client.send_json(
            "order",
            "Place",
            {"order_id": "o-1", "sku": "lamp"},
            instance_id="o-1",
            input_id="req-1",
        )
    assert isinstance(await client.execute(Order, Place("o-1", "book"), input_id="req-1"), Accepted)


async def test_of_two_inputs_at_once_under_one_id_one_is_refused(stage: Stage) -> None:
    client = await stage.client()
    await client.execute(Order, Place("o-1"))

    answers = await asyncio.gather(
        client.execute(Order, Place("o-1", "book"), input_id="req-1"),
        client.execute(Order, Place("o-1", "lamp"), input_id="req-1"),
        return_exceptions=True,
    )

    assert {type(answer) for answer in answers} == {Accepted, InputIdReusedError}
    assert len(await client.events(Order, "o-1")) == 2


async def test_a_receipt_of_an_earlier_version_fits_every_input(stage: Stage) -> None:
    client = await stage.client()
    first = await client.execute(Order, Place("o-1"), input_id="req-1")
    rows.run(
        stage.url,
        "UPDATE receipts SET outcome = ? WHERE message_id = 'req-1'",
        b'{"outcome":"accepted","first":1,"last":1}',
    )

    assert await client.execute(Order, Place("o-1", "lamp"), input_id="req-1") == first


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ({"a": 1}, {"a": 1, "added": "later"}),
        ({"a": 1, "left": "out"}, {"a": 1}),
        ({"a": 1.0}, {"a": 1}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}),
        ("text", "text"),
    ],
)
def test_what_only_code_or_spelling_has_changed_is_the_same_input(
    first: object, again: object
) -> None:
    kept = fingerprint("Pay", msgspec.json.encode(first))

    check_same("i", kept, DirectInput("Pay", msgspec.json.encode(again), "req-1"))


def test_who_lacks_the_code_may_name_the_kind_otherwise() -> None:
    kept = fingerprint("Pay", b'{"a":1}')

    check_same("i", kept, DirectInput("shop.Pay", b'{"a":1}', "req-1", cause=UNCHECKED))
    with pytest.raises(InputIdReusedError):
        check_same("i", kept, DirectInput("Ship", b'{"a":1}', "req-1"))
    assert TAG in kept
