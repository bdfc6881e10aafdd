"""How long jobs that could not be run here are left alone: longer each time."""

from __future__ import annotations

from perdure.model.jobs import JobKey

MAX_PAUSES_KEPT = 10_000
"""For how many jobs the length of the pause is remembered."""


class Pauses:
    """The pauses of jobs."""

    def __init__(self, first_ms: int, max_ms: int) -> None:
        self._first_ms = first_ms
        self._max_ms = max_ms
        self._last: dict[JobKey, int] = {}

    def next_ms(self, key: JobKey) -> int:
        """Return the next pause of a job."""
        pause_ms = min(2 * self._last.pop(key, 0) or self._first_ms, self._max_ms)
        if len(self._last) >= MAX_PAUSES_KEPT:
            # The one that was not offered for longest begins anew.
            del self._last[next(iter(self._last))]
        self._last[key] = pause_ms
        return pause_ms

    def forget(self, key: JobKey) -> None:
        """A job could be run after all."""
        self._last.pop(key, None)
