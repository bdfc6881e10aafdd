"""Saying at once that no worker serves a call, which would otherwise wait without a word.

Asked once per queue: what is served now and not later is for `explain` to tell.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable

from perdure.clock import Clock
from perdure.clock_watch import since_moved_ms
from perdure.model.builtins import OF_DECIDER, RESERVED_PREFIX
from perdure.model.instances import DefinitionKey
from perdure.model.turns import WorkerRow
from perdure.store.base import Store
from perdure.turns.background import Background
from perdure.turns.coverage import Coverage

logger = logging.getLogger(__name__)

LIVE_WORKER_MS = 60_000
"""How recent a worker's sign of life must be to count as alive."""

MAX_ASKED = 1_000
"""Queues that are looked at; a program that makes up tags as it goes is not followed further."""


class UnservedCalls:
    """Warns of the first call to each queue that no live worker serves."""

    def __init__(self, store: Store, coverage: Coverage, background: Background) -> None:
        self._store = store
        self._coverage = coverage
        self._background = background
        self._known: set[DefinitionKey] = set()
        self._room = MAX_ASKED
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Have a function called after each warning from now on."""
        self._listeners.append(listener)

    def notice(self, queue: DefinitionKey) -> None:
        """A call went into a queue, and this worker does not run it at once."""
        if queue in self._known or not self._room:
            return
        self._known.add(queue)
        if self._coverage.serves(queue):
            return
        self._room -= 1
        if self._coverage.covers(queue):
            self._coverage.note(queue)
        else:
            self._background.spawn(self._warn_if_unserved(queue))

    async def _warn_if_unserved(self, queue: DefinitionKey) -> None:
        since_ms = alive_since_ms(self._store.clock)
        workers = await self._store.read_workers(seen_since_ms=since_ms)
        if queue not in served_by(workers):
            logger.warning(
                "no live worker serves %s; calls of it wait until one does: %s",
                describe_queue(queue),
                advice_on_tags(queue, workers)
                or "hand it to a worker, Worker(url, [...]), and start that",
                extra={"definition": queue.name},
            )
            for listener in self._listeners:
                listener()


def alive_since_ms(clock: Clock, within_ms: int = LIVE_WORKER_MS) -> int:
    """Return since when the living have given a sign of life.

    When the clock has just moved ahead, all that the store has look old; they are given time for
    another one.
    """
    return 0 if since_moved_ms(clock) < LIVE_WORKER_MS else clock() - within_ms


def served_by(workers: Iterable[WorkerRow]) -> frozenset[DefinitionKey]:
    """Return what these workers serve together."""
    return frozenset(key for worker in workers for key in worker.definitions)


def advice_on_tags(queue: DefinitionKey, workers: Iterable[WorkerRow]) -> str:
    """Return what to do about calls that no worker takes for their tag alone; nothing if no worker
    has the activity."""
    if queue.kind != "activity" or queue.name.startswith(RESERVED_PREFIX):
        return ""
    for worker in workers:
        taken = [key for key in worker.definitions if key.kind == "activity"]
        if any(key.name == queue.name for key in taken):
            # All that it takes by now: the option says it for all of its activities.
            tags = {key.variant for key in taken if not key.name.startswith(RESERVED_PREFIX)}
            named = (_tag_as_code(tag) for tag in sorted({*tags, queue.variant}))
            return (
                f"worker {worker.worker_id} has the activity for other tags; give it "
                f"WorkerOptions(tags=[{', '.join(named)}])"
            )
    return ""


def _tag_as_code(tag: str) -> str:
    return json.dumps(tag, ensure_ascii=False) if tag else "None"


def describe_queue(queue: DefinitionKey) -> str:
    """Return what a worker has to have, for messages."""
    if queue.name in OF_DECIDER:
        return f"decider {queue.variant!r}"
    if queue.kind == "activity":
        tag = f" with tag {queue.variant!r}" if queue.variant else ""
        return f"activity {queue.name!r}{tag}"
    if queue.kind == "decider":
        return f"decider {queue.name!r}"
    return f"{queue.kind} {queue.name!r} {queue.variant or '(any version)'}"
