"""How many updates a second are answered, by one instance and by many, and how soon is one?"""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter

from bench.harness import Case, Measured, Meter, Setup
from perdure import Decider, Decision, Engine, Update, orchestration

WARM_UP = 50

add = Update("add", int, int)


@orchestration
async def adds_up() -> None:
    total = 0
    async for request in add:
        total += request.value
        request.answer(total)


@dataclass(frozen=True)
class Add:
    by: int


@dataclass(frozen=True)
class Added:
    by: int


class Sum(Decider[int, Add, Added, str]):
    """The same as a decider, for comparison."""

    name = "sum"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Add) -> str:
        return "1"

    def evolve(self, state: int, event: Added) -> int:
        return state + event.by

    def decide(self, state: int, input: Add, now: datetime) -> Decision[Add, Added, str]:
        return Decision.accept(Added(input.by))


async def to_one_instance(setup: Setup) -> list[Measured]:
    """All are asked at once; the clock stops when the last one is answered."""
    count = setup.size(1_000, quick=100)
    async with setup.engine([adds_up]) as engine:
        await ask(engine, "warm", WARM_UP)
        with Meter(engine._core.store) as meter:
            await ask(engine, "one", count)
    text = "1,000 updates of one instance"
    return [meter.measured(text, count / meter.took_s, "updates/s", units=count, per="update")]


async def ask(engine: Engine, instance_id: str, count: int) -> None:
    handle = await engine.start(instance_id, adds_up)
    answers = await asyncio.gather(*(handle.update(add, 1) for _ in range(count)))
    assert answers == list(range(1, count + 1)), "an update was lost or done twice"


async def to_many_instances(setup: Setup) -> list[Measured]:
    """One each, all at once, of instances that run."""
    count = setup.size(1_000, quick=50)
    async with setup.engine([adds_up]) as engine:
        handles = [await engine.start(f"many-{one}", adds_up) for one in range(count)]
        with Meter(engine._core.store) as meter:
            await asyncio.gather(*(handle.update(add, 1) for handle in handles))
    text = "one update of each of 1,000 instances"
    return [meter.measured(text, count / meter.took_s, "updates/s", units=count, per="update")]


async def idle(setup: Setup) -> list[Measured]:
    """One at a time, with pauses, beside `execute` of a decider that does the same."""
    count = setup.size(300, quick=20)
    async with setup.engine([adds_up, Sum]) as engine:
        handle = await engine.start("idle", adds_up)
        updates, executes = [], []
        for number in range(count):
            began_s = perf_counter()
            await handle.update(add, 1, update_id=f"u-{number}")
            updates.append(perf_counter() - began_s)
            await asyncio.sleep(0.002)
            began_s = perf_counter()
            await engine.execute(Sum, Add(1), input_id=f"e-{number}")
            executes.append(perf_counter() - began_s)
            await asyncio.sleep(0.002)
    update_ms, execute_ms = (1000 * statistics.median(some) for some in (updates, executes))
    return [
        Measured(row="update of an idle instance, p50", value=update_ms, unit="ms"),
        Measured(row="execute of an idle decider, p50", value=execute_ms, unit="ms"),
        Measured(
            row="update beside execute, idle",
            value=update_ms / execute_ms,
            unit="times",
            at_most=1.5,
        ),
    ]


CASES = (
    Case(name="updates", run=to_one_instance),
    Case(name="updates/many", run=to_many_instances),
    Case(name="updates/idle", run=idle),
)
