"""The database's clock, as well as this process knows it.

Leases and visibility are ruled by one clock. Every transaction asks the database for the time; in
between, the process adds what has passed since.
"""

from __future__ import annotations

import time


class DatabaseClock:
    """Tells the database's time in milliseconds since the epoch. May be asked by any thread."""

    def __init__(self) -> None:
        self._offset_ms = time.time_ns() / 1_000_000 - time.monotonic_ns() / 1_000_000

    def __call__(self) -> int:
        return int(time.monotonic_ns() / 1_000_000 + self._offset_ms)

    def learn(self, database_ms: int) -> None:
        """Take note of the time that the database has just told."""
        self._offset_ms = database_ms - time.monotonic_ns() / 1_000_000
