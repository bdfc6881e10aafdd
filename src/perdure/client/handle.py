"""One instance, seen from outside."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import uuid4

import msgspec

from perdure.authoring.signal import Signal
from perdure.client.explain import Evidence, explain
from perdure.client.info import HistoryEvent, InstanceInfo, event_of, info_of
from perdure.codec import ValueCodec
from perdure.core.identity import ExecutionId
from perdure.core.summary import Stop, Summary
from perdure.errors import (
    InstanceCancelledError,
    InstanceEndedError,
    InstanceFailedError,
    InstanceNotFoundError,
    InstanceTerminatedError,
    ResultTimeoutError,
    StoreUnavailableError,
)
from perdure.model.events import (
    CancelRequested,
    Failure,
    SignalReceived,
    Started,
    StoredEvent,
    Terminated,
    read_event,
    write_event,
)
from perdure.model.instances import InstanceRow, LiveRow, Stamp, Status
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.turns import Outcome, Turn, TurnStatus
from perdure.store.base import ExecutionKey
from perdure.worker.turns import fresh_id
from perdure.worker.unserved import LIVE_WORKER_MS

if TYPE_CHECKING:
    from perdure.client.client import Client

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

ASK_AFTER_TRIES = 4
"""After so many lost races against a worker that keeps committing, that one is asked to do it."""

MAX_TERMINATE_TRIES = 500
TERMINATE_PAUSE_S = 0.01
"""How often a termination is tried in all, and the pause between tries once a worker was asked."""


class Handle(Generic[R_co]):
    """One instance. Making a handle asks nothing; every method does."""

    def __init__(self, client: Client, instance_id: str, codec: ValueCodec[Any]) -> None:
        self.instance_id = instance_id
        self._client = client
        self._codec = codec

    def __repr__(self) -> str:
        return f"Handle({self.instance_id!r})"

    async def result(
        self,
        *,
        timeout: timedelta | None = None,  # noqa: ASYNC109 - its error says what is waited for
    ) -> R_co:
        """Wait for the end and return the result.

        Raises:
            InstanceFailedError: It failed; the error names the original.
            InstanceCancelledError: It was cancelled.
            InstanceTerminatedError: It was terminated.
            InstanceNotFoundError: There is no such instance.
            ResultTimeoutError: It has not ended in time; the text says what it waits for.
        """
        if timeout is None:
            return self._result_of(await self._client.wait_ended(self.instance_id))
        try:
            async with asyncio.timeout(timeout.total_seconds()) as limit:
                outcome = await self._client.wait_ended(self.instance_id)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ResultTimeoutError(self.instance_id, timeout, await self.explain()) from None
        return self._result_of(outcome)

    async def info(self) -> InstanceInfo:
        """Return where the instance stands."""
        return info_of(await self._row())

    async def history(self) -> list[HistoryEvent]:
        """Return everything recorded in the current execution."""
        row = await self._row()
        return [event_of(stored) for stored in await self._history(row)]

    async def send(self, signal: Signal[T], value: T, /, *, message_id: str | None = None) -> None:
        """Send a signal. It is kept until the orchestration receives it.

        Args:
            signal: Its name and type.
            value: Checked and encoded at once.
            message_id: Sent again with the same id, the signal is delivered once.

        Raises:
            InstanceEndedError: The instance has ended.
        """
        raw = msgspec.Raw(signal.codec.encode(value, f"signal {signal.name!r}"))
        kind, body = write_event(SignalReceived(name=signal.name, value=raw))
        await self._deliver(
            Delivery(
                instance_id=self.instance_id,
                kind=kind,
                body=body,
                # Always one: a delivery that is sent again after a fault must not count twice.
                message_id=message_id or uuid4().hex,
                if_absent="buffer",
            )
        )

    async def cancel(self, reason: str = "") -> None:
        """Ask the instance to stop: its code sees `CancelledError` and may clean up.

        An instance that has ended stays as it is.
        """
        kind, body = write_event(CancelRequested(reason=reason))
        delivery = Delivery(instance_id=self.instance_id, kind=kind, body=body, if_absent="refuse")
        try:
            await self._deliver(delivery)
        except InstanceEndedError:
            return

    async def terminate(self, reason: str = "") -> None:
        """Stop the instance now; its code is not asked. Works without any worker.

        An instance that has ended stays as it is.
        """
        for tries in range(MAX_TERMINATE_TRIES):
            row = await self._row()
            live = await self._client.store.read_live(self.instance_id)
            if row.status.is_terminal or live is None or await self._stop(live, reason):
                return
            if tries == ASK_AFTER_TRIES:
                await self._ask_to_terminate(reason)
            elif tries > ASK_AFTER_TRIES:
                await asyncio.sleep(TERMINATE_PAUSE_S)
        raise StoreUnavailableError(
            f"{self.instance_id} could not be terminated: it kept moving during "
            f"{MAX_TERMINATE_TRIES} tries; try again"
        )

    async def explain(self) -> str:
        """Return one sentence: what it waits for, since when, who holds it, why nothing moves."""
        store = self._client.store
        row = await self._row()
        live = await store.read_live(self.instance_id)
        number = None if live is None else live.definition_no
        now_ms = store.clock()
        return explain(
            Evidence(
                row=row,
                live=live,
                definition=None if number is None else await store.definition(number),
                # What is held may have a history that cannot be read, which is why it is held.
                summary=Summary(await self._history(row) if row.status is Status.RUNNING else []),
                inbox=await store.read_inbox(self.instance_id),
                jobs=await store.read_jobs(self.instance_id),
                workers=await store.read_workers(seen_since_ms=now_ms - LIVE_WORKER_MS),
                now_ms=now_ms,
            )
        )

    # ------------------------------------------------------------------ inside

    async def _row(self) -> InstanceRow:
        [row] = await self._client.store.read_instances([self.instance_id])
        if row is None:
            raise InstanceNotFoundError(self.instance_id)
        return row

    async def _history(self, row: InstanceRow) -> list[StoredEvent]:
        key = ExecutionKey(row.instance_id, row.incarnation, row.execution)
        [history] = await self._client.store.read_histories([key])
        return history

    async def _deliver(self, delivery: Delivery) -> None:
        [status] = await self._client.deliver([delivery])
        if status is DeliveryStatus.ENDED:
            row = await self._row()
            raise InstanceEndedError(self.instance_id, row.status)
        if status is DeliveryStatus.ABSENT:
            raise InstanceNotFoundError(self.instance_id)

    async def _ask_to_terminate(self, reason: str) -> None:
        """Let the worker that keeps committing end it: its next claimed turn takes the message."""
        kind, body = write_event(Terminated(reason=reason))
        delivery = Delivery(instance_id=self.instance_id, kind=kind, body=body, if_absent="refuse")
        await self._client.deliver([delivery])

    async def _stop(self, live: LiveRow, reason: str) -> bool:
        store = self._client.store
        incarnation, execution, _ = live.stamp
        execution_id = ExecutionId(self.instance_id, incarnation, execution)
        [history] = await store.read_histories([ExecutionKey(*execution_id)])
        inbox = await store.read_inbox(self.instance_id)
        starts = [
            read_event(message.kind, message.body) for message in inbox if message.kind == "started"
        ]
        unstarted = starts[0] if starts and isinstance(starts[0], Started) else None
        now_ms = max(store.clock(), history[-1].at_ms if history else 0)
        stop = Stop(execution_id, history, unstarted, reason, now_ms)
        turn = Turn(
            instance_id=self.instance_id,
            stamp=Stamp(incarnation, execution, len(history) + 1),
            commit_id=fresh_id(),
            now_ms=now_ms,
            worker_id="",
            seize=True,
            events=stop.events,
            deliveries=stop.deliveries,
            outcome=stop.outcome,
        )
        [receipt] = await store.commit([turn])
        if receipt.status is not TurnStatus.ACCEPTED:
            return False
        self._client.noticed_end(self.instance_id, incarnation, stop.outcome)
        return True

    def _result_of(self, outcome: Outcome) -> R_co:
        reason = outcome.reason or ""
        match outcome.status:
            case Status.COMPLETED:
                assert outcome.output is not None
                result: R_co = self._codec.decode(outcome.output)
                return result
            case Status.FAILED:
                assert outcome.output is not None
                failure = msgspec.json.decode(outcome.output, type=Failure)
                raise InstanceFailedError(
                    self.instance_id,
                    type_name=failure.type_name,
                    message=failure.message,
                    traceback_text=failure.traceback_text,
                )
            case Status.CANCELLED:
                raise InstanceCancelledError(self.instance_id, reason)
        raise InstanceTerminatedError(self.instance_id, reason)
