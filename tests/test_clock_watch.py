from __future__ import annotations

import logging
import random
import time
from datetime import timedelta

import pytest

from perdure import clock_watch
from perdure.clock import (
    JUMP_MS,
    ManualClock,
    boot_clock,
    not_before,
    passed_ns,
    system_clock,
    to_ms,
)
from perdure.clock_watch import (
    LASTS_MS,
    ClockWatch,
    WatchedSystemClock,
    since_moved_ms,
    steady_ms,
)
from perdure.store.postgres.clock import DatabaseClock

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
YEARS = timedelta(days=3650)
START_MS = 1_800_000_000_000


class World:
    """True time, and a wall clock that is off by as much as the test says."""

    def __init__(self) -> None:
        self.passed = ManualClock(5_000)
        self.off_ms = 0

    def true_ms(self) -> int:
        return START_MS + self.passed() - 5_000

    def wall(self) -> int:
        return self.true_ms() + self.off_ms

    def clock(self) -> WatchedSystemClock:
        return WatchedSystemClock(self.wall, passed=self.passed)

    def pass_by(self, clock: ClockWatch, seconds: int) -> None:
        """Let time go by, with a look at the clock every second."""
        for _ in range(seconds):
            self.passed.advance(SECOND)
            clock.look(self.wall())


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def clock(world: World) -> WatchedSystemClock:
    return world.clock()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_watched_clock_tells_what_the_clock_tells(
    world: World, clock: WatchedSystemClock
) -> None:
    world.pass_by(clock, 10)
    world.off_ms = -7

    assert clock() == world.wall()


