"""One test for many small things of the same kind: files, statements, rows of a page.

    @each(NAMES)
    def test_a_statement_is_used(name: str) -> None: ...

A test of its own for each of a thousand files costs more than to read them. This goes through all
of them, whatever fails, and tells of every one that did. What needs a store of its own, or can
disturb the next, is a case for `pytest.mark.parametrize`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import pytest

T = TypeVar("T")

Test = Callable[..., Any]
"""Returns nothing, now or when it is awaited."""


def each(
    things: Iterable[T] | Callable[[], Iterable[T]], *, name: Callable[[T], str] = str
) -> Callable[[Test], Test]:
    """Run a test for each of some things, which it is given as its first argument.

    Args:
        things: What is tested; there must be some. What takes long to find is a function, called
            by the test: every process of a run imports all tests, and runs a part of them.
        name: How one is called where it fails.
    """
    found = None if callable(things) else _some(things)

    def find() -> list[T]:
        return found if found is not None else _some(cast(Callable[[], Iterable[T]], things)())

    def go_through(test: Test) -> Test:
        if inspect.iscoroutinefunction(test):

            async def in_turn(**fixtures: Any) -> None:
                given = find()
                failures = _Failures(len(given))
                for thing in given:
                    with failures.of(name(thing)):
                        await test(thing, **fixtures)
                failures.tell()

            return _like(test, in_turn)

        def one_by_one(**fixtures: Any) -> None:
            given = find()
            failures = _Failures(len(given))
            for thing in given:
                with failures.of(name(thing)):
                    test(thing, **fixtures)
            failures.tell()

        return _like(test, one_by_one)

    return go_through


def _some(things: Iterable[T]) -> list[T]:
    found = list(things)
    assert found, "there is nothing to go through"
    return found


class _Failures:
    """What has failed so far. Is entered for one thing after the other."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._thing = ""
        self._told: list[str] = []

    def of(self, thing: str) -> _Failures:
        self._thing = thing
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: object, *_: object) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        what = "" if kind is AssertionError else f"{kind.__name__}: "
        self._told.append(f"{self._thing}: {what}{error}")
        return True

    def tell(self) -> None:
        if self._told:
            head = f"{len(self._told)} of {self._count} failed"
            pytest.fail("\n".join([head, *self._told]), pytrace=False)


def _like(test: Test, wrapper: Callable[..., Any]) -> Test:
    """Let pytest see the wrapper as the test, without its first argument."""
    signature = inspect.signature(test)
    others = list(signature.parameters.values())[1:]
    functools.update_wrapper(wrapper, test)
    setattr(wrapper, "__signature__", signature.replace(parameters=others))  # noqa: B010 - mypy knows no such attribute
    return wrapper
