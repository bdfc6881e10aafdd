"""Writing down what running activities say, in batches and not too often.

Code may say something as often as it likes, from any thread: only the newest counts. The first word
after a pause is written at once, the following ones together after `heartbeat_every`. What an
attempt said last travels with its end too, so nothing is lost but what a dying worker had not
written yet.
"""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

from perdure.jobs.running import RunningActivity
from perdure.model.jobs import JobBeat, JobKey
from perdure.store.base import Store


class Heartbeats:
    """What was said and is not written yet."""

    def __init__(self, store: Store, every: timedelta) -> None:
        self._store = store
        self._every_s = every.total_seconds()
        # Guards the one below, which the loop takes away while threads add to it.
        self._lock = threading.Lock()
        self._unwritten: dict[JobKey, RunningActivity] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rung = asyncio.Event()

    def notice(self, context: RunningActivity) -> None:
        """An activity has said something. Any thread may tell."""
        with self._lock:
            is_first = not self._unwritten
            self._unwritten[context.job.key] = context
        if is_first and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._rung.set)

    async def run(self) -> None:
        """Write for ever. Ends only by cancellation."""
        self._loop = asyncio.get_running_loop()
        while True:
            if not self._unwritten:
                await self._rung.wait()
            self._rung.clear()
            await self.write()
            await asyncio.sleep(self._every_s)

    async def write(self) -> None:
        """Write what was said."""
        with self._lock:
            # Before anything is read: an activity that says more from here on is noticed again.
            said, self._unwritten = self._unwritten, {}
        words = [(context, (context.details, context.shown)) for context in said.values()]
        beats = [
            _beat_of(context, newest) for context, newest in words if newest != context.written
        ]
        if not beats:
            return
        try:
            await self._store.beat_jobs(beats)
        except BaseException:
            with self._lock:
                self._unwritten = {**said, **self._unwritten}
            raise
        for context, newest in words:
            context.written = newest


def _beat_of(context: RunningActivity, newest: tuple[bytes | None, bytes | None]) -> JobBeat:
    """Return what is new; what the store has already is left out."""
    details, progress = (
        new if new is not old else None for new, old in zip(newest, context.written, strict=True)
    )
    return JobBeat(context.job.key, context.job.token, details, progress)
