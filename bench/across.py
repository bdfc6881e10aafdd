"""How long does a client wait when the worker is in another process, and how many orchestrations of
one activity do they finish in a second: with one, two and four worker processes, behind a pooler,
and when nothing is heard of what others do?"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from bench.harness import Case, Cost, Measured, Setup, in_flight, percentile, read_facts
from bench.one_activity import greet, say_hello
from bench.peers import Peer, Spent, answer, ask_all, peers
from bench.two_processes import result_of
from perdure import Client, Engine, Signal, orchestration
from perdure.model.hints import Hint
from perdure.store.base import Store
from perdure.store.opening import open_store
from tests.wire import Pooler

WARM_UP = 50
GAPS_S = {"back to back": (500, 0.0), "every 0.2 s": (60, 0.2), "every 1.5 s": (10, 1.5)}
"""How many calls, and how long between two of them."""
IN_FLIGHT = (20, 100, 1_000)
FLEETS = (1, 2, 4)
SLEEPERS = 20_000
SIGNALS = 100
DEAF = "PERDURE_BENCH_DEAF"
"""In the environment of a process that hears nothing of what others do."""

wake_up = Signal("wake_up", int)


@orchestration
async def sleeper() -> int:
    """Wait for one signal."""
    return await wake_up.receive()


async def one_by_one(setup: Setup) -> list[Measured]:
    """Start one, wait for it, and again: at once, and now and then."""
    return await _one_by_one(setup, setup.url, "client and worker apart", GAPS_S)


async def pooled(setup: Setup) -> list[Measured]:
    """The same, through connections that take turns with every transaction: nobody can listen."""
    async with Pooler(setup.url) as pooler:
        url = f"{pooler.url}?pooler=transaction"
        row = "PostgreSQL: client and worker apart behind a pooler"
        return [
            *await _one_by_one(setup, url, row, _FEWER),
            *await _many(setup, url, row, workers=1, limits=(100,)),
        ]


async def deaf(setup: Setup) -> list[Measured]:
    """The same, with everything lost by which one process is told of another's commits."""
    row = "client and worker apart, nothing heard"
    os.environ[DEAF] = "1"  # For the workers; this process ends with the case.
    _deafen(setup.url)
    return [
        *await _one_by_one(setup, setup.url, row, _FEWER),
        *await _many(setup, setup.url, row, workers=1, limits=(100,)),
    ]


_FEWER = {"back to back": (40, 0.0), "every 1.5 s": (10, 1.5)}


async def many(setup: Setup) -> list[Measured]:
    """Keep so many under way, for as long as that takes, with one worker process and more."""
    found = []
    for workers in (2,) if setup.quick else FLEETS:
        some = "" if workers == 1 else f" with {workers} worker processes"
        row = f"client and worker apart{some}"
        found += await _many(setup, setup.url, row, workers=workers, limits=IN_FLIGHT)
    return found


