"""Attempts whose code writes to the store's database, in the transaction that ends their job.

The store brings the connection, calls the code, writes the end of the job, and commits all of it.
So an attempt ends in one of three ways: *settled*, and the store knows; with an outcome like that
of any other activity, when its code has raised and nothing of it was written; *given back*, when
the database was in trouble, which says nothing about the code. That last one is also right when
it is not known whether the commit came through: if it did, the job is gone, and there is nothing to
give back.
"""

from __future__ import annotations

import contextvars
import inspect
import logging
from collections.abc import Callable
from typing import Any

from msgspec.structs import force_setattr

from perdure.authoring.activity_context import current_activity
from perdure.authoring.registry import Registry
from perdure.errors import RowError, StoreError, UsageError
from perdure.jobs.attempts import (
    AttemptResult,
    GivenBack,
    JobCode,
    Returned,
    call_async,
    call_sync,
    conclude,
    raised,
)
from perdure.jobs.pauses import Pauses
from perdure.jobs.slots import JobRun
from perdure.jobs.threads import Threads
from perdure.model.jobs import ClaimedJob, JobEnd, Settled
from perdure.store.base import JobLease, Store
from perdure.store.within.transactions import Done, OwnWork, Undone, alone_in
from perdure.telemetry import error_facts, shown_error

FIRST_PAUSE_MS = 20
MAX_PAUSE_MS = 5_000
"""Before an attempt is tried again that the database was in the way of."""

logger = logging.getLogger(__name__)


class Transactions:
    """Runs activities that take a connection."""

    def __init__(
        self, store: Store, registry: Registry, *, settled: Callable[[ClaimedJob, Settled], None]
    ) -> None:
        """Look whether they can be run.

        Args:
            store: Whose database they write to.
            registry: What the worker runs.
            settled: Hears of attempts that have told the store of their end.

        Raises:
            UsageError: One of them cannot be run on this store.
        """
        self.settled = settled
        self._store = store
        self._pauses = Pauses(FIRST_PAUSE_MS, MAX_PAUSE_MS)
        for activity in registry.activities.values():
            if activity.definition.takes_connection:
                is_async = inspect.iscoroutinefunction(activity.fn)
                store.check_transaction(activity.name, is_async=is_async)

    async def attempt(
        self, run: JobRun, work: JobCode, threads: Threads
    ) -> AttemptResult | Settled:
        """Run an attempt. It is a task of its own."""
        if run.is_told:
            return GivenBack(refund=True)
        own = _Attempt(run, work, threads)
        try:
            was_ours = await self._store.transact(own.work())
        except UsageError as error:
            return raised(error, is_final=True)
        except RowError as error:
            return raised(error.__cause__ or error, raises=work.raises)
        except StoreError as error:
            logger.warning(
                "the transaction of activity %r of instance %r could not be committed and is tried "
                "again: %s",
                *run.named,
                error,
                extra=run.facts,
            )
            return GivenBack(self._pauses.next_ms(run.job.key), refund=not own.is_called)
        finally:
            run.interrupt = None
        self._pauses.forget(run.job.key)
        if was_ours is None:
            return own.outcome
        return Settled(own.end, was_ours)


class _Attempt:
    """What the code of an attempt is called with, and what came of it."""

    def __init__(self, run: JobRun, work: JobCode, threads: Threads) -> None:
        self._run = run
        self._work = work
        self._threads = threads
        self._error: BaseException | None = None
        self.is_called = False
        self.outcome: AttemptResult = GivenBack(refund=True)
        """How it ended; unless it was called, as if it had not begun."""
        self.end: JobEnd | None = None

    def work(self) -> OwnWork:
        """Return what the store needs to know."""
        run, is_async = self._run, inspect.iscoroutinefunction(self._work.fn)
        current_activity.set(run.context)
        run.context.is_in_transaction = True
        # A copy: this context is entered here while the thread begins.
        context = contextvars.copy_context()

        def call(connection: Any) -> Done:
            return context.run(self._call, connection)

        return OwnWork(
            activity=self._work.name,
            lease=JobLease(run.job.key, run.job.token),
            is_async=is_async,
            run=self._call_async if is_async else call,
            in_thread=self._threads.call,
            stop_by=self._stop_by,
            is_stopped=lambda: run.context.is_cancelled,
            be_alone=lambda: context.run(alone_in.set, self._work.name),
        )

    def _stop_by(self, give_up: Callable[[], None]) -> None:
        def give_up_quietly() -> None:
            try:
                give_up()
            except Exception as error:
                logger.error(
                    "the transaction of activity %r of instance %r could not be given up: %s",
                    *self._run.named,
                    shown_error(error),
                    extra={**self._run.facts, **error_facts(error)},
                )

        # It may have to wait for the end of a statement, so not on the loop.
        self._run.interrupt = lambda: self._threads.call(give_up_quietly)

    def _call(self, connection: Any) -> Done:
        """Call a plain function, on the thread that has the connection."""
        self.is_called, self._error = True, None
        work = self._work._replace(fn=self._with(connection))
        value = call_sync(work, self._run.job.input, self._run.context)
        if isinstance(value, AttemptResult):
            return self._done(value)
        value.close()
        problem = f"transaction {self._work.name!r} returned a coroutine: make it `async def`"
        return self._done(raised(UsageError(problem), is_final=True))

    async def _call_async(self, connection: Any) -> Done:
        """Call an async function, on the loop, in the task of the attempt."""
        self.is_called, self._error = True, None
        self._run.let_cancel()
        try:
            work = self._work._replace(fn=self._with(connection))
            return self._done(await call_async(work, self._run.job.input, self._run.context))
        finally:
            # What follows is ours, and short.
            self._run.interrupt = None

    def _with(self, connection: Any) -> Callable[..., Any]:
        """Return the function with its connection; what it raises is kept for the store."""
        fn = self._work.fn

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return fn(connection, *args, **kwargs)
            except BaseException as error:
                self._error = error
                raise

        async def call_awaited(*args: Any, **kwargs: Any) -> Any:
            try:
                return await fn(connection, *args, **kwargs)
            except BaseException as error:
                self._error = error
                raise

        return call_awaited if inspect.iscoroutinefunction(fn) else call

    def _done(self, outcome: AttemptResult) -> Done:
        run = self._run
        self.outcome = outcome
        if not isinstance(outcome, Returned) or run.context.is_cancelled:
            return Undone(self._error)
        end = conclude(
            run.job,
            run.policy,
            outcome,
            clock=lambda: 0,
            chance=lambda: 0.0,
            began_ms=run.began_ms,
        )
        # No other code has seen it yet; see `JobRunner`.
        force_setattr(end, "ran", run.counted())
        self.end = end
        return end
