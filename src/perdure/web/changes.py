"""When to look again: a store says that something has changed, not what.

Of other processes it counts the commits. What this process commits itself is not counted, so a
stream also looks by itself from time to time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from perdure.client.client import Client
from perdure.model.hints import KINDS

LOOK_S = 0.5
"""At most so often: a busy store changes a thousand times a second."""
LOOK_ANYWAY_S = 2.0
"""At least so often."""
LOOKS_PER_S = 20.0
"""All streams together: each look is a page that is made anew."""
SHARE = 0.2
"""Of the server's time, for all open pages together."""
MAX_PAUSE_S = 15.0
WEIGHT = 0.2
"""Of the newest page, where it is told how long pages take."""


class PagePace:
    """How often open pages are told to look: so that, however many there are and however long each
    takes, the server has time for others."""

    def __init__(self) -> None:
        self._took_s = 0.0

    def note(self, took_s: float) -> None:
        """Take note of how long it took to make a page."""
        self._took_s += WEIGHT * (took_s - self._took_s)

    def pause_s(self, streams: int) -> float:
        """Return how long a stream is silent after it has said that something may be new, if so
        many are open."""
        return min(MAX_PAUSE_S, streams * max(1 / LOOKS_PER_S, self._took_s / SHARE))


async def changed(
    client: Client, *, look_s: float = LOOK_S, anyway_s: float = LOOK_ANYWAY_S
) -> AsyncGenerator[int]:
    """Return at once, and then whenever it may be worth looking: numbers that rise."""
    looks = 0
    while True:
        looks += 1
        before = _counts(client)
        yield looks
        waited_s = 0.0
        while waited_s < anyway_s:
            await asyncio.sleep(look_s)
            waited_s += look_s
            if _counts(client) != before:
                break


def _counts(client: Client) -> tuple[int, ...]:
    return tuple(client._core.store.change_count(kind) for kind in KINDS)
