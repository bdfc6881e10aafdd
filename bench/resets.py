"""How long does it take to let a thousand failed instances go on from where they failed?"""

from __future__ import annotations

import asyncio
from collections import Counter

from bench.harness import Case, Measured, Meter, Setup
from perdure import Engine, activity, orchestration
from perdure.errors import InstanceFailedError

STEPS = 5
"""Calls before the one that fails: what is kept of a history is twelve events."""

_asked: Counter[str] = Counter()


@activity
async def work(number: int) -> int:
    return number


@activity
async def fails_once(instance_id: str) -> None:
    _asked[instance_id] += 1
    if _asked[instance_id] == 1:
        raise ConnectionError("the bank is down")


@orchestration
async def steps(instance_id: str) -> int:
    done = 0
    for number in range(STEPS):
        done += await work(number)
    await fails_once(instance_id)
    return done


async def all_failed(setup: Setup) -> list[Measured]:
    """Once until all are reset, once until all have ended."""
    count = setup.size(1_000, quick=20)
    async with setup.engine([steps, work, fails_once]) as engine:
        ids = [f"r-{number}" for number in range(count)]
        handles = [await engine.start(instance_id, steps, instance_id) for instance_id in ids]
        outcomes = await asyncio.gather(*(one.result() for one in handles), return_exceptions=True)
        assert all(isinstance(one, InstanceFailedError) for one in outcomes)
        with Meter(engine._core.store) as whole:
            with Meter(engine._core.store) as meter:
                await reset_all(engine, count)
            await asyncio.gather(*(one.result() for one in handles))
    assert min(_asked.values()) >= 2, "a call that failed was not made again"
    row = "reset of 1,000 failed instances"
    return [
        meter.measured(row, count / meter.took_s, "resets/s", units=count, per="reset"),
        whole.measured(
            f"{row}, to their ends", count / whole.took_s, "inst/s", units=count, per="instance"
        ),
    ]


async def reset_all(engine: Engine, count: int) -> None:
    done = await engine.reset_all(expect=count, name="steps", status="failed")
    assert done == count, "some were not reset"


CASES = (Case(name="resets", run=all_failed),)
