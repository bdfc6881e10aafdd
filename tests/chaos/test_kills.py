"""Real worker processes, killed at random moments under load: nothing is lost, nothing is doubled.

PERDURE_CHAOS_KILLS sets how often, PERDURE_CHAOS_FULL=1 doubles it; PERDURE_CHAOS_SEED repeats a
run as far as chance allows. What is killed on PostgreSQL, with its server, is in `test_storm`.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.accounting import overtaken
from tests.chaos.cases import Book
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import read_ledger
from tests.chaos.load import last_look, load, read_all
from tests.chaos.worker_process import LEASE
from tests.sizes import IS_FULL

KILLS = int(os.environ.get("PERDURE_CHAOS_KILLS", "40" if IS_FULL else "20"))
WORKERS = 3
PAUSES = 4
STOPS = 8 if IS_FULL else 4

pytestmark = pytest.mark.timeout(300 + 2 * KILLS)


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    url = f"sqlite:///{tmp_path}/store.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    fleet = Fleet(tmp_path, url)
    yield fleet
    fleet.close()


@pytest.mark.parametrize("fleet", ["sqlite"], indirect=True)
async def test_killed_workers_lose_and_repeat_nothing(fleet: Fleet, chance: random.Random) -> None:
    for _ in range(WORKERS):
        fleet.add()

    async def kill_some(book: Book) -> None:
        await fleet.kill_some(KILLS, chance, pause_s=0.35)

    book = await load(fleet, chance, kill_some)

    assert [*book.problems, *await last_look(fleet)] == []
    assert fleet.kills == KILLS


async def test_a_worker_that_slept_past_its_leases_changes_nothing(
    fleet: Fleet, chance: random.Random
) -> None:
    """It wakes up with turns to commit and results to report; others have done all that."""
    for _ in range(WORKERS):
        fleet.add()

    async def pause_some(book: Book) -> None:
        for worker in fleet.workers:
            await fleet.ready(worker)
        # A pause in which it had nothing to do shows nothing.
        while fleet.pauses < PAUSES or not overtaken(read_ledger(fleet.ledger), fleet.paused):
            worker = chance.choice(fleet.workers)
            await fleet.pause(worker, chance.uniform(1.2, 2.2) * LEASE.total_seconds())
            await asyncio.sleep(chance.uniform(0, 0.5))

    book = await load(fleet, chance, pause_some)

    assert [*book.problems, *await last_look(fleet)] == []


async def test_a_worker_that_is_asked_to_stop_leaves_no_lease(
    fleet: Fleet, chance: random.Random
) -> None:
    left: list[str] = []
    fleet.add()

    async def stop_some(book: Book) -> None:
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

    book = await load(fleet, chance, stop_some)

    assert left == []
    assert [*book.problems, *await last_look(fleet)] == []
