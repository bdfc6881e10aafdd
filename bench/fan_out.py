"""How long does one orchestration take to run a thousand activities at once and gather them?"""

from __future__ import annotations

import asyncio
from functools import partial

from bench.harness import Case, Measured, Meter, Setup, finish
from perdure import activity, orchestration

BUDGETS_S = {1_000: 0.25}
WARM_UP = 50


@activity
async def double(number: int) -> int:
    return number * 2


@orchestration
async def fan_out(width: int) -> int:
    return sum(await asyncio.gather(*(double(number) for number in range(width))))


async def measure(width: int, setup: Setup) -> list[Measured]:
    """One fan-out, after a small one."""
    done = setup.size(width, quick=width // 10)
    async with setup.engine([double, fan_out]) as engine:
        await finish(engine, fan_out, WARM_UP)
        with Meter(engine._core.store) as meter:
            total = await finish(engine, fan_out, done)
    assert total == done * (done - 1), "a result is missing"
    return [
        meter.measured(
            f"fan-out of {width:,} and gather",
            meter.took_s,
            "s",
            units=done,
            per="activity",
            at_most=BUDGETS_S.get(width),
        )
    ]


CASES = (
    Case(name="fan_out", run=partial(measure, 1_000)),
    Case(name="fan_out/10000", run=partial(measure, 10_000)),
)
