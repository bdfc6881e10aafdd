"""Methods of `Client` that keep promises: once, whoever has the token."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from perdure.authoring.promise import Promise
from perdure.codec import check_text
from perdure.errors import InstanceEndedError, PromiseNotFoundError, UsageError
from perdure.model.events import NULL, PromiseMade, SignalReceived, read_event, write_event
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.promises import PromiseId, read_token
from perdure.store.base import ExecutionKey

if TYPE_CHECKING:
    from perdure.client.client import Client
    from perdure.client.core import ClientCore

T = TypeVar("T")

MAX_TRIES = 100
"""How often it is looked again whose a promise is while executions follow each other."""


async def resolve(self: Client, promise: Promise[T], token: str, value: T, /) -> bool:
    """Keep a promise: the orchestration that made it goes on with the value.

    Durable when this returns. A promise is kept or rejected once: whoever is first.

    Args:
        promise: Its name and type.
        token: What `promise.make()` gave away.
        value: Checked and encoded at once.

    Returns:
        Whether this was the first; False: it was kept or rejected before, and nothing has changed.

    Raises:
        PromiseNotFoundError: The token is for no promise of this store.
        InstanceEndedError: The execution that made it is over.
        PayloadError: The value cannot be stored.
        UsageError: The token is of a promise of another name.
    """
    if not isinstance(promise, Promise):
        raise UsageError(f'{promise!r} is not a promise: make one with Promise("name", type)')
    raw = msgspec.Raw(promise.codec.encode(value, f"promise {promise.name!r}"))
    core = self._core
    found = await find_promise(core, token)
    if found.name != promise.name:
        raise UsageError(
            f"the token is of promise {found.name!r}, not of {promise.name!r}: give the promise "
            "that it was made of"
        )
    return await _keep(core, found, token, SignalReceived(name=found.signal, value=raw), "resolved")


async def reject(self: Client, token: str, reason: str, /) -> bool:
    """Reject a promise: the orchestration that made it gets `PromiseRejectedError`.

    Args:
        token: What `promise.make()` gave away.
        reason: Why.

    Returns:
        Whether this was the first; False: it was kept or rejected before, and nothing has changed.

    Raises:
        PromiseNotFoundError: The token is for no promise of this store.
        InstanceEndedError: The execution that made it is over.
    """
    said = check_text("reason", reason)
    core = self._core
    found = await find_promise(core, token)
    event = SignalReceived(name=found.signal, value=NULL, rejected=said)
    return await _keep(core, found, token, event, "rejected")


async def find_promise(core: ClientCore, token: str) -> PromiseId:
    """Return the promise that a token is for.

    Raises:
        PromiseNotFoundError: This store has not signed it.
    """
    found = read_token(await core.read_secret(), token)
    if found is None:
        raise PromiseNotFoundError(token)
    return found


async def _keep(
    core: ClientCore, promise: PromiseId, token: str, event: SignalReceived, how: str
) -> bool:
    """Deliver the signal that a promise is, to the execution that waits for it."""
    kind, body = write_event(event)
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
        [history] = await core.store.read_histories([key])
        made = [read_event(one.kind, one.body) for one in history if one.kind == PromiseMade.kind]
        if not any(isinstance(one, PromiseMade) and one.token == token for one in made):
            raise InstanceEndedError(
                instance_id,
                f"execution {promise.execution}, which made the promise; execution {execution} is "
                "another",
            )
    return execution
