"""An address of this machine at which one application after the other is really served."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self

import httpx
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class Served:
    """A server on a port of its own; what it serves is put in while it runs."""

    def __init__(self) -> None:
        self._app: ASGIApp = PlainTextResponse("nothing is served", 503)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    async def __aenter__(self) -> Self:
        """Start to listen."""
        config = uvicorn.Config(
            self._answer,
            log_level="error",
            access_log=False,
            interface="asgi3",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[self._socket]))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        self._server.should_exit = True
        await self._serving
        self._socket.close()

    def put(self, app: ASGIApp) -> None:
        """Serve an application from now on."""
        self._app = app

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class _Server(uvicorn.Server):
    """A server that leaves the signals of this process alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(app: ASGIApp, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A program that asks an application whose server also runs its lifespan.

    The port takes connections before the application has started: whoever asks waits until then.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_level="error", access_log=False, lifespan="on", timeout_graceful_shutdown=1
    )
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        async with httpx.AsyncClient(base_url=url, timeout=60, **options) as client:
            yield client
    finally:
        server.should_exit = True
        await serving
        listening.close()
