"""User code that forks: the child has inherited everything, and may use nothing of it."""

from __future__ import annotations

import asyncio
import os
import time

from perdure import Client, activity_context
from perdure.errors import UsageError
from tests.chaos.ledger import Ledger

LIVES_FOR_S = 0.05
REFUSED = 0
"""How the child ends that was told that the client is not its own."""


async def is_refused_in_child() -> bool:
    """Fork inside an activity; return whether the child, which lives on for a while with all that
    it has inherited, was refused when it used the client."""
    context = activity_context()
    context.resource(Ledger).note("forked", context.idempotency_key)
    _, status = await asyncio.to_thread(os.waitpid, _fork(context.client), 0)
    return os.waitstatus_to_exitcode(status) == REFUSED


def _fork(client: Client) -> int:
    child = os.fork()
    if child:
        return child
    try:
        # The loop is the parent's too: not awaited, but driven by hand.
        client.handle("anybody").info().send(None)
    except UsageError:
        time.sleep(LIVES_FOR_S)
        os._exit(REFUSED)
    finally:
        os._exit(1)
