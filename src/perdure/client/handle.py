"""One instance, seen from outside."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from perdure.authoring.signal import Signal
from perdure.client.acting import updates
from perdure.client.acting.sending import signal_delivery
from perdure.client.acting.starting import successor
from perdure.client.deciders.schedule_states import describe_schedule
from perdure.client.histories import going_back
from perdure.client.histories import reading as histories
from perdure.client.histories.moving import OrchestrationVersion
from perdure.client.histories.points import Point, check_point
from perdure.client.histories.resetting import refuse_part
from perdure.client.lifetimes import not_awaited
from perdure.client.reading import kept_values, stream_items
from perdure.client.reading.display import ShownTable
from perdure.client.reading.explain import Evidence, explain, gather_evidence
from perdure.client.reading.info import (
    InstanceInfo,
    InstanceTree,
    JobInfo,
    Progress,
    info_of,
    job_of,
    progress_of,
)
from perdure.client.reading.lists import check_count, check_time
from perdure.client.reading.outcomes import outcome_in, result_in
from perdure.client.reading.overview import unclaimed_key, unclaimed_row
from perdure.client.reading.trees import nested, read_shown
from perdure.client.reading.watch import NewsMark
from perdure.codec import ValueCodec, check_id, check_text
from perdure.durations import Duration, as_duration
from perdure.errors import (
    InstanceEndedError,
    InstanceHeldError,
    InstanceNotFoundError,
    InstanceRunningError,
    OptionError,
    ResultTimeoutError,
    UsageError,
)
from perdure.ids import fresh_name
from perdure.limits import MAX_TREE_SHOWN
from perdure.model.admin import DeletedCounts, InstanceStats
from perdure.model.histories.events import CancelRequested, write_event
from perdure.model.instances import InstanceRow, LiveRow, Status
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.options import IfHeld, check_if_held
from perdure.store.base import ExecutionKey

if TYPE_CHECKING:
    from perdure.client.core import ClientCore

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


@not_awaited
class Handle(Generic[R_co]):
    """One instance. Making a handle asks nothing; every method does."""

    instance_id: str
    """Its id, as it is stored."""

    def __init__(
        self,
        core: ClientCore,
        instance_id: str,
        codec: ValueCodec[Any],
        moves_to: OrchestrationVersion | None = None,
        *,
        begun: NewsMark | None = None,
    ) -> None:
        self.instance_id = instance_id
        self._core = core
        self._codec = codec
        self._moves_to = moves_to
        """The version that a reset or fork goes on with; None: the one on record."""
        self._begun = begun
        """What was heard before the instance was started, if it was started for this handle."""

    def __repr__(self) -> str:
        return f"Handle({self.instance_id!r})"

    def _repr_html_(self) -> str:
        return self._shown().html()

    def __rich__(self) -> Any:
        return self._shown().rich()

    def _shown(self) -> ShownTable:
        """Return what is known without asking."""
        asks = [["where it stands", "info()"], ["why", "explain()"], ["events", "history()"]]
        return ShownTable(f"instance {self.instance_id}", ["ask for", "with"], asks)

    # --------------------------------------------------------------------- waiting

    async def result(
        self,
        *,
        timeout: Duration | None = None,  # noqa: ASYNC109 - its error says what is waited for
        if_held: IfHeld = "warn",
    ) -> R_co:
        """Wait for the end and return the result.

        Args:
            timeout: How long to wait, as a timedelta or in seconds; for ever if not given. Zero
                asks for a result that is there already.
            if_held: What to do when the instance is blocked or parked, and so does not go on by
                itself: warn at once and wait (*warn*), raise an InstanceHeldError (*raise*), or
                wait without a word (*wait*).

        Raises:
            InstanceFailedError: It failed; the error names the original and where it was raised.
            InstanceCancelledError: It was cancelled.
            InstanceTerminatedError: It was terminated.
            InstanceNotFoundError: There is no such instance.
            InstanceHeldError: It is blocked or parked, and `if_held` is *raise*.
            ResultTimeoutError: It has not ended in time; the text says what it waits for.
        """
        check_if_held(if_held)
        waiting = self._core.wait_ended(
            self.instance_id, hears_holds=if_held != "wait", begun=self._begun
        )
        try:
            outcome = await waiting if timeout is None else await self._within(timeout, waiting)
        except InstanceHeldError:
            if if_held == "raise":
                raise
            await self._warn_held()
            waiting = self._core.wait_ended(self.instance_id)
            outcome = await self._within(timeout, waiting)
        except ResultTimeoutError:
            row = await self._row()
            if not row.status.is_terminal:
                raise
            outcome = outcome_in(row)
        result: R_co = result_in(outcome, self.instance_id, self._codec)
        return result

    # ---------------------------------------------------------------------- asking

    async def info(self) -> InstanceInfo:
        """Return where the instance stands."""
        row = await self._row()
        store = self._core.store
        live = None if row.status.is_terminal else await store.read_live(self.instance_id)
        if live is None:
            # Ended between the two questions, if it had not before.
            return info_of(row if row.status.is_terminal else await self._row())
        unclaimed = None
        if row.status is Status.RUNNING and live.definition_no is not None:
            key = await store.definition(live.definition_no)
            unclaimed = unclaimed_key(key, await self._core.live_workers())
        return info_of(row, last_at_ms=await self._last_at_ms(live), unclaimed=unclaimed)

    async def explain(self) -> str:
        """Return one sentence: what it waits for, since when, who holds it, why nothing moves."""
        return explain(await self._evidence())

    async def _evidence(self) -> Evidence:
        """Return what the sentence rests on."""
        row, core = await self._row(), self._core
        workers = [] if row.status.is_terminal else await core.live_workers()
        evidence = await gather_evidence(core.store, core.summaries, row, workers)
        return evidence._replace(schedule=await describe_schedule(core, row))

    async def tree(self, *, calls: bool = True) -> InstanceTree:
        """Return the instance with all that it started and called, to any depth.

        What it started and waits for are `children`. Deciders that were given inputs, by
        `ctx.execute` and `ctx.send` or by the decision of another decider, are `calls` of the one
        that did so, as the histories of its newest 100 executions tell. Pages of a `for_each` are
        below its coordinator, if that is asked; there may be thousands of them.

        Args:
            calls: Whether to look for calls. Without them only rows are read, no histories.

        Raises:
            LimitExceededError: They are too many to be shown as a whole.
        """
        root = await self._row()
        rows, callers = await read_shown(self._core.store, root, calls=calls, limit=MAX_TREE_SHOWN)
        workers = await self._core.live_workers()
        unclaimed = {row.instance_id: unclaimed_row(row, workers) for row in rows}
        return nested(rows, callers, unclaimed)

    async def stats(self) -> InstanceStats:
        """Return how much is stored for the instance."""
        stats = await self._core.store.admin.instance_stats(self.instance_id)
        if stats is None:
            raise InstanceNotFoundError(self.instance_id)
        return stats

    async def jobs(self) -> list[JobInfo]:
        """Return the calls of activities that have not ended: queued, running, to be retried."""
        jobs = await self._core.store.read_jobs(self.instance_id)
        if not jobs:
            await self._row()
        return [job_of(job) for job in jobs]

    async def progress(self) -> list[Progress]:
        """Return what the running activities of the instance said of their progress."""
        jobs = await self._core.store.admin.read_progress(self.instance_id)
        if not jobs:
            await self._row()
        return [progress_of(job) for job in jobs]

    # ---------------------------------------------------------------------- telling

    async def send(self, signal: Signal[T], value: T, /, *, message_id: str | None = None) -> None:
        """Send a signal. It is kept until the orchestration receives it.

        Args:
            signal: Its name and type.
            value: Checked and encoded at once.
            message_id: Sent again with the same id, the signal is delivered once.

        Raises:
            InstanceEndedError: The instance has ended.
        """
        status = await self._deliver(
            signal_delivery(self.instance_id, signal, value, message_id=message_id)
        )
        if status is DeliveryStatus.BUFFERED:
            self._core.say_unborn(signal.name, self.instance_id)

    async def cancel(self, reason: str = "") -> None:
        """Ask the instance to stop: its code sees `CancelledError` and may clean up.

        A delayed one begins now, to be stopped. An instance that has ended stays as it is.
        """
        kind, body = write_event(CancelRequested(reason=check_text("reason", reason)))
        delivery = Delivery(
            instance_id=self.instance_id,
            kind=kind,
            body=body,
            # A delivery that is sent again after a fault must not count twice.
            message_id=fresh_name(),
            if_absent="refuse",
            hurries=True,
        )
        try:
            await self._deliver(delivery)
        except InstanceEndedError:
            return

    async def terminate(self, reason: str = "") -> None:
        """Stop the instance now; its code is not asked. Works without any worker.

        Its children hear of it as `on_parent_close` says, and theirs, down to the last one. An
        instance that has ended stays as it is.
        """
        await self._core.terminate(self.instance_id, check_text("reason", reason))

    async def restart(self) -> None:
        """Start an instance that has ended again, with the definition and input of its last
        execution. What it left behind is removed.

        Raises:
            InstanceNotFoundError: There is no such instance.
            InstanceRunningError: It has not ended.
            UsageError: It is a decider's, or a part of a `for_each` with `results=`.
        """
        while True:
            row = await self._row()
            refuse_part(row)
            if row.kind == "decider":
                raise UsageError(
                    f"instance {self.instance_id!r} is a decider's, which has no start to repeat: "
                    "delete it, and its next input begins it anew"
                )
            if not row.status.is_terminal:
                raise InstanceRunningError(
                    self.instance_id,
                    row.status,
                    "only what has ended can be restarted; terminate it first, or start it with "
                    '.with_options(if_exists="terminate")',
                )
            now_ms, code = self._core.store.clock(), self._core.code_of(row.name, row.version)
            new = successor(row, now_ms=now_ms, code=code)
            # Otherwise another client has restarted it meanwhile.
            if await self._core.replace(row, new) is None:
                return

    # ------------------------------------------------------- going back, branching off

    async def fork(self, instance_id: str, point: Point | None = None, /) -> Handle[R_co]:
        """Start another instance that begins with what this one did up to a point. This one is left
        as it is, and may run.

        Args:
            instance_id: The id of the new one.
            point: As in `reset`, and so is the version.

        Raises:
            InstanceNotFoundError: There is no such instance.
            AlreadyExistsError: The id is taken.
            UsageError: It is a decider's, or has no such point.
        """
        new_id = check_id("instance id", instance_id)
        await self._core.fork(self.instance_id, new_id, check_point(point), self._moves_to)
        return Handle(self._core, new_id, self._codec)

    async def unpark(self) -> bool:
        """Let a parked or blocked instance be tried again by any worker.

        Returns:
            Whether it was parked or blocked.
        """
        was_held = await self._core.store.unpark(self.instance_id)
        if was_held:
            self._core.noticed_work()
        else:
            await self._row()
        return was_held

    async def delete(self, *, force: bool = False) -> DeletedCounts:
        """Delete the instance and everything below it, as `client.delete` does."""
        return await self._core.removal().delete(self.instance_id, force=force)

    async def prune(self, *, keep_last: int = 1, before: datetime | None = None) -> DeletedCounts:
        """Remove the histories of earlier executions. The current one always stays.

        Args:
            keep_last: How many executions stay, the current one included.
            before: Only executions that ended earlier than that.

        Raises:
            InstanceNotFoundError: There is no such instance.
        """
        return await self._core.removal().prune(
            self.instance_id,
            keep_last=check_count("keep_last", keep_last, least=1),
            before_ms=check_time("before", before),
        )

    # What follows is written where it belongs by its subject; this is the whole list.

    executions = histories.executions
    history = histories.history
    export = histories.export
    plan = going_back.plan
    reset = going_back.reset
    report = kept_values.report
    wait_report = kept_values.wait_report
    kv = kept_values.kv
    wait_kv = kept_values.wait_kv
    stream = stream_items.stream
    streams = stream_items.streams

    # Asking the instance itself.
    update = updates.update
    ask = updates.ask

    # ------------------------------------------------------------------ inside

    async def _row(self) -> InstanceRow:
        [row] = await self._core.store.read_instances([self.instance_id])
        if row is None:
            raise InstanceNotFoundError(self.instance_id)
        return row

    async def _last_at_ms(self, live: LiveRow) -> int:
        """Return when the newest event of an instance was recorded; 0 if there is none yet."""
        incarnation, execution, next_seq = live.stamp.place
        key = ExecutionKey(self.instance_id, incarnation, execution)
        [last] = await self._core.store.read_histories([key], after_seq=next_seq - 2, limit=1)
        return last[0].at_ms if last else 0

    async def _warn_held(self) -> None:
        """Say where the caller waits that nothing moves, and why."""
        warnings.warn(
            f'{await self.explain()} result() goes on waiting; if_held="raise" ends it',
            RuntimeWarning,
            stacklevel=3,
        )

    async def _within(
        self,
        given: Duration | None,
        waiting: Coroutine[Any, Any, T],
        what: str = "result",
        *,
        starts: bool = False,
    ) -> T:
        """Wait for so long; then say what the instance itself waits for, which may not be there yet
        if what is waited for starts it."""
        if given is None:
            return await waiting
        try:
            limit = as_duration("timeout", given)
            if limit < timedelta(0):
                raise OptionError(f"timeout must not be negative, got {given}")
        except UsageError:
            waiting.close()
            raise
        try:
            async with asyncio.timeout(limit.total_seconds()) as scope:
                return await waiting
        except TimeoutError:
            if not scope.expired():
                raise
            try:
                explanation = await self.explain()
            except InstanceNotFoundError:
                if not starts:
                    raise
                explanation = f"instance {self.instance_id!r} was not started in time"
            raise ResultTimeoutError(self.instance_id, limit, explanation, what=what) from None

    async def _deliver(self, delivery: Delivery) -> DeliveryStatus:
        [status] = await self._core.deliver([delivery])
        if status is DeliveryStatus.ENDED:
            row = await self._row()
            raise InstanceEndedError(self.instance_id, row.status)
        if status is DeliveryStatus.ABSENT:
            raise InstanceNotFoundError(self.instance_id)
        return status
