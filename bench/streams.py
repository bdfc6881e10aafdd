"""How long is an item on its way from an activity to a reader in another process; what does it
cost the worker?"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import msgspec

from bench.harness import Case, Measured, Meter, Setup, percentile
from perdure import Client, Signal, Stream, activity, orchestration

go = Signal("go", None)
times = Stream("times", float)
PAUSE_S = 0.06
BULK = 20_000
READER = "-m", "bench.streams"


@activity
async def slowly(items: int) -> None:
    for _ in range(items):
        times.send(time.time())
        await asyncio.sleep(PAUSE_S)


@activity
async def quickly(items: int) -> None:
    for number in range(items):
        times.send(time.time())
        if number % 100 == 99:
            await asyncio.sleep(0)
    await times.flush()


@orchestration
async def sending(items: int) -> None:
    await go.receive()
    await slowly(items)


@orchestration
async def flooding(items: int) -> None:
    await quickly(items)


async def delays_ms(url: str) -> list[float]:
    """Read in a process of its own, which says when to begin."""
    async with Client(url) as client:
        handle = client.handle("sending")
        await handle.send(go, None)
        return [(time.time() - item.value) * 1000 async for item in handle.stream(times)]


async def to_another_process(setup: Setup) -> list[Measured]:
    """Send item by item to a reader elsewhere; then many at once, until all are stored."""
    few, many = setup.size(200, quick=20), setup.size(BULK, quick=200)
    async with setup.engine([slowly, quickly, sending, flooding]) as engine:
        handle = await engine.start("sending", sending, few)
        command = [sys.executable, *READER, setup.url]
        read = await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
        await handle.result()
        with Meter(engine._core.store) as meter:
            await (await engine.start("flooding", flooding, many)).result()
    delays = msgspec.json.decode(read.stdout, type=list[float])
    row = "stream item to a reader in another process"
    return [
        Measured(row=f"{row}, p50", value=percentile(delays, 0.5), unit="ms"),
        Measured(row=f"{row}, p99", value=percentile(delays, 0.99), unit="ms"),
        meter.measured(
            "stream items from one activity", many / meter.took_s, "items/s", units=many, per="item"
        ),
    ]


CASES = (Case(name="streams", run=to_another_process),)

if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(delays_ms(sys.argv[1]))))
