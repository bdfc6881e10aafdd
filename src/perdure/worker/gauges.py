"""How things stand in the store: what is alive, what waits, which projections are behind."""

from __future__ import annotations

import asyncio

from perdure.model.admin import InstanceFilter
from perdure.model.instances import Status
from perdure.model.options import WorkerOptions
from perdure.store.base import Store
from perdure.telemetry import Metrics
from perdure.telemetry.snapshots import Labels

ALIVE = (Status.RUNNING, Status.BLOCKED, Status.PARKED)


class Gauges:
    """Asks the store how things stand, if a collector wants to know."""

    def __init__(self, store: Store, options: WorkerOptions, metrics: Metrics) -> None:
        self._store = store
        self._every_s = options.metrics_every.total_seconds()
        self._metrics = metrics
        self._seen = 0

    async def run(self) -> None:
        """Refresh for ever. Ends only by cancellation."""
        while True:
            await asyncio.sleep(self._every_s)
            await self.refresh()

    async def refresh(self) -> bool:
        """Ask, unless no collector has read the metrics since; return whether it asked."""
        if self._metrics.snapshots == self._seen:
            return False
        self._seen = self._metrics.snapshots
        alive: dict[Labels, float] = {}
        for status in ALIVE:
            wanted = InstanceFilter(statuses=(status,))
            alive[status.value,] = await self._store.admin.count_instances(wanted)
        self._metrics.instances.replace(alive)
        depths: dict[Labels, float] = {}
        for found in await self._store.admin.queue_depths():
            kind, name, variant, _ = found.definition
            for state in ("ready", "later", "leased"):
                depths[kind, name, variant, state] = getattr(found, state)
        self._metrics.queue_depth.replace(depths)
        end = await self._store.feed.feed_end()
        self._metrics.projections_behind.replace(
            {
                (found.name, found.status.value): max(0, end - found.pos)
                for found in await self._store.feed.read_checkpoints()
            }
        )
        return True
