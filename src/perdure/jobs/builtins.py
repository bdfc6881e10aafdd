"""The activities that every worker has: how an orchestration reaches other instances.

They run on the loop, in slots of their own, whatever tags the worker serves. Waiting for results
asks nothing by itself: the client that is handed in has one watch for all. Store trouble is never a
failure of the call, it is waited out; that there is no such instance, or that it has ended, is the
answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

import msgspec

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.core.deciders.answers import DirectInput, InputOutcome
from perdure.errors import (
    InstanceEndedError,
    InstanceNotFoundError,
    StoreError,
    StoreUnavailableError,
)
from perdure.jobs.attempts import JobCode
from perdure.jobs.running import RunningActivity
from perdure.model.builtins import (
    CANCEL,
    READ_KV,
    RESULT,
    SEND,
    UPDATE,
    CancelInput,
    ReadKvInput,
    ReadKvOutput,
    ResultInput,
    ResultOutput,
    SendInput,
    UpdateInput,
)
from perdure.model.histories.events import (
    CancelRequested,
    MessageEvent,
    SignalReceived,
    write_event,
)
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.turns import InstanceEnd
from perdure.model.updates import UpdateOutcome
from perdure.store.base import Store

logger = logging.getLogger(__name__)

BUILTIN_JOBS = 1_000
"""Built-in activities that run at the same time at a worker, but for those that wait."""

WAITING_JOBS = 10_000
"""Results of other instances that a worker waits for at the same time."""

STORE_PAUSE_S = 1.0
"""Pause before the store is asked again after it could not be had."""


class InstancesForJobs(Protocol):
    """What built-ins need of a client to reach other instances."""

    @property
    def store(self) -> Store:
        """The open store."""
        ...

    async def deliver(self, deliveries: Sequence[Delivery]) -> list[DeliveryStatus]:
        """Put messages into inboxes."""
        ...

    async def wait_ended(self, instance_id: str) -> InstanceEnd:
        """Wait until an instance has ended.

        Raises:
            InstanceNotFoundError: There is no such instance.
        """
        ...

    async def update(
        self, instance_id: str, name: str, value: bytes, *, update_id: str
    ) -> UpdateOutcome:
        """Ask an instance, and wait for what the update comes to.

        Raises:
            InstanceNotFoundError, InstanceEndedError: It cannot be asked.
        """
        ...


class InputsForJobs(Protocol):
    """What built-ins need of a client to give inputs to deciders."""

    async def execute(
        self, decider: DeciderDefinition, instance_id: str, input: DirectInput
    ) -> InputOutcome:
        """Have an input decided, and return what it came to.

        Raises:
            UniqueKeyError: Another instance has the business key.
            InstanceHeldError: The instance takes no inputs until an operator or other code frees
                it.
            Exception: What the decider's code raised.
        """
        ...

    async def send(self, decider: str, instance_id: str, input: DirectInput) -> None:
        """Put an input into the inbox of an instance, which is started if it is not there.

        Raises:
            InstanceEndedError: It has completed.
        """
        ...


@dataclass(frozen=True, slots=True)
class ClientForJobs:
    """The client of a worker, as built-ins and activities use it."""

    instances: InstancesForJobs
    inputs: InputsForJobs
    here: Callable[[], object]
    """Returns the client for an activity that asks, on the loop or in a thread."""


RunBuiltin: TypeAlias = Callable[[RunningActivity, bytes], Awaitable[msgspec.Struct | None]]
"""Does what a built-in activity is for."""


def builtin_works(client: ClientForJobs) -> dict[str, JobCode]:
    """Return what jobs of the built-in activities call, by name; those of deciders are apart."""
    handlers = {RESULT: _result, SEND: _send, CANCEL: _cancel, READ_KV: _read_kv, UPDATE: _update}
    return {
        name: make_work(name, partial(handler, client.instances))
        for name, handler in handlers.items()
    }


def make_work(
    name: str,
    handler: RunBuiltin,
    *,
    waits_out: tuple[type[Exception], ...] = (StoreUnavailableError,),
    raises: tuple[type[Exception], ...] = (),
) -> JobCode:
    """Return what jobs of a built-in activity call.

    Args:
        name: Of the activity.
        handler: What it does.
        waits_out: Trouble that is waited out.
        raises: Exceptions that the caller gets as themselves.
    """
    return JobCode(
        name=name,
        fn=partial(_whatever_happens, handler, waits_out),
        # JSON comes and goes as it is: no user's types are involved.
        decode=lambda data: ([data], {}),
        encode=_as_it_is,
        takes_context=True,
        raises=raises,
    )


async def _whatever_happens(
    handler: RunBuiltin,
    waits_out: tuple[type[Exception], ...],
    context: RunningActivity,
    input: bytes,
) -> bytes:
    while True:
        try:
            return msgspec.json.encode(await handler(context, input))
        except waits_out as error:
            logger.warning(
                "activity %r of instance %r waits for %s: %s",
                context.activity,
                context.instance_id,
                "the store" if isinstance(error, StoreError) else "an instance",
                error,
                extra={"activity": context.activity, "instance_id": context.instance_id},
            )
            await asyncio.sleep(STORE_PAUSE_S)


def _as_it_is(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


async def _result(instances: InstancesForJobs, _: RunningActivity, input: bytes) -> ResultOutput:
    target = msgspec.json.decode(input, type=ResultInput).instance_id
    outcome = await instances.wait_ended(target)
    output = msgspec.Raw(b"null" if outcome.output is None else outcome.output)
    return ResultOutput(outcome.status.value, output, outcome.reason or "")


async def _send(instances: InstancesForJobs, context: RunningActivity, input: bytes) -> None:
    asked = msgspec.json.decode(input, type=SendInput)
    signal = SignalReceived(name=asked.signal, value=asked.value)
    delivery = _delivery(context, asked.instance_id, signal, is_buffered=True)
    [status] = await instances.deliver([delivery])
    if status is DeliveryStatus.ENDED:
        [row] = await instances.store.read_instances([asked.instance_id])
        raise InstanceEndedError(asked.instance_id, "deleted" if row is None else row.status)


async def _update(
    instances: InstancesForJobs, context: RunningActivity, input: bytes
) -> UpdateOutcome:
    asked = msgspec.json.decode(input, type=UpdateInput)
    return await instances.update(
        asked.instance_id,
        asked.update,
        bytes(asked.value),
        # Equal in all attempts of the call, so that it is asked once.
        update_id=context.idempotency_key,
    )


async def _cancel(instances: InstancesForJobs, context: RunningActivity, input: bytes) -> None:
    asked = msgspec.json.decode(input, type=CancelInput)
    request = CancelRequested(reason=asked.reason)
    delivery = _delivery(context, asked.instance_id, request, is_buffered=False)
    [status] = await instances.deliver([delivery])
    if status is DeliveryStatus.ABSENT:
        raise InstanceNotFoundError(asked.instance_id)


def _delivery(
    context: RunningActivity, instance_id: str, event: MessageEvent, *, is_buffered: bool
) -> Delivery:
    kind, body = write_event(event)
    return Delivery(
        instance_id=instance_id,
        kind=kind,
        body=body,
        # Equal in all attempts of the call, so that it is delivered once.
        message_id=context.idempotency_key,
        if_absent="buffer" if is_buffered else "refuse",
        hurries=isinstance(event, CancelRequested),
    )


async def _read_kv(instances: InstancesForJobs, _: RunningActivity, input: bytes) -> ReadKvOutput:
    asked = msgspec.json.decode(input, type=ReadKvInput)
    kept = (await instances.store.admin.read_kv(asked.instance_id, asked.key)).get(asked.key)
    if kept is not None:
        return ReadKvOutput(msgspec.Raw(kept.value))
    [row] = await instances.store.read_instances([asked.instance_id])
    if row is None:
        raise InstanceNotFoundError(asked.instance_id)
    return ReadKvOutput()
