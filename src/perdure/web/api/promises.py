"""Routes that keep promises, for those who have a token of the API and one of a promise."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.authoring.promise import Promise
from perdure.client.acting.keeping import find_promise
from perdure.client.reading.info import Json
from perdure.web.operations import CheckedRequest, Nothing


class ResolveBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With what a promise is kept."""

    token: str
    """As `promise.make()` gave it away. In the body, since paths are logged."""
    name: str | None = None
    """The name of the promise, if the token must be of that one."""
    value: Json = None


class RejectBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a promise is rejected."""

    token: str
    reason: str = ""


class Kept(msgspec.Struct, frozen=True):
    """Whether this was the first; if not, nothing has changed."""

    first: bool


async def resolve_promise(ask: CheckedRequest[Nothing, ResolveBody]) -> Kept:
    """Keep a promise: the instance that made it goes on with the value.

    The type of the value is known to the code of the instance alone, and is not checked here.
    """
    found = await find_promise(ask.client._core, ask.body.token)
    promise: Promise[Any] = Promise(ask.body.name or found.name, Any)
    return Kept(await ask.client.resolve(promise, ask.body.token, ask.body.value))


async def reject_promise(ask: CheckedRequest[Nothing, RejectBody]) -> Kept:
    """Reject a promise: the instance that made it gets an error."""
    return Kept(await ask.client.reject(ask.body.token, ask.reason(ask.body.reason)))
