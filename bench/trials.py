"""How many tests of an orchestration does a second have room for?"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from bench.harness import Case, Measured, Setup
from perdure import activity, orchestration
from perdure.testing import Trial, crash_everywhere

TESTS = 200


@activity
async def charge(name: str) -> str:
    return name


@orchestration
async def order(name: str) -> str:
    await charge(name)
    await asyncio.sleep(10 * 86_400)
    await charge(name)
    await asyncio.sleep(20 * 86_400)
    return await charge(name)


async def month(trial: Trial) -> None:
    """Test three activities and thirty days."""
    trial.fake(charge).returns("paid")
    handle = await trial.start("o-1", order, "book")
    await trial.advance(timedelta(days=30))
    assert await handle.result() == "paid"


async def trials(setup: Setup) -> list[Measured]:
    """One process, one test after another, each with a trial of its own."""
    count = setup.size(TESTS, quick=5)
    opened_s = 0.0
    began_s = time.perf_counter()
    for _ in range(count):
        opens_s = time.perf_counter()
        async with Trial([order, charge]) as trial:
            opened_s += time.perf_counter() - opens_s
            await month(trial)
    took_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    await asyncio.to_thread(crash_everywhere, month, [order, charge])
    return [
        Measured(row="tests of 30 days", value=count / took_s, unit="/s"),
        Measured(row="a trial opens", value=opened_s / count * 1000, unit="ms"),
        Measured(
            row="a test of 30 days, with a crash at every commit",
            value=(time.perf_counter() - began_s) * 1000,
            unit="ms",
        ),
    ]


CASES = (Case(name="trials", run=trials),)
