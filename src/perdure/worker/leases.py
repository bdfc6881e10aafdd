"""Keeping leases alive, from a thread of its own: a loop that is busy must not lose its work."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from perdure.clock import to_ms
from perdure.errors import StoreError
from perdure.model.options import WorkerOptions
from perdure.model.worker_options import renew_every
from perdure.store.base import JobLease, Store, TurnLease

logger = logging.getLogger(__name__)


class LeaseKeeper:
    """Renews everything leased to a worker, three times per lease."""

    def __init__(
        self,
        store: Store,
        options: WorkerOptions,
        *,
        turns: Callable[[], list[TurnLease]],
        jobs: Callable[[], list[JobLease]],
        renewed: Callable[[list[JobLease], int], None],
        lost: Callable[[list[TurnLease], list[JobLease]], None],
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            store: Whose leases they are.
            options: How long leases last.
            turns: Returns the leased turns; called from the thread.
            jobs: Returns the leased jobs; called from the thread.
            renewed: Hears until when leases of jobs were extended; called from the thread.
            lost: Hears of leases that are gone; called from the thread.
        """
        self._store = store
        self._lease_ms = to_ms(options.lease_for)
        self._every_s = renew_every(options.lease_for).total_seconds()
        self._turns = turns
        self._jobs = jobs
        self._renewed = renewed
        self._lost = lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="perdure-leases", daemon=True)

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing, and wait until no renewal is under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=self._every_s)

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            while not self._stop.wait(self._every_s):
                try:
                    runner.run(self.renew())
                except StoreError:
                    # A transient fault is no loss: the leases may outlast it. What is really lost
                    # is refused at its commit.
                    logger.warning("leases could not be renewed this time", exc_info=True)
                except Exception:
                    logger.exception("renewing leases failed")

    async def renew(self) -> None:
        """Renew once."""
        turns, jobs = self._turns(), self._jobs()
        if turns or jobs:
            until_ms = self._store.clock() + self._lease_ms
            lost_turns, lost_jobs = await self._store.renew(turns, jobs, lease_ms=self._lease_ms)
            gone = set(lost_jobs)
            self._renewed([lease for lease in jobs if lease not in gone], until_ms)
            if lost_turns or lost_jobs:
                self._lost(lost_turns, lost_jobs)
