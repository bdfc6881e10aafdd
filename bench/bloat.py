"""What does a transaction cost that somebody forgot to end, while the tables change all the time?

It keeps the database from removing what no later transaction can see. Throughput and tables before,
while and after somebody holds an old snapshot.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from bench.harness import Case, Measured, Setup, finish
from bench.one_activity import greet, say_hello
from bench.waiting import go_on, wait_for_signal
from perdure import Engine

PHASE_S = 60.0
IN_FLIGHT = 200
TABLES = ("live", "jobs", "inbox")

READ = """
SELECT n_dead_tup, pg_total_relation_size(relid)
FROM pg_stat_user_tables WHERE relname = %s
"""


@dataclass(frozen=True, slots=True)
class Table:
    """What has become of a table."""

    dead: int
    size: int


class Load:
    """Orchestrations of one activity and of one signal, always as many at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.done = 0

    async def run(self) -> None:
        """Go on until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(self._lane())

    async def _lane(self) -> None:
        while True:
            await finish(self._engine, greet, "Ada")
            handle = await self._engine.start(wait_for_signal)
            await handle.send(go_on, 1)
            await handle.result()
            self.done += 2


async def bloat(setup: Setup) -> list[Measured]:
    """Three minutes of steady load; in the second one an old snapshot is held."""
    from bench.servers import old_snapshot  # heavy

    async with setup.engine([say_hello, greet, wait_for_signal]) as engine:
        load = Load(engine)
        task = asyncio.create_task(load.run())
        await asyncio.sleep(PHASE_S / 10 if not setup.quick else 0.2)
        before = await watch(setup, load)
        with old_snapshot(setup.url):
            during = await watch(setup, load)
        after = await watch(setup, load)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    row = "PostgreSQL: old snapshot held 60 s"
    phases = {"before": before, "during": during, "after": after}
    found = [
        Measured(row=f"{row}: {when}", value=rate, unit="orchestrations/s")
        for when, (rate, _) in phases.items()
    ]
    for name in TABLES:
        for when, (_, tables) in phases.items():
            table, where = tables[name], f"{row}: {name}, {when}"
            found += [
                Measured(row=where, value=table.dead, unit="dead rows"),
                Measured(row=where, value=table.size / 2**20, unit="MB"),
            ]
    return found


async def watch(setup: Setup, load: Load) -> tuple[float, dict[str, Table]]:
    """Return how many ended in a second, and what the tables are like at the end."""
    began_s, done = time.perf_counter(), load.done
    await asyncio.sleep(PHASE_S if not setup.quick else 0.5)
    rate = (load.done - done) / (time.perf_counter() - began_s)
    return rate, await asyncio.to_thread(read_tables, setup.url)


def read_tables(url: str) -> dict[str, Table]:
    from bench.servers import ask  # heavy

    return {name: Table(*ask(url, READ, [name])) for name in TABLES}


CASES = (Case(name="bloat", run=bloat, most_repeats=1, store="postgresql"),)
