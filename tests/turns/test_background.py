"""What runs by itself: it is kept until it ends, and what goes wrong in it is logged."""

from __future__ import annotations

import asyncio
import logging

import pytest

from perdure.errors import StoreUnavailableError
from perdure.turns.background import Background
from tests.engine.stage import Gate


async def test_an_answer_is_heard_in_the_pass_of_the_loop_in_which_it_is_there() -> None:
    background, heard = Background(), list[str]()
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    background.hear_answer(answer, heard.append)

    answer.set_result("accepted")
    await asyncio.sleep(0)

    assert heard == ["accepted"]
    assert not background.tasks


async def test_an_answer_that_is_waited_for_is_waited_for_at_the_end_too() -> None:
    background, heard = Background(), list[str]()
    gate = Gate()

    async def answer() -> str:
        await gate.pass_through()
        return "late"

    background.hear_answer(answer(), heard.append)
    draining = asyncio.ensure_future(background.drain())
    await gate.reached()
    assert not draining.done()
    gate.opened.set()
    await draining

    assert heard == ["late"]


async def test_what_goes_wrong_with_an_answer_is_logged_and_of_users_nothing_is_quoted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    background = Background()
    loop = asyncio.get_running_loop()
    failed, refused = loop.create_future(), loop.create_future()

    def fail(value: str) -> None:
        raise ValueError(value)

    background.hear_answer(failed, fail)
    background.hear_answer(refused, fail)
    with caplog.at_level(logging.ERROR):
        failed.set_result("a secret of a user's")
        refused.set_exception(StoreUnavailableError("the disk is full"))
        await background.drain()

    assert len(caplog.records) == 2
    assert "a secret of a user's" not in caplog.text
    assert "the disk is full" in caplog.text


async def test_nothing_is_heard_of_an_answer_that_was_cancelled() -> None:
    background, heard = Background(), list[str]()
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    background.hear_answer(answer, heard.append)

    answer.cancel()
    await background.drain()

    assert heard == []
    assert not background.tasks