async def signals(setup: Setup) -> list[Measured]:
    """Send a signal to one of very many that wait, and wait for what it returns."""
    count, sent = setup.size(SLEEPERS, quick=20), setup.size(SIGNALS, quick=3)
    took_ms: list[float] = []
    async with _apart(setup, setup.url, workers=1) as (client, _):
        ids = [f"sleeper-{number}" for number in range(count)]
        await in_flight_of(ids, 200, lambda one: client.start(one, sleeper))
        await asyncio.sleep(0 if setup.quick else 2)
        # One more, the first, is not counted: it waits until the worker has begun all the others.
        for one in ids[:: max(count // (sent + 1), 1)][: sent + 1]:
            handle = client.handle(one, sleeper)
            began_s = time.perf_counter()
            await handle.send(wake_up, 1)
            await handle.result()
            took_ms.append((time.perf_counter() - began_s) * 1000)
    return _percentiles(f"signal to one of {SLEEPERS:,} that sleep, to its result", took_ms[1:])


async def in_flight_of(
    ids: list[str], limit: int, work: Callable[[str], Awaitable[object]]
) -> None:
    """Do something for each id, so many at a time."""
    left = iter(ids)

    async def some() -> None:
        for one in left:
            await work(one)

    await asyncio.gather(*(some() for _ in range(limit)))


class Apart(NamedTuple):
    """A client, and the processes of its workers."""

    client: Client
    workers: list[Peer]

    async def spent(self) -> Spent:
        """Return what all of them have used so far."""
        return (await ask_all(self.workers, "count")).plus(Spent.by(self.client._core.store))

    async def cost(self, before: Spent, count: int) -> Cost:
        """Return what each of so many orchestrations has cost all of them together."""
        spent = (await self.spent()).minus(before)
        return Cost(
            per="orchestration",
            cpu_us=spent.cpu_s / count * 1e6,
            transactions=spent.transactions / count,
            statements=spent.statements / count,
            rows=spent.rows / count,
        )


@asynccontextmanager
async def _apart(setup: Setup, url: str, *, workers: int) -> AsyncIterator[Apart]:
    async with Client(url, create=True) as client, peers(workers, "bench.across", url) as some:
        setup.facts.append(await read_facts(client._core.store))
        await ask_all(some, "begin")
        await in_flight(setup.size(WARM_UP, quick=1), 1, lambda: result_of(client))
        yield Apart(client, some)


async def _one_by_one(
    setup: Setup, url: str, row: str, gaps: dict[str, tuple[int, float]]
) -> list[Measured]:
    found = []
    async with _apart(setup, url, workers=1) as apart:
        for gap, (full, rest_s) in gaps.items():
            count, before = setup.size(full, quick=1), await apart.spent()
            took_ms = await _time(apart.client, count, rest_s=0.01 if setup.quick else rest_s)
            first, *others = _percentiles(f"{row}, start to result {gap}", took_ms)
            found += [replace(first, cost=await apart.cost(before, count)), *others]
    return found


async def _many(
    setup: Setup, url: str, row: str, *, workers: int, limits: tuple[int, ...]
) -> list[Measured]:
    found = []
    async with _apart(setup, url, workers=workers) as apart:
        client = apart.client
        await in_flight(setup.size(200, quick=1), 20, lambda: result_of(client))
        for limit in limits:
            count = setup.size(4_000, quick=5)
            before, began_s = await apart.spent(), time.perf_counter()
            await in_flight(count, limit, lambda: result_of(client))
            took_s = time.perf_counter() - began_s
            name, cost = f"{row}, {limit:,} in flight", await apart.cost(before, count)
            value = count / took_s
            found.append(Measured(row=name, value=value, unit="orchestrations/s", cost=cost))
    return found


async def _time(client: Client, count: int, *, rest_s: float) -> list[float]:
    took_ms = []
    for _ in range(count):
        await asyncio.sleep(rest_s)
        began_s = time.perf_counter()
        await result_of(client)
        took_ms.append((time.perf_counter() - began_s) * 1000)
    return took_ms


def _percentiles(row: str, took_ms: list[float]) -> list[Measured]:
    return [
        Measured(row=f"{row}, p{share:.0f}", value=percentile(took_ms, share / 100), unit="ms")
        for share in (50.0, 95.0, 99.0)
    ]


def _deafen(url: str) -> None:
    """Let all stores of this kind in this process hear nothing."""
    store: Any = type(open_store(url))

    def listen_changes(_: Store, kind: Hint, heard: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    store.listen_changes = listen_changes
    store.change_count = lambda _, kind: 0


async def serve(url: str) -> None:
    """Be the process of a worker."""
    if os.environ.get(DEAF):
        _deafen(url)
    async with Engine(url, [say_hello, greet, sleeper]) as engine:

        async def handle(word: str) -> Spent:
            return Spent.by(engine._core.store)

        await answer(handle)


CASES = (
    Case(name="across", run=one_by_one),
    Case(name="across/many", run=many),
    Case(name="across/signals", run=signals, most_repeats=2),
    Case(name="across/deaf", run=deaf, most_repeats=2),
    Case(name="across/pooled", run=pooled, most_repeats=2, store="postgresql"),
)

if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
