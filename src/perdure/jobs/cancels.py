"""Hearing that a running job is no longer wanted, when another process decided so.

What this process decides stops its jobs at once. Others cancel, terminate or delete an instance in
the store; that is news, and then the jobs that run here are asked after: at once, if the store is
told of it. Renewing leases finds the same, much later, should a change ever go unnoticed.

Where no job runs nothing is listened to: a worker with nothing to stop is not woken by each commit
of the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from perdure.backoff import GrowingPause
from perdure.model.hints import Hint
from perdure.model.options import WorkerOptions
from perdure.store.base import JobLease, Store
from perdure.store.hearing import Hearing

BRIEF_S = 0.02
"""How long a job may take without being listened for."""
REST = 20
"""How many times as long as a question took is waited at least before the next one."""


class CancelWatch:
    """Asks after running jobs whenever another process has changed something."""

    def __init__(
        self,
        store: Store,
        options: WorkerOptions,
        *,
        busy: asyncio.Event,
        jobs: Callable[[], list[JobLease]],
        lost: Callable[[Sequence[JobLease]], None],
    ) -> None:
        """Prepare.

        Args:
            store: Whose jobs they are.
            options: How often to look.
            busy: Set when a job begins; cleared here when none is left.
            jobs: Returns the leases of the jobs that run here.
            lost: Hears of those that are gone.
        """
        self._store = store
        self._busy = busy
        self._jobs = jobs
        self._lost = lost
        self._min_s = options.poll_min.total_seconds()
        self._max_s = options.poll_max.total_seconds()
        self._seen_changes = -1

    async def run(self) -> None:
        """Watch for ever. Ends only by cancellation."""
        while True:
            await self._busy.wait()
            await asyncio.sleep(BRIEF_S)
            if self._jobs():
                await self._watch()
            self._busy.clear()

    async def _watch(self) -> None:
        """Watch until no job is left."""
        pause = GrowingPause(self._min_s, self._max_s)
        hearing = Hearing(self._store, Hint.NEWS)
        try:
            while self._jobs():
                began_s = time.monotonic()
                if await self.look():
                    took_s = time.monotonic() - began_s
                    pause.restart()
                    await asyncio.sleep(min(REST * took_s, self._max_s))
                else:
                    pause.grow()
                await hearing.wait(pause.seconds)
        finally:
            hearing.close()

    async def look(self) -> bool:
        """Ask after the running jobs if the store has changed; return whether it had."""
        changes = self._store.change_count(Hint.NEWS)
        if changes == self._seen_changes:
            return False
        leases = self._jobs()
        if leases:
            self._lost(await self._store.lost_jobs(leases))
        # Afterwards: a question that failed is asked again.
        self._seen_changes = changes
        return True
