"""Client or worker of `bench.apart`, by public names alone, so that it also runs on older code.

python bench/apart_program.py worker URL
python bench/apart_program.py client URL
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator

from perdure import Client, Worker, activity, orchestration

WARM_UP = 50
GAPS_S = {"back to back": (300, 0.0), "every 0.2 s": (25, 0.2)}
"""How many, and how long between two of them."""
IN_FLIGHT = {20: 1_500, 100: 4_000}
"""How many of how many."""


@activity
async def say_hello(name: str) -> str:
    return f"Hello, {name}!"


@orchestration
async def greet(name: str) -> str:
    return await say_hello(name)


async def work(url: str) -> None:
    """Serve until stdin ends."""
    async with Worker(url, [say_hello, greet]):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def ask(url: str) -> dict[str, float]:
    """Return what was measured, by rows."""
    found: dict[str, float] = {}
    async with Client(url) as client:

        async def one() -> None:
            await (await client.start(greet, "Ada")).result()

        for _ in range(WARM_UP):
            await one()
        for how, (count, gap_s) in GAPS_S.items():
            took_ms = []
            for _ in range(count):
                began_s = time.perf_counter()
                await one()
                took_ms.append((time.perf_counter() - began_s) * 1000)
                await asyncio.sleep(gap_s)
            found[f"start to result {how}, p50, ms"] = statistics.median(took_ms)
            found[f"start to result {how}, p95, ms"] = sorted(took_ms)[int(0.95 * len(took_ms))]
        for limit, count in IN_FLIGHT.items():
            began_s = time.perf_counter()
            left = iter(range(count))
            await asyncio.gather(*(_each(left, one) for _ in range(limit)))
            found[f"{limit} in flight, per s"] = count / (time.perf_counter() - began_s)
    return found


async def _each(left: Iterator[int], one: Callable[[], Awaitable[None]]) -> None:
    for _ in left:
        await one()


if __name__ == "__main__":
    role, store = sys.argv[1:3]
    if role == "worker":
        asyncio.run(work(store))
    else:
        print(json.dumps(asyncio.run(ask(store))))
