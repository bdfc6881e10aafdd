"""Work that may have killed its workers, and is run one piece at a time.

A process that dies takes everything along that it had leased, and its cause of death is unknown.
What was lost so several times is a *suspect*. A worker has one under way at a time, so that a
killer takes no other suspect with it: it alone is lost again and again until it is given up, and
the others come through. What runs already, and what is no suspect, runs beside it. It is under way
until its end is stored: a killer that began before that would take it along once more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

from perdure.model.options import WorkerOptions
from perdure.model.turns import SUSPECT_AFTER

ALONE_FOR_S = 10.0
"""How long a suspect is alone. One that runs for hours must not keep all others waiting, and a
killer mostly kills at once."""


class Suspects:
    """The suspects among the turns, or among the jobs, that a worker has under way."""

    def __init__(
        self, options: WorkerOptions, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.after = suspect_after(options)
        self._monotonic = monotonic
        self._under_way: dict[Hashable, float | None] = {}
        """When each began; None: it has not yet."""

    def take(self, key: Hashable, losses: int) -> None:
        """Something was claimed that was lost so often before."""
        if losses >= self.after:
            self._under_way[key] = None

    def begin(self, key: Hashable) -> None:
        """It is being run."""
        if key in self._under_way:
            self._under_way[key] = self._monotonic()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._under_way

    def end(self, key: Hashable) -> bool:
        """It is not under way any more; return whether it was a suspect."""
        if key not in self._under_way:
            return False
        del self._under_way[key]
        return True

    def may_come(self) -> bool:
        """Return whether there is none that must be alone."""
        if not self._under_way:
            return True
        since_s = self._monotonic() - ALONE_FOR_S
        return all(began is not None and began <= since_s for began in self._under_way.values())


def suspect_after(options: WorkerOptions) -> int:
    """Return how many losses make a suspect: fewer than end it, as far as that can be."""
    return max(1, min(SUSPECT_AFTER, options.max_attempts - 1))
