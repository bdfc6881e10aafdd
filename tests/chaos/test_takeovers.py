"""What kill tests found, each as its own small story: work that moves between workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from perdure import Status
from perdure.clock import to_ms
from perdure.jobs.slots import SlotKind
from perdure.model.turns import TurnClaim
from perdure.store.contents import Inspectable
from tests.chaos import scenario
from tests.chaos.accounting import recorded_attempts
from tests.chaos.crashing import OPTIONS, Fault, FaultKind, HandDriven, World


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "sqlite://:memory:"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
async def world(url: str) -> AsyncIterator[World]:
    async with World(url=url) as world:
        yield world


async def status_of(engine: HandDriven, instance_id: str) -> Status:
    return (await engine.handle(instance_id).info()).status


async def leases_in(world: World) -> list[str]:
    assert isinstance(world.store, Inspectable)
    contents = await world.store.read_contents()
    jobs = [job for some in contents.jobs.values() for job in some]
    return [
        *(row.instance_id for row in contents.live.values() if row.lease),
        *(job.key.instance_id for job in jobs if job.token),
    ]


async def test_an_inline_call_made_elsewhere_is_run_by_a_worker_with_an_older_memory(
    world: World,
) -> None:
    """The worker has the instance in memory as it was before another one went on with it."""
    async with world.process() as old:
        await old.start("i", scenario.told_to_add, 1)
        async with world.process(Fault(FaultKind.AFTER, 1, "commit")) as other:
            await other.handle("i").send(scenario.note, "go")
            world.clock.advance(timedelta(seconds=1))
            await other.until_dead()

        await old.until_ended()
        await old.handle("i").send(scenario.note, "end")
        await old.until_ended()

        assert await old.handle("i", scenario.told_to_add).result() == [2]


async def test_a_turn_may_be_claimed_while_an_inline_call_brings_its_instance_into_memory(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.process(Fault(FaultKind.AFTER, 2, "commit")) as first:
        await first.start("i", scenario.told_to_add, 1)
        await first.handle("i").send(scenario.note, "go")
        await first.until_dead()
    world.clock.advance(2 * OPTIONS.lease_for)
    async with world.process() as engine:
        gate = Gate(engine)
        # The job alone can be claimed, and its instance is read for it.
        assert engine.serving.claimer is not None
        await engine.serving.claimer.run_once()
        await gate.reached.wait()
        await engine.handle("i").send(scenario.note, "end")
        world.clock.advance(timedelta(seconds=1))
        await engine.serving.claimer.run_once()
        await engine.until_ended()

        assert await engine.handle("i", scenario.told_to_add).result() == [2]
    assert caplog.records == []


class Gate:
    """Holds the next read of histories back until the one after it is through as well."""

    def __init__(self, engine: HandDriven) -> None:
        self.reached = asyncio.Event()
        self._next_is_through = asyncio.Event()
        self._store = cast(Any, engine._core.store)
        self._read = engine._core.store.read_histories
        self._store.read_histories = self._first

    async def _first(self, executions: Any) -> Any:
        self._store.read_histories = self._second
        histories = await self._read(executions)
        self.reached.set()
        await self._next_is_through.wait()
        return histories

    async def _second(self, executions: Any) -> Any:
        self._store.read_histories = self._read
        histories = await self._read(executions)
        self._next_is_through.set()
        await asyncio.sleep(0)  # The held one answers first.
        return histories


async def test_an_instance_that_was_terminated_after_its_claim_is_let_go_without_a_word(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.process() as engine, world.process() as other:
        other.serving._is_serving = False  # So that the first turn is claimed.
        await other.start("i", scenario.waiting)
        [claim] = await world.store.claim_turns(claim_of(engine))
        await other.handle("i").terminate("at once")

        await engine.serving.turns.take([claim])
        await engine.until_ended()

        assert await status_of(engine, "i") is Status.TERMINATED
        assert engine.serving.turns.leases() == []
    assert caplog.records == []


def calls_of(engine: HandDriven) -> list[str]:
    """Return the names of the writing calls an engine has made."""
    return [call.name for call in vars(engine._core.store)["writes"]]


def claim_of(engine: HandDriven) -> TurnClaim:
    """Return what the engine's own claims ask for."""
    claimer = engine.serving.claimer
    assert claimer is not None
    lease_ms = to_ms(OPTIONS.lease_for)
    return TurnClaim(engine.serving.worker_id, claimer._definitions, 10, lease_ms, 1)


