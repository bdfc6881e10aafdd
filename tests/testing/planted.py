"""Programs with a bug each, for the tools that claim to find it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from perdure import activity, orchestration


@activity
async def note(text: str) -> str:
    return text


@orchestration
async def reads_the_clock() -> str:
    await note("before")
    return f"{time.time()}"


tickets = iter(range(10_000))


@orchestration
async def goes_on_from_a_counter() -> None:
    """Stands for what no guard sees: a global, the environment, the order of a set."""
    if next(tickets) % 2:
        await note("odd")
    else:
        await asyncio.sleep(1)


class Shuffled(frozenset[str]):
    """A set whose order is another one in every process: here, in every replay."""

    turns = 0

    def __iter__(self) -> Iterator[str]:
        Shuffled.turns += 1
        return iter(sorted(super().__iter__(), reverse=bool(Shuffled.turns % 2)))


@orchestration
async def goes_by_the_order_of_a_set(names: list[str]) -> None:
    for name in Shuffled(names):
        await note(name)


@orchestration
async def loses_an_await() -> str:
    note("never")  # type: ignore[unused-coroutine]  # the bug
    return await note("done")


@orchestration
async def loses_an_await_and_waits() -> None:
    note("never")  # type: ignore[unused-coroutine]  # the bug
    await asyncio.sleep(86_400)
