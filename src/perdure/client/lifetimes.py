"""Refuses the wrong kind of `with`, in words: Python itself names a protocol."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from perdure.errors import UsageError

C = TypeVar("C", bound=type)


def entered_with_async(cls: C) -> C:
    """Let a class that is entered with `async with` say so when it is entered with `with`.

    Added here and not as methods: a checker refuses that by itself, and would not with them.
    """
    name = cls.__name__
    _refuse(
        cls,
        ("__enter__", "__exit__"),
        f"{'an' if name[0] in 'AEIOU' else 'a'} {name} is entered with `async with {name}(...)`, "
        "inside an async function"
        + ("" if name == "Worker" else "; code that is not async has `with BlockingClient(url)`"),
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


def _refuse(cls: type, methods: tuple[str, ...], text: str) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise UsageError(text)

    for method in methods:
        setattr(cls, method, refuse)
