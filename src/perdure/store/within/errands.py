"""Where our code runs that uses a connection of the user's.

That code is synchronous. A blocking connection wants it on the thread that the connection belongs
to: the caller's. A connection of an event loop wants its statements run on that loop, so our code
runs on a thread beside it and hands them over.

A thread for each call, not a pool: a call may wait for a row that another call's transaction has
locked, and that one needs a thread to go on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")


class OwnThread:
    """Runs functions on the thread that asks. The event loop stands still meanwhile."""

    async def do(self, work: Callable[[], T]) -> T:
        """See `perdure.store.within.borrowing.RunOnThread`."""
        return work()


async def beside_loop(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Run a function on a thread of its own, and let this loop serve it meanwhile.

    Nothing of it is left when this returns or raises: a caller that is cancelled waits until the
    function has ended.

    Args:
        work: What to run.
        cancel: Makes it end soon.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            _tell(loop, partial(answer.set_exception, error))
        else:
            _tell(loop, partial(answer.set_result, result))

    threading.Thread(target=run, name="perdure-within", daemon=True).start()
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        cancel()
        while not answer.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([answer])
        answer.exception()
        raise


def _tell(loop: asyncio.AbstractEventLoop, tell: Callable[[], object]) -> None:
    # The loop is closed when its owner went away without waiting.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(tell)
