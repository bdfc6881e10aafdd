"""Answers to updates, compared with what is on record: where the code gives them, and what."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from perdure import Update, orchestration
from perdure.authoring.orchestration import Orchestration
from perdure.errors import NondeterminismError
from tests.core.harness import Script
from tests.core.programs import say

add = Update("add", int, int)


def program(code: Callable[[], Coroutine[Any, Any, str]]) -> Orchestration[[], str]:
    """Return code as a version of one orchestration."""
    return orchestration(name="adds")(code)


async def answers_first() -> str:
    request = await add.receive()
    request.answer(request.value + 1)
    return await say("then")


async def answers_last() -> str:
    request = await add.receive()
    said = await say("then")
    request.answer(request.value + 1)
    return said


async def answers_otherwise() -> str:
    request = await add.receive()
    request.answer(request.value + 2)
    return await say("then")


async def refuses() -> str:
    request = await add.receive()
    request.refuse("no")
    return await say("then")


async def refuses_in_other_words() -> str:
    request = await add.receive()
    request.refuse("not today")
    return await say("then")


async def answers_nothing() -> str:
    await add.receive()
    return await say("then")


def recorded(code: Callable[[], Coroutine[Any, Any, str]]) -> Script:
    script = Script(program(code))
    script.signal("update:add", {"id": "u-1", "value": 1})
    script.say("then")
    assert "update_answered" in script.kinds
    assert script.result == "THEN"
    return script


@pytest.mark.parametrize("code", [answers_first, answers_last, refuses])
def test_an_answer_replays_where_it_was_given(
    code: Callable[[], Coroutine[Any, Any, str]],
) -> None:
    recorded(code).replayed(by=program(code))


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (answers_first, answers_last),
        (answers_last, answers_first),
        (answers_first, answers_otherwise),
        (answers_first, refuses),
        (refuses, answers_first),
        (answers_first, answers_nothing),
        (answers_last, answers_nothing),
    ],
)
def test_an_answer_that_moves_or_changes_is_found(
    then: Callable[[], Coroutine[Any, Any, str]], now: Callable[[], Coroutine[Any, Any, str]]
) -> None:
    script = recorded(then)

    with pytest.raises(NondeterminismError) as caught:
        script.replayed(by=program(now))
    assert "update 'u-1' " in str(caught.value)


def test_other_words_of_a_refusal_are_no_mismatch() -> None:
    """Some of them are ours, and callers have the first ones."""
    recorded(refuses).replayed(by=program(refuses_in_other_words))
