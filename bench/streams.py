"""How long an item is on its way from an activity to a reader in another process; what it costs.

python -m bench.streams                              # SQLite, in a temporary folder
python -m bench.streams postgresql://localhost/bench
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from perdure import Client, Engine, Stream, activity, orchestration

times = Stream("times", float)
ITEMS = 200
PAUSE_S = 0.06
BULK = 20_000


@activity
async def slowly() -> None:
    for _ in range(ITEMS):
        times.send(time.time())
        await asyncio.sleep(PAUSE_S)


@activity
async def quickly() -> float:
    began_s = time.process_time()
    for number in range(BULK):
        times.send(time.time())
        if number % 100 == 99:
            await asyncio.sleep(0)
    await times.flush()
    return (time.process_time() - began_s) / BULK


@orchestration
async def sending() -> None:
    await slowly()


@orchestration
async def flooding() -> float:
    return await quickly()


async def read(url: str) -> None:
    """Read in a process of its own, and print the delays in milliseconds."""
    async with Client(url) as client:
        began_s = time.time()
        delays = [
            (time.time() - item.value) * 1000
            async for item in client.handle("sending").stream(times)
            if item.value > began_s
        ]
    parts = statistics.quantiles(delays, n=100)
    say(f"to another process: p50 {parts[49]:.1f} ms, p99 {parts[98]:.1f} ms ({len(delays)} items)")


async def main(url: str) -> None:
    """Send to a reader elsewhere, then send much."""
    async with Engine(url, [slowly, quickly, sending, flooding]) as engine:
        handle = await engine.start("sending", sending)
        command = [sys.executable, "-m", __spec__.name, "--read", url]
        await asyncio.to_thread(subprocess.run, command, check=True)
        await handle.result()
        began_s = time.perf_counter()
        each_s = await (await engine.start("flooding", flooding)).result()
        took_s = time.perf_counter() - began_s
        say(f"{BULK / took_s:,.0f} items/s from one activity, {each_s * 1e6:.1f} us CPU each")


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        asyncio.run(read(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main((sys.argv[1:] or [f"sqlite:///{Path(folder) / 'bench.db'}"])[0]))
