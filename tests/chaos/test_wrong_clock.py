"""A process whose clock is set by others notices it, and what a wrong clock leaves is found."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from perdure.clock import system_clock
from perdure.clock_watch import ClockWatch
from perdure.model.histories.events import Event, StoredEvent, TimerScheduled, write_event
from perdure.store.base import ExecutionKey
from perdure.store.contents import Contents
from perdure.store.postgres.clock import DatabaseClock
from tests.chaos.wrong_clock import NEAREST_MS, far_off, own_clock, set_clock, wrong_times

YEAR_MS = 365 * 24 * 3_600_000
NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("url", ["sqlite:///store.db", "postgresql://somewhere/store"])
def test_a_clock_that_is_set_is_noticed_and_doubted(url: str, tmp_path: Path) -> None:
    clock = own_clock(url, tmp_path)
    assert isinstance(clock, ClockWatch)

    def look() -> int:
        return clock.learn(system_clock()) if isinstance(clock, DatabaseClock) else clock()

    look()
    set_clock(tmp_path, os.getpid(), YEAR_MS)
    told_ms = look()

    assert clock.jumps == 1
    assert abs(told_ms - system_clock()) < NEAREST_MS


def test_clocks_jump_both_ways_and_too_far_to_be_believed_at_once() -> None:
    chance = random.Random(1)
    jumps = [far_off(chance) for _ in range(100)]

    assert min(jumps) < 0 < max(jumps)
    assert min(map(abs, jumps)) >= NEAREST_MS


def stored(event: Event, at_ms: int) -> Contents:
    kind, body = write_event(event)
    return Contents(histories={ExecutionKey("i", 1, 1): [StoredEvent(1, kind, at_ms, body)]})


def test_a_time_in_which_nobody_worked_is_found() -> None:
    right = stored(TimerScheduled(due_ms=NOW_MS + 150), NOW_MS)
    late = stored(TimerScheduled(due_ms=NOW_MS + YEAR_MS), NOW_MS)
    early = stored(TimerScheduled(due_ms=NOW_MS), NOW_MS - YEAR_MS)

    assert wrong_times(right, NOW_MS, NOW_MS + 1_000) == []
    assert len(wrong_times(late, NOW_MS, NOW_MS + 1_000)) == 1
    assert len(wrong_times(early, NOW_MS, NOW_MS + 1_000)) == 1
