"""Methods of the client over HTTP that keep promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from perdure.authoring.promise import Promise
from perdure.client.reading.info import Json
from perdure.client.remote.connection import encoded
from perdure.codec import check_text
from perdure.errors import UsageError

if TYPE_CHECKING:
    from perdure.client.remote.client import RemoteClient

T = TypeVar("T")


async def resolve(self: RemoteClient, promise: Promise[T], token: str, value: T, /) -> bool:
    """Keep a promise; see `Client.resolve`."""
    if not isinstance(promise, Promise):
        raise UsageError(f'{promise!r} is not a promise: make one with Promise("name", type)')
    raw = promise.codec.encode(value, f"promise {promise.name!r}")
    return await resolve_json(self, token, encoded(raw), name=promise.name)


async def reject(self: RemoteClient, token: str, reason: str, /) -> bool:
    """Reject a promise; see `Client.reject`."""
    said = check_text("reason", reason)
    told = await self._connection.post("promises", "reject", token=token, reason=said)
    return bool(told["first"])


async def resolve_json(
    client: RemoteClient, token: str, value: Json, *, name: str | None = None
) -> bool:
    """Keep a promise whose type is not known here.

    Args:
        client: Whose server.
        token: Of the promise.
        value: As JSON.
        name: What the promise must be called.
    """
    told = await client._connection.post("promises", "resolve", token=token, name=name, value=value)
    return bool(told["first"])
