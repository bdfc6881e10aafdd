"""A process that serves the pages and the API of a store, beside whatever else is measured.

python -m bench.page_server URL PORT
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

import perdure.web
from bench.peers import Spent, answer
from perdure import Client
from perdure.web import WebLimits

LIMITS = WebLimits(rate_per_s=10_000, burst=10_000)
"""All visitors are one caller here."""


class Server(uvicorn.Server):
    """A server that is ended by its program, not by signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def main(url: str, port: int) -> None:
    """Serve until nothing more is asked."""
    async with Client(url) as client:
        app = perdure.web.app(client, insecure_no_auth=True, limits=LIMITS)
        config = uvicorn.Config(
            app,
            port=port,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        server = Server(config)
        serving = asyncio.ensure_future(server.serve())

        async def handle(word: str) -> Spent:
            while not server.started:  # noqa: ASYNC110 - it has no event for that
                await asyncio.sleep(0.01)
            return Spent.by(client._core.store)

        await answer(handle)
        server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
