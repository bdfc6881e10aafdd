"""How long does a caller of an idle engine wait for an orchestration of one activity?"""

from __future__ import annotations

import asyncio
import time

from bench.harness import Case, Measured, Meter, Setup, finish, percentile
from bench.one_activity import greet, say_hello

BUDGET_P50_MS = 3.0
WARM_UP = 50
PAUSE_S = 0.005
"""Between two calls, so that each one finds everything asleep."""


async def idle_latency(setup: Setup) -> list[Measured]:
    """Start, wait for the result, pause, again."""
    count = setup.size(400, quick=40)
    took_ms: list[float] = []
    async with setup.engine([say_hello, greet]) as engine:
        for _ in range(WARM_UP):
            await finish(engine, greet, "Ada")
        with Meter(engine._core.store) as meter:
            for _ in range(count):
                began_s = time.perf_counter()
                await finish(engine, greet, "Ada")
                took_ms.append((time.perf_counter() - began_s) * 1000)
                await asyncio.sleep(PAUSE_S)
    row = "idle start to result, one activity"
    return [
        meter.measured(
            f"{row}, p50",
            percentile(took_ms, 0.5),
            "ms",
            units=count,
            per="orchestration",
            at_most=BUDGET_P50_MS,
        ),
        Measured(row=f"{row}, p95", value=percentile(took_ms, 0.95), unit="ms"),
        Measured(row=f"{row}, p99", value=percentile(took_ms, 0.99), unit="ms"),
    ]


CASES = (Case(name="latency", run=idle_latency),)
