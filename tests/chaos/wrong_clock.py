"""The clock of a process, which others can set to a wrong time for a while.

Every process has a file that says how wrong its clock is. It stands for the machine's clock on
SQLite and for what the database tells on PostgreSQL; both are watched as they always are.

A process begins with the right time: one that begins with a wrong one has nothing to compare it
with, and what it sets stays where it was set (record 28).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

from perdure.clock import Clock, system_clock
from perdure.clock_watch import LASTS_MS, WatchedSystemClock
from perdure.model.histories.events import TimerArmed, TimerScheduled, read_event
from perdure.store.contents import Contents
from perdure.store.postgres.clock import FOLLOWS_MS, DatabaseClock

WRONG_FOR_S = (0.2, 1.5)
"""For so long at least and at most. Longer than `LASTS_MS`, and it would be believed."""
FARTHEST_MS = 10 * 365 * 24 * 3_600_000
NEAREST_MS = 2 * FOLLOWS_MS
"""What is nearer is believed of a database at once: it may be a pause of one's own."""
LATE_MS = 30_000
"""How far a right time may lie outside a run: timers are set for a while to come."""

assert WRONG_FOR_S[1] * 1000 < LASTS_MS
_SIZE = 8


def clock_file(folder: Path, pid: int) -> Path:
    """Return where it is said how wrong the clock of a process is."""
    return folder / f"clock-{pid}"


def set_clock(folder: Path, pid: int, off_ms: int) -> None:
    """Set the clock of a process that has begun; 0: to the right time."""
    file = os.open(clock_file(folder, pid), os.O_WRONLY)
    try:
        os.pwrite(file, off_ms.to_bytes(_SIZE, signed=True), 0)
    finally:
        os.close(file)


def far_off(chance: random.Random) -> int:
    """Return by how much a clock jumps: hours to years, ahead or back."""
    far_ms = int(NEAREST_MS * (FARTHEST_MS / NEAREST_MS) ** chance.random())
    return chance.choice((far_ms, -far_ms))


def own_clock(url: str, folder: Path) -> Clock:
    """Return the clock of this process for a store."""
    off = _Off(clock_file(folder, os.getpid()))
    if url.startswith("sqlite:"):
        return WatchedSystemClock(lambda: system_clock() + off())
    return _WronglyTold(off)


class _Off:
    """Tells how wrong the clock is now."""

    def __init__(self, path: Path) -> None:
        # Emptied: another process may have had the number.
        flags = os.O_RDONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)

    def __call__(self) -> int:
        return int.from_bytes(os.pread(self._file, _SIZE, 0), signed=True)


class _WronglyTold(DatabaseClock):
    """What a database tells whose clock is wrong."""

    def __init__(self, off: _Off) -> None:
        super().__init__()
        self._off = off

    def learn(self, database_ms: int) -> int:
        return super().learn(database_ms + self._off())


def wrong_times(contents: Contents, began_ms: int, ended_ms: int) -> list[str]:
    """Return what a store holds of a time in which nobody worked."""
    wrong = []

    def look(what: str, at_ms: int) -> None:
        if not began_ms - LATE_MS <= at_ms <= ended_ms + LATE_MS:
            wrong.append(f"wrong time: {what} is {(at_ms - began_ms) / 1000:.0f} s from the begin")

    for key, events in contents.histories.items():
        for stored in events:
            who = f"event {stored.seq} of {key.instance_id}"
            look(who, stored.at_ms)
            if stored.kind in (TimerScheduled.kind, TimerArmed.kind):
                event = read_event(stored.kind, stored.body)
                assert isinstance(event, TimerScheduled | TimerArmed)
                look(f"{who}, when it is due,", event.due_ms)
    for row in contents.instances.values():
        look(f"{row.instance_id}, when it was made,", row.created_ms)
        if row.ended_ms is not None:
            look(f"{row.instance_id}, when it ended,", row.ended_ms)
    return wrong
