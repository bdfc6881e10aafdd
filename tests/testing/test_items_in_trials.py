"""`for_each` in trials: every crash point of one that reads, continues as new, fails and sends."""

from __future__ import annotations

import pytest

from perdure import Page, Stream, activity, for_each, orchestration
from perdure.authoring.builtin import paging
from perdure.testing import Trial, crash_everywhere

doubles = Stream("doubles", int)


@activity
async def double(number: int) -> int:
    if number == 3:
        raise ValueError("not this one")
    return number * 2


@activity
async def numbers(after: str | None) -> Page[int]:
    first = int(after or "0")
    return Page([first, first + 1], next=str(first + 2) if first < 4 else None)


@orchestration
async def double_all() -> tuple[int, int]:
    tally = await for_each(double, numbers, pages=2, page_size=1, max_failures=1, results=doubles)
    return tally.done, tally.failed


async def all_are_doubled(trial: Trial) -> None:
    handle = await trial.start("all", double_all)

    assert await handle.result() == (5, 1)
    sent = [item.value async for item in handle.stream(doubles)]
    assert sorted(sent) == [0, 2, 4, 8, 10]


def test_a_crash_anywhere_loses_no_item_and_counts_none_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Three executions of the coordinator, one page of the source each.
    monkeypatch.setattr(paging, "EVENTS_PER_EXECUTION", 8)

    crash_everywhere(all_are_doubled, [double, numbers, double_all], max_runs=60)


async def test_activities_of_items_are_faked_as_any_other() -> None:
    async with Trial([double, numbers, double_all]) as trial:
        trial.fake(double).returns(7)

        await trial.start("all", double_all)
        await trial.settle()

        assert len(trial.calls(double)) == 6
        assert await trial.handle("all", double_all).result() == (6, 0)
