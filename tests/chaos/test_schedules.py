"""Schedules whose workers die: at every commit, and as processes of a fleet."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from perdure import Client, Context, Every, Schedule, activity, orchestration
from perdure.authoring.schedules.decider import ScheduleDecider
from perdure.authoring.schedules.facts import RunEnded, SlotFired, SlotSkipped
from perdure.checking.invariants import check
from perdure.store.opening import open_store
from perdure.testing import Trial, crash_everywhere
from tests.engine.schedule_fleet import PERIOD
from tests.sizes import IS_FULL

ROOT = Path(__file__).parents[2]
HOUR = timedelta(hours=1)
SLOTS = 1_000 if IS_FULL else 40
WORKERS = 4


# ------------------------------------------------------------------ at every commit


@activity
async def count(slot: str) -> int:
    return len(slot)


@orchestration
async def report(ctx: Context) -> int:
    assert ctx.slot is not None
    return await count(ctx.slot.at.isoformat())


hourly = Schedule("hourly", Every(HOUR), report).with_options(missed="all", overlap="allow")
queued = Schedule("queued", Every(HOUR), report).with_options(overlap="queue")


async def three_hours(trial: Trial) -> None:
    begun = trial.now
    for _ in range(3):
        await trial.advance(HOUR)
    await trial.settle()
    assert await trial.schedule("hourly").trigger(trigger_id="t") == "hourly@trigger#t"
    await trial.settle()
    for name in ("hourly", "queued"):
        page = await trial.instances(prefix=f"{name}@2")
        found = sorted(one.instance_id for one in page.items)
        wanted = Schedule(name, Every(HOUR), report).slots(begun, count=3)
        assert found == [f"{name}@{slot.isoformat()}" for slot in wanted]
        events = await trial.events(ScheduleDecider, name)
        fired = [one.event.instance_id for one in events if isinstance(one.event, SlotFired)]
        assert len(fired) == len(set(fired))
        assert (await trial.schedule(name).info()).running == ()


@pytest.mark.timeout(600)
def test_a_worker_that_dies_at_any_commit_fires_each_slot_once() -> None:
    crash_everywhere(three_hours, [report, count, hourly, queued], max_runs=300 if IS_FULL else 40)


# ------------------------------------------------------------------------- a fleet


class Fleet:
    """Processes that have the schedule."""

    def __init__(self, url: str) -> None:
        self._program = [sys.executable, "-m", "tests.engine.schedule_fleet", url]
        self._processes = [self._begin() for _ in range(WORKERS)]

    def _begin(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._program, cwd=ROOT, stderr=subprocess.DEVNULL)

    def replace(self, number: int) -> None:
        """Kill a process, and start another."""
        self._end(self._processes[number])
        self._processes[number] = self._begin()

    def close(self) -> None:
        """Kill all of them."""
        for process in self._processes:
            self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.fixture
def fleet(url: str) -> Iterator[Fleet]:
    found = Fleet(url)
    yield found
    found.close()


@pytest.mark.timeout(900 if IS_FULL else 600)
async def test_a_slot_fires_once_in_a_fleet_whose_processes_are_killed(
    url: str, fleet: Fleet
) -> None:
    dice = random.Random(11)
    async with Client(url, create=True) as client:
        kills = 20 if IS_FULL else 4
        for number in range(1, kills + 1):
            await has_fired(client, SLOTS * number // kills)
            fleet.replace(dice.randrange(WORKERS))
        handle = client.schedule("ticking")
        await handle.pause("enough")

        async def is_done() -> bool:
            return not (await handle.info()).running

        await waits_until(is_done)
        events = [one.event for one in await client.events(ScheduleDecider, "ticking")]
    fleet.close()

    fired = [one.slot for one in events if isinstance(one, SlotFired)]
    assert len(fired) >= SLOTS
    times = [datetime.fromisoformat(slot) for slot in fired]
    assert times == [times[0] + PERIOD * n for n in range(len(times))]
    assert [one for one in events if isinstance(one, SlotSkipped)] == []
    assert {one.status for one in events if isinstance(one, RunEnded)} == {"completed"}
    store = open_store(url)
    await store.open()
    try:
        assert await check(store) == []
    finally:
        await store.close()


async def has_fired(client: Client, slots: int) -> None:
    async def enough() -> bool:
        return await client.count(prefix="ticking@") >= slots

    await waits_until(enough)


async def waits_until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(150):
        while not await holds():  # noqa: ASYNC110 - other processes do it
            await asyncio.sleep(0.05)
