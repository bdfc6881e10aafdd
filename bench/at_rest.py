"""What does a store cost that has very many instances: lists, a checkup, a start, idling?"""

from __future__ import annotations

import asyncio
import time

from bench.harness import Case, Measured, Meter, Setup, finish, percentile
from bench.machine import rss_mb
from bench.one_activity import greet, say_hello
from bench.planting import plant
from perdure import Client, Signal, Status, orchestration
from perdure.authoring.registry import Defined
from perdure.checking.checkup import Checkup, check_slices
from perdure.client.reading.lists import InstanceQuery
from perdure.store.contents import Sliced
from perdure.store.opening import open_store

ORIGINALS = 20
PAGES = 7
SETTLE_S = 5
WATCH_S = 20

go_on = Signal("go_on", int)

LISTS: dict[str, InstanceQuery] = {
    "everything": {},
    "a name that one of them has": {"name": "rare"},
    "a name that none has": {"name": "never"},
    "what runs": {"status": Status.RUNNING},
    "what failed": {"status": Status.FAILED},
    "a prefix that one has": {"prefix": "rare"},
    "a name and a status that few have": {"name": "greet", "status": Status.FAILED},
}


@orchestration
async def rare() -> int:
    return 1


@orchestration
async def wait_for_signal() -> int:
    return await go_on.receive()


async def ended(setup: Setup) -> list[Measured]:
    """Let a store have instances that have ended; list and check them, and idle beside them."""
    count = setup.size(200_000, quick=300)
    async with setup.engine([say_hello, greet, rare]) as engine:
        await (await engine.start("rare-1", rare)).result()
        ids = [f"greet-{number}" for number in range(ORIGINALS)]
        handles = [await engine.start(instance_id, greet, "Ada") for instance_id in ids]
        await asyncio.gather(*(handle.result() for handle in handles))
    await plant(setup.url, ids, count)
    found = await listed(setup, count)
    found += await checked(setup, count)
    found += await started(setup, [say_hello, greet, rare], f"{count:,} ended")
    return found


async def waiting(setup: Setup) -> list[Measured]:
    """Let a store have instances that wait; see how soon a worker that starts is of use."""
    count = setup.size(100_000, quick=300)
    async with setup.engine([say_hello, greet, wait_for_signal]) as engine:
        ids = [f"wait-{number}" for number in range(ORIGINALS)]
        for instance_id in ids:
            await engine.start(instance_id, wait_for_signal)
        await finish(engine, greet, "Ada")
    await plant(setup.url, ids, count)
    return await started(setup, [say_hello, greet, wait_for_signal], f"{count:,} waiting")


async def listed(setup: Setup, count: int) -> list[Measured]:
    """Ask for each first page some times; the first look may have to read the file."""
    found = []
    async with Client(setup.url, create=True) as client:
        for name, which in LISTS.items():
            took_ms = []
            for _ in range(PAGES):
                began_s = time.perf_counter()
                await client.instances(**which)
                took_ms.append((time.perf_counter() - began_s) * 1000)
            row = f"{count:,} ended: a page of {name}"
            found.append(Measured(row=row, value=percentile(took_ms, 0.5), unit="ms"))
    return found


async def checked(setup: Setup, count: int) -> list[Measured]:
    """Hold all that is stored against the invariants, as `perdure doctor --deep` does."""
    store = open_store(setup.url)
    await store.open()
    assert isinstance(store, Sliced)
    before_mb, peaks_mb = rss_mb(), [0.0]

    def tell(so_far: Checkup) -> None:
        peaks_mb.append(rss_mb())

    began_s = time.perf_counter()
    checkup = await check_slices(store, tell=tell)
    took_s = time.perf_counter() - began_s
    await store.close()
    assert checkup.is_whole, "not all was looked at"
    assert checkup.violations == [], checkup.violations[:3]
    row = f"{count:,} ended: checkup"
    return [
        Measured(
            row=f"{row}, a million would take",
            value=took_s / max(checkup.instances, 1) * 1_000_000,
            unit="s",
        ),
        Measured(row=f"{row}, growth of the process", value=max(peaks_mb) - before_mb, unit="MB"),
    ]


async def started(setup: Setup, definitions: list[Defined], stored: str) -> list[Measured]:
    """Start a worker, have it run something, let it settle, and watch it doing nothing."""
    began_s = time.perf_counter()
    async with setup.engine(definitions) as engine:
        await finish(engine, greet, "Ada")
        took_s = time.perf_counter() - began_s
        await asyncio.sleep(0.05 if setup.quick else SETTLE_S)
        with Meter(engine._core.store) as meter:
            await asyncio.sleep(0.1 if setup.quick else WATCH_S)
    return [
        Measured(row=f"{stored}: start of a worker to its first result", value=took_s, unit="s"),
        Measured(
            row=f"{stored}: CPU of an idle worker",
            value=meter.cpu_s / meter.took_s * 100,
            unit="% of a core",
            other=meter.other,
        ),
        Measured(
            row=f"{stored}: statements of an idle worker",
            value=meter.statements / meter.took_s,
            unit="1/s",
        ),
    ]


CASES = (
    Case(name="at_rest", run=ended, most_repeats=1),
    Case(name="at_rest/waiting", run=waiting, most_repeats=1),
)