async def test_a_result_from_a_lost_lease_is_refused(world: World) -> None:
    """Two workers run the same call; only the one with the lease may end it."""
    async with world.process() as slow, world.process() as quick:
        await slow.start("i", scenario.long, 1)
        await slow.until_idle()
        world.clock.advance(2 * OPTIONS.lease_for)
        await quick.until_idle()

        slow.hung.may_end.set()
        await slow.until_idle()
        before = await recorded_in(world)
        quick.hung.may_end.set()
        await quick.handle("i").send(scenario.note, "go")
        await quick.until_ended()

        assert before == []
        assert 2 in await recorded_in(world)
        assert await quick.handle("i", scenario.long).result() == [2, 2]


async def test_a_result_whose_turn_is_refused_is_not_lost(world: World) -> None:
    """The job's lease is good but the instance has moved on elsewhere: nothing runs again."""
    async with world.process() as home, world.process() as other:
        await home.start("i", scenario.long, 1)
        await home.until_idle()
        await other.handle("i").send(scenario.note, "go")
        world.clock.advance(timedelta(seconds=1))
        await other.until_idle()

        home.hung.may_end.set()
        await home.until_idle()
        await other.until_ended()

        assert await other.handle("i", scenario.long).result() == [2, 2]
    assert [line.attempt for line in world.ledger if line.what == "begin"] == [1, 1]


async def recorded_in(world: World) -> list[int]:
    """Return the attempts whose results are recorded."""
    assert isinstance(world.store, Inspectable)
    return list(recorded_attempts(await world.store.read_contents()).values())


async def test_calls_that_are_given_up_in_their_own_turn_take_no_room(world: World) -> None:
    async with world.process() as engine:
        before = engine.serving.jobs.room()[SlotKind.THREADED]

        for number in range(5):
            await engine.start(f"hasty-{number}", scenario.hasty, number)
        await engine.until_ended()

        assert engine.serving.jobs.room()[SlotKind.THREADED] == before


async def test_a_worker_without_room_in_memory_runs_everything_all_the_same(url: str) -> None:
    """An instance that is brought into memory for a turn must not be the one that is evicted."""
    async with (
        World(options=replace(OPTIONS, hot_instances=0), url=url) as world,
        world.process() as engine,
    ):
        for number in range(3):
            await engine.start(f"work-{number}", scenario.work, number)
        await engine.until_ended()

        for number in range(3):
            result = await engine.handle(f"work-{number}", scenario.work).result()
            assert result == [number + 1, number + 2, number + 2, number + 3]


async def test_a_claim_under_way_when_the_worker_stops_is_given_back(world: World) -> None:
    async with world.process() as first:
        await first.start("i", scenario.work, 1)
        await first.start("j", scenario.listen, 2)
        await first.handle("j").send(scenario.note, "early")
    world.clock.advance(2 * OPTIONS.lease_for)
    async with world.process() as engine:
        assert engine.serving.claimer is not None
        claiming = asyncio.create_task(engine.serving.claimer.run_once())
        for _ in range(3):
            await asyncio.sleep(0)  # The claims are handed to the store.
        assert not claiming.done()
        claiming.cancel()
        await asyncio.wait({claiming})

        assert claiming.cancelled()
        assert "release_turns" in calls_of(engine)
        assert "end_jobs" in calls_of(engine)
    assert await leases_in(world) == []