@pytest.mark.parametrize("off", [YEARS, -YEARS, HOUR, -HOUR])
def test_a_jump_of_the_machines_own_clock_is_noticed(
    monkeypatch: pytest.MonkeyPatch, off: timedelta
) -> None:
    true_ns = time.time_ns
    clock = WatchedSystemClock()
    before_ms = clock()
    with monkeypatch.context() as patch:
        for module in (time, clock_watch):
            patch.setattr(module, "time_ns", lambda: true_ns() + to_ms(off) * 1_000_000)

        assert abs(clock() - before_ms) < to_ms(HOUR) // 2
        assert clock.jumps == 1
    assert abs(clock() - true_ns() // 1_000_000) < to_ms(HOUR) // 2
    assert clock.jumps == 2


@pytest.mark.parametrize("off", [YEARS, -YEARS, 11 * SECOND, -11 * SECOND])
def test_a_clock_that_is_wrong_for_a_moment_is_not_believed(
    world: World, clock: WatchedSystemClock, off: timedelta
) -> None:
    world.off_ms = off // timedelta(milliseconds=1)

    told = [clock()]
    world.pass_by(clock, 59)
    told.append(clock())
    world.off_ms = 0
    told.append(clock())

    assert told == [START_MS, START_MS + 59_000, START_MS + 59_000]


def test_a_clock_that_stays_as_it_is_is_believed_after_a_minute(
    world: World, clock: WatchedSystemClock
) -> None:
    """A virtual machine went on after a pause that none of its clocks has counted."""
    world.off_ms = to_ms(HOUR)
    clock()

    world.pass_by(clock, 59)
    before_ms = clock()
    world.pass_by(clock, 1)

    assert before_ms == world.true_ms() - 1_000
    assert clock() == world.wall()


def test_drift_is_followed_at_once(world: World, clock: WatchedSystemClock) -> None:
    for _ in range(100):
        world.off_ms += JUMP_MS
        assert clock() == world.wall()


def test_a_jump_is_told_once_with_its_size_and_what_becomes_of_it(
    world: World, clock: WatchedSystemClock, caplog: pytest.LogCaptureFixture
) -> None:
    world.off_ms = to_ms(2 * HOUR)

    world.pass_by(clock, 30)

    [text] = said(caplog)
    assert text.startswith("the clock jumped by 2:00:00 ahead.")
    assert "has stayed like that for 60 s" in text
    assert "housekeeping removes nothing" in text


def test_that_the_clock_is_back_is_no_warning(
    world: World, clock: WatchedSystemClock, caplog: pytest.LogCaptureFixture
) -> None:
    world.off_ms = -to_ms(HOUR)
    world.pass_by(clock, 5)
    world.off_ms = 0
    world.pass_by(clock, 100)

    assert len(said(caplog)) == 1
    assert "1:00:00 back" in said(caplog)[0]


def test_that_a_jump_is_believed_is_told(
    world: World, clock: WatchedSystemClock, caplog: pytest.LogCaptureFixture
) -> None:
    world.off_ms = to_ms(HOUR)

    world.pass_by(clock, 200)

    assert [text.partition(" by ")[0] for text in said(caplog)] == [
        "the clock jumped",
        "the clock's jump",
    ]


def test_a_single_look_that_is_off_is_nobodys_business(
    world: World, clock: WatchedSystemClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The process may have been stopped between its looks at the two clocks."""
    world.off_ms = to_ms(HOUR)
    clock()
    world.off_ms = 0

    world.pass_by(clock, 100)

    assert said(caplog) == []


def test_steadiness_counts_from_the_start_and_from_every_jump(
    world: World, clock: WatchedSystemClock
) -> None:
    world.pass_by(clock, 70)
    from_start_ms = clock.steady_ms()
    world.off_ms = to_ms(HOUR)
    world.pass_by(clock, 5)
    while_wrong_ms = clock.steady_ms()
    world.off_ms = 0
    world.pass_by(clock, 8)

    assert (from_start_ms, while_wrong_ms, clock.steady_ms()) == (70_000, 4_000, 7_000)


def test_only_what_is_believed_counts_as_moved(world: World, clock: WatchedSystemClock) -> None:
    world.off_ms = to_ms(HOUR)
    world.pass_by(clock, 30)
    before_ms = clock.since_moved_ms()
    world.pass_by(clock, 31 + 12)

    assert before_ms > to_ms(YEARS)
    assert clock.since_moved_ms() == 12_000


def test_a_clock_that_is_handed_in_is_always_steady() -> None:
    clock = ManualClock()

    assert steady_ms(clock) == since_moved_ms(clock) > to_ms(YEARS)


def test_the_time_that_passes_is_counted_while_the_machine_sleeps_where_that_is_possible() -> None:
    import time

    name = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    assert abs(boot_clock() - time.clock_gettime(name) * 1000) < 60_000
    assert getattr(passed_ns, "args", (name,)) == (name,)
    assert abs(WatchedSystemClock()() - system_clock()) < 1_000


@pytest.mark.parametrize("seed", range(40))
def test_whatever_moments_are_wrong_the_believed_time_is_right(seed: int) -> None:
    """Every moment ends within a minute; in between, the clock is right for a while."""
    luck = random.Random(seed)
    world = World()
    clock = world.clock()
    for _ in range(30):
        way = luck.choice([-1, 1])
        world.off_ms = way * luck.randrange(2 * JUMP_MS, to_ms(YEARS))
        for _ in range(luck.randrange(1, LASTS_MS // 1000)):
            world.pass_by(clock, 1)
            assert abs(clock() - world.true_ms()) <= JUMP_MS
        world.off_ms = luck.randrange(-JUMP_MS // 2, JUMP_MS // 2)
        world.pass_by(clock, luck.randrange(1, 200))
        assert clock() == world.wall()
        assert clock.steady_ms() <= 200_000


# ---------------------------------------------------------------- the database's clock


def database_clock(world: World) -> DatabaseClock:
    clock = DatabaseClock(passed=world.passed)
    clock.learn(world.wall())
    return clock


def test_the_first_time_the_database_tells_is_believed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    clock = DatabaseClock(passed=world.passed)

    assert clock.learn(17) == 17
    assert clock() == 17
    assert said(caplog) == []


def test_time_goes_on_while_the_machine_of_a_worker_sleeps(world: World) -> None:
    """B5: whoever wakes up must not believe in leases that ran out meanwhile."""
    clock = database_clock(world)

    world.passed.advance(HOUR)

    assert clock() == world.true_ms()


def test_a_pause_that_no_clock_of_the_worker_counted_is_believed_at_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    clock = database_clock(world)

    world.off_ms = to_ms(HOUR / 2)

    assert clock.learn(world.wall()) == clock() == world.wall()
    assert clock.since_moved_ms() == 0
    world.pass_by(clock, 3)
    assert len(said(caplog)) == 1
    assert "0:30:00 ahead, and leases and timers with it" in said(caplog)[0]


def test_a_server_whose_clock_is_years_ahead_for_a_moment_is_not_believed(world: World) -> None:
    clock = database_clock(world)
    world.off_ms = to_ms(YEARS)

    told = clock.learn(world.wall())
    world.pass_by(clock, 30)

    assert told == START_MS
    assert clock() == world.true_ms()
    assert clock.steady_ms() == 30_000


# ----------------------------------------------------------------------- recorded time


def test_recorded_time_does_not_go_back_for_a_small_step() -> None:
    assert not_before(START_MS, START_MS - 60_000) == START_MS
    assert not_before(START_MS, START_MS + 1) == START_MS + 1


def test_recorded_time_of_a_wrong_clock_is_not_waited_for() -> None:
    assert not_before(START_MS + to_ms(YEARS), START_MS) == START_MS
