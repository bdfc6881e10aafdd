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


def pause_s(streams: int) -> float:
    """Return how long a stream is silent after it has said that something may be new, if so many
    are open."""
    return streams / LOOKS_PER_S


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
