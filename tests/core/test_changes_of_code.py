"""`ctx.patched`: one code for instances from before and after a change, and how it is retired."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from perdure.authoring.context import Context
from perdure.authoring.orchestration import Orchestration, orchestration
from perdure.errors import NondeterminismError
from tests.core.harness import Script, go_on
from tests.core.programs import number, say

Code = Callable[[Context], Coroutine[Any, Any, Any]]


def as_orchestration(code: Code) -> Orchestration[..., Any]:
    return orchestration(name="greets")(code)


def moved_to(script: Script, code: Code) -> Script:
    """Let other code take an instance over, as after a deploy."""
    script.orchestration = as_orchestration(code)
    script.execution = script.replayed()
    return script


def replays_at_every_turn(script: Script) -> None:
    for length in script.boundaries:
        script.replayed(length)
    assert script.replayed().digest() == script.execution.digest()


async def before(ctx: Context) -> str:
    await say("begin")
    return await say("old")


async def patched(ctx: Context) -> str:
    await say("begin")
    if ctx.patched("greeting"):
        return await say("new")
    return await say("old")


async def after(ctx: Context) -> str:
    await say("begin")
    return await say("new")


def test_an_instance_that_is_past_the_change_stays_on_the_old_side() -> None:
    script = Script(as_orchestration(before))
    script.say("begin")
    moved_to(script, patched)

    assert script.words == ["old"]
    script.say("old")
    assert script.result == "OLD"
    assert "patched" not in script.kinds
    replays_at_every_turn(script)


def test_an_instance_that_comes_to_the_change_later_takes_the_new_side() -> None:
    script = Script(as_orchestration(before))
    moved_to(script, patched)
    script.say("begin")

    assert script.words == ["new"]
    assert script.kinds[-2:] == ["patched", "activity_scheduled"]
    script.say("new")
    script.check_every_beginning()


def test_a_new_instance_takes_the_new_side_and_records_it_once() -> None:
    script = Script(as_orchestration(patched))
    script.say("begin", "new")

    assert script.result == "NEW"
    assert script.kinds.count("patched") == 1


def test_the_if_can_be_deleted_when_nobody_needs_the_old_side_any_more() -> None:
    script = Script(as_orchestration(patched))
    script.say("begin")
    moved_to(script, after)
    script.say("new")

    assert script.result == "NEW"
    for code in (patched, after):
        script.replayed(by=as_orchestration(code))


def test_deleting_the_if_while_somebody_needs_the_old_side_is_found() -> None:
    script = Script(as_orchestration(before))
    script.say("begin")

    with pytest.raises(NondeterminismError) as caught:
        script.replayed(by=as_orchestration(after))
    assert caught.value.asked == 'activity scheduled say {"word":"new"}'


def test_going_back_to_the_code_before_the_change_is_found() -> None:
    script = Script(as_orchestration(patched))
    script.say("begin")

    with pytest.raises(NondeterminismError) as caught:
        script.replayed(by=as_orchestration(before))
    assert "patched 'greeting'" in str(caught.value)


async def loops(ctx: Context) -> list[str]:
    return [await say(f"old {await number.receive()}") for _ in range(3)]


async def loops_patched(ctx: Context) -> list[str]:
    said = []
    for _ in range(3):
        got = await number.receive()
        said.append(await say(f"new {got}" if ctx.patched("loop") else f"old {got}"))
    return said


def test_the_first_answer_counts_for_the_rest_of_the_execution() -> None:
    """An instance must not take one side in one round of a loop and the other in the next."""
    script = Script(as_orchestration(loops))
    script.signal("number", 1)
    moved_to(script, loops_patched)
    script.say("old 1")
    script.signal("number", 2)

    assert script.words == ["old 2"]
    script.say("old 2")
    script.signal("number", 3)
    script.say("old 3")
    assert script.result == ["OLD 1", "OLD 2", "OLD 3"]
    replays_at_every_turn(script)


def test_each_execution_answers_for_itself() -> None:
    async def continues(ctx: Context, left: int = 1) -> str:
        said = await say("new" if ctx.patched("x") else "old")
        if left:
            Orchestration.named("greets", str).continue_as_new(left=left - 1)
        return said

    async def continued_before(ctx: Context, left: int = 1) -> str:
        said = await say("old")
        if left:
            Orchestration.named("greets", str).continue_as_new(left=left - 1)
        return said

    script = Script(as_orchestration(continued_before))
    moved_to(script, continues)
    assert script.words == ["old"]
    script.say("old")
    second = script.continued()

    assert second.words == ["new"]


def test_several_changes_are_answered_each_for_itself() -> None:
    async def one(ctx: Context) -> list[bool]:
        first = ctx.patched("first")
        await say("a")
        return [first]

    async def two(ctx: Context) -> list[bool]:
        answers = [ctx.patched("second"), ctx.patched("first")]
        await say("a")
        return [*answers, ctx.patched("third"), ctx.patched("second")]

    script = Script(as_orchestration(one))
    moved_to(script, two)
    script.say("a")

    assert script.result == [False, True, True, False]
    assert script.kinds == [
        "started", "patched", "activity_scheduled", "activity_completed", "patched", "completed",
    ]  # fmt: skip
    script.check_every_beginning()


def test_recorded_changes_are_passed_over_wherever_they_are() -> None:
    async def everywhere(ctx: Context) -> str:
        ctx.patched("1")
        said = await say("a")
        ctx.patched("2")
        await say("b")
        ctx.patched("3")
        ctx.patched("4")
        return said

    async def without(ctx: Context) -> str:
        said = await say("a")
        await say("b")
        return said

    script = Script(as_orchestration(everywhere))
    script.say("a", "b")

    execution = script.replayed(by=as_orchestration(without))
    assert execution.digest() == script.execution.digest()
    assert execution.last_seq == len(script.history)


def test_a_change_at_the_end_of_a_stretch_is_passed_over_too() -> None:
    """Nothing may be asked for behind it before the next message comes."""

    async def asks_last(ctx: Context) -> str:
        receiving = number.receive()
        ctx.patched("x")
        got = await receiving
        ctx.patched("y")
        return str(got + await number.receive())

    async def does_not_ask(ctx: Context) -> str:
        return str(await number.receive() + await number.receive())

    script = Script(as_orchestration(asks_last))
    script.signal("number", 1)
    execution = script.replayed(by=as_orchestration(does_not_ask))

    record = go_on(execution, [])
    assert record == []
    assert list(execution.open) == script.open
