"""Saying at once that nobody serves a call, which would otherwise wait without a word.

Asked once per queue: what is served now and not later is for `explain` to tell.
"""

from __future__ import annotations

import logging

from perdure.authoring.registry import Registry
from perdure.model.instances import DefinitionKey
from perdure.store.base import Store
from perdure.worker.background import Background

logger = logging.getLogger(__name__)

LIVE_WORKER_MS = 60_000
"""How recent a worker's sign of life must be to count as alive."""

MAX_ASKED = 1_000
"""Queues that are looked at; a program that makes up tags as it goes is not followed further."""


class UnservedCalls:
    """Warns of the first call to each queue that no live worker serves."""

    def __init__(self, store: Store, registry: Registry, background: Background) -> None:
        self._store = store
        self._background = background
        self._known = set(registry.claimable())
        self._room = MAX_ASKED

    def notice(self, queue: DefinitionKey) -> None:
        """A call went into a queue, and this worker does not run it at once."""
        if queue not in self._known and self._room:
            self._known.add(queue)
            self._room -= 1
            self._background.spawn(self._look(queue))

    async def _look(self, queue: DefinitionKey) -> None:
        since_ms = self._store.clock() - LIVE_WORKER_MS
        workers = await self._store.read_workers(seen_since_ms=since_ms)
        if not any(queue in worker.definitions for worker in workers):
            logger.warning(
                "no live worker serves %s; calls of it wait until one does: hand it to a worker, "
                "Worker(url, [...]), and start that",
                describe_queue(queue),
                extra={"definition": queue.name},
            )


def describe_queue(queue: DefinitionKey) -> str:
    """Return what a worker has to have, for messages."""
    if queue.kind == "activity":
        tag = f" with tag {queue.variant!r}" if queue.variant else ""
        return f"activity {queue.name!r}{tag}"
    return f"{queue.kind} {queue.name!r} {queue.variant}"
