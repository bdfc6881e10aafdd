"""Transactions as they are written: what is refused, and what callers see."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import ActivityContext, transaction
from perdure.authoring.registry import Registry
from perdure.errors import DefinitionError, UsageError


@transaction(tag="gpu")
def book(connection: Any, order: str, /, *, seats: int = 1) -> str:
    return f"{connection}: {seats} for {order}"


def test_the_connection_is_no_part_of_the_stored_arguments() -> None:
    codec = book.definition.codec

    stored = codec.encode(("o-1",), {"seats": 2})

    assert stored == b'{"order":"o-1","seats":2}'
    assert codec.decode(stored) == (["o-1"], {"seats": 2})
    with pytest.raises(UsageError):
        codec.encode(("a connection", "o-1"), {})


def test_the_function_can_be_called_with_any_connection() -> None:
    assert book.fn("here", "o-1") == "here: 1 for o-1"


def test_it_is_an_activity_to_whoever_hands_it_over() -> None:
    assert Registry([book]).activity("book") is book
    assert book.with_options(tag=None).definition is book.definition
    assert not book.process


def test_a_function_without_a_place_for_the_connection_is_refused() -> None:
    def nothing() -> None: ...

    def only_named(*, connection: Any) -> None: ...

    for fn in (nothing, only_named):
        with pytest.raises(DefinitionError, match="its first parameter is the connection"):
            transaction(fn)  # type: ignore[arg-type]  # what checkers refuse too


def test_the_context_is_fetched_and_not_taken() -> None:
    def takes_context(connection: Any, ctx: ActivityContext) -> None: ...

    with pytest.raises(DefinitionError, match=r"fetched with activity_context\(\)"):
        transaction(takes_context)


def test_a_method_is_refused_as_ever() -> None:
    def sell(self: Any, connection: Any) -> None: ...

    with pytest.raises(DefinitionError, match="not a method"):
        transaction(sell)
