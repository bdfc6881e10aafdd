"""How much of a core does a worker with nothing to do use, and how often does it ask the store?"""

from __future__ import annotations

import asyncio

from bench.harness import Case, Measured, Meter, Setup, finish
from bench.one_activity import greet, say_hello

BUDGET_PERCENT = 0.5
SETTLE_S = 5
"""Until its polling has slowed down."""
WATCH_S = 20
"""Long enough for two signs of life."""


async def idle(setup: Setup) -> list[Measured]:
    """Do something once, let it settle, then watch it doing nothing."""
    async with setup.engine([say_hello, greet]) as engine:
        await finish(engine, greet, "Ada")
        await asyncio.sleep(0.2 if setup.quick else SETTLE_S)
        with Meter(engine._core.store) as meter:
            await asyncio.sleep(0.5 if setup.quick else WATCH_S)
    return [
        Measured(
            row="CPU of an idle worker",
            value=meter.cpu_s / meter.took_s * 100,
            unit="% of a core",
            at_most=BUDGET_PERCENT,
            other=meter.other,
        ),
        Measured(
            row="statements of an idle worker", value=meter.statements / meter.took_s, unit="1/s"
        ),
    ]


CASES = (Case(name="idle", run=idle),)
