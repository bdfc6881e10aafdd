"""How a promise is kept: its token is read, and its signal delivered to the instance that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.client.histories.histories import find_event
from perdure.errors import InstanceEndedError, PromiseNotFoundError
from perdure.ids import fresh_name
from perdure.model.histories.events import (
    PromiseMade,
    SignalReceived,
    StoredEvent,
    read_event,
    write_event,
)
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.promises import PromiseId, read_token
from perdure.store.base import ExecutionKey, NotPermittedError

if TYPE_CHECKING:
    from perdure.client.core import ClientCore

CALL_PREFIX = "call:"
"""Before the ids of calls, among those of messages."""
MAX_TRIES = 100
"""How often it is looked again whose a promise is while executions follow each other."""


async def find_secret(core: ClientCore) -> bytes | None:
    """Return what tokens are signed with; None, if the role of this process may not read it."""
    try:
        return await core.read_secret()
    except NotPermittedError:
        return None


async def find_promise(core: ClientCore, token: str) -> PromiseId:
    """Return the promise that a token is for.

    Raises:
        PromiseNotFoundError: This store has not signed it.
    """
    found = read_token(await core.read_secret(), token)
    if found is None:
        raise PromiseNotFoundError(token)
    return found


async def keep(
    core: ClientCore, promise: PromiseId, token: str, event: SignalReceived, how: str
) -> bool:
    """Deliver the signal that a promise is, to the execution that waits for it.

    Args:
        core: The client's.
        promise: Which.
        token: Its token.
        event: The signal.
        how: What is counted if it is the first.

    Returns:
        Whether it was.

    Raises:
        PromiseNotFoundError, InstanceEndedError: It cannot be kept any more.
    """
    kind, body = write_event(event)
    call_id = f"{CALL_PREFIX}{fresh_name()}"
    execution = promise.execution
    for _ in range(MAX_TRIES):
        delivery = Delivery(
            instance_id=promise.instance_id,
            incarnation=promise.incarnation,
            execution=execution,
            outlives=True,
            kind=kind,
            body=body,
            message_id=promise.message_id,
            call_id=call_id,
            if_absent="refuse",
        )
        [status] = await core.deliver([delivery])
        if status in (DeliveryStatus.DELIVERED, DeliveryStatus.DUPLICATE):
            is_first = status is DeliveryStatus.DELIVERED
            core.metrics.client_promises.add((how if is_first else "repeated",))
            return is_first
        execution = await _whose(core, promise, token)
    raise InstanceEndedError(promise.instance_id, "it keeps continuing as new")


async def _whose(core: ClientCore, promise: PromiseId, token: str) -> int:
    """Return which execution waits for a promise that the one which made it does not wait for: one
    that began with its history, as after a reset, has the promise on record.

    Raises:
        PromiseNotFoundError: The instance is gone.
        InstanceEndedError: None does.
    """

    def made(stored: StoredEvent) -> PromiseMade | None:
        event = read_event(stored.kind, stored.body) if stored.kind == PromiseMade.kind else None
        return event if isinstance(event, PromiseMade) and event.token == token else None

    instance_id, incarnation = promise.instance_id, promise.incarnation
    [row] = await core.store.read_instances([instance_id])
    if row is None:
        raise PromiseNotFoundError(token)
    if row.incarnation != incarnation:
        raise InstanceEndedError(instance_id, "its id was used again")
    live = await core.store.read_live(instance_id)
    if row.status.is_terminal or live is None:
        raise InstanceEndedError(instance_id, row.status)
    execution = live.stamp.execution
    if execution != promise.execution:
        key = ExecutionKey(instance_id, incarnation, execution)
        if await find_event(core.store, key, made) is None:
            raise InstanceEndedError(
                instance_id,
                f"execution {promise.execution}, which made the promise; execution {execution} is "
                "another",
            )
    return execution
