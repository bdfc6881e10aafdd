"""How long does a client wait for an orchestration of one activity when the worker is in another
process, and how many do they finish in a second?"""

from __future__ import annotations

import asyncio
import sys
import time

from bench.harness import Case, Measured, Setup, in_flight, percentile, read_facts
from bench.one_activity import greet, say_hello
from bench.peers import Spent, answer, ask_all, peers
from bench.two_processes import result_of
from perdure import Client, Engine

WARM_UP = 50
EVERY_S = 0.2
"""Between two calls, so that both processes have come to rest."""
IN_FLIGHT = (20, 100, 1_000)


async def one_by_one(setup: Setup) -> list[Measured]:
    """Start one, wait for it, and again: at once, and now and then."""
    back_to_back, now_and_then = setup.size(500, quick=10), setup.size(60, quick=3)
    async with (
        Client(setup.url, create=True) as client,
        peers(1, "bench.across", setup.url) as some,
    ):
        setup.facts.append(await read_facts(client._core.store))
        await ask_all(some, "begin")
        await in_flight(setup.size(WARM_UP, quick=2), 1, lambda: result_of(client))
        quick_ms = await _time(client, back_to_back, rest_s=0.0)
        seldom_ms = await _time(client, now_and_then, rest_s=0.01 if setup.quick else EVERY_S)
    return [
        *_percentiles("back to back", quick_ms),
        *_percentiles("every 0.2 s", seldom_ms),
    ]


async def many(setup: Setup) -> list[Measured]:
    """Keep so many under way, for as long as that takes."""
    found = []
    async with (
        Client(setup.url, create=True) as client,
        peers(1, "bench.across", setup.url) as some,
    ):
        setup.facts.append(await read_facts(client._core.store))
        await ask_all(some, "begin")
        await in_flight(setup.size(200, quick=5), 20, lambda: result_of(client))
        for limit in IN_FLIGHT:
            count = setup.size(4_000, quick=20)
            began_s = time.perf_counter()
            await in_flight(count, limit, lambda: result_of(client))
            took_s = time.perf_counter() - began_s
            row = f"client and worker apart, {limit:,} in flight"
            found.append(Measured(row=row, value=count / took_s, unit="orchestrations/s"))
    return found


async def _time(client: Client, count: int, *, rest_s: float) -> list[float]:
    took_ms = []
    for _ in range(count):
        await asyncio.sleep(rest_s)
        began_s = time.perf_counter()
        await result_of(client)
        took_ms.append((time.perf_counter() - began_s) * 1000)
    return took_ms


def _percentiles(gap: str, took_ms: list[float]) -> list[Measured]:
    row = f"client and worker apart, start to result {gap}"
    return [
        Measured(row=f"{row}, p{share:.0f}", value=percentile(took_ms, share / 100), unit="ms")
        for share in (50.0, 95.0, 99.0)
    ]


async def serve(url: str) -> None:
    """Be the process of the worker."""
    async with Engine(url, [say_hello, greet]) as engine:

        async def handle(word: str) -> Spent:
            return Spent.by(engine._core.store)

        await answer(handle)


CASES = (
    Case(name="across", run=one_by_one),
    Case(name="across/many", run=many),
)

if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
