"""Methods of `BlockingClient`, which wait where those of `promises` are awaited.

Made from `client/acting/promises.py` by `tools/make_blocking.py`: change that, run this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from perdure.authoring.promise import Promise

if TYPE_CHECKING:
    from perdure.client.blocking.client import BlockingClient
T = TypeVar("T")


def resolve(self: BlockingClient, promise: Promise[T], token: str, value: T, /) -> bool:
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
    return self._thread.run(self._client.resolve(promise, token, value))


def reject(self: BlockingClient, token: str, reason: str, /) -> bool:
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
    return self._thread.run(self._client.reject(token, reason))
