"""A client for the length of a command: on a store that must be there already, or over HTTP.

Looking at a store must not make one: a name that was typed wrong is said, not created. The token
for a server comes from the environment alone: a flag would be on the list of processes, and a file
of the project would be shared.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from perdure.cli.interruptible import run_interruptibly
from perdure.cli.output import warnings_as_lines
from perdure.client.client import Client
from perdure.client.remote.urls import is_remote
from perdure.errors import SchemaError
from perdure.store.upkeep import Upkeep, upkeep_for

T = TypeVar("T")

TOKEN_VARIABLE = "PERDURE_TOKEN"
"""Where a token is that a server asks for."""


def ask(url: str, work: Callable[[Client], Awaitable[T]]) -> T:
    """Do something with a client, and return what that returns.

    Raises:
        StoreError: There is no store, or it cannot be reached.
    """
    token = None
    if is_remote(url):
        token = os.environ.get(TOKEN_VARIABLE) or None
    else:
        require_store(url)

    async def run() -> T:
        async with Client(url, token=token) as client:
            return await work(client)

    with warnings_as_lines():
        return run_interruptibly(run())


def require_store(url: str) -> Upkeep:
    """Return who looks after a store that is there.

    Raises:
        SchemaError: There are no tables of ours.
    """
    upkeep = upkeep_for(url)
    if upkeep.migrations().is_new:
        raise SchemaError(
            f"there is no perdure store at {upkeep.shown} yet; name another with --store, run: "
            "perdure migrate, or start a worker"
        )
    return upkeep
