"""An ASGI application for others to call: `POST /{token}` keeps a promise.

Who has the token has the right, so there is nothing to log in with. A token that this store has not
signed is told apart from one it has in constant time, before anything else is looked at, and gets
the same answer as a path that is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message

from perdure.authoring.promise import Promise
from perdure.client.acting.keeping import find_promise
from perdure.client.client import Client
from perdure.client.remote.client import RemoteClient
from perdure.errors import InstanceEndedError, PayloadError, PromiseNotFoundError, UsageError
from perdure.web.bodies import parse_json, read_body
from perdure.web.problems import RefusalError, response_of

MAX_BODY_BYTES = 256 * 1024
"""The largest body of a call."""
BODY_WITHIN_S = 30.0
"""How long a caller may take to send it."""

Verify = Callable[[Request], Awaitable[bool]]
"""Says whether a call is from whom it should be, by its headers and `await request.body()`."""


def hooks(
    client: Client, promises: Sequence[Promise[Any]], /, *, verify: Verify | None = None
) -> Starlette:
    """Return an ASGI application: `POST /{token}` keeps a promise with the JSON of the body.

    Mount it where others can reach it: `app.mount("/hooks", hooks(engine, [paid]))`. It answers 200
    with `{"first": true}`, or `false` if the promise was kept or rejected before; 404 to a token
    that is none of these promises; 410 when the execution that made it is over; 422 to a body that
    is not of the promise's type, of which nothing is stored; 413 to one over 256 KiB.

    Args:
        client: A client or engine of the store; it is opened and closed elsewhere, see `lifespan`.
        promises: Those that can be kept here. Their types are what bodies are checked by.
        verify: Checks the signature of the sender, before the body is looked into. False: 403.

    Raises:
        UsageError: There is no promise among them, two have one name, or the client is over HTTP.
    """
    by_name = _by_name(promises)
    if not isinstance(client, Client) or isinstance(client, RemoteClient):
        raise UsageError(
            f"hooks takes a Client or Engine of the store itself, got {type(client).__name__}"
        )

    async def keep(request: Request) -> Response:
        try:
            return await _keep(request, client, by_name, verify)
        except Exception as error:
            return response_of(_refusal(error))

    async def refuse(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            text = "a promise is kept with POST"
            return response_of(RefusalError(405, "method_not_allowed", text, {"Allow": "POST"}))
        return response_of(_NOT_FOUND)

    made = Starlette(
        routes=[Route("/{token}", keep, methods=["POST"])],
        exception_handlers={HTTPException: refuse},
    )
    made.router.redirect_slashes = False
    return made


async def _keep(
    request: Request,
    client: Client,
    promises: dict[str, Promise[Any]],
    verify: Verify | None,
) -> Response:
    token = request.path_params["token"]
    found = await find_promise(client._core, token)
    promise = promises.get(found.name)
    if promise is None:
        raise PromiseNotFoundError(token)
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            body = await read_body(request, MAX_BODY_BYTES)
    except TimeoutError:
        raise RefusalError(408, "too_slow", "the body did not arrive in time") from None
    if verify is not None and not await verify(_with_body(request, body)):
        raise RefusalError(403, "not_verified", "the call is not from whom it should be")
    try:
        parse_json(body)
        value = promise.codec.decode(body)
    except RefusalError as error:
        raise RefusalError(422, error.code, error.detail) from None
    return JSONResponse({"first": await client.resolve(promise, token, value)})


def _with_body(request: Request, body: bytes) -> Request:
    """Return a request whose body can be read once more."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)


_NOT_FOUND = RefusalError(404, "not_found", "there is nothing here")


def _refusal(error: Exception) -> Exception:
    """Return what is told of an error: a caller learns nothing about instances."""
    match error:
        case PromiseNotFoundError():
            return _NOT_FOUND
        case InstanceEndedError():
            return RefusalError(410, "gone", "it is too late: what waited for this is over")
        case PayloadError():
            return RefusalError(422, "payload", f"the body does not fit: {error.problem}")
    return error


def _by_name(promises: Sequence[Promise[Any]]) -> dict[str, Promise[Any]]:
    found: dict[str, Promise[Any]] = {}
    for one in promises:
        if not isinstance(one, Promise):
            raise UsageError(f'{one!r} is not a promise: make one with Promise("name", type)')
        if found.setdefault(one.name, one) is not one:
            raise UsageError(f"two promises are named {one.name!r}: give each its own name")
    if not found:
        raise UsageError("hooks needs the promises that can be kept: hooks(engine, [paid])")
    return found
