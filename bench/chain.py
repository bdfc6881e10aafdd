"""How fast does one orchestration go from activity to activity, and does it stay that fast?"""

from __future__ import annotations

import time

from bench.harness import Case, Measured, Meter, Setup, finish
from perdure import Engine, activity, orchestration

BUDGET_PER_S = 1_000
BUDGET_FLAT = 0.8
"""Flat, as far as a noisy machine can tell: the longest chain keeps this part of the speed of the
shortest one."""
WARM_UP = 100


@activity
async def add_one(number: int) -> int:
    return number + 1


@orchestration
async def chain(length: int) -> int:
    number = 0
    for _ in range(length):
        number = await add_one(number)
    return number


async def one_chain(setup: Setup) -> list[Measured]:
    """One chain, alone."""
    length = setup.size(1_000, quick=100)
    async with setup.engine([add_one, chain]) as engine:
        await finish(engine, chain, WARM_UP)
        with Meter(engine._core.store) as meter:
            await finish(engine, chain, length)
    return [
        meter.measured(
            "chain of 1,000 activities",
            length / meter.took_s,
            "activities/s",
            units=length,
            per="activity",
            at_least=BUDGET_PER_S,
        )
    ]


async def flatness(setup: Setup) -> list[Measured]:
    """Short and long chains in one process, the short ones before and after the long one."""
    short, middle, long = (100, 1_000, 10_000) if not setup.quick else (10, 50, 200)
    async with setup.engine([add_one, chain]) as engine:
        await finish(engine, chain, WARM_UP)
        early = await rate(engine, short, times=10)
        middle_rate = await rate(engine, middle, times=1)
        with Meter(engine._core.store) as meter:
            long_rate = await rate(engine, long, times=1)
        late = await rate(engine, short, times=10)
    short_rate = 2 / (1 / early + 1 / late)
    return [
        Measured(row="chains of 100", value=short_rate, unit="activities/s"),
        Measured(
            row="chains of 1,000, in the same process", value=middle_rate, unit="activities/s"
        ),
        meter.measured(
            "chains of 10,000, in the same process",
            long_rate,
            "activities/s",
            units=long,
            per="activity",
        ),
        Measured(
            row="flatness: speed at 10,000 / speed at 100",
            value=long_rate / short_rate,
            unit="ratio",
            at_least=BUDGET_FLAT,
        ),
    ]


async def rate(engine: Engine, length: int, *, times: int) -> float:
    began_s = time.perf_counter()
    for _ in range(times):
        await finish(engine, chain, length)
    return length * times / (time.perf_counter() - began_s)


CASES = (Case(name="chain", run=one_chain), Case(name="chain/flat", run=flatness))
