"""What if very much is handed in at once: how fast is it worked off, and who else has to wait?"""

from __future__ import annotations

import asyncio
import time

from bench.harness import Case, Measured, Meter, Setup, in_flight, percentile
from bench.one_activity import greet, say_hello
from bench.timers import lateness_ms, sleep_for
from perdure import Client, Engine, orchestration

STARTS_AT_ONCE = 2_000
NEWCOMERS_EVERY_S = 0.25
WARM_UP = 50
LATE_AT_MOST_MS = 250.0


@orchestration
async def newcomer() -> int:
    return 1


async def starts(setup: Setup) -> list[Measured]:
    """Hand in starts while no worker is there; then let one come, and others ask for something."""
    count = setup.size(100_000, quick=100)
    async with Client(setup.url, create=True) as client:
        numbers = iter(range(count))

        async def hand_in() -> None:
            await client.start(f"greet-{next(numbers)}", greet, "Ada")

        await in_flight(count, min(STARTS_AT_ONCE, count), hand_in)
    took_ms: list[float] = []
    async with setup.engine([say_hello, greet, newcomer]) as engine:
        with Meter(engine._core.store) as meter:
            asking = asyncio.create_task(ask(engine, took_ms))
            await done(engine, count)
            asking.cancel()
    row = f"{count:,} starts handed in at once"
    found = [
        meter.measured(
            f"{row}, worked off",
            count / meter.took_s,
            "orchestrations/s",
            units=count,
            per="orchestration",
        )
    ]
    if took_ms:
        for share in (0.5, 0.99):
            name = f"{row}: a newcomer of another definition, p{share * 100:.0f}"
            found.append(Measured(row=name, value=percentile(took_ms, share), unit="ms"))
    return found


async def ask(engine: Engine, took_ms: list[float]) -> None:
    """Start something else now and then, and see how long it takes."""
    while True:
        began_s = time.perf_counter()
        await (await engine.start(newcomer)).result()
        took_ms.append((time.perf_counter() - began_s) * 1000)
        await asyncio.sleep(NEWCOMERS_EVERY_S)


async def done(engine: Engine, count: int) -> None:
    """Wait until nothing of the backlog is left: the oldest are taken first."""
    for number in range(count - 1, -1, -max(count // 20, 1)):
        await engine.handle(f"greet-{number}", greet).result()


async def timers(setup: Setup) -> list[Measured]:
    """Let timers of hot instances become due within one second."""
    count, seconds = (10_000, 8.0) if not setup.quick else (100, 0.3)
    async with setup.engine([sleep_for]) as engine:
        await asyncio.gather(*(lateness_ms(engine, 0.05) for _ in range(WARM_UP)))
        due_s = time.time() + seconds
        with Meter(engine._core.store) as meter:
            late_ms = await asyncio.gather(
                *(
                    lateness_ms(engine, due_s + number / count - time.time())
                    for number in range(count)
                )
            )
    row = f"{count:,} timers due within one second, lateness"
    return [
        meter.measured(
            f"{row}, p50", percentile(late_ms, 0.5), "ms", units=count, per="orchestration"
        ),
        Measured(
            row=f"{row}, p99",
            value=percentile(late_ms, 0.99),
            unit="ms",
            at_most=LATE_AT_MOST_MS,
        ),
    ]


CASES = (
    Case(name="backlog", run=starts, most_repeats=1),
    Case(name="backlog/timers", run=timers),
)
