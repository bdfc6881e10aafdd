"""Real worker processes, killed at random moments under load: nothing is lost, nothing is doubled.

PERDURE_CHAOS_KILLS sets how often, PERDURE_CHAOS_SEED repeats a run as far as chance allows.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client
from perdure.store.contents import Contents, Inspectable
from perdure.store.opening import open_store
from tests.chaos.accounting import overtaken, problems_in
from tests.chaos.cases import Cases
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import read_ledger
from tests.chaos.worker_process import LEASE

KILLS = int(os.environ.get("PERDURE_CHAOS_KILLS", "40"))
WORKERS = 3
IN_FLIGHT = 25
PAUSES = 4
STOPS = 8

pytestmark = pytest.mark.timeout(60 + 2 * KILLS)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.close()


async def load(fleet: Fleet, chance: random.Random, nemesis: asyncio.Task[None]) -> list[str]:
    """Run cases until the nemesis is through, then let all work end; return what is wrong."""
    async with Client(fleet.url) as client:
        cases = Cases(client, chance)
        running: set[asyncio.Task[None]] = set()
        number = 0
        while not nemesis.done():
            while len(running) < IN_FLIGHT:
                running.add(asyncio.create_task(cases.run(number)))
                number += 1
            await asyncio.wait({*running, nemesis}, return_when=asyncio.FIRST_COMPLETED)
            running = {task for task in running if not task.done()}
        await nemesis
        if running:
            await asyncio.wait(running)
        await until_idle(fleet)
    return cases.book.problems


async def until_idle(fleet: Fleet) -> None:
    """Wait until nothing is left to do: also what the workers started themselves has ended."""
    async with asyncio.timeout(30):
        while True:
            contents = await read_all(fleet)
            started = {line.key for line in read_ledger(fleet.ledger) if line.what == "started"}
            if not contents.live and started <= contents.instances.keys():
                return
            await asyncio.sleep(0.1)


async def read_all(fleet: Fleet) -> Contents:
    store = open_store(fleet.url)
    await store.open()
    try:
        assert isinstance(store, Inspectable)
        return await store.read_contents()
    finally:
        await store.close()


async def last_look(fleet: Fleet) -> list[str]:
    """Stop all workers and return everything that is wrong in the end."""
    codes = await asyncio.gather(*(fleet.stop(worker) for worker in list(fleet.workers)))
    problems = [f"a worker ended with {code}" for code in codes if code]
    store = open_store(fleet.url)
    await store.open()
    try:
        problems += await problems_in(store, read_ledger(fleet.ledger), paused=fleet.paused)
    finally:
        await store.close()
    return [*problems, *fleet.complaints()]


async def test_killed_workers_lose_and_repeat_nothing(fleet: Fleet, chance: random.Random) -> None:
    for _ in range(WORKERS):
        fleet.add()

    nemesis = asyncio.create_task(fleet.kill_some(KILLS, chance, pause_s=0.35))
    problems = await load(fleet, chance, nemesis)

    assert [*problems, *await last_look(fleet)] == []
    assert fleet.kills == KILLS


async def test_a_worker_that_slept_past_its_leases_changes_nothing(
    fleet: Fleet, chance: random.Random
) -> None:
    """It wakes up with turns to commit and results to report; others have done all that."""
    for _ in range(WORKERS):
        fleet.add()

    async def pause_some() -> None:
        await asyncio.sleep(2)
        for _ in range(PAUSES):
            worker = chance.choice(fleet.workers)
            await fleet.pause(worker, chance.uniform(1.2, 2.2) * LEASE.total_seconds())
            await asyncio.sleep(chance.uniform(0, 0.5))

    problems = await load(fleet, chance, asyncio.create_task(pause_some()))

    assert [*problems, *await last_look(fleet)] == []
    assert overtaken(read_ledger(fleet.ledger), fleet.paused), "no worker slept over its work"


async def test_a_worker_that_is_asked_to_stop_leaves_no_lease(
    fleet: Fleet, chance: random.Random
) -> None:
    left: list[str] = []
    fleet.add()

    async def stop_some() -> None:
        for _ in range(STOPS):
            [worker] = fleet.workers
            await fleet.ready(worker)
            await asyncio.sleep(chance.uniform(0.1, 0.6))
            assert await fleet.stop(worker) == 0
            contents = await read_all(fleet)
            left.extend(row.instance_id for row in contents.live.values() if row.lease)
            left.extend(
                str(job.key) for jobs in contents.jobs.values() for job in jobs if job.token
            )
            fleet.add()

    problems = await load(fleet, chance, asyncio.create_task(stop_some()))

    assert left == []
    assert [*problems, *await last_look(fleet)] == []
