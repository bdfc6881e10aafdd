"""A clock that was wrong for a moment leaves nothing behind, or little."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from functools import partial

import pytest

from perdure import Client, Signal, activity, context, orchestration
from perdure.clock import ManualClock, to_datetime, to_ms
from perdure.clock_watch import WatchedSystemClock
from perdure.model.histories.events import TimerScheduled, read_event
from perdure.model.instances import Status
from perdure.model.options import Retention
from perdure.store.base import ExecutionKey
from perdure.worker.housekeeping import STEADY_FIRST_MS
from tests.engine.stage import OPTIONS, Gate, Stage, has_ended, options, until

YEARS = timedelta(days=3650)
SECOND = timedelta(seconds=1)

go = Signal("go", str)


class Machine:
    """A machine whose wall clock tests set, and whose other clock counts what passes."""

    def __init__(self) -> None:
        self.wall = ManualClock()
        self.passed = ManualClock(1)

    def clock(self) -> WatchedSystemClock:
        return WatchedSystemClock(self.wall, passed=self.passed)

    def advance(self, by: timedelta) -> None:
        self.wall.advance(by)
        self.passed.advance(by)

    def set_ahead(self, by: timedelta) -> None:
        self.wall.now_ms += to_ms(by)


@orchestration
async def naps() -> None:
    """Sleeps for a second after every signal."""
    async for word in go:
        if word == "end":
            return
        await asyncio.sleep(1)
        context().report(word)


async def dues(client: Client, instance_id: str) -> list[int]:
    """Return the due times that the history has."""
    [row] = await client._core.store.read_instances([instance_id])
    assert row is not None
    key = ExecutionKey(instance_id, row.incarnation, row.execution)
    [history] = await client._core.store.read_histories([key])
    events = [read_event(one.kind, one.body) for one in history]
    return [event.due_ms for event in events if isinstance(event, TimerScheduled)]


async def nap(client: Client, word: str, number: int) -> int:
    """Let the instance begin its n-th nap, and return when that is over."""
    await client.handle("n", naps).send(go, word)

    async def has_begun() -> bool:
        return len(await dues(client, "n")) == number

    await until(has_begun)
    return (await dues(client, "n"))[-1]


async def has_reported(client: Client, word: str) -> bool:
    report = await client.handle("n").report()
    return report is not None and report.value == word


# ----------------------------------------------------------------------------- timers


async def test_a_timer_set_after_a_moment_with_a_wrong_clock_is_due_by_the_right_one(
    stage: Stage,
) -> None:
    """Nobody watches this clock, so a signal and its turn are on record ten years ahead."""
    clock = ManualClock()
    engine = await stage.engine([naps], clock=clock)
    handle = await engine.start("n", naps)
    clock.advance(YEARS)
    await nap(engine, "wrong", 1)
    clock.advance(2 * SECOND)
    await until(lambda: has_reported(engine, "wrong"))

    clock.now_ms -= to_ms(YEARS)
    due_ms = await nap(engine, "right", 2)
    right_ms = clock()
    clock.advance(SECOND)
    await until(lambda: has_reported(engine, "right"))

    assert due_ms == right_ms + 1_000
    await handle.send(go, "end")
    await handle.result()
    assert (await handle.info()).ended_at == to_datetime(clock())


async def test_a_timer_set_while_the_clock_is_wrong_for_a_moment_is_due_in_time(
    stage: Stage,
) -> None:
    stage.allow_log("the clock jumped")
    machine = Machine()
    engine = await stage.engine([naps], clock=machine.clock())
    handle = await engine.start("n", naps)
    right_ms = machine.wall()

    machine.set_ahead(YEARS)
    due_ms = await nap(engine, "on", 1)
    machine.set_ahead(-YEARS)
    machine.advance(SECOND)
    await until(lambda: has_reported(engine, "on"))

    assert due_ms == right_ms + 1_000
    await handle.send(go, "end")
    await handle.result()


async def test_a_signal_that_came_by_a_wrong_clock_is_taken_at_once_and_in_order(
    stage: Stage,
) -> None:
    """Its arrival is on record in ten years; a later one by the right clock must not pass it."""

    @orchestration
    async def listens() -> list[str]:
        return [await go.receive(), await go.receive()]

    clock = ManualClock()
    client = await stage.client(clock=clock)
    handle = await client.start("l", listens)
    clock.advance(YEARS)
    await handle.send(go, "first")
    clock.now_ms -= to_ms(YEARS)
    await handle.send(go, "second")

    engine = await stage.engine([listens], clock=clock)

    assert await engine.handle("l", listens).result() == ["first", "second"]


async def test_what_a_process_with_a_wrong_clock_left_ready_goes_on(stage: Stage) -> None:
    """A command was run, and a worker killed, in the minute when the clock was ten years ahead."""
    stage.allow_log("the clock")
    stage.expect_log("by a time that a wrong clock wrote")
    machine = Machine()
    engine = await stage.engine([naps], clock=machine.clock())
    handle = await engine.start("n", naps)
    machine.set_ahead(YEARS)
    engine._core.store.clock()
    wrong = await stage.client(clock=machine.clock())
    await wrong.handle("n", naps).send(go, "end")
    machine.set_ahead(-YEARS)
    before = (await handle.info()).status

    for _ in range(61):
        machine.advance(SECOND)
        engine._core.store.clock()
    await engine._serving.housekeeping.run_once()
    engine._core.noticed_work()

    assert before is Status.RUNNING
    await handle.result()


# -------------------------------------------------------------------------- retention


async def test_what_is_young_outlives_a_clock_that_is_years_ahead(stage: Stage) -> None:
    """However long that lasts: a jump is followed after a minute, but nothing is removed by it
    for an hour, and then the clock is right again."""
    stage.expect_log("the clock jumped by 3650 days, 0:00:00 (ahead|back)")
    stage.expect_log("the clock's jump by 3650 days, 0:00:00 (ahead|back) has lasted")
    machine = Machine()
    kept = options(retention=Retention(ended=timedelta(days=365)))
    engine = await stage.engine([naps], options=kept, clock=machine.clock())
    housekeeping = engine._serving.housekeeping
    handle = await engine.start("n", naps)
    await handle.send(go, "end")
    await handle.result()
    machine.advance(timedelta(hours=2))

    removed = []
    machine.set_ahead(YEARS)
    for _ in range(50):
        machine.advance(timedelta(minutes=1))
        engine._core.store.clock()
        removed.append(bool(await housekeeping.run_once()))
    machine.set_ahead(-YEARS)
    for _ in range(200):
        machine.advance(timedelta(minutes=1))
        engine._core.store.clock()
        removed.append(bool(await housekeeping.run_once()))

    assert not any(removed)
    assert await has_ended(engine, "n")


async def test_what_is_old_goes_when_the_clock_has_been_steady(stage: Stage) -> None:
    machine = Machine()
    kept = options(retention=Retention(ended=timedelta(minutes=1)))
    engine = await stage.engine([naps], options=kept, clock=machine.clock())
    housekeeping = engine._serving.housekeeping
    handle = await engine.start("n", naps)
    await handle.send(go, "end")
    await handle.result()

    machine.advance(timedelta(milliseconds=STEADY_FIRST_MS - 1))
    before = await housekeeping.run_once()
    machine.advance(timedelta(milliseconds=1))
    after = await housekeeping.run_once()

    assert (before.instances, after.instances) == (0, 1)


async def test_a_worker_that_starts_with_a_clock_far_from_the_store_waits_for_a_day(
    stage: Stage,
) -> None:
    """A board whose clock has no battery, and nobody to ask for the time."""
    machine = Machine()
    kept = options(retention=Retention(ended=timedelta(days=365)))
    before = await stage.engine([naps], options=kept, clock=machine.clock())
    handle = await before.start("n", naps)
    await handle.send(go, "end")
    await handle.result()
    await before.close()

    machine.set_ahead(YEARS)
    engine = await stage.engine([naps], options=kept, clock=machine.clock())
    machine.advance(timedelta(hours=23))
    removed = await engine._serving.housekeeping.run_once()

    assert not removed
    assert await has_ended(engine, "n")


async def test_a_store_that_is_ahead_of_the_clock_is_told_of(stage: Stage) -> None:
    stage.expect_log("is still to come by the clock: it is wrong now, or was then")
    clock = ManualClock()
    client = await stage.client(clock=clock)
    handle = await client.start("n", naps)
    clock.now_ms -= to_ms(YEARS)

    engine = await stage.engine([naps], clock=clock)

    clock.advance(YEARS)
    await handle.send(go, "end")
    await engine.handle("n", naps).result()


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_moments_are_wrong_timers_are_in_time_and_the_young_stay(
    stage: Stage, seed: int
) -> None:
    """Timers, signals and retention under a clock that is now and then wrong for a moment."""
    luck = random.Random(seed)
    stage.allow_log("the clock")
    machine = Machine()
    start_ms = machine.wall() - machine.passed()
    kept = options(retention=Retention(ended=timedelta(days=30)))
    engine = await stage.engine([naps], options=kept, clock=machine.clock())
    young = await engine.start("young", naps)
    await young.send(go, "end")
    await young.result()
    handle = await engine.start("n", naps)
    machine.advance(timedelta(hours=2))

    for number in range(1, 9):
        off = luck.choice([-1, 0, 1]) * timedelta(days=luck.randrange(1, 3650))
        machine.set_ahead(off)
        true_ms = start_ms + machine.passed()
        due_ms = await nap(engine, str(number), number)
        machine.advance(timedelta(milliseconds=999))
        engine._core.noticed_work()
        assert not await has_reported(engine, str(number))
        machine.advance(timedelta(milliseconds=1))
        engine._core.noticed_work()
        await until(partial(has_reported, engine, str(number)))
        await engine._serving.housekeeping.run_once()
        machine.set_ahead(-off)
        machine.advance(timedelta(seconds=luck.randrange(1, 50)))

        assert due_ms == true_ms + 1_000

    assert await has_ended(engine, "young")
    await handle.send(go, "end")
    await handle.result()


# ----------------------------------------------------------------------------- leases


async def test_nobody_takes_the_work_of_the_living_when_the_clock_moves_ahead(
    stage: Stage,
) -> None:
    """Not while the jump is doubted, and not when it is believed: leases are renewed first."""
    gate = Gate()
    stage.allow_log("the clock")

    @activity
    async def slow() -> str:
        await gate.pass_through()
        return "done"

    @orchestration
    async def works() -> str:
        return await slow.with_options(session="s")()

    machine = Machine()
    engines = [
        await stage.engine([works, slow], options=options(name=name), clock=machine.clock())
        for name in ("one", "two")
    ]
    handle = await engines[0].start("w", works)
    await gate.reached()
    found = []

    machine.set_ahead(timedelta(hours=2))
    for _ in range(61):
        machine.advance(SECOND)
        await asyncio.gather(*(engine._serving._leases.renew() for engine in engines))
        await asyncio.gather(*(engine._serving._sessions.renew() for engine in engines))
        found += [await engine._serving.claimer.run_once() for engine in engines]
    has_moved = [engine._core.store.clock() == machine.wall() for engine in engines]
    for _ in range(2):
        machine.advance(OPTIONS.lease_for / 2)
        await asyncio.gather(*(engine._serving._leases.renew() for engine in engines))
        await asyncio.gather(*(engine._serving._sessions.renew() for engine in engines))
        found += [await engine._serving.claimer.run_once() for engine in engines]

    [job] = await engines[0]._core.store.read_jobs("w")
    assert has_moved == [True, True]
    assert (job.attempt, any(found)) == (1, False)
    gate.opened.set()
    assert await handle.result() == "done"


# ---------------------------------------------------------------------- explanations


async def test_with_a_moved_clock_the_worker_of_this_process_still_counts(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine([naps], clock=clock)
    handle = await engine.start("n", naps)

    clock.advance(timedelta(minutes=30))

    assert "waits for signal 'go'" in await handle.explain()
    assert (await handle.info()).unclaimed is None
    assert [worker.worker_id for worker in await engine.workers()] == [engine.worker_id]
    await handle.send(go, "end")
    await handle.result()
