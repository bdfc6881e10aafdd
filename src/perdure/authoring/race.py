"""`race`: the first of several awaitables, by index; the others are cancelled and awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Literal, TypeAlias, TypeVar, overload

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

First: TypeAlias = tuple[Literal[0], A]
Second: TypeAlias = tuple[Literal[1], B]
Third: TypeAlias = tuple[Literal[2], C]
Fourth: TypeAlias = tuple[Literal[3], D]


@overload
def race(
    a: Awaitable[A], b: Awaitable[B], /
) -> Coroutine[object, None, tuple[Literal[0], A] | tuple[Literal[1], B]]: ...
@overload
def race(
    a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], /
) -> Coroutine[
    object, None, tuple[Literal[0], A] | tuple[Literal[1], B] | tuple[Literal[2], C]
]: ...
@overload
def race(
    a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], /
) -> Coroutine[
    object,
    None,
    tuple[Literal[0], A] | tuple[Literal[1], B] | tuple[Literal[2], C] | tuple[Literal[3], D],
]: ...
@overload
def race(*awaitables: Awaitable[A]) -> Coroutine[object, None, tuple[int, A]]: ...
def race(*awaitables: Awaitable[Any]) -> Coroutine[object, None, tuple[int, Any]]:
    """Wait for the first to finish; return its index and result, or raise its error.

    The others are cancelled, and awaited so that their clean-up is done when this returns. They are
    begun one after another: when one can answer at once (a signal that was kept, say) the later
    ones are not begun, so that they cannot use up something and then lose.
    """
    return _race(awaitables)


async def _race(awaitables: tuple[Awaitable[Any], ...]) -> tuple[int, Any]:
    if not awaitables:
        raise ValueError("race() needs at least one awaitable")
    begun: list[asyncio.Future[Any]] = []
    try:
        for awaitable in awaitables:
            contender = asyncio.ensure_future(awaitable)
            begun.append(contender)
            await asyncio.sleep(0)
            if contender.done():
                break
        await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
        won = next(index for index, contender in enumerate(begun) if contender.done())
    finally:
        for awaitable in awaitables[len(begun) :]:
            _discard(awaitable)
        losers = [contender for contender in begun if not contender.done()]
        for loser in losers:
            loser.cancel()
        await asyncio.gather(*losers, return_exceptions=True)
    return won, begun[won].result()


def _discard(awaitable: Awaitable[Any]) -> None:
    """Drop an awaitable that was not begun."""
    if isinstance(awaitable, asyncio.Future):
        awaitable.cancel()
    elif isinstance(awaitable, Coroutine):
        awaitable.close()
