"""Finds an async activity that keeps the worker's loop busy, and says at which line.

Turns and async activities share one thread. A call that waits there without `await`, `time.sleep`
or a driver that is not async, stops all of them. A thread of its own looks every quarter of a
second which task runs; only when that is an activity's is the loop asked to answer. Activities
themselves pay nothing for it. Time in which the whole process stood still, stopped or without a
processor, does not count.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Collection
from datetime import timedelta

from perdure.interrupting import place_of
from perdure.jobs.slots import JobRun
from perdure.stillness import Stillness

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25


class LoopWatch:
    """Watches the thread of one event loop."""

    def __init__(self, warning: timedelta, started: Collection[JobRun]) -> None:
        """Prepare; nothing is watched yet.

        Args:
            warning: How long the loop may stand still.
            started: The attempts that run on the loop, at every moment.
        """
        self._warning_s = warning.total_seconds()
        self._started = started
        self._closed = threading.Event()
        self._asked_s = 0.0
        self._asked_of: asyncio.Task[object] | None = None
        self._has_warned = False

    def start(self) -> None:
        """Watch the loop that runs on this thread."""
        place = (asyncio.get_running_loop(), threading.get_ident())
        threading.Thread(
            target=self._look_on, args=place, name="perdure-loop-watch", daemon=True
        ).start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _look_on(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        stillness = Stillness(LOOK_EVERY_S)
        while not self._closed.wait(LOOK_EVERY_S):
            self.leave_out(stillness.since_last_look(time.monotonic()))
            try:
                self._look(loop, thread_id)
            except RuntimeError:
                return  # The loop is closed.

    def leave_out(self, still_s: float) -> None:
        """Leave out time in which the whole process stood still."""
        self._asked_s += still_s

    def _look(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        task = asyncio.current_task(loop)
        if task is None:
            self._asked_of = None
        elif task is not self._asked_of:
            if self._run_of(task) is not None:
                self._asked_of, self._asked_s = task, time.monotonic()
                self._has_warned = False
                loop.call_soon_threadsafe(self._answer, task)
        elif not self._has_warned and time.monotonic() - self._asked_s > self._warning_s:
            self._warn(task, thread_id)

    def _answer(self, task: asyncio.Task[object]) -> None:
        """The loop goes on: what was seen was a step among others."""
        if self._asked_of is task:
            self._asked_of = None

    def _warn(self, task: asyncio.Task[object], thread_id: int) -> None:
        run = self._run_of(task)
        place = place_of(thread_id)
        if run is None or self._asked_of is not task:
            return
        self._has_warned = True
        logger.warning(
            "activity %r of instance %r keeps the worker's loop busy for %.1f s at %s, and nothing "
            "else goes on: await there, or make it a plain def, which runs in a thread",
            *run.named,
            time.monotonic() - self._asked_s,
            place,
            extra={**run.facts, "place": place},
        )

    def _run_of(self, task: asyncio.Task[object]) -> JobRun | None:
        """Return the attempt that a task is; it may change under us while the loop runs."""
        return next((run for run in tuple(self._started) if run.task is task), None)
