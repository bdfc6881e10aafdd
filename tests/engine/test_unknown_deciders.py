"""A client without the code gives no input to a decider that nobody has ever heard of."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.errors import InstanceNotFoundError, NotRegisteredError, ResultTimeoutError
from tests.engine.fed import Order, Place, Stock
from tests.engine.stage import Stage, until

PLACE = {"order_id": "a"}
UNKNOWN = r"no decider named 'ordre' is registered here \(known: .*order.*\); .*allow_unknown=True"


async def test_a_misspelled_decider_is_refused_and_leaves_nothing(stage: Stage) -> None:
    await stage.engine([Order])
    client = await stage.client()

    with pytest.raises(NotRegisteredError, match=UNKNOWN):
        await client.send_json("ordre", "Place", PLACE, instance_id="a")
    with pytest.raises(NotRegisteredError, match=UNKNOWN):
        await client.execute_json("ordre", "Place", PLACE, instance_id="a")

    with pytest.raises(InstanceNotFoundError):
        await client.handle("ordre:a").info()


async def test_a_misspelled_decider_is_refused_while_no_worker_runs(stage: Stage) -> None:
    client = await stage.client()
    await client.execute(Order, Place("a"))

    with pytest.raises(NotRegisteredError, match=UNKNOWN):
        await client.send_json("ordre", "Place", PLACE, instance_id="a")
    await client.send_json("order", "Place", {"order_id": "b"}, instance_id="b")


async def test_a_decider_that_has_a_worker_is_known_before_its_first_instance(
    stage: Stage,
) -> None:
    client = await stage.client()
    await stage.engine([Order, Stock])

    given = {"sku": "s", "order_id": "a"}
    answer = await client.execute_json("stock", "Reserve", given, instance_id="s")

    assert answer["outcome"] == "accepted"


async def test_inputs_may_come_before_the_first_worker(stage: Stage) -> None:
    client = await stage.client()
    await client.send_json("order", "Place", PLACE, instance_id="a")
    await stage.engine([Order])

    async def is_placed() -> bool:
        return (await client.state(Order, "a")).placed == 1

    await until(is_placed)


async def test_inputs_for_a_decider_whose_workers_come_later_are_queued_if_that_is_said(
    stage: Stage,
) -> None:
    client = await stage.client()
    await client.execute(Order, Place("a"))
    given = {"sku": "s", "order_id": "a"}

    await client.send_json("stock", "Reserve", given, instance_id="s", allow_unknown=True)
    with pytest.raises(ResultTimeoutError):
        await client.execute_json(
            "stock", "Reserve", given, instance_id="s", timeout=timedelta(0), allow_unknown=True
        )
    await stage.engine([Stock])

    async def is_reserved() -> bool:
        return await client.state(Stock, "s") == 2

    await until(is_reserved)
