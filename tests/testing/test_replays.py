"""Histories that were exported, replayed with the code of today."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from perdure.errors import NotRegisteredError, UsageError
from perdure.testing import Trial, replay
from tests.engine.shop import Order, Place
from tests.testing.shop import BOOK, DEFINITIONS, approve, buy, charge


async def history() -> list[dict[str, Any]]:
    async with Trial(DEFINITIONS) as trial:
        trial.fake(charge).returns("paid")
        handle = await trial.start("b-1", buy, BOOK)
        await trial.advance(timedelta(days=30))
        return await handle.export()


async def test_an_exported_history_is_what_the_command_writes() -> None:
    head, *events = await history()

    assert head["instance_id"] == "b-1"
    assert head["events"] == len(events)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    replay(json.loads(json.dumps([head, *events])), DEFINITIONS)


async def test_several_histories_may_follow_one_another() -> None:
    replay([*await history(), *await history()], DEFINITIONS)


async def test_a_history_of_a_decider_is_replayed() -> None:
    async with Trial([Order]) as trial:
        await trial.execute(Order, Place("o-1"))
        exported = await trial.handle("o-1", Order).export()

    replay(exported, [Order])


async def test_code_that_is_not_there_is_named() -> None:
    with pytest.raises(NotRegisteredError, match="buy"):
        replay(await history(), [approve])


async def test_what_is_no_history_is_refused() -> None:
    found = await history()
    wrong: list[tuple[Any, str]] = [
        ([], "the history has no history in it"),
        (found[:-1], "ends before event"),
        (found[1:], "object 1: a history is expected to begin here"),
        ([{"perdure_history": 99, "events": 0}], "written by a newer perdure"),
    ]
    for objects, match in wrong:
        with pytest.raises(UsageError, match=match):
            replay(objects, DEFINITIONS)


async def test_an_execution_can_be_chosen() -> None:
    async with Trial(DEFINITIONS) as trial:
        handle = await trial.start("a-1", approve, BOOK)

        with pytest.raises(UsageError, match="no execution 2"):
            await handle.export(2)
