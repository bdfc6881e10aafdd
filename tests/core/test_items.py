"""The built-in orchestrations of `for_each` on the bare core."""

from __future__ import annotations

import pytest

from perdure.authoring.builtin.builtin_orchestrations import BUILTIN_ORCHESTRATIONS
from perdure.model.histories.paging import CallPlan, ForEachInput, PageInput
from tests.core.harness import Script, raw

PAGE = BUILTIN_ORCHESTRATIONS["perdure.page", "1.0.0"]
ALL = BUILTIN_ORCHESTRATIONS["perdure.for_each", "1.0.0"]
DO = CallPlan("activity", "remind", '{"number":', "}", policy=raw({}))


def numbers(count: int) -> tuple[object, ...]:
    return tuple(raw(number) for number in range(count))


def test_results_are_forwarded_with_the_turn_that_ends_the_page() -> None:
    script = Script(PAGE, PageInput(DO, 0, 0, "sent", "caller", 7, numbers(2)))  # type: ignore[arg-type]  # raw ones
    script.complete(3, "b")
    assert not script.turns[-1].forwarded

    script.complete(2, "a")

    assert script.turns[-1].forwarded == (("caller", 7, "sent", (b'"a"', b'"b"'), 0, 0, (0, 1)),)
    assert script.turns[-1].outcome is not None


def test_a_replay_forwards_nothing() -> None:
    script = Script(PAGE, PageInput(DO, 0, 0, "sent", "caller", 7, numbers(1)))  # type: ignore[arg-type]  # raw ones
    script.complete(2, "a")

    replayed = script.replayed()

    assert replayed.scope.sent is None


def test_a_coordinator_keeps_so_many_pages_under_way_and_never_a_long_history() -> None:
    plan = ForEachInput(DO, pages=3, page_size=1, max_failures=0, items=numbers(300))  # type: ignore[arg-type]  # raw ones
    script = Script(ALL, plan)

    while script.open:
        assert len(script.open) <= 3
        script.child_completes(min(script.open), {"done": 1})

    assert len(script.history) == 902
    assert script.turns[-1].outcome is not None


def test_a_page_of_the_source_that_is_too_many_pages_fails_it() -> None:
    source = CallPlan("activity", "unpaid", '{"after":', "}", policy=raw({}))
    script = Script(ALL, ForEachInput(DO, 3, 1, 0, source))
    script.complete(2, {"items": list(range(301)), "next": None})

    assert script.event(len(script.history)).failure.type_name == "LimitExceededError"
    assert "larger page_size" in script.event(len(script.history)).failure.message


@pytest.mark.parametrize("returned", [{"items": 3, "next": None}, {"items": []}, [1]])
def test_what_is_no_page_fails_it(returned: object) -> None:
    source = CallPlan("activity", "unpaid", '{"after":', "}", policy=raw({}))
    script = Script(ALL, ForEachInput(DO, 3, 1, 0, source))

    script.complete(2, returned)

    failure = script.event(len(script.history)).failure
    assert (failure.type_name, "than a Page(items, next)" in failure.message) == (
        "UsageError",
        True,
    )
