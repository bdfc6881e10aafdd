"""End suspended coroutines so that nothing they do leaves a trace.

Closing a coroutine runs its `finally` blocks and context managers. The first call that such a block
makes into perdure raises a private exception; one that catches even that and calls again, or that
insists on waiting, is closed a few more times and then handed to the caller, who keeps it: the
garbage collector would run it again at some other moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Any

logger = logging.getLogger(__name__)

MAX_CLOSINGS = 10
"""How often a coroutine that goes on waiting is closed."""


class TornDownError(BaseException):
    """Raised into user code by its first call after the execution ended. Never leaves the core."""


def tear_down(
    tasks: Sequence[asyncio.Task[Any]],
    generators: Sequence[AsyncGenerator[Any, Any]],
    begin: Callable[[], None],
) -> list[object]:
    """Close tasks and then async generators, in order of creation; return those that would not end.

    Args:
        tasks: The open tasks of the execution.
        generators: Its async generators; finished ones do no harm.
        begin: Called before each: the next call into perdure raises `TornDownError`.
    """
    undead: list[object] = []
    for task in tasks:
        coro = task.get_coro()
        if coro is not None and not _closes(coro.close, begin, is_done_after_one=True):
            undead.append(coro)
    for generator in generators:
        closing = generator.aclose()
        if not _closes(partial(closing.send, None), begin, is_done_after_one=False):
            undead.append(generator)
    return undead


def _closes(
    close: Callable[[], object], begin: Callable[[], None], *, is_done_after_one: bool
) -> bool:
    """Close until it ends; tell whether it did."""
    for _ in range(MAX_CLOSINGS):
        begin()
        try:
            close()
        except RuntimeError as error:
            if "ignored GeneratorExit" not in str(error):
                return True
        except (StopIteration, StopAsyncIteration, TornDownError, GeneratorExit):
            return True
        except BaseException:
            # A `finally` block that raises while everything ends: nobody is left to hear it.
            logger.debug("an orchestration raised while it was torn down", exc_info=True)
            return True
        else:
            if is_done_after_one:
                return True
    return False
