"""How late do two thousand timers fire that become due together?"""

from __future__ import annotations

import asyncio
import time

from bench.harness import Case, Measured, Meter, Setup, percentile
from perdure import Engine, orchestration

WARM_UP = 50


@orchestration
async def sleep_for(seconds: float) -> float:
    """Return when it was due to wake up, in seconds since the epoch."""
    due_s = asyncio.get_running_loop().time() + seconds
    await asyncio.sleep(seconds)
    return due_s


async def together(setup: Setup) -> list[Measured]:
    """Start them all at once. Lateness is from the due time to the caller's having the result."""
    count, seconds = (2_000, 1.0) if not setup.quick else (100, 0.2)
    async with setup.engine([sleep_for]) as engine:
        await asyncio.gather(*(lateness_ms(engine, 0.05) for _ in range(WARM_UP)))
        with Meter(engine._core.store) as meter:
            late_ms = await asyncio.gather(*(lateness_ms(engine, seconds) for _ in range(count)))
    row = "2,000 instances sleeping 1 s, lateness"
    return [
        meter.measured(
            f"{row}, p50", percentile(late_ms, 0.5), "ms", units=count, per="orchestration"
        ),
        Measured(row=f"{row}, p99", value=percentile(late_ms, 0.99), unit="ms"),
    ]


async def lateness_ms(engine: Engine, seconds: float) -> float:
    handle = await engine.start(sleep_for, seconds)
    due_s = await handle.result()
    return (time.time() - due_s) * 1000


CASES = (Case(name="timers", run=together),)
