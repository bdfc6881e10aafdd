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
from perdure.errors import StoreUnavailableError
from perdure.jobs.attempts import (
    AttemptResult,
    GivenBack,
    JobCode,
    Raised,
    Returned,
    call_async,
    call_sync,
    finish_async,
    inline_work,
)
from perdure.jobs.pauses import Pauses
from perdure.jobs.processes import Processes
from perdure.jobs.slots import JobRun, SlotKind
from perdure.jobs.threads import Threads
from perdure.jobs.within import Transactions
from perdure.model.jobs import ClaimedJob, JobKey, Settled
from perdure.model.options import WorkerOptions
from perdure.telemetry import error_facts, shown_error

logger = logging.getLogger(__name__)


class Launcher:
    """Owns the threads and processes of a worker. Limits are the caller's part."""

    def __init__(
        self,
        options: WorkerOptions,
        find_inline: Callable[[JobKey], Awaitable[InlineRequest | None]],
        stand_in: Callable[[JobRun], JobCode | None],
        transactions: Transactions | None = None,
    ) -> None:
        self._find_inline = find_inline
        self._stand_in = stand_in
        self._transactions = transactions
        self._pauses = Pauses(to_ms(options.unserved_retry), to_ms(options.unserved_retry_max))
        self._threads = Threads("perdure-activity")
        self._processes = Processes()

    def attempt(self, run: JobRun) -> Coroutine[Any, Any, AttemptResult | JobCode | Settled]:
        """Return the coroutine that runs an attempt; it is made a task, `run.task`, at once.

        An inline call that needs a thread gives its work instead of an outcome.
        """
        if run.refusal is not None:
            return _refuse(run.refusal)
        if run.work is None:
            return self._inline(run)
        stand_in = self._stand_in(run)
        if stand_in is not None:
            return _on_loop(run, stand_in)
        if run.work.takes_connection:
            assert self._transactions is not None, "there is no store here"
            return self._transactions.attempt(run, run.work, self._threads)
        match run.slots.kind:
            case SlotKind.THREADED:
                return self._threaded(run, run.work)
            case SlotKind.PROCESS:
                return self._in_process(run, run.work)
            case _:
                return _on_loop(run, run.work)

    async def close(self) -> None:
        """End the threads and processes that do nothing."""
        self._threads.close()
        await self._processes.close()

    def tell_settled(self, job: ClaimedJob, outcome: Settled) -> None:
        """An attempt has told the store of its end itself."""
        assert self._transactions is not None, "only a transaction does"
        self._transactions.settled(job, outcome)

    def unserved(self, key: JobKey) -> GivenBack:
        """Return the outcome of a job that cannot be run here, and perhaps elsewhere or later."""
        return GivenBack(self._pauses.next_ms(key), refund=True)

    def leave_to_others(self, run: JobRun, outcome: GivenBack) -> GivenBack:
        """Return the outcome of a job that does not fit the code here, with a pause in which a
        worker whose code fits may take it. Said once, by the first worker that could not."""
        if not run.job.failures.misfit:
            logger.warning(
                "the arguments of activity %r do not fit the code here: the job of instance %r "
                "waits for a worker whose code fits; its jobs() tell why",
                run.context.activity,
                run.job.key.instance_id,
                extra=run.facts,
            )
        pause_ms = self._pauses.next_ms(run.job.key)
        return GivenBack(pause_ms, refund=True, misfit=outcome.misfit)

    async def _threaded(self, run: JobRun, work: JobCode) -> AttemptResult:
        if run.is_told:
            return GivenBack(refund=True)
        current_activity.set(run.context)
        # A copy: this context may still be entered here when the thread begins.
        context = contextvars.copy_context()
        value = await self._threads.call(
            partial(context.run, call_sync, work, run.job.input, run.context)
        )
        if isinstance(value, AttemptResult):
            return value if run.context.sending is None else await _with_rest(run, value)
        if run.is_told:
            value.close()
            return GivenBack()
        run.let_cancel()
        outcome = await finish_async(work, value, run.context)
        return outcome if run.context.sending is None else await _with_rest(run, outcome)

    async def _in_process(self, run: JobRun, work: JobCode) -> AttemptResult:
        if run.is_told:
            return GivenBack(refund=True)
        process = self._processes.take()
        run.interrupt = process.kill
        try:
            outcome = await self._processes.call(process, run.context, work)
        finally:
            # From here on it may be another run's.
            run.interrupt = None
        return outcome if run.context.sending is None else await _with_rest(run, outcome)

    async def _inline(self, run: JobRun) -> AttemptResult | JobCode:
        request: InlineRequest | None = None
        try:
            request = await self._find_inline(run.job.key)
        except StoreUnavailableError:
            pass  # The writer says so already; this is asked again.
        except Exception as error:
            logger.error(
                "an inline call of instance %r could not be looked up: %s",
                run.job.key.instance_id,
                shown_error(error),
                extra={**run.facts, **error_facts(error)},
            )
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


async def _on_loop(run: JobRun, work: JobCode) -> AttemptResult:
    if run.is_told:
        return GivenBack(refund=True)
    current_activity.set(run.context)
    run.let_cancel()
    outcome = await call_async(work, run.job.input, run.context)
    return outcome if run.context.sending is None else await _with_rest(run, outcome)


async def _with_rest(run: JobRun, outcome: AttemptResult) -> AttemptResult:
    """Return a result with what the attempt has sent to streams and is not stored yet."""
    # What follows is ours, and short: it is not cancelled.
    run.interrupt = None
    sending = run.context.sending
    if sending is None or not isinstance(outcome, Returned):
        return outcome
    return Returned(outcome.result, await sending.finish())


def say_unrecorded(run: JobRun, error: Exception) -> None:
    """Log that the outcome of an attempt cannot be put on record as it is."""
    logger.error(
        "the outcome of activity %r of instance %r could not be recorded: %s",
        *run.named,
        shown_error(error),
        extra={**run.facts, **error_facts(error)},
    )


async def _refuse(refusal: Raised | GivenBack) -> AttemptResult:
    return refusal
