"""Refuses the wrong kind of `with`, in words: Python itself names a protocol."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from perdure.errors import UsageError

C = TypeVar("C", bound=type)

ASYNC_ALONE = ("Worker", "Trial")
"""Classes that have no twin for code that is not async."""


def entered_with_async(cls: C) -> C:
    """Let a class that is entered with `async with` say so when it is entered with `with`.

    Added here and not as methods: a checker refuses that by itself, and would not with them.
    """
    name = cls.__name__
    twin = "" if name in ASYNC_ALONE else "; code that is not async has `with BlockingClient(url)`"
    _refuse(
        cls,
        ("__enter__", "__exit__"),
        f"{'an' if name[0] in 'AEIOU' else 'a'} {name} is entered with `async with {name}(...)`, "
        f"inside an async function{twin}",
    )
    return cls


def entered_without_async(cls: C) -> C:
    """Let a class that is entered with `with` say so when it is entered with `async with`."""
    name = cls.__name__
    _refuse(
        cls,
        ("__aenter__", "__aexit__"),
        f"a {name} is for code that waits: enter it with `with {name}(...)`, or use "
        "`async with Client(url)` in an async function",
    )
    return cls


def not_awaited(cls: C) -> C:
    """Let a class of handles say what is awaited instead when an object of it is."""

    def refuse(self: object) -> NoReturn:
        raise UsageError(
            f"{self!r} is no result: write `await handle.result()`; a handle itself is not awaited"
        )

    cls.__await__ = refuse  # type: ignore[attr-defined]  # not for checkers, as above
    return cls


def _refuse(cls: type, methods: tuple[str, ...], text: str) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise UsageError(text)

    for method in methods:
        setattr(cls, method, refuse)
