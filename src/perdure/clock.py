"""Time as a value that is handed in: the process's clock, and one that tests move.

Storage speaks integer milliseconds since the epoch; people get aware UTC datetimes. Nothing below
the worker reads a clock by itself.

Clocks of machines are wrong at times: a board without a battery, a virtual machine that was paused,
a mistyped date. What is stored stays, so a store's clock is watched: see `clock_watch`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol


class Clock(Protocol):
    """Tells the time in milliseconds since the epoch."""

    def __call__(self) -> int: ...


JUMP_MS = 10_000
"""A clock that is off by more than this, against the time that passed, has jumped. Less is drift,
and no matter: leases of the default length are renewed long before."""

MAX_LEAD_MS = 60_000
"""How far recorded time may be ahead of the clock and is waited for: so late may timers be then."""


def system_clock() -> int:
    """Return the process's wall clock."""
    return time.time_ns() // 1_000_000


def boot_clock() -> int:
    """Return the time that has passed since some moment, whatever people set the clock to.

    It goes on while the machine sleeps, where the system has such a clock.
    """
    return passed_ns() // 1_000_000


def _find_passed_ns() -> Callable[[], int]:
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns if boot is None else partial(time.clock_gettime_ns, boot)


passed_ns = _find_passed_ns()
"""Returns the same in nanoseconds. Found once: it is asked on the way of every turn."""


def not_before(recorded_ms: int, now_ms: int) -> int:
    """Return the time to record after another: not an earlier one, unless that one was wrong.

    A step back of the clock up to a minute is not seen; time stands still until it is made up for.
    What lies further ahead was recorded while the clock was wrong: it is not waited for.
    """
    return recorded_ms if now_ms < recorded_ms <= now_ms + MAX_LEAD_MS else now_ms


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
    """Return an aware datetime as stored milliseconds.

    Raises:
        TypeError: It is no datetime.
        ValueError: It has no time zone.
    """
    if not isinstance(when, datetime):
        raise TypeError(f"a point in time is a datetime with a time zone, got {when!r}")
    if when.tzinfo is None:
        raise ValueError(f"{when!r} has no time zone; use datetime(..., tzinfo=UTC)")
    return round(when.timestamp() * 1000)
