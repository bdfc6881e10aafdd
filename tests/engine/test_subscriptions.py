"""Subscriptions: each event starts an orchestration or sends an input, exactly once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from perdure import Client, orchestration
from perdure.authoring.registry import Registry
from perdure.errors import DefinitionError
from perdure.model.options import Retry
from perdure.projection import EventMeta, Subscription
from tests.engine.fed import Order, Place, Placed, Reserve, Reserved, Ship, Shipped, Stock
from tests.engine.stage import Stage, until
from tests.engine.test_projections import QUICK, SHORT, is_stuck, orders, record


@orchestration
async def parcel(event: Placed) -> str:
    return f"parcel for {event.order_id}"


@orchestration
async def label(order_id: str) -> str:
    return f"label for {order_id}"


@orchestration
async def waiting(order_id: str) -> None:
    await asyncio.Event().wait()


def order_id(event: Placed, meta: EventMeta) -> str | None:
    return None if event.sku == "download" else event.order_id


def reserve(event: Placed, meta: EventMeta) -> Reserve | None:
    return None if event.sku == "download" else Reserve(event.sku, event.order_id)


shipping = Subscription("shipping", Order, [Placed], start=parcel)
labelling = Subscription("labelling", Order, [Placed], start=(label, order_id))
reserving = Subscription("reserving", Order, [Placed], send=(Stock, reserve))


async def is_at(client: Client, name: str, position: int) -> bool:
    return any(one.name == name and one.position >= position for one in await client.projections())


async def results(client: Client, *ids: str) -> list[Any]:
    return [await client.handle(one).result(timeout=timedelta(seconds=20)) for one in ids]


async def started(client: Client) -> list[str]:
    page = await client.instances(name="label")
    return sorted(one.instance_id for one in page.items)


# ---------------------------------------------------------------------- starting


async def test_each_event_starts_an_orchestration_with_it(stage: Stage) -> None:
    engine = await stage.engine([shipping, parcel])

    await record(engine, Placed("o-1"), Shipped("o-3"), Placed("o-2"))
    await until(lambda: is_at(engine, "shipping", 3))

    assert await results(engine, "shipping:1", "shipping:3") == ["parcel for o-1", "parcel for o-2"]


async def test_a_function_makes_the_argument_or_starts_nothing(stage: Stage) -> None:
    engine = await stage.engine([labelling, label])

    await record(engine, Placed("o-1"), Placed("o-2", "download"), Placed("o-3"))
    await until(lambda: is_at(engine, "labelling", 3))

    assert await started(engine) == ["labelling:1", "labelling:3"]
    assert await results(engine, "labelling:3") == ["label for o-3"]


async def test_a_worker_that_has_not_the_orchestration_starts_it_for_others(stage: Stage) -> None:
    starter = await stage.engine([labelling])
    runner = await stage.engine([label])

    await record(starter, *orders(1))
    await until(lambda: is_at(starter, "labelling", 1))

    assert await results(runner, "labelling:1") == ["label for o-0"]


async def test_what_a_subscription_started_says_which_instance_it_is_for(stage: Stage) -> None:
    engine = await stage.engine([labelling, label])

    await record(engine, *orders(1))
    await until(lambda: is_at(engine, "labelling", 1))
    await results(engine, "labelling:1")
    history = await engine.handle("labelling:1").history()

    assert history[0].data["started_by"] == "order:o-0"


async def test_events_that_come_again_start_nothing_again(stage: Stage) -> None:
    """As after a crash between the starts and the position."""
    engine = await stage.engine([labelling, label])
    await record(engine, *orders(3))
    await until(lambda: is_at(engine, "labelling", 3))
    await results(engine, "labelling:1", "labelling:2", "labelling:3")

    await engine.rebuild_projection("labelling")
    await record(engine, *orders(1, start=3))
    await until(lambda: is_at(engine, "labelling", 4))
    await results(engine, "labelling:4")

    assert await started(engine) == [f"labelling:{number}" for number in (1, 2, 3, 4)]
    for number in (1, 2, 3, 4):
        assert (await engine.handle(f"labelling:{number}").info()).execution == 1


async def test_workers_that_take_over_from_each_other_start_each_once(stage: Stage) -> None:
    client = await stage.client()
    engines = [await stage.engine([labelling, label], options=SHORT) for _ in range(3)]

    await record(client, *orders(20))
    await engines[0].close()
    await record(client, *orders(20, start=20))
    await engines[1].close()
    await until(lambda: is_at(client, "labelling", 40))

    assert len(await started(client)) == 40
    assert await results(client, "labelling:40") == ["label for o-39"]


# ----------------------------------------------------------------------- sending


async def test_each_event_is_sent_as_an_input(stage: Stage) -> None:
    engine = await stage.engine([reserving, Stock])

    await record(engine, Placed("o-1", "pen"), Placed("o-2", "download"), Placed("o-3", "pen"))

    async def is_reserved() -> bool:
        [row] = await engine._core.store.read_instances(["stock:pen"])
        return row is not None and await engine.state(Stock, "pen") == 2

    await until(is_reserved)
    events = await engine.events(Stock, "pen")

    assert [one.event for one in events] == [Reserved("pen", "o-1"), Reserved("pen", "o-3")]
    assert {one.cause for one in events} == {"projection:reserving"}


async def test_an_input_that_comes_again_is_decided_once(stage: Stage) -> None:
    engine = await stage.engine([reserving, Stock])
    await record(engine, *orders(3))

    async def is_reserved(count: int) -> bool:
        [row] = await engine._core.store.read_instances(["stock:book"])
        return row is not None and await engine.state(Stock, "book") == count

    await until(lambda: is_reserved(3))

    await engine.rebuild_projection("reserving")
    await record(engine, *orders(1, start=3))
    await until(lambda: is_at(engine, "reserving", 4))
    await until(lambda: is_reserved(4))

    assert await engine.state(Stock, "book") == 4


async def test_a_chain_of_deciders_and_subscriptions_runs_by_itself(stage: Stage) -> None:
    """An order is placed; stock is reserved because of that; a label is made because of that."""

    def reserved_order(event: Reserved, meta: EventMeta) -> str:
        return f"{meta.instance_id} {event.order_id}"

    chained = Subscription("chained", Stock, [Reserved], start=(label, reserved_order))
    engine = await stage.engine([Order, Stock, reserving, chained, label])

    await engine.execute(Order, Place("o-1", "pen"))
    await engine.execute(Order, Ship("o-1"))
    await until(lambda: is_at(engine, "chained", 3))

    assert await results(engine, "chained:3") == ["label for pen o-1"]


# ------------------------------------------------------------------------ trouble


async def test_a_function_that_raises_stops_the_subscription_visibly(stage: Stage) -> None:
    stage.expect_log("projection .* could not handle event .* and tries again")
    stage.expect_log("projection .* is stuck at event")

    def make(event: Placed, meta: EventMeta) -> str:
        return {"o-0": "first"}[event.order_id]

    bad = Subscription("bad", Order, [Placed], start=(label, make), retry=QUICK)
    engine = await stage.engine([bad, label])

    await record(engine, *orders(3))
    await until(lambda: is_stuck(engine, "bad"))
    info = await engine.projection("bad")

    assert await started(engine) == ["bad:1"]
    assert info.position == 1
    assert info.stuck is not None
    assert (info.stuck.instance_id, info.stuck.attempts) == ("order:o-1", 3)


async def test_an_argument_that_does_not_fit_stops_it_too(stage: Stage) -> None:
    stage.expect_log("projection .* is stuck at event")

    def make(event: Placed, meta: EventMeta) -> Any:
        return 7

    once = Retry(max_attempts=1)
    bad = Subscription("bad", Order, [Placed], start=(label, make), retry=once)
    engine = await stage.engine([bad, label])

    await record(engine, *orders(1))
    await until(lambda: is_stuck(engine, "bad"))


async def test_an_id_that_belongs_to_something_else_stops_it(stage: Stage) -> None:
    stage.expect_log("projection .* is stuck at event")
    once = Subscription(
        "labelling", Order, [Placed], start=(label, order_id), retry=Retry(max_attempts=1)
    )
    engine = await stage.engine([once, label, waiting])
    await engine.start("labelling:1", waiting, "mine")

    await record(engine, *orders(2))
    await until(lambda: is_stuck(engine, "labelling"))
    stuck = (await engine.projection("labelling")).stuck

    assert stuck is not None
    assert "belong to the subscription" in stuck.message
    await engine.handle("labelling:1").terminate("test over")


UNTYPED: Any = Subscription


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: UNTYPED("s", Order, [Placed]), "say either start=orchestration or send="),
        (
            lambda: UNTYPED("s", Order, [Placed], start=parcel, send=(Stock, reserve)),
            "say either",
        ),
        (lambda: UNTYPED("s", Order, [Placed], start="parcel"), "is neither an orchestration"),
        (lambda: UNTYPED("s", Order, [Placed], send=Stock), "is not a decider's class and a"),
        (
            lambda: UNTYPED("s", Order, [Reserved], start=parcel),
            "Reserved is no event of order",
        ),
        (lambda: UNTYPED("order", Order, [Placed], start=parcel), "has the name of a decider"),
        (lambda: UNTYPED("stock", Order, [Placed], start=parcel), "has the name of a decider"),
    ],
)
def test_a_subscription_that_cannot_work_is_refused(make: Any, text: str) -> None:
    with pytest.raises(DefinitionError, match=text):
        Registry([Stock, make()])


def test_two_subscriptions_of_one_name_are_refused() -> None:
    with pytest.raises(DefinitionError, match="are named 'shipping'"):
        Registry([shipping, Subscription("shipping", Order, [Placed], start=parcel)])


def test_a_module_stands_for_what_is_in_it() -> None:
    import tests.engine.test_subscriptions as module

    registry = Registry([module])

    assert sorted(registry.readers) == ["labelling", "reserving", "shipping"]
