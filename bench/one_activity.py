"""How many orchestrations of one activity does one process finish in a second?"""

from __future__ import annotations

from functools import partial

from bench.harness import Case, Measured, Meter, Setup, finish, in_flight
from perdure import activity, orchestration

BUDGET_PER_S = 4_000
WARM_UP = 200


@activity
async def say_hello(name: str) -> str:
    return f"Hello, {name}!"


@orchestration
async def greet(name: str) -> str:
    return await say_hello(name)


async def all_at_once(setup: Setup) -> list[Measured]:
    """Start them all concurrently: the workload that peers are measured by."""
    count = setup.size(2_000, quick=300)
    return await measure(setup, count, count, "2,000 at once", budget=BUDGET_PER_S)


async def twice_as_many(setup: Setup) -> list[Measured]:
    """The same with more alive at once, which costs more each: memory, and the collector."""
    count = setup.size(4_000, quick=400)
    return await measure(setup, count, count, "4,000 at once", budget=None)


async def some_in_flight(limit: int, setup: Setup) -> list[Measured]:
    """Start the next one when one has ended."""
    count = setup.size(min(4_000, 400 + limit * 100), quick=40 + 2 * limit)
    return await measure(setup, count, limit, f"{limit} in flight", budget=None)


async def measure(
    setup: Setup, count: int, limit: int, how: str, *, budget: float | None
) -> list[Measured]:
    async with setup.engine([say_hello, greet]) as engine:
        await in_flight(WARM_UP, WARM_UP, lambda: finish(engine, greet, "Ada"))
        with Meter(engine._core.store) as meter:
            await in_flight(count, limit, lambda: finish(engine, greet, "Ada"))
    return [
        meter.measured(
            f"one-activity orchestrations, {how}",
            count / meter.took_s,
            "orchestrations/s",
            units=count,
            per="orchestration",
            at_least=budget,
        )
    ]


CASES = (
    Case(name="one_activity", run=all_at_once),
    Case(name="one_activity/4000", run=twice_as_many),
    Case(name="one_activity/100", run=partial(some_in_flight, 100)),
    Case(name="one_activity/10", run=partial(some_in_flight, 10)),
    Case(name="one_activity/1", run=partial(some_in_flight, 1)),
)
