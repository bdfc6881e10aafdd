"""What do 50 open pages and 200 requests a second cost the worker beside them?

The worker, the server and the visitors are a process each, on one store. The worker is measured
with and without visitors by turns, so that a noisy minute of the machine hurts both.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import time
from typing import NamedTuple

from bench.harness import Case, Measured, Setup, finish
from bench.one_activity import greet, say_hello
from bench.peers import Peer, peers
from perdure import Engine

PAGES = 50
REQUESTS_PER_S = 200
IN_FLIGHT = 100
TURN_S = 5.0
SETTLE_S = 3.0
"""Until fifty pages that were opened at once are loaded."""
TURNS = 5
MOST_LOST = 15.0


async def beside_pages(setup: Setup) -> list[Measured]:
    """Orchestrations of one activity, a hundred in flight."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with setup.engine([say_hello, greet]) as engine:
        await (await engine.start("seen-1", greet, "Ada")).result()
        async with (
            peers(1, "bench.page_server", setup.url, str(port)) as [server],
            peers(1, "bench.page_visitors", str(port), str(PAGES), str(REQUESTS_PER_S)) as [seen],
        ):
            await server.ask("count")
            return await _by_turns(setup, engine, server, seen)


async def _by_turns(setup: Setup, engine: Engine, server: Peer, visitors: Peer) -> list[Measured]:
    turn_s = 0.2 if setup.quick else TURN_S
    settle_s = 0.2 if setup.quick else SETTLE_S
    alone, beside, lost, dearer, p99_ms = [], [], [], [], []
    requests = loads = 0
    server_cpu_s = 0.0
    async with Busy(engine) as busy:
        for _ in range(setup.size(TURNS, quick=1)):
            alone.append(await busy.rate(settle_s, turn_s))
            before = await server.ask("count")
            await visitors.ask("begin")
            beside.append(await busy.rate(settle_s, turn_s))
            told = await visitors.ask("end")
            server_cpu_s += (await server.ask("count")).minus(before).cpu_s
            requests += told.calls
            loads += told.rows
            p99_ms.append(told.p99_ms)
            lost.append(100 * (1 - beside[-1].per_s / alone[-1].per_s))
            dearer.append(100 * (beside[-1].cpu_us / alone[-1].cpu_us - 1))
    visited_s = len(beside) * (settle_s + turn_s)
    row = f"worker beside {PAGES} pages and {REQUESTS_PER_S} requests/s"
    return [
        Measured(row=f"{row}: alone", value=median_per_s(alone), unit="orchestrations/s"),
        Measured(row=f"{row}: visited", value=median_per_s(beside), unit="orchestrations/s"),
        Measured(row=f"{row}: lost", value=statistics.median(lost), unit="%", at_most=MOST_LOST),
        Measured(row=f"{row}: more processor time each", value=statistics.median(dearer), unit="%"),
        Measured(row=f"{row}: API answers", value=requests / visited_s, unit="requests/s"),
        Measured(row=f"{row}: API p99", value=statistics.median(p99_ms), unit="ms"),
        Measured(row=f"{row}: page loads", value=loads / visited_s, unit="pages/s"),
        Measured(
            row=f"{row}: the server's processor", value=100 * server_cpu_s / visited_s, unit="%"
        ),
    ]


class Rate(NamedTuple):
    """How much a worker gets done."""

    per_s: float
    cpu_us: float
    """What one costs this process, whoever else uses the machine."""


def median_per_s(rates: list[Rate]) -> float:
    return statistics.median(rate.per_s for rate in rates)


class Busy:
    """A worker that always has as much to do, and how much of it gets done."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._done = 0

    async def __aenter__(self) -> Busy:
        """Begin."""
        self._lanes = [asyncio.ensure_future(self._lane()) for _ in range(IN_FLIGHT)]
        return self

    async def __aexit__(self, *_: object) -> None:
        """End."""
        for lane in self._lanes:
            lane.cancel()
        await asyncio.gather(*self._lanes, return_exceptions=True)

    async def rate(self, settle_s: float, turn_s: float) -> Rate:
        """Let it settle, then count for a while, and until something is done at all."""
        await asyncio.sleep(settle_s)
        before, began_s, began_cpu_s = self._done, time.perf_counter(), time.process_time()
        await asyncio.sleep(turn_s)
        while self._done == before:  # noqa: ASYNC110 - a number has no event
            await asyncio.sleep(turn_s)
        took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
        done = self._done - before
        return Rate(done / took_s, cpu_s / done * 1e6)

    async def _lane(self) -> None:
        while True:
            await finish(self._engine, greet, "Ada")
            self._done += 1


CASES = (Case(name="beside_pages", run=beside_pages, most_repeats=2),)
