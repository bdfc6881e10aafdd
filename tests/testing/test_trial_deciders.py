"""Deciders in a trial: their timers and effects, projections and subscriptions, and crashes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from perdure import Accepted, context, orchestration
from perdure.authoring.deciders.decider_definition import AnyDecider
from perdure.projection import EventMeta, Projection, Subscription
from perdure.testing import Trial, crash_everywhere
from tests.engine.shop import (
    PAY_WITHIN,
    Basket,
    BasketState,
    Buy,
    Charged,
    Order,
    Paid,
    Pay,
    Place,
    Placed,
    charge,
)


class Totals(Projection[Placed]):
    """Adds up what was ordered."""

    name = "totals"
    deciders: ClassVar[Sequence[type[AnyDecider]]] = (Order,)
    events: ClassVar[Sequence[type[Placed]]] = (Placed,)

    def __init__(self) -> None:
        self.total = 0

    async def handle(self, event: Placed, meta: EventMeta, /) -> None:
        self.total += event.amount


@orchestration
async def thanks(event: Paid) -> str:
    return f"thanks for {event.receipt}"


thanking = Subscription("thanking", Order, [Paid], start=thanks)


async def test_a_timer_of_a_decider_is_due_when_time_is_moved() -> None:
    async with Trial([Order]) as trial:
        await trial.execute(Order, Place("o-1"))

        await trial.advance(PAY_WITHIN)

        assert (await trial.state(Order, "o-1")).status == "expired"


async def test_an_effect_is_faked_and_its_result_is_the_next_input() -> None:
    async with Trial([Basket, charge]) as trial:
        trial.fake(charge).returns(Charged("b-1", "k"))
        await trial.send(Basket, Buy("b-1", "book"))
        await trial.settle()

        assert await trial.state(Basket, "b-1") == BasketState(("book",), ("k",))
        assert trial.calls(charge)[0].arguments == {"basket_id": "b-1", "item": "book"}


async def test_a_projection_has_seen_all_when_the_trial_rests() -> None:
    totals = Totals()
    async with Trial([Order, totals]) as trial:
        for number in range(10):
            await trial.execute(Order, Place(f"o-{number}", amount=number + 1))
        await trial.settle()

        assert totals.total == 55


async def test_a_subscription_has_started_all_when_the_trial_rests() -> None:
    async with Trial([Order, thanks, thanking]) as trial:
        await trial.execute(Order, Place("o-1"))
        await trial.execute(Order, Pay("o-1", "r-7"))
        await trial.settle()

        [started] = (await trial.instances(name="thanks")).items
        assert started.output == "thanks for r-7"


@orchestration
async def sells(order_id: str) -> str:
    order = context().ref(order_id, Order)
    outcome = await context().execute(Order, Place(order_id))
    assert isinstance(outcome, Accepted)
    return (await order.wait_event(Paid)).event.receipt


async def test_an_orchestration_waits_for_an_event_of_a_decider() -> None:
    async with Trial([Order, sells]) as trial:
        handle = await trial.start("s-1", sells, "o-1")
        await trial.settle()
        assert (await handle.info()).status == "running"

        await trial.execute(Order, Pay("o-1", "r-7"))

        assert await handle.result() == "r-7"


def test_effects_and_timers_survive_a_crash_at_every_commit() -> None:
    async def test(trial: Trial) -> None:
        trial.fake(charge)(lambda basket_id, item: Charged(basket_id, item))
        await trial.send(Basket, Buy("b-1", "book"))
        await trial.send(Basket, Buy("b-1", "pen"))
        await trial.send(Order, Place("o-1"))
        await trial.advance(PAY_WITHIN)
        assert (await trial.state(Order, "o-1")).status == "expired"
        assert sorted((await trial.state(Basket, "b-1")).settled) == ["book", "pen"]

    crash_everywhere(test, [Basket, Order, charge])
