"""The database's clock, as well as this process knows it.

Leases and visibility are ruled by one clock. Every transaction asks the database for the time; in
between, the process adds what has passed since, also while the machine slept: one that wakes up
must not believe in leases that ran out meanwhile.
"""

from __future__ import annotations

from perdure.clock import Clock, boot_clock, system_clock
from perdure.clock_watch import ClockWatch

FOLLOWS_MS = 3_600_000
"""How far a jump of the database's clock is believed at once. One process cannot tell it from a
pause of its own machine that no clock there has counted; what others do by the database's clock
meanwhile must not be doubted for long. No machine pauses for years."""


class DatabaseClock(ClockWatch):
    """Tells the database's time in milliseconds since the epoch. May be asked by any thread."""

    def __init__(self, *, passed: Clock = boot_clock) -> None:
        # A guess, for callers that come before the database was asked.
        super().__init__(system_clock(), passed=passed, follows_ms=FOLLOWS_MS)
        self._is_guess = True

    def __call__(self) -> int:
        return self.count()

    def learn(self, database_ms: int) -> int:
        """Take note of the time that the database has just told; return what to go by."""
        if self._is_guess:
            self._is_guess = False
            self.begin(database_ms)
        return self.look(database_ms)
