"""End suspended coroutines so that nothing they do leaves a trace.

A private exception is thrown into each; it passes through coroutines and async generators alike and
runs their `finally` blocks and context managers. The first call that such a block makes into
perdure raises it again; one that catches even that and calls again, or that insists on waiting,
gets it thrown a number of times and is then handed to the caller, who keeps it: the garbage
collector would run it once more at some other moment.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from types import CoroutineType
from typing import Any

from perdure.core.orchestrations.numbered import NumberedTask
from perdure.telemetry import error_facts

logger = logging.getLogger(__name__)

MAX_THROWS = 100
"""How often the exception is thrown into a coroutine that goes on waiting."""

MAX_SEARCHED = 1_000
"""How large a container is looked through for coroutines that were not begun."""


class TornDownError(BaseException):
    """Raised into user code when its execution is dropped. Never leaves the core."""


def tear_down(
    tasks: Sequence[NumberedTask[Any]],
    generators: Sequence[AsyncGenerator[Any, Any]],
    begin: Callable[[], None],
) -> list[object]:
    """End tasks and then async generators, in order of creation; return those that would not end.

    Args:
        tasks: The open tasks of the execution. May grow: what a `finally` block makes is ended too.
        generators: Its async generators; finished ones do no harm.
        begin: Called before each throw: the next call into perdure raises `TornDownError`.
    """
    undead: list[object] = []
    for task in tasks:
        coro = task.get_coro()
        close_unbegun(coro)
        throw = partial(_throw_into, task)
        if not _ends(throw, throw, begin):
            undead.append(coro)
    for generator in generators:
        close_unbegun(generator)
        closing = generator.aclose()
        again = partial(closing.throw, TornDownError)
        if not _ends(partial(closing.send, None), again, begin) or _is_suspended(generator):
            undead.append(generator)
    return undead


def _throw_into(task: NumberedTask[Any]) -> None:
    coro: Any = task.get_coro()
    loop = task.get_loop()
    # `timeout` and `TaskGroup` ask which task they are in, and raise for ever if there is none.
    asyncio._enter_task(loop, task)
    try:
        task.own_context.run(coro.throw, TornDownError())
    finally:
        asyncio._leave_task(loop, task)


def _ends(
    first: Callable[[], object], again: Callable[[], object], begin: Callable[[], None]
) -> bool:
    """Throw until it ends, by whatever exception; return whether it did."""
    step = first
    for _ in range(MAX_THROWS):
        begin()
        try:
            step()
        except (TornDownError, StopIteration, StopAsyncIteration, asyncio.CancelledError):
            return True
        except BaseException as error:
            # A `finally` block that raises while everything ends: no code is left to hear it.
            logger.debug("an orchestration raised while it was torn down", extra=error_facts(error))
            return True
        step = again
    return False


def _is_suspended(generator: AsyncGenerator[Any, Any]) -> bool:
    return getattr(generator, "ag_frame", None) is not None


# ------------------------------------------- coroutines made and not awaited yet

_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_FRAMED = {
    "coroutine",
    "async_generator",
    "async_generator_asend",
    "async_generator_athrow",
    "cell",
}
"""Names of the types whose referents are the variables and the value stack of suspended code."""


def close_unbegun(root: object) -> None:
    """Close what the code behind a coroutine has made and not awaited: it would warn of it.

    Looks at suspended frames, and into plain containers there.
    """
    holders, seen = [root], {id(root)}
    unbegun: list[CoroutineType[Any, Any, Any]] = []
    while holders:
        for value in gc.get_referents(holders.pop()):
            if id(value) in seen or not _may_hold_coroutines(value):
                continue
            seen.add(id(value))
            holders.append(value)
            if isinstance(value, CoroutineType):
                unbegun.append(value)
    for coro in unbegun:
        if inspect.getcoroutinestate(coro) == inspect.CORO_CREATED:
            coro.close()


def _may_hold_coroutines(value: object) -> bool:
    if isinstance(value, _CONTAINERS):
        return len(value) <= MAX_SEARCHED
    return type(value).__name__ in _FRAMED
