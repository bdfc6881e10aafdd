"""How often a caller may ask, and how often an address may fail. Both remember a bounded number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

REMEMBERED = 10_000
"""Callers and addresses that are remembered; the ones unseen for longest are forgotten."""


class Rates:
    """A bucket for each caller, that fills evenly and is emptied by requests."""

    def __init__(self, per_s: float, burst: int, monotonic: Callable[[], float]) -> None:
        self._per_s = per_s
        self._burst = burst
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> float:
        """Count a request; return 0, or after how many seconds it would have been allowed."""
        now = self._monotonic()
        level, since = self._buckets.pop(caller, (float(self._burst), now))
        level = min(float(self._burst), level + (now - since) * self._per_s)
        wait_s = 0.0 if level >= 1 else (1 - level) / self._per_s
        self._buckets[caller] = (level if wait_s else level - 1, now)
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        return wait_s


class Failures:
    """Wrong keys and tokens, by address."""

    def __init__(self, per_min: int, monotonic: Callable[[], float]) -> None:
        self._per_min = per_min
        self._monotonic = monotonic
        self._times: OrderedDict[str, list[float]] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """Return 0, or for how long an address is not listened to."""
        recent = self._recent(address)
        return 0.0 if len(recent) < self._per_min else recent[0] + 60 - self._monotonic()

    def add(self, address: str) -> None:
        """Count a failure."""
        self._times[address] = [*self._recent(address), self._monotonic()]
        self._times.move_to_end(address)
        if len(self._times) > REMEMBERED:
            self._times.popitem(last=False)

    def _recent(self, address: str) -> list[float]:
        since = self._monotonic() - 60
        return [at for at in self._times.get(address, ()) if at > since][-self._per_min :]


class Openings:
    """How many of something are open at the same time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.open = 0

    def enter(self) -> bool:
        """Open one more, unless there are enough."""
        if self.open >= self._limit:
            return False
        self.open += 1
        return True

    def leave(self) -> None:
        """Close one."""
        self.open -= 1
