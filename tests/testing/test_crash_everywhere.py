"""A test that is run again with a crash at each commit of its worker."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta

import pytest

from perdure import Context, Promise, Stream, activity, activity_context, orchestration
from perdure.errors import UsageError
from perdure.testing import Trial, crash_everywhere
from tests.testing.shop import BOOK, DEFINITIONS, approve, approved, buy_all, charge, family, ship


async def nothing(trial: Trial) -> None:
    """Test nothing."""


def test_what_is_durable_passes_with_a_crash_at_every_commit() -> None:
    async def test(trial: Trial) -> None:
        trial.fake(charge).returns("paid")
        asked = await trial.start(family, BOOK)
        bought = await trial.start("b-1", buy_all, [BOOK, BOOK])
        await trial.settle()
        [child] = (await trial.instances(name="approve")).items
        await trial.handle(child.instance_id).send(approved, "Ada")
        assert await asked.result() == "Ada"
        assert await bought.result() == ["paid", "paid"]

    crash_everywhere(test, DEFINITIONS)


words = Stream("words", str)


@activity
async def speak(text: str) -> None:
    for word in text.split():
        words.send(word)
        await words.flush()


@orchestration
async def speaking() -> None:
    words.send("begin")
    await speak("one two")
    words.send("end")


def test_streams_are_the_same_with_a_crash_at_every_commit() -> None:
    async def test(trial: Trial) -> None:
        handle = await trial.start(speaking)
        found = [item.value async for item in handle.stream(words)]
        assert found == ["begin", "one", "two", "end"]

    crash_everywhere(test, [speaking, speak])


def test_the_token_of_a_promise_is_the_same_in_every_run() -> None:
    """It is handed to activities, and calls are compared by their arguments."""
    paid = Promise("paid", int)

    @activity
    async def ask_for(token: str) -> None: ...

    @orchestration
    async def waits_for_money(ctx: Context) -> int:
        due = paid.make()
        await ask_for(due.token)
        ctx.report(due.token)
        return await due.receive()

    async def test(trial: Trial) -> None:
        handle = await trial.start("w-1", waits_for_money)
        await trial.settle()
        [token] = {str(call.arguments["token"]) for call in trial.calls(ask_for)}
        await trial.resolve(paid, token, 7)
        assert await handle.result() == 7

    crash_everywhere(test, [waits_for_money, ask_for])


def test_items_of_activities_that_run_at_once_may_change_places() -> None:
    """Which of two is quicker is another one in every run."""
    runs = itertools.count()
    to_come: list[str] = []

    @activity
    async def say(word: str) -> None:
        while word in to_come and to_come[0] != word:  # noqa: ASYNC110 - for its turn
            await asyncio.sleep(0)
        words.send(word)
        await words.flush()
        if word in to_come:
            to_come.remove(word)

    @orchestration
    async def both() -> None:
        await asyncio.gather(say("a"), say("b"))

    async def test(trial: Trial) -> None:
        to_come[:] = ["a", "b"] if next(runs) % 2 else ["b", "a"]
        await (await trial.start("b-1", both)).result()

    crash_everywhere(test, [both, say])


def test_what_was_sent_differently_is_found() -> None:
    @activity
    async def count() -> None:
        words.send(f"try {activity_context().attempt}")

    @orchestration
    async def counting() -> None:
        await count()

    async def test(trial: Trial) -> None:
        await (await trial.start(counting)).result()

    with pytest.raises(AssertionError, match=r"other streams are left: .*try 2"):
        crash_everywhere(test, [counting, count])


def test_another_outcome_is_found() -> None:
    """How often it was tried is in the answer of `ship`: that is what a crash may change."""

    @orchestration
    async def ships() -> str:
        return await ship("book")

    async def test(trial: Trial) -> None:
        await (await trial.start(ships)).result()

    with pytest.raises(AssertionError, match=r"other instances are left: .*at try 2.*at try 1"):
        crash_everywhere(test, [ships, ship])


def test_retries_are_no_other_calls() -> None:
    async def test(trial: Trial) -> None:
        trial.fake(charge).raises(TimeoutError())
        trial.fake(charge).returns("paid")
        handle = await trial.start("b-1", buy_all, [BOOK])
        await trial.advance(timedelta(minutes=1))
        assert await handle.result() == ["paid"]
        assert len({one.idempotency_key for one in trial.calls(charge)}) == 1

    crash_everywhere(test, DEFINITIONS)


def test_points_are_drawn_where_they_are_too_many() -> None:
    runs = []

    async def test(trial: Trial) -> None:
        runs.append(trial)
        await trial.start("a-1", approve, BOOK)
        await trial.advance(timedelta(days=3))

    crash_everywhere(test, DEFINITIONS, max_runs=2, seed=5)

    assert len(runs) == 3


def test_a_test_that_fails_without_a_crash_fails_as_it_is() -> None:
    async def test(trial: Trial) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        crash_everywhere(test, DEFINITIONS)


def test_the_point_is_named() -> None:
    async def test(trial: Trial) -> None:
        await trial.start("a-1", approve, BOOK)
        await trial.settle()
        assert not trial._world.count.has_struck, "died"

    with pytest.raises(AssertionError, match=r"dies before commit 1 \(seed 0\): .*died"):
        crash_everywhere(test, DEFINITIONS)


async def test_a_loop_that_runs_already_is_refused() -> None:
    with pytest.raises(UsageError, match="call it in a test that is not async"):
        crash_everywhere(nothing, DEFINITIONS)


def test_no_runs_are_refused() -> None:
    with pytest.raises(UsageError, match="max_runs must be at least 1, got 0"):
        crash_everywhere(nothing, DEFINITIONS, max_runs=0)
