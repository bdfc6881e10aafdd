"""How many events a second does a projection take in while eight processes write?"""

from __future__ import annotations

import asyncio
import sys
from itertools import count as counting

from bench.deciders import Add, Added, Counter
from bench.harness import Case, Measured, Meter, Setup, in_flight
from perdure import Engine
from perdure.projection import EventMeta, SqlProjection, Tables

WRITERS = 8
LOOK_EVERY_S = 0.002


class Totals(SqlProjection[Added]):
    """A row per instance."""

    name = "totals"
    deciders = (Counter,)

    def setup(self, tables: Tables, /) -> None:
        tables.execute("CREATE TABLE IF NOT EXISTS totals (id TEXT PRIMARY KEY, total INTEGER)")

    def handle(self, event: Added, meta: EventMeta, tables: Tables, /) -> None:
        tables.execute(
            "INSERT INTO totals VALUES (?, ?) "
            "ON CONFLICT (id) DO UPDATE SET total = total + excluded.total",
            (meta.instance_id, event.amount),
        )


async def while_others_write(setup: Setup) -> list[Measured]:
    """Processes write all they can; the clock stops when the projection has seen everything."""
    count, processes = setup.size(2_000, quick=25), setup.size(WRITERS, quick=2)
    async with setup.engine([Totals, Counter]) as engine:
        await engine.execute(Counter, Add("warm-up", 1))
        await caught_up(engine, 1)
        with Meter(engine._core.store) as meter:
            writers = [
                await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "bench.projections", setup.url, str(number), str(count))
                )
                for number in range(processes)
            ]
            codes = [await writer.wait() for writer in writers]
            assert codes == [0] * processes, codes
            await caught_up(engine, 1 + processes * count)
    total = processes * count
    return [
        meter.measured(
            f"events into a projection, {processes} writing processes",
            total / meter.took_s,
            "events/s",
            units=total,
            per="event",
        )
    ]


async def behind(setup: Setup) -> list[Measured]:
    """A projection that comes later reads what is there."""
    count = setup.size(20_000, quick=500)
    async with setup.engine([Counter]) as engine:
        await write(engine, "w", count)
    async with setup.engine([Totals, Counter]) as engine:
        with Meter(engine._core.store) as meter:
            await caught_up(engine, count)
    return [
        meter.measured(
            "events into a new projection, nobody writes",
            count / meter.took_s,
            "events/s",
            units=count,
            per="event",
        )
    ]


async def caught_up(engine: Engine, events: int) -> None:
    """Wait until the projection has handled so many events."""
    while True:
        found = [info for info in await engine.projections() if info.name == Totals.name]
        if found and found[0].behind == 0 and found[0].position >= events:
            return
        await asyncio.sleep(LOOK_EVERY_S)


async def write(engine: Engine, name: str, count: int) -> None:
    numbers = counting()

    async def one() -> None:
        await engine.execute(Counter, Add(f"{name}-{next(numbers) % 50}", 1))

    await in_flight(count, 100, one)


async def write_alone(url: str, name: str, count: int) -> None:
    """What each of the writing processes does."""
    async with Engine(url, [Counter]) as engine:
        await write(engine, name, count)


CASES = (
    Case(name="projections", run=while_others_write),
    Case(name="projections/behind", run=behind),
)

if __name__ == "__main__":
    asyncio.run(write_alone(sys.argv[1], sys.argv[2], int(sys.argv[3])))
