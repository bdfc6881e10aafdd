"""Traps others fell into, each shown on the bare core: replay must not show, or be shown up."""

from __future__ import annotations

import asyncio
import logging

import pytest

from perdure.authoring.context import Context
from perdure.authoring.orchestration import orchestration
from perdure.errors import InvalidIdError
from perdure.limits import MAX_TAG_BYTES
from tests.core.harness import Script
from tests.core.programs import child, number, say


@orchestration
async def watches_itself(ctx: Context) -> list[bool]:
    seen = [ctx.is_replaying]
    for word in "abc":
        await say(word)
        seen.append(ctx.is_replaying)
    return seen


@orchestration
async def logs(ctx: Context) -> None:
    for word in "abc":
        ctx.log.info("next", extra={"word": word})
        await say(word)


def test_code_runs_over_history_as_replaying_and_on_from_there_as_live() -> None:
    script = Script(watches_itself)
    script.say("a")

    script.execution.tear_down()
    script.execution = script.replayed()
    script.say("b", "c")

    assert script.result == [True, True, False, False]


def test_a_log_line_is_written_once_however_often_the_code_is_replayed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "perdure.orchestration")
    script = Script(logs)
    for word in "abc":
        script.replayed()
        script.say(word)
    script.replayed()

    lines = [record for record in caplog.records if record.name == "perdure.orchestration"]
    assert [vars(line)["word"] for line in lines] == ["a", "b", "c"]
    assert {vars(line)["instance_id"] for line in lines} == {"i-1"}
    assert {vars(line)["definition"] for line in lines} == {"logs"}


@orchestration
async def keeps_count(ctx: Context) -> list[object]:
    for word in "abc":
        ctx.kv[word] = await say(word)
    return [dict(ctx.kv), ctx.uuid().hex]


def test_two_executions_of_one_instance_in_one_process_do_not_mix() -> None:
    """As when a lease was lost: the one that lost it is still in memory beside the next one."""
    script = Script(keeps_count)
    script.say("a")
    before = script.replayed()
    script.say("b")
    after = script.replayed()

    assert list(before.scope.kv) == ["a"]
    assert list(after.scope.kv) == ["a", "b"]
    script.say("c")
    assert script.result[0] == {"a": "A", "b": "B", "c": "C"}
    assert script.replayed().digest() == script.execution.digest()
    assert list(before.scope.kv) == ["a"]


@orchestration
async def ends_with_all_open(ctx: Context, how: str) -> str:
    calls = (say("a"), child("b"), asyncio.sleep(60), number.receive(), ctx.start(child, "c"))
    tasks = [asyncio.create_task(call) for call in calls]
    await say("d")
    if how == "failed":
        raise ValueError(f"{len(tasks)} open")
    if how == "continued_as_new":
        ends_with_all_open.continue_as_new("completed")
    return "done"


@pytest.mark.parametrize("how", ["completed", "failed", "continued_as_new"])
def test_the_end_is_the_last_event_whatever_is_open(how: str) -> None:
    script = Script(ends_with_all_open, how)

    script.say("d")

    assert script.kinds[-2:] == ["activity_completed", how]
    script.check_every_beginning()


@orchestration
async def drops_twice() -> str:
    first, second = asyncio.create_task(say("a")), asyncio.create_task(say("b"))
    await say("c")
    first.cancel()
    await say("d")
    second.cancel()
    return await say("e")


def test_what_is_dropped_later_is_no_difference_to_what_was_dropped_before() -> None:
    script = Script(drops_twice)

    script.say("c", "d", "e")

    assert script.kinds.count("activity_cancelled") == 2
    script.check_every_beginning()


def test_a_call_that_lost_does_not_keep_the_next_ones_waiting() -> None:
    """Its late result is dropped, in the turn of the others and after it."""
    script = Script(drops_twice)
    late = script.asked("a")

    script.say("c")
    script.complete(late, "A")
    script.say("d", "e")

    assert script.result == "E"
    assert script.kinds.count("activity_completed") == 3


@pytest.mark.parametrize("option", ["tag", "session"])
def test_a_tag_or_session_that_is_too_long_is_refused_where_it_is_given(option: str) -> None:
    with pytest.raises(InvalidIdError, match=option):
        say.with_options(**{option: "x" * (MAX_TAG_BYTES + 1)})  # type: ignore[arg-type] # by name
