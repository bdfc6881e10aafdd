"""Where the code of an attempt runs: on the loop, in a thread, in a process.

Each attempt is one coroutine that ends in an outcome. It says in `run.interrupt` how its code can
be stopped, as long as there is code that can; code in a thread can only be asked.
"""

from __future__ import annotations

import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from perdure.authoring.activity_context import current_activity
from perdure.authoring.scope import InlineRequest
from perdure.clock import to_ms
from perdure.model.jobs import JobKey
from perdure.model.options import WorkerOptions
from perdure.telemetry import error_facts
from perdure.worker.attempts import (
    GivenBack,
    Outcome,
    Raised,
    Returned,
    Work,
    call_async,
    call_sync,
    finish_async,
    inline_work,
)
from perdure.worker.lanes import JobRun, Kind
from perdure.worker.processes import Processes
from perdure.worker.threads import Threads

logger = logging.getLogger(__name__)

MAX_PAUSES_KEPT = 10_000
"""For how many jobs that could not be run here the length of the pause is remembered."""


class Launcher:
    """Owns the threads and processes of a worker. Limits are the caller's part."""

    def __init__(
        self,
        options: WorkerOptions,
        find_inline: Callable[[JobKey], Awaitable[InlineRequest | None]],
    ) -> None:
        self._find_inline = find_inline
        self._pauses = UnservedPauses(options)
        self._threads = Threads("perdure-activity")
        self._processes = Processes()

    def attempt(self, run: JobRun) -> Coroutine[Any, Any, Outcome | Work]:
        """Return the coroutine that runs an attempt; it is made a task, `run.task`, at once.

        An inline call that needs a thread gives its work instead of an outcome.
        """
        if run.refusal is not None:
            return _refuse(run.refusal)
        if run.work is None:
            return self._inline(run)
        match run.lane.kind:
            case Kind.THREADED:
                return self._threaded(run, run.work)
            case Kind.PROCESS:
                return self._in_process(run, run.work)
            case _:
                return _on_loop(run, run.work)

    async def close(self) -> None:
        """End the threads and processes that do nothing."""
        self._threads.close()
        await self._processes.close()

    def unserved(self, key: JobKey) -> GivenBack:
        """Return the outcome of a job that cannot be run here, and perhaps elsewhere or later."""
        return GivenBack(self._pauses.next_ms(key), refund=True)

    async def _threaded(self, run: JobRun, work: Work) -> Outcome:
        if run.is_told:
            return GivenBack(refund=True)
        current_activity.set(run.context)
        # A copy: this context may still be entered here when the thread begins.
        context = contextvars.copy_context()
        value = await self._threads.call(
            partial(context.run, call_sync, work, run.job.input, run.context)
        )
        if isinstance(value, Returned | Raised | GivenBack):
            return value
        if run.is_told:
            value.close()
            return GivenBack()
        run.let_cancel()
        return await finish_async(work, value, run.context)

    async def _in_process(self, run: JobRun, work: Work) -> Outcome:
        if run.is_told:
            return GivenBack(refund=True)
        process = self._processes.take()
        run.interrupt = process.kill
        try:
            return await self._processes.call(process, run.context, work)
        finally:
            # From here on it may be another run's.
            run.interrupt = None

    async def _inline(self, run: JobRun) -> Outcome | Work:
        try:
            request = await self._find_inline(run.job.key)
        except Exception as error:
            logger.error(
                "an inline call could not be looked up", extra={**run.facts, **error_facts(error)}
            )
            request = None
        if request is None:
            return self.unserved(run.job.key)
        self._pauses.forget(run.job.key)
        if run.is_told:
            return GivenBack(refund=True)
        work = inline_work(request)
        run.context.activity = work.name
        if not inspect.iscoroutinefunction(work.fn):
            return work
        return await _on_loop(run, work)


async def _on_loop(run: JobRun, work: Work) -> Outcome:
    if run.is_told:
        return GivenBack(refund=True)
    current_activity.set(run.context)
    run.let_cancel()
    return await call_async(work, run.job.input, run.context)


async def _refuse(refusal: Raised | GivenBack) -> Outcome:
    return refusal


class UnservedPauses:
    """How long jobs that cannot be run here are left to others: longer each time."""

    def __init__(self, options: WorkerOptions) -> None:
        self._first_ms = to_ms(options.unserved_retry)
        self._max_ms = to_ms(options.unserved_retry_max)
        self._last: dict[JobKey, int] = {}

    def next_ms(self, key: JobKey) -> int:
        """Return the next pause of a job."""
        pause_ms = min(2 * self._last.pop(key, 0) or self._first_ms, self._max_ms)
        if len(self._last) >= MAX_PAUSES_KEPT:
            # The one that was not offered for longest begins anew.
            del self._last[next(iter(self._last))]
        self._last[key] = pause_ms
        return pause_ms

    def forget(self, key: JobKey) -> None:
        """A job could be run after all."""
        self._last.pop(key, None)
