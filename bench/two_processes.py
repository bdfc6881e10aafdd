"""How many orchestrations of one activity do two processes on one database finish in a second, and
how long does a third process wait for one that it starts while they sleep?"""

from __future__ import annotations

import asyncio
import sys
import time

from bench.harness import (
    Case,
    Cost,
    Measured,
    Setup,
    finish,
    in_flight,
    percentile,
    process_behind,
    read_facts,
)
from bench.machine import busy_s, count_cores
from bench.one_activity import greet, say_hello
from bench.peers import Peer, Spent, answer, ask_all, peers
from perdure import Client, Engine
from perdure.store.base import Store

PROCESSES = 2
WARM_UP = 200
SILENCE_S = 0.7
"""Before each start, so that all have come to rest."""


class Costs:
    """Adds up what several processes and the server use while a block runs."""

    def __init__(self, store: Store, some: list[Peer]) -> None:
        server = process_behind(store)
        assert server is not None, "not measured on SQLite"
        self._server = server
        self._peers = some
        self.took_s = 0.0

    async def begin(self) -> None:
        """Begin to count."""
        self._before = await ask_all(self._peers, "count")
        self._server_s, self._own_s = self._server.cpu_s(), time.process_time()
        self._busy_s, self._began_s = busy_s(), time.perf_counter()

    async def end(self, own: Spent) -> None:
        """Stop counting.

        Args:
            own: What this process has used with its own store; the processor time is added.
        """
        self.took_s = time.perf_counter() - self._began_s
        busy = busy_s() - self._busy_s
        own_s = time.process_time() - self._own_s
        self._server_s = self._server.cpu_s() - self._server_s
        spent = (await ask_all(self._peers, "count")).minus(self._before)
        self._spent = spent.plus(own).plus(Spent(cpu_s=own_s))
        others_s = busy - self._spent.cpu_s - self._server_s
        self.other = min(max(others_s / (self.took_s * count_cores()), 0.0), 1.0)

    def measured(self, row: str, count: int, *, p50_ms: float | None = None) -> Measured:
        """Return the number, with what it cost in all processes.

        Args:
            row: What was measured.
            count: How many orchestrations it was.
            p50_ms: How long one took, if that is the number and not how many there were.
        """
        cost = Cost(
            per="orchestration",
            cpu_us=self._spent.cpu_s / count * 1e6,
            server_us=self._server_s / count * 1e6,
            transactions=self._spent.transactions / count,
            statements=self._spent.statements / count,
            rows=self._spent.rows / count,
        )
        return Measured(
            row=row,
            value=count / self.took_s if p50_ms is None else p50_ms,
            unit="orchestrations/s" if p50_ms is None else "ms",
            cost=cost,
            other=self.other,
        )


async def each_its_own(setup: Setup) -> list[Measured]:
    """Two engines, and each starts half of them, as two servers of one application would."""
    each = setup.size(2_000, quick=100)
    async with (
        Client(setup.url, create=True) as client,
        peers(PROCESSES, "bench.two_processes", setup.url, str(each)) as some,
    ):
        setup.facts.append(await read_facts(client._core.store))
        await ask_all(some, "warm")
        costs = Costs(client._core.store, some)
        await costs.begin()
        await ask_all(some, "run")
        await costs.end(Spent())
    row = "PostgreSQL: two processes, each 2,000 one-activity orchestrations at once"
    return [costs.measured(row, PROCESSES * each)]


async def from_a_third(setup: Setup) -> list[Measured]:
    """Two workers, and a client in a process of its own that starts all and waits for all."""
    count = setup.size(2_000, quick=100)
    async with (
        Client(setup.url, create=True) as client,
        peers(PROCESSES, "bench.two_processes", setup.url, "0") as some,
    ):
        setup.facts.append(await read_facts(client._core.store))
        await ask_all(some, "warm")
        warm_up = setup.size(WARM_UP, quick=20)
        await in_flight(warm_up, warm_up, lambda: result_of(client))
        costs = Costs(client._core.store, some)
        await costs.begin()
        before = Spent.by(client._core.store)
        await in_flight(count, count, lambda: result_of(client))
        own = Spent.by(client._core.store).minus(before)
        await costs.end(Spent(own.transactions, own.statements, own.rows))
    row = "PostgreSQL: two worker processes, 2,000 at once from a third"
    return [costs.measured(row, count)]


async def now_and_then(setup: Setup) -> list[Measured]:
    """Two workers with nothing to do, and a client in a process of its own that starts one."""
    count = setup.size(40, quick=3)
    took_ms: list[float] = []
    async with (
        Client(setup.url, create=True) as client,
        peers(PROCESSES, "bench.two_processes", setup.url, "0") as some,
    ):
        setup.facts.append(await read_facts(client._core.store))
        await ask_all(some, "warm")
        await result_of(client)
        costs = Costs(client._core.store, some)
        await costs.begin()
        before = Spent.by(client._core.store)
        for _ in range(count):
            await asyncio.sleep(0.01 if setup.quick else SILENCE_S)
            began_s = time.perf_counter()
            await result_of(client)
            took_ms.append((time.perf_counter() - began_s) * 1000)
        own = Spent.by(client._core.store).minus(before)
        await costs.end(Spent(own.transactions, own.statements, own.rows))
    row = "PostgreSQL: two idle worker processes, start to result from a third"
    return [
        costs.measured(f"{row}, p50", count, p50_ms=percentile(took_ms, 0.5)),
        Measured(row=f"{row}, p95", value=percentile(took_ms, 0.95), unit="ms"),
    ]


async def result_of(client: Client) -> None:
    handle = await client.start(greet, "Ada")
    await handle.result()


async def serve(url: str, count: int) -> None:
    """Be one of the two processes."""
    async with Engine(url, [say_hello, greet]) as engine:

        async def handle(word: str) -> Spent:
            if word == "warm" and count:
                warm_up = min(WARM_UP, count)
                await in_flight(warm_up, warm_up, lambda: finish(engine, greet, "Ada"))
            elif word == "run":
                await in_flight(count, count, lambda: finish(engine, greet, "Ada"))
            return Spent.by(engine._core.store)

        await answer(handle)


CASES = (
    Case(name="two_processes", run=each_its_own, store="postgresql"),
    Case(name="two_processes/apart", run=from_a_third, store="postgresql"),
    Case(name="two_processes/now_and_then", run=now_and_then, store="postgresql"),
)

if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
