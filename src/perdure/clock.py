"""Time as a value that is handed in: the process's clock, and one that tests move.

Storage speaks integer milliseconds since the epoch; people get aware UTC datetimes. Nothing below
the worker reads a clock by itself.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Tells the time in milliseconds since the epoch."""

    def __call__(self) -> int: ...


def system_clock() -> int:
    """Return the process's wall clock."""
    return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told; for tests and simulations."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, by: timedelta) -> None:
        """Move the clock forward."""
        self.now_ms += to_ms(by)


def to_ms(duration: timedelta) -> int:
    """Return a duration in whole milliseconds, rounded up so that nothing happens early."""
    return -(-duration // timedelta(milliseconds=1))


def to_datetime(at_ms: int) -> datetime:
    """Return a stored time as an aware UTC datetime."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def from_datetime(when: datetime) -> int:
    """Return an aware datetime as stored milliseconds."""
    if when.tzinfo is None:
        raise ValueError(f"{when!r} has no time zone; use datetime(..., tzinfo=UTC)")
    return round(when.timestamp() * 1000)
