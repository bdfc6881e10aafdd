"""Slices of long replays: how long one is, and who comes in between."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest

from perdure.turns.pace import SLICE_S, Pace


class Watch:
    """A clock that only moves when somebody works."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def pace(watch: Watch) -> Pace:
    return Pace(watch)


def work(name: str, steps: int, log: list[str], pace: Pace, watch: Watch) -> Iterator[None]:
    """Something of so many steps that each take a third of a slice."""
    for _ in range(steps):
        log.append(name)
        watch.now_s += SLICE_S / 3 + 1e-6
        if pace.is_spent():
            yield


async def test_the_loop_goes_round_between_slices(pace: Pace, watch: Watch) -> None:
    log: list[str] = []

    async def others() -> None:
        while True:
            log.append("-")
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    assert await pace.finish(work("a", 7, log, pace, watch))
    beside.cancel()

    assert re.sub("-+", "-", "".join(log).strip("-")) == "aaa-aaa-a"


async def test_those_that_have_more_to_do_take_turns(pace: Pace, watch: Watch) -> None:
    log: list[str] = []

    ended = await asyncio.gather(
        *(pace.finish(work(name, 6, log, pace, watch)) for name in ("a", "b"))
    )

    assert "".join(log) == "aaabbbaaabbb"
    assert ended == [True, True]


async def test_one_that_fails_is_in_nobody_s_way(pace: Pace, watch: Watch) -> None:
    log: list[str] = []

    def failing() -> Iterator[None]:
        yield
        raise ValueError

    failed, ended = await asyncio.gather(
        pace.finish(failing()),
        pace.finish(work("a", 9, log, pace, watch)),
        return_exceptions=True,
    )

    assert isinstance(failed, ValueError)
    assert ended is True


async def test_when_the_worker_stops_nothing_is_begun_any_more(pace: Pace, watch: Watch) -> None:
    log: list[str] = []
    slices = work("a", 30, log, pace, watch)

    def closing_in_the_middle() -> Iterator[None]:
        next(slices)
        yield
        pace.close()
        yield from slices

    assert not await pace.finish(closing_in_the_middle())
    assert len(log) == 6
    assert not await pace.finish(work("b", 1, log, pace, watch))
    assert "b" not in log
