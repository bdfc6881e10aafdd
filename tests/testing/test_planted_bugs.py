"""The kit finds what it claims to find: each program has a bug, and a tool that shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Decider, Decision, Orchestration, activity, orchestration
from perdure.errors import NondeterminismError
from perdure.testing import Trial, crash_everywhere, replay
from tests.testing import planted

never_awaited = pytest.mark.filterwarnings("ignore:.*never awaited:RuntimeWarning")


def line_of(text: str) -> int:
    """Return where a planted line is."""
    lines = Path(planted.__file__).read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if text in line)


async def found_in(definition: Orchestration[..., Any], *args: Any, waits: bool = True) -> str:
    """Return why a trial fails whose test looks at nothing at all."""

    async def test() -> None:
        async with Trial([definition, planted.note]) as trial:
            handle = await trial.start("p", definition, *args)
            await (handle.result() if waits else trial.settle())

    with pytest.raises(NondeterminismError) as caught:
        await test()
    return str(caught.value)


async def test_a_clock_read_fails_the_test_with_its_line() -> None:
    line = line_of("time.time()")

    assert await found_in(planted.reads_the_clock) == (
        f"instance 'p': time.time() at planted.py:{line} in reads_the_clock cannot be replayed: "
        "use context().now()"
    )


async def test_what_no_guard_sees_is_found_by_a_replay() -> None:
    for _ in range(2):  # whichever way it takes first
        found = await found_in(planted.goes_on_from_a_counter, waits=False)

        assert "a value that\ndiffers between runs decided here" in found


async def test_the_order_of_a_set_is_found_by_a_replay() -> None:
    found = await found_in(planted.goes_by_the_order_of_a_set, ["a", "b"])

    assert "the order of a set" in found


@never_awaited
async def test_a_lost_await_fails_the_test() -> None:
    line = line_of('note("never")')

    assert await found_in(planted.loses_an_await) == (
        f"instance 'p': call of 'note' at planted.py:{line} in loses_an_await was never awaited"
    )


@never_awaited
async def test_a_lost_await_is_found_in_what_has_not_ended() -> None:
    assert "never awaited" in await found_in(planted.loses_an_await_and_waits, waits=False)


async def test_a_fold_that_is_not_pure_fails_the_trial() -> None:
    folds = iter(range(100))

    class Tally(Decider[int, str, str, str]):
        name = "tally"

        def initial(self) -> int:
            return 0

        def instance_id(self, input: str) -> str:
            return input

        def decide(self, state: int, input: str, now: object) -> Decision[Any, Any, Any]:
            return Decision.accept(input)

        def evolve(self, state: int, event: str) -> int:
            return next(folds)

    with pytest.raises(NondeterminismError):
        async with Trial([Tally]) as trial:
            await trial.execute(Tally, "one")


def test_an_activity_that_may_not_run_twice_is_found_by_crashing_everywhere() -> None:
    def bank(*, is_idempotent: bool) -> tuple[list[Any], Callable[[Trial], Awaitable[None]]]:
        account: list[int] = []

        @activity
        async def withdraw(amount: int) -> None:
            if not (is_idempotent and amount in account):
                account.append(amount)

        @orchestration
        async def pay() -> None:
            await withdraw(5)

        async def test(trial: Trial) -> None:
            account.clear()
            await (await trial.start("p", pay)).result()
            assert account == [5]

        return [pay, withdraw], test

    good, good_test = bank(is_idempotent=True)
    bad, bad_test = bank(is_idempotent=False)

    crash_everywhere(good_test, good)
    with pytest.raises(
        AssertionError, match=r"passes, and fails when the worker dies .* commit \d"
    ):
        crash_everywhere(bad_test, bad)


async def test_a_change_of_code_is_found_by_replaying_what_was_recorded() -> None:
    @orchestration(name="order")
    async def before() -> str:
        await planted.note("paid")
        await asyncio.sleep(60)
        return await planted.note("shipped")

    @orchestration(name="order")
    async def after() -> str:
        await asyncio.sleep(60)
        await planted.note("paid")
        return await planted.note("shipped")

    async with Trial([before, planted.note]) as trial:
        handle = await trial.start("o", before)
        await trial.advance(timedelta(minutes=1))
        history = await handle.export()

    replay(history, [before])
    with pytest.raises(NondeterminismError, match=r"(?s)note.*timer"):
        replay(history, [after])


async def test_what_a_failing_test_has_found_besides_is_in_its_notes() -> None:
    async def test() -> None:
        async with Trial([planted.goes_on_from_a_counter, planted.note]) as trial:
            await trial.start("g", planted.goes_on_from_a_counter)
            await trial.settle()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        await test()

    assert "The trial has also found: instance 'g'" in caught.value.__notes__[0]
