"""How fast do deciders decide: inputs that are waited for, inputs that are sent, their effects,
their timers, their state?
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count as counting
from typing import Never

from bench.harness import Case, Measured, Meter, Setup, in_flight, percentile
from bench.peers import Peer, Spent, answer, ask_all, peers
from perdure import Accepted, Decider, Decision, Engine, activity

BUDGET_PER_S = 5_000
WARM_UP = 200
LOOK_EVERY_S = 0.002
SHARED = 1_000
CALLERS = 20
"""Of each process that shares deciders with others."""
FLEETS = (1, 2, 4)
"""How many such processes there are, one after the other."""


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


# ----------------------------------------------------------------- several processes


async def shared(setup: Setup) -> list[Measured]:
    """One, two and four processes, with twenty callers each, on the same thousand instances."""
    count = setup.size(SHARED, quick=20)
    found = []
    for processes in (1, 2) if setup.quick else FLEETS:
        told, seconds = await share(setup, processes, count, f"s{processes}")
        row = f"execute, {CALLERS} callers each, 1,000 shared instances, {processes} processes"
        rate = sum(one.calls for one in told) / seconds
        p99_ms = max(one.p99_ms for one in told)
        found += [
            Measured(row=row, value=rate, unit="inputs/s"),
            Measured(row=f"{row}, p99", value=p99_ms, unit="ms"),
        ]
    return found


async def shared_hot(setup: Setup) -> list[Measured]:
    """One, two and four processes, with twenty callers each, on one instance."""
    found = []
    for processes in (1, 2) if setup.quick else FLEETS:
        told, seconds = await share(setup, processes, 1, f"h{processes}")
        row = f"execute, {CALLERS} callers each, one shared instance, {processes} processes"
        calls = [one.calls for one in told]
        p99_ms = max(one.p99_ms for one in told)
        found += [
            Measured(row=row, value=sum(calls) / seconds, unit="inputs/s"),
            Measured(row=f"{row}, p99", value=p99_ms, unit="ms"),
        ]
        if processes > 1:
            least = 100 * processes * min(calls) / max(sum(calls), 1)
            name = f"{row}, least of a fair share"
            found.append(Measured(row=name, value=least, unit="%"))
    return found


async def share(
    setup: Setup, processes: int, instances: int, prefix: str
) -> tuple[list[Spent], float]:
    """Have processes decide on the same instances for a while; return what each has done."""
    seconds = 0.3 if setup.quick else 5.0
    arguments = (setup.url, prefix, str(instances), str(seconds))
    async with peers(processes, "bench.deciders", *arguments) as some:
        await some[0].ask("warm")
        await ask_all(some, "run")  # Until each has met the others.
        return await asyncio.gather(*(ran(peer) for peer in some)), seconds


async def ran(peer: Peer) -> Spent:
    return await peer.ask("run")


async def serve(url: str, prefix: str, instances: int, seconds: float) -> None:
    """Be one of the processes that share instances."""
    chance = random.Random(os.getpid())
    async with Engine(url, [Counter]) as engine:

        async def execute(number: int) -> None:
            await engine.execute(Counter, Add(f"{prefix}-{number}", 1))

        async def run(until_s: float, took_ms: list[float]) -> None:
            while (began_s := time.perf_counter()) < until_s:
                await execute(chance.randrange(instances))
                took_ms.append((time.perf_counter() - began_s) * 1000)

        async def handle(word: str) -> Spent:
            took_ms: list[float] = []
            if word == "warm":
                numbers = counting()
                await in_flight(instances, CALLERS, lambda: execute(next(numbers)))
            else:
                until_s = time.perf_counter() + seconds
                await asyncio.gather(*(run(until_s, took_ms) for _ in range(CALLERS)))
            slowest_ms = percentile(took_ms, 0.99) if took_ms else 0.0
            return replace(Spent.by(engine._core.store), calls=len(took_ms), p99_ms=slowest_ms)

        await answer(handle)


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
        is_early = time.time() < due_s
        assert is_early or setup.quick, "the machine is too slow for this many before they are due"
        await asyncio.sleep(max(due_s - time.time(), 0))

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
    while await engine._core.store.feed.feed_end() < events:  # noqa: ASYNC110 - it happens in the database
        await asyncio.sleep(LOOK_EVERY_S)


CASES = (
    Case(name="deciders/execute", run=many_instances),
    Case(name="deciders/new", run=new_instances),
    Case(name="deciders/hot", run=one_instance),
    Case(name="deciders/one", run=one_caller),
    Case(name="deciders/shared", run=shared),
    Case(name="deciders/shared_hot", run=shared_hot),
    Case(name="deciders/send", run=send_and_drain),
    Case(name="deciders/effects", run=effects),
    Case(name="deciders/timers", run=due_timers),
    Case(name="deciders/state", run=cold_state),
)

if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
