"""Pauses that grow from one look to the next, for as long as looking finds nothing.

To look often is to find soon; after a while in which there was nothing it only costs. What always
holds: a pause begins at its first length, grows by a factor, and stops growing at its longest.
Nothing here waits, and nothing here draws lots: that is the caller's.
"""

from __future__ import annotations

LOOK_MIN_S = 0.005
LOOK_MAX_S = 0.25
"""Pauses between two looks for news of an instance that a caller waits for, while no sign of it
comes."""

MAX_DOUBLINGS = 10
"""How often `pause_after` doubles at most: a count of tries in vain may rise for ever."""


class GrowingPause:
    """How long to wait before the next look."""

    __slots__ = ("_factor", "_first_s", "_longest_s", "seconds")

    def __init__(self, first_s: float, longest_s: float, *, factor: float = 2.0) -> None:
        """Begin with the first length.

        Args:
            first_s: How long the first pause is, and the first one after `restart`.
            longest_s: Up to where it grows.
            factor: By how much it grows each time.
        """
        self._first_s = first_s
        self._longest_s = longest_s
        self._factor = factor
        self.seconds = first_s

    @property
    def is_longest(self) -> bool:
        """Whether it grows no more."""
        return self.seconds >= self._longest_s

    def grow(self) -> None:
        """Make it longer: the look has found nothing."""
        self.seconds = min(self.seconds * self._factor, self._longest_s)

    def restart(self, *, at_least_s: float = 0.0) -> None:
        """Make it as short as at first: the look has found something.

        Args:
            at_least_s: Not shorter than this, for looks that take long themselves.
        """
        self.seconds = max(self._first_s, at_least_s)


def pause_after(tries: int, *, first_s: float, longest_s: float) -> float:
    """Return how long to wait after so many tries in vain: the first length, doubled each time."""
    return min(first_s * (1 << min(tries, MAX_DOUBLINGS)), longest_s)
