"""One run of the anatomy, in a process of its own.

    python -m bench.anatomy_run KIND SUBJECT SIZE URL

A *plain* run has nothing in its way and counts what is spent as a whole; a *timed* one finds the
processor time of the phases; a *traced* one counts Python calls; a *walk* follows one piece of
work. What was found goes to stdout.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bench.anatomy_subjects import SUBJECTS, Subject, WayName
from bench.disk import disk_of
from bench.harness import Meter
from bench.phases import REST, Phase, ThreadKind, phases_of, thread_kind
from bench.stopwatch import Stopwatch, reading_costs
from bench.tracer import Tracer, Walk
from perdure import Engine

WALKS = 41
"""How often a piece of work is followed. Before 3.12 the first few are not seen whole: code that is
new to a worker is watched closely, with the hook of Python that the tracer has. On a loaded machine
a walk is longer: compare versions in the same minutes."""


@dataclass(kw_only=True)
class Spent:
    """What one unit took; which of it was found depends on the kind of run."""

    us: dict[ThreadKind, float] = field(default_factory=dict)
    """Processor time by thread."""
    phases_us: dict[ThreadKind, dict[str, float]] = field(default_factory=dict)
    calls: dict[ThreadKind, dict[str, float]] = field(default_factory=dict)
    """Python calls by phase."""
    rooms: dict[str, float] = field(default_factory=dict)
    """Python calls by folder."""
    totals: dict[str, float] = field(default_factory=dict)
    """What else was used, by name."""


@dataclass(kw_only=True)
class Found:
    """What one run tells."""

    spent: dict[WayName, Spent] = field(default_factory=dict)
    walks: list[Walk] = field(default_factory=list)


async def plain(subject: Subject, url: str, size: str) -> Found:
    """Count what is spent as a whole."""
    found = Found()
    disk = disk_of(url)
    for _ in range(2):  # The first time it makes the tables.
        disk.before_opening()
        async with opened(subject, url, size):
            disk.begin()
        of_nothing = disk.after_closing()
    for way in subject.ways:
        count = way.size(size)
        disk.before_opening()
        async with opened(subject, url, size) as engine:
            disk.begin()
            before = cpu_s_by_thread()
            with Meter(engine._core.store) as meter:
                await way.do(engine, count)
            after = cpu_s_by_thread()
            disk.end()
        used = disk.after_closing()
        cost = meter.measured("", 0, "", units=count, per="").cost
        assert cost is not None, "a meter tells the cost"
        found.spent[way.name] = Spent(
            us={thread: (after[thread] - before[thread]) / count * 1e6 for thread in after},
            totals={
                **({} if cost.server_us is None else {"server us": cost.server_us}),
                "transactions": cost.transactions,
                "statements": cost.statements,
                "rows": cost.rows,
                "bytes": used.size / count,
                "fsyncs": (used.fsyncs - of_nothing.fsyncs) / count,
            },
        )
    return found


async def timed(subject: Subject, url: str, size: str) -> Found:
    """Find the processor time of each phase."""
    found = Found()
    phases = await loaded_phases(subject, url, size)
    watch = Stopwatch()
    reading_costs()
    watch.watch(phases)
    for way in subject.ways:
        count = way.size(size)
        async with opened(subject, url, size) as engine:
            before, cpu_before = watch.read(), cpu_s_by_thread()
            await way.do(engine, count)
            after, cpu = watch.read(), cpu_s_by_thread()
        spent = found.spent[way.name] = Spent()
        for phase in phases:
            key = (phase.thread, phase.name)
            spent_s = after.spent_s[key] - before.spent_s[key]
            spent.phases_us.setdefault(phase.thread, {})[phase.name] = spent_s / count * 1e6
        for thread, of_phases in spent.phases_us.items():
            reading_s = after.reading_s[thread] - before.reading_s[thread]
            all_us = (cpu[thread] - cpu_before[thread] - reading_s) / count * 1e6
            of_phases[REST] = all_us - sum(of_phases.values())
    return found


async def traced(subject: Subject, url: str, size: str) -> Found:
    """Count Python calls."""
    found = Found()
    tracer = Tracer()
    tracer.name(await loaded_phases(subject, url, size))
    tracer.start()
    for way in subject.ways:
        count = way.size(size)
        async with opened(subject, url, size) as engine:
            tracer.clear()
            await way.do(engine, count)
            spent = found.spent[way.name] = Spent()
            rooms: Counter[str] = Counter()
            for calls in tracer.threads:
                of_phases = spent.calls.setdefault(calls.thread, {})
                for phase, times in calls.by_phase.items():
                    of_phases[phase] = of_phases.get(phase, 0) + times / count
                rooms.update(calls.by_room)
        spent.rooms = {room: times / count for room, times in rooms.items()}
    tracer.stop()
    return found


async def walk(subject: Subject, url: str, size: str) -> Found:
    """Follow one piece of work, several times."""
    tracer = Tracer()
    tracer.name(await loaded_phases(subject, url, size))
    tracer.start()
    found = Found()
    async with opened(subject, url, size) as engine:
        for _ in range(WALKS):
            assert subject.prepare is not None, "nobody asks to follow it"
            go = await subject.prepare(engine)
            tracer.clear()
            await go()
            found.walks.append(tracer.walk(subject.walk_begins))
    tracer.stop()
    return found


KINDS: dict[str, Callable[[Subject, str, str], Awaitable[Found]]] = {
    run.__name__: run for run in (plain, timed, traced, walk)
}


@asynccontextmanager
async def opened(subject: Subject, url: str, size: str) -> AsyncIterator[Engine]:
    """Run an engine in which everything has happened before."""
    async with Engine(url, subject.definitions) as engine:
        for way in subject.ways:
            await way.do(engine, way.warm_up(size))
        yield engine


async def loaded_phases(subject: Subject, url: str, size: str) -> tuple[Phase, ...]:
    """Return the phases on the store of a URL, when all the code that they need is loaded."""
    async with opened(subject, url, size) as engine:
        return phases_of("postgresql" if engine._core.store.is_server else "sqlite")


def cpu_s_by_thread() -> dict[ThreadKind, float]:
    """Return how long the threads have computed so far."""
    total: dict[ThreadKind, float] = {"loop": 0.0, "writer": 0.0, "others": 0.0}
    for thread in threading.enumerate():
        assert thread.ident is not None, "it was started"
        clock = time.pthread_getcpuclockid(thread.ident)
        total[thread_kind(thread)] += time.clock_gettime(clock)
    return total


def main() -> None:
    """Run and tell."""
    kind, subject, size, url = sys.argv[1:]
    logging.basicConfig(level=logging.WARNING)
    run: Any = KINDS[kind](SUBJECTS[subject], url, size)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(run)))


if __name__ == "__main__":
    main()
