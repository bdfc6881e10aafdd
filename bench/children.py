"""How many children a second can one parent start and wait for?"""

from __future__ import annotations

import asyncio

from bench.harness import Case, Measured, Meter, Setup, finish
from perdure import orchestration

WARM_UP = 50


@orchestration
async def child(number: int) -> int:
    return number


@orchestration
async def parent(count: int) -> int:
    return sum(await asyncio.gather(*(child(number) for number in range(count))))


async def children_of_one(setup: Setup) -> list[Measured]:
    """One parent, all its children at once; the children do nothing but return."""
    count = setup.size(1_000, quick=100)
    async with setup.engine([parent, child]) as engine:
        await finish(engine, parent, WARM_UP)
        with Meter(engine._core.store) as meter:
            total = await finish(engine, parent, count)
    assert total == count * (count - 1) // 2, "a child is missing"
    return [
        meter.measured(
            "1,000 children of one parent",
            count / meter.took_s,
            "children/s",
            units=count,
            per="child",
        )
    ]


CASES = (Case(name="children", run=children_of_one),)
