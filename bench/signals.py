"""How many signals a second can one instance be sent and take?"""

from __future__ import annotations

import asyncio

from bench.harness import Case, Measured, Meter, Setup
from perdure import Engine, Signal, orchestration

WARM_UP = 50

amount = Signal("amount", int)


@orchestration
async def add_up(count: int) -> int:
    total = 0
    for _ in range(count):
        total += await amount.receive()
    return total


async def to_one_instance(setup: Setup) -> list[Measured]:
    """Send them all at once; the clock stops when the instance has returned their sum."""
    count = setup.size(1_000, quick=100)
    async with setup.engine([add_up]) as engine:
        await send(engine, WARM_UP)
        with Meter(engine._core.store) as meter:
            await send(engine, count)
    return [
        meter.measured(
            "1,000 signals to one instance",
            count / meter.took_s,
            "signals/s",
            units=count,
            per="signal",
        )
    ]


async def send(engine: Engine, count: int) -> None:
    handle = await engine.start(add_up, count)
    await asyncio.gather(*(handle.send(amount, 1) for _ in range(count)))
    assert await handle.result() == count, "a signal was lost or counted twice"


CASES = (Case(name="signals", run=to_one_instance),)
