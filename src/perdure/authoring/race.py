"""`race`: the first of several awaitables, by index; the others are cancelled and awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Literal, TypeVar, overload

from perdure.authoring.scope import current_scope

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


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
    begun one after another, each when the one before can do no more by itself: when one can answer
    at once (a signal that was kept, say) the later ones are not begun, so that they cannot use up
    something and then lose.
    """
    return _race(awaitables)


async def _race(awaitables: tuple[Awaitable[Any], ...]) -> tuple[int, Any]:
    if not awaitables:
        raise ValueError("race() needs at least one awaitable")
    for one in awaitables:
        if not isinstance(one, Awaitable):
            for other in awaitables:
                _discard(other)
            raise TypeError(
                "race(...) takes calls and other awaitables, each as an argument of its own, as in "
                f"race(a(), b()) or race(*calls); got {one!r}"
            )
    begun: list[asyncio.Future[Any]] = []
    try:
        for awaitable in awaitables:
            begun.append(asyncio.ensure_future(awaitable))
            await _settled()
            if begun[-1].done():
                break
        await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
        won = next(index for index, contender in enumerate(begun) if contender.done())
    finally:
        for awaitable in awaitables[len(begun) :]:
            _discard(awaitable)
        for contender in begun:
            contender.cancel()
        # Of those that are done as well, too late to win, this takes the exceptions.
        await asyncio.gather(*begun, return_exceptions=True)
    return won, begun[won].result()


async def _settled() -> None:
    scope = current_scope()
    await (asyncio.sleep(0) if scope is None else scope.settled())


def _discard(awaitable: object) -> None:
    """Drop an awaitable that was not begun, and what it was given to await."""
    if isinstance(awaitable, asyncio.Future):
        awaitable.cancel()
    elif isinstance(awaitable, Coroutine):
        frame = getattr(awaitable, "cr_frame", None)
        given = [] if frame is None else list(frame.f_locals.values())
        awaitable.close()
        for value in given:
            for each in value if isinstance(value, tuple | list) else (value,):
                if isinstance(each, Coroutine):
                    _discard(each)
