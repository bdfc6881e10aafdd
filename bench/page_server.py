"""A process that serves the pages and the API of a store, beside whatever else is measured, as
`perdure ui` does.

python -m bench.page_server URL PORT
"""

from __future__ import annotations

import asyncio
import socket
import sys

import perdure.web
from bench.peers import Spent, answer
from perdure import Client
from perdure.cli.serving.http_server import go_second, served
from perdure.cli.serving.ui import DEFAULT_NICE
from perdure.web import WebLimits

LIMITS = WebLimits(rate_per_s=10_000, burst=10_000)
"""All visitors are one caller here."""


async def main(url: str, port: int) -> None:
    """Serve until nothing more is asked."""
    go_second(DEFAULT_NICE)
    async with Client(url) as client:
        app = perdure.web.app(client, insecure_no_auth=True, limits=LIMITS)

        async def handle(word: str) -> Spent:
            return Spent.by(client._core.store)

        async with served(app, [socket.create_server(("127.0.0.1", port))], drain_s=1):
            await answer(handle)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
