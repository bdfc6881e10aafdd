"""Defaults that Python makes once for all calls are made anew for each execution."""

from __future__ import annotations

from perdure import Context, activity, orchestration
from tests.core.harness import Script


@activity
async def note(text: str) -> str:
    return text


@orchestration
async def gathers(ctx: Context, name: str = "a", seen: list[str] = []) -> list[str]:  # noqa: B006 - the mistake
    seen.append(await note(name))
    return seen


@orchestration
async def gathers_by_position(*names: str, seen: dict[str, list[str]] = {"a": []}) -> int:  # noqa: B006 - the mistake
    seen["a"].extend(names)
    return len(seen["a"])


def test_what_one_instance_adds_to_a_default_is_not_there_for_the_next() -> None:
    for _ in range(2):
        script = Script(gathers)
        script.answer_all(lambda _: "a")

        assert script.result == ["a"]
        script.replayed()


def test_a_default_that_is_given_stays_what_was_given() -> None:
    script = Script(gathers, seen=["x"])
    script.answer_all(lambda _: "a")

    assert script.result == ["x", "a"]


def test_a_default_behind_arguments_by_position_is_made_anew_in_depth() -> None:
    assert [Script(gathers_by_position, "a", "b").result for _ in range(2)] == [2, 2]
