"""How fast do deciders decide: inputs that are waited for, inputs that are sent, their effects,
their timers, their state?
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count as counting
from typing import Never

from bench.harness import Case, Measured, Meter, Setup, in_flight, percentile
from perdure import Accepted, Decider, Decision, Engine, activity

BUDGET_PER_S = 5_000
WARM_UP = 200
LOOK_EVERY_S = 0.002


@dataclass(frozen=True)
class Add:
    to: str
    amount: int


@dataclass(frozen=True)
class Added:
    amount: int


class Counter(Decider[int, Add, Added, Never]):
    """Adds up."""

    name = "counter"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Add, /) -> str:
        return input.to

    def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
        return Decision.accept(Added(input.amount))

    def evolve(self, state: int, event: Added, /) -> int:
        return state + event.amount


class PlainCounter(Counter):
    """Keeps no snapshots."""

    name = "plain-counter"
    snapshot_every = 0


@activity
async def confirm(to: str, amount: int) -> Add:
    """An effect whose result is the next input."""
    return Add(to, -amount)


class Confirmed(Counter):
    """Asks for an effect with every positive amount."""

    name = "confirmed"

    def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
        decision = Decision.accept(Added(input.amount))
        return decision.effect(confirm, input.to, input.amount) if input.amount > 0 else decision


class Timed(Counter):
    """Sets a timer with the first input; the amount is when it is due."""

    name = "timed"

    def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
        if input.amount <= 0:
            return Decision.accept(Added(1))
        after = timedelta(milliseconds=max(input.amount - time_ms(now), 1))
        return Decision.accept(Added(0)).timer("once", after=after, input=Add(input.to, 0))


def time_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


# ------------------------------------------------------------------------------- execute


async def many_instances(setup: Setup) -> list[Measured]:
    """Five hundred callers, each input for an instance of its own or one that it has used before:
    four inputs an instance."""
    count = setup.size(20_000, quick=400)
    numbers = counting()

    async def one(engine: Engine) -> None:
        number = next(numbers)
        outcome = await engine.execute(Counter, Add(f"c-{number // 4 % (count // 4)}", 1))
        assert isinstance(outcome, Accepted)

    return await measure_execute(setup, count, 500, one, "many instances", budget=BUDGET_PER_S)


async def new_instances(setup: Setup) -> list[Measured]:
    """Every input begins an instance."""
    count = setup.size(10_000, quick=300)
    numbers = counting()

    async def one(engine: Engine) -> None:
        await engine.execute(Counter, Add(f"c-{next(numbers)}", 1))

    return await measure_execute(setup, count, 500, one, "all new", budget=None)


async def one_instance(setup: Setup) -> list[Measured]:
    """All inputs are for one instance."""
    count = setup.size(20_000, quick=400)

    async def one(engine: Engine) -> None:
        await engine.execute(Counter, Add("hot", 1))

    return await measure_execute(setup, count, 500, one, "one instance", budget=BUDGET_PER_S)


async def one_caller(setup: Setup) -> list[Measured]:
    """One after the other: each waits for its own commit."""
    count = setup.size(500, quick=50)
    async with setup.engine([Counter]) as engine:
        await engine.execute(Counter, Add("c", 1))
        took_ms = []
        for _ in range(count):
            began_s = time.perf_counter()
            await engine.execute(Counter, Add("c", 1))
            took_ms.append((time.perf_counter() - began_s) * 1000)
    row = "execute, one caller"
    return [
        Measured(row=f"{row}, p50", value=percentile(took_ms, 0.5), unit="ms"),
        Measured(row=f"{row}, p99", value=percentile(took_ms, 0.99), unit="ms"),
    ]


async def measure_execute(
    setup: Setup,
    count: int,
    callers: int,
    one: Callable[[Engine], Awaitable[None]],
    how: str,
    *,
    budget: float | None,
) -> list[Measured]:
    async with setup.engine([Counter]) as engine:

        async def warm() -> None:
            await engine.execute(Counter, Add("warm-up", 1))

        async def work() -> None:
            await one(engine)

        await in_flight(WARM_UP, WARM_UP, warm)
        with Meter(engine._core.store) as meter:
            await in_flight(count, callers, work)
    return [
        meter.measured(
            f"execute, {callers} callers, {how}",
            count / meter.took_s,
            "inputs/s",
            units=count,
            per="input",
            at_least=budget,
        )
    ]


# --------------------------------------------------------------- send, effects, timers


async def send_and_drain(setup: Setup) -> list[Measured]:
    """Send to a hundred instances; the clock stops when all is decided."""
    count, instances = setup.size(10_000, quick=400), 100
    numbers = counting()
    async with setup.engine([Counter]) as engine:

        async def send() -> None:
            await engine.send(Counter, Add(f"c-{next(numbers) % instances}", 1))

        with Meter(engine._core.store) as meter:
            await in_flight(count, 500, send)
            await recorded(engine, count)
    row = "send and drain, 100 instances"
    return [
        meter.measured(row, count / meter.took_s, "inputs/s", units=count, per="input"),
    ]


async def effects(setup: Setup) -> list[Measured]:
    """Each input asks for an effect whose result is an input."""
    count, instances = setup.size(5_000, quick=300), 500
    numbers = counting()
    async with setup.engine([Confirmed, confirm]) as engine:

        async def one() -> None:
            await engine.execute(Confirmed, Add(f"c-{next(numbers) % instances}", 1))

        with Meter(engine._core.store) as meter:
            await in_flight(count, 500, one)
            await recorded(engine, 2 * count)
    row = "effects that return an input"
    return [
        meter.measured(row, count / meter.took_s, "effects/s", units=count, per="effect"),
    ]


async def due_timers(setup: Setup) -> list[Measured]:
    """Ten thousand instances with a timer that is due at the same moment."""
    count = setup.size(10_000, quick=200)
    ahead_s = 10.0 if not setup.quick else 0.5
    numbers = counting()
    async with setup.engine([Timed]) as engine:
        due_s = time.time() + ahead_s
        due_ms = int(due_s * 1000)

        async def one() -> None:
            await engine.execute(Timed, Add(f"c-{next(numbers)}", due_ms))

        await in_flight(count, 500, one)
        assert time.time() < due_s, "the machine is too slow for this many before they are due"
        await asyncio.sleep(due_s - time.time())

        with Meter(engine._core.store) as meter:
            await recorded(engine, 2 * count)
    return [
        meter.measured(
            "10,000 due timers of deciders",
            count / meter.took_s,
            "timers/s",
            units=count,
            per="timer",
        )
    ]


# ---------------------------------------------------------------------------------- state


async def cold_state(setup: Setup) -> list[Measured]:
    """Read the state of a long history in a process that does not have it in memory."""
    count = setup.size(20_000, quick=500)
    for decider in (PlainCounter, Counter):
        async with setup.engine([decider]) as engine:

            async def one(engine: Engine = engine, decider: type[Counter] = decider) -> None:
                await engine.execute(decider, Add("long", 1))

            await in_flight(count, 500, one)
    found = []
    for decider, how in ((PlainCounter, "cold"), (Counter, "with snapshots")):
        async with setup.engine([decider]) as engine:
            began_s = time.perf_counter()
            assert await engine.state(decider, "long") == count
            took_ms = (time.perf_counter() - began_s) * 1000
        found.append(Measured(row=f"state of 20,000 events, {how}", value=took_ms, unit="ms"))
    return found


async def recorded(engine: Engine, events: int) -> None:
    """Wait until so many events are recorded in all."""
    while await engine._core.store.feed_end() < events:  # noqa: ASYNC110 - it happens in the database
        await asyncio.sleep(LOOK_EVERY_S)


CASES = (
    Case(name="deciders/execute", run=many_instances),
    Case(name="deciders/new", run=new_instances),
    Case(name="deciders/hot", run=one_instance),
    Case(name="deciders/one", run=one_caller),
    Case(name="deciders/send", run=send_and_drain),
    Case(name="deciders/effects", run=effects),
    Case(name="deciders/timers", run=due_timers),
    Case(name="deciders/state", run=cold_state),
)
