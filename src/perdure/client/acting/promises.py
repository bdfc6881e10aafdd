"""Methods of `Client` that keep promises: once, by the caller that has the token."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from perdure.authoring.promise import Promise
from perdure.client.acting.keeping import find_promise, keep
from perdure.codec import check_text
from perdure.errors import UsageError
from perdure.model.histories.events import NULL, SignalReceived

if TYPE_CHECKING:
    from perdure.client.client import Client

T = TypeVar("T")


async def resolve(self: Client, promise: Promise[T], token: str, value: T, /) -> bool:
    """Keep a promise: the orchestration that made it goes on with the value.

    Durable when this returns. A promise is kept or rejected once: the first call counts.

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
    event = SignalReceived(name=found.signal, value=raw)
    return await keep(core, found, token, event, "resolved")


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
    return await keep(core, found, token, event, "rejected")
