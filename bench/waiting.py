"""How much memory do ten thousand waiting instances take, and how soon are they done when asked?"""

from __future__ import annotations

import asyncio
import gc
from functools import partial

from bench.harness import Case, Measured, Meter, Setup, in_flight
from bench.machine import rss_mb
from perdure import Engine, Signal, WorkerOptions, orchestration

BUDGET_MB = 150.0
KEPT_HOT = 100
STARTS_IN_FLIGHT = 200
"""Few, so that the callers' own tasks are not what is measured."""
WARM_UP = 50

go_on = Signal("go_on", int)


@orchestration
async def wait_for_signal() -> int:
    return await go_on.receive()


async def measure(hot_instances: int | None, setup: Setup) -> list[Measured]:
    """Start them, look at the memory, send each a signal and wait for all to end."""
    count = setup.size(10_000, quick=200)
    kept = "all hot" if hot_instances is None else f"{hot_instances} hot, the others evicted"
    options = (
        WorkerOptions() if hot_instances is None else WorkerOptions(hot_instances=hot_instances)
    )
    async with setup.engine([wait_for_signal], options) as engine:
        await start(engine, "warm-up", WARM_UP)
        await signal_all(engine, "warm-up", WARM_UP)
        gc.collect()
        before_mb = rss_mb()
        await start(engine, "waiting", count)
        gc.collect()
        grown_mb = rss_mb() - before_mb
        with Meter(engine._core.store) as meter:
            await signal_all(engine, "waiting", count)
    return [
        Measured(
            row=f"10,000 waiting instances, {kept}: growth of the process",
            value=grown_mb,
            unit="MB",
            at_most=BUDGET_MB,
        ),
        meter.measured(
            f"10,000 waiting instances, {kept}: signal all, all end",
            meter.took_s,
            "s",
            units=count,
            per="orchestration",
        ),
    ]


async def start(engine: Engine, prefix: str, count: int) -> None:
    numbers = iter(range(count))

    async def one() -> None:
        await engine.start(f"{prefix}-{next(numbers)}", wait_for_signal)

    await in_flight(count, STARTS_IN_FLIGHT, one)


async def signal_all(engine: Engine, prefix: str, count: int) -> None:
    async def one(number: int) -> None:
        handle = engine.handle(f"{prefix}-{number}", wait_for_signal)
        await handle.send(go_on, number)
        assert await handle.result() == number, "a signal went astray"

    await asyncio.gather(*(one(number) for number in range(count)))


CASES = (
    Case(name="waiting", run=partial(measure, None)),
    Case(name="waiting/evicted", run=partial(measure, KEPT_HOT)),
)
