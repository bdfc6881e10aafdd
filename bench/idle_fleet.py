"""What do fifty workers with nothing to do cost the database?"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack

from bench.harness import Case, Measured, Setup, finish, read_facts
from bench.one_activity import greet, say_hello
from bench.peers import Spent, answer, ask_all, peers
from perdure import Client, Engine
from tests.wire import Pooler

PROCESSES, EACH = 5, 10
BUDGET_PER_S = 100
SETTLE_S = 10
"""Until their polling has slowed down."""
WATCH_S = 30
"""Long enough for three signs of life of each."""

COUNT = """
SELECT xact_commit + xact_rollback, (
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
)
FROM pg_stat_database WHERE datname = current_database()
"""


async def idle_fleet(setup: Setup) -> list[Measured]:
    """Each has connections of its own, and hears what others commit."""
    return await _watch(setup, setup.url, "PostgreSQL: 50 idle workers")


async def behind_a_pooler(setup: Setup) -> list[Measured]:
    """They share connections that take turns with every transaction, so nobody can listen."""
    async with Pooler(setup.url) as pooler:
        url = f"{pooler.url}?pooler=transaction"
        return await _watch(setup, url, "PostgreSQL: 50 idle workers behind a pooler")


async def _watch(setup: Setup, url: str, row: str) -> list[Measured]:
    """Start them, let them run something, let them settle, then watch them do nothing."""
    from bench.servers import ServerProcess, ask  # heavy

    processes, each = setup.size(PROCESSES, quick=2), setup.size(EACH, quick=2)
    async with peers(processes, "bench.idle_fleet", url, str(each)) as some:
        await ask_all(some, "open")
        async with Client(setup.url, create=True) as client:
            setup.facts.append(await read_facts(client._core.store))
        await asyncio.sleep(SETTLE_S if not setup.quick else 0.2)
        server = ServerProcess(setup.url)
        server_s, (transactions, _) = server.cpu_s(), ask(setup.url, COUNT)
        began_s, before = time.perf_counter(), await ask_all(some, "count")
        await asyncio.sleep(WATCH_S if not setup.quick else 0.5)
        spent = (await ask_all(some, "count")).minus(before)
        took_s = time.perf_counter() - began_s
        server_s = server.cpu_s() - server_s
        newest, connections = ask(setup.url, COUNT)
    return [
        Measured(
            row=f"{row}: statements of all",
            value=spent.statements / took_s,
            unit="1/s",
            at_most=BUDGET_PER_S,
        ),
        Measured(
            row=f"{row}: transactions, as the server counts them",
            value=(newest - transactions) / took_s,
            unit="1/s",
        ),
        Measured(
            row=f"{row}: CPU of their 5 processes",
            value=spent.cpu_s / took_s * 100,
            unit="% of a core",
        ),
        Measured(
            row=f"{row}: CPU of the server", value=server_s / took_s * 100, unit="% of a core"
        ),
        Measured(
            row=f"{row}: connections of each", value=connections / (processes * each), unit=""
        ),
    ]


async def serve(url: str, count: int) -> None:
    """Be several workers."""
    async with AsyncExitStack() as stack:
        engines = [Engine(url, [say_hello, greet]) for _ in range(count)]

        async def handle(word: str) -> Spent:
            if word == "open":
                for engine in engines:
                    await stack.enter_async_context(engine)
                    await finish(engine, greet, "Ada")
            return Spent.by(*(engine._core.store for engine in engines))

        await answer(handle)


CASES = (
    Case(name="idle_fleet", run=idle_fleet, most_repeats=2, store="postgresql"),
    Case(name="idle_fleet/pooled", run=behind_a_pooler, most_repeats=2, store="postgresql"),
)

if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
