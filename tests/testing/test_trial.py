"""The trial: the real engine in memory, a clock that is moved, activities that are faked."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import Retry, activity, context, orchestration
from perdure.errors import (
    InstanceCancelledError,
    InstanceFailedError,
    InstanceNotFoundError,
    PayloadError,
    ResultTimeoutError,
    UsageError,
)
from perdure.testing import Trial
from tests.testing.shop import (
    BOOK,
    DEFINITIONS,
    DeclinedError,
    Order,
    approve,
    approved,
    buy,
    buy_all,
    charge,
    family,
    pack,
    ship,
)

MONTH = timedelta(days=30)


@pytest.fixture
async def shop() -> AsyncIterator[Trial]:
    async with Trial(DEFINITIONS) as trial:
        yield trial


# --------------------------------------------------------------------------- time


async def test_thirty_days_pass_in_milliseconds(shop: Trial) -> None:
    shop.fake(charge).returns("paid")
    handle = await shop.start("b-1", buy, BOOK)
    began, began_s = shop.now, time.process_time()

    await shop.advance(MONTH)

    assert await handle.result() == "paid, book packed, book shipped at try 1"
    assert shop.now - began == MONTH
    assert time.process_time() - began_s < 2  # about 15 ms, and a machine that is slow


async def test_time_stands_still_unless_it_is_moved(shop: Trial) -> None:
    shop.fake(charge).returns("paid")
    handle = await shop.start("b-1", buy, BOOK)

    await shop.advance(MONTH - timedelta(milliseconds=1))

    with pytest.raises(ResultTimeoutError, match=r"timer.*The trial is at rest"):
        await handle.result()
    await shop.advance(timedelta(milliseconds=1))
    assert (await handle.info()).status == "completed"


async def test_each_due_moment_is_stopped_at(shop: Trial) -> None:
    shop.fake(charge).raises(TimeoutError(), TimeoutError())
    shop.fake(charge).returns("paid")
    began = shop.now
    handle = await shop.start("b-1", buy, BOOK)

    await shop.advance(timedelta(minutes=10))

    events = {event.kind: event.at for event in await handle.history()}
    # A minute after the first failure, two after the second one.
    assert events["activity_completed"] - began == timedelta(minutes=3)
    assert [one.attempt for one in shop.calls(charge)] == [1, 2, 3]


async def test_the_clock_begins_where_it_is_set() -> None:
    noon = datetime(2031, 2, 3, 12, tzinfo=UTC)

    async with Trial([approve], now=noon) as trial:
        handle = await trial.start("a-1", approve, BOOK)
        await trial.advance(timedelta(days=1))

        assert (await handle.info()).created_at == noon
        assert trial.now == noon + timedelta(days=1)


async def test_time_does_not_go_back(shop: Trial) -> None:
    with pytest.raises(UsageError, match="time goes forward"):
        await shop.advance(timedelta(seconds=-1))


async def test_time_is_not_moved_while_an_activity_runs() -> None:
    """A fake that takes its time is waited for, so a timeout beside it does not pass over it."""
    times: list[datetime] = []

    @orchestration
    async def impatient() -> str:
        try:
            async with asyncio.timeout(60):
                return await slow()
        except TimeoutError:
            return "too late"

    @activity
    def slow() -> str:
        gate.wait(10)
        times.append(trial.now)
        return "in time"

    gate = threading.Event()
    async with Trial([impatient, slow]) as trial:
        began = trial.now
        handle = await trial.start("i-1", impatient)
        asyncio.get_running_loop().call_later(0.05, gate.set)

        await trial.advance(timedelta(days=1))

        assert await handle.result() == "in time"
    assert times == [began]


# --------------------------------------------------------------------------- rest


async def test_settle_ends_when_all_waits_for_time_or_the_outside(shop: Trial) -> None:
    handle = await shop.start("a-1", approve, BOOK)

    await shop.settle()

    assert "signal 'approved'" in await handle.explain()
    assert await handle.kv() == {"order": "book"}


async def test_what_is_sent_is_received(shop: Trial) -> None:
    handle = await shop.start("a-1", approve, BOOK)
    await handle.send(approved, "Ada")

    assert await handle.result() == "Ada"


async def test_a_child_and_its_parent_come_to_rest_together(shop: Trial) -> None:
    handle = await shop.start("f-1", family, BOOK)

    await shop.advance(timedelta(days=3))

    assert await handle.result() == "nobody"


async def test_a_result_that_cannot_come_is_told_at_once(shop: Trial) -> None:
    handle = await shop.start("a-1", approve, BOOK)

    with pytest.raises(ResultTimeoutError, match=r"signal 'approved'.*advance the clock"):
        await handle.result()


async def test_a_result_is_waited_for_while_another_task_moves_time(shop: Trial) -> None:
    handle = await shop.start("a-1", approve, BOOK)

    result, _ = await asyncio.gather(handle.result(), shop.advance(timedelta(days=4)))

    assert result == "nobody"


async def test_values_and_reports_are_waited_for_until_all_rests(shop: Trial) -> None:
    handle = await shop.start("a-1", approve, BOOK)

    assert await handle.wait_kv("order") == "book"
    report = await handle.wait_report()
    assert report is not None
    assert report.value == {"waits": True}
    with pytest.raises(ResultTimeoutError, match="value under key 'else'"):
        await handle.wait_kv("else")


async def test_an_unknown_instance_is_not_waited_for(shop: Trial) -> None:
    with pytest.raises(InstanceNotFoundError):
        await shop.handle("who").result()


async def test_a_cancelled_instance_ends(shop: Trial) -> None:
    handle = await shop.start("a-1", approve, BOOK)
    await handle.cancel("no need")

    with pytest.raises(InstanceCancelledError, match="no need"):
        await handle.result()


async def test_a_terminated_instance_ends_with_what_it_had_under_way(shop: Trial) -> None:
    handle = await shop.start("f-1", family, BOOK)
    await shop.settle()

    await handle.terminate("enough")
    await shop.settle()

    assert [one.status for one in (await shop.instances()).items] == ["cancelled", "terminated"]


async def test_an_orchestration_waits_for_another_instance() -> None:
    @orchestration
    async def follower() -> str:
        return await context().ref("a-1", approve).result()

    async with Trial([follower, approve]) as trial:
        handle = await trial.start("f-1", follower)
        await trial.start("a-1", approve, BOOK)
        await trial.settle()
        assert (await handle.info()).status == "running"

        await trial.advance(timedelta(days=3))

        assert await handle.result() == "nobody"


# -------------------------------------------------------------------------- fakes


async def test_a_fake_returns_its_values_in_turn_and_the_last_one_for_ever(shop: Trial) -> None:
    shop.fake(charge).returns("one", "two")

    handle = await shop.start("b-1", buy_all, [BOOK] * 4)

    assert await handle.result() == ["one", "two", "two", "two"]


async def test_a_function_is_called_in_place_of_the_activity(shop: Trial) -> None:
    shop.fake(charge)(lambda order, *, currency="EUR": f"{order.amount} {currency}")

    assert await (await shop.start("b-1", buy_all, [BOOK])).result() == ["12 EUR"]


async def test_an_async_function_can_be_decorated(shop: Trial) -> None:
    @shop.fake(ship)
    async def _(order_id: str) -> str:
        await asyncio.sleep(0)
        return f"{order_id} sent"

    shop.fake(charge).returns("paid")
    handle = await shop.start("b-1", buy, BOOK)
    await shop.advance(MONTH)

    assert await handle.result() == "paid, book packed, book sent"


async def test_an_error_of_the_fake_is_the_activitys(shop: Trial) -> None:
    shop.fake(charge).raises(*(DeclinedError("no") for _ in range(3)))
    handle = await shop.start("b-1", buy, BOOK)
    await shop.advance(timedelta(minutes=3))

    with pytest.raises(InstanceFailedError, match="DeclinedError: no"):
        await handle.result()


async def test_after_its_errors_a_fake_does_what_it_says_otherwise(shop: Trial) -> None:
    shop.fake(pack).raises(ValueError("no box"))

    @orchestration
    async def packs() -> list[str]:
        try:
            return [await pack("a")]
        except Exception as error:
            return [str(error), await pack("b")]

    async with Trial([packs, pack]) as trial:
        trial.fake(pack).raises(ValueError("no box"))
        found = await (await trial.start("p-1", packs)).result()

    assert "no box" in found[0]
    assert found[1] == "b packed"


async def test_calls_tell_who_called_with_what(shop: Trial) -> None:
    shop.fake(charge).raises(TimeoutError())
    shop.fake(charge).returns("paid")
    await shop.start("b-1", buy, BOOK)
    await shop.advance(timedelta(minutes=1))

    first, second = shop.calls(charge)

    assert (first.instance_id, first.arguments, first.attempt) == ("b-1", {"order": BOOK}, 1)
    assert second.attempt == 2
    assert first.idempotency_key == second.idempotency_key
    assert shop.calls(ship) == []


async def test_real_activities_run_where_they_always_do(shop: Trial) -> None:
    threads: list[str] = []

    @activity
    def where() -> None:
        threads.append(threading.current_thread().name)

    @orchestration
    async def ask() -> None:
        await where()

    async with Trial([ask, where]) as trial:
        await (await trial.start("w-1", ask)).result()
        assert len(trial.calls(where)) == 1

    assert threads[0].startswith("perdure-activity")


async def test_the_jitter_of_retries_is_drawn_by_the_seed() -> None:
    @activity(retry=Retry(max_attempts=2, first_delay=timedelta(minutes=1), jitter=1))
    async def fails() -> None:
        raise ConnectionError

    @orchestration
    async def tries() -> None:
        await fails()

    async def next_try(seed: int) -> datetime:
        async with Trial([tries, fails], seed=seed) as trial:
            handle = await trial.start("t", tries)
            await trial.settle()
            [job] = await handle.jobs()
            return job.visible_at

    times = [await next_try(seed) for seed in (0, 1, 2)]

    assert len(set(times)) > 1
    assert [await next_try(seed) for seed in (0, 1, 2)] == times


async def test_another_seed_is_another_order_of_answers() -> None:
    async def order_of(seed: int) -> list[str]:
        done: list[str] = []
        async with Trial(DEFINITIONS, seed=seed) as trial:

            @trial.fake(charge)
            def _(order: Order, *, currency: str = "") -> str:
                done.append(order.order_id)
                return "paid"

            orders = [Order(str(number), 1) for number in range(5)]
            await (await trial.start("b-1", buy_all, orders)).result()
        return done

    orders = [await order_of(seed) for seed in range(6)]

    assert orders[0] == ["0", "1", "2", "3", "4"]
    assert orders[3] == await order_of(3)
    assert len({tuple(one) for one in orders}) > 1


# ---------------------------------------------------------------------- what is refused


def refused(shop: Trial, do: Any, match: str) -> None:
    with pytest.raises((UsageError, PayloadError), match=match):
        do(shop)


async def test_a_fake_that_cannot_work_is_refused_where_it_is_given(shop: Trial) -> None:
    other = activity(name="other")(lambda: None)
    wrong: list[tuple[Any, str]] = [
        (lambda trial: trial.fake(buy), "takes a function made with @activity"),
        (lambda trial: trial.fake(other), "was not handed to this trial"),
        (lambda trial: trial.calls(other), "was not handed to this trial"),
        (lambda trial: trial.fake(charge).returns(3), "result of charge"),
        (lambda trial: trial.fake(charge).returns(), "needs a value"),
        (lambda trial: trial.fake(charge).raises(TimeoutError), "takes exceptions such as"),
        (lambda trial: trial.fake(charge)(lambda: "x"), r"cannot be called as charge\(order"),
        (lambda trial: trial.fake(charge)(3), "takes a function, got 3"),
    ]
    for do, match in wrong:
        refused(shop, do, match)


async def test_a_trial_that_is_not_open_says_so() -> None:
    trial = Trial(DEFINITIONS)

    for call in (trial.settle(), trial.crash(), trial.start("b-1", buy, BOOK)):
        with pytest.raises(UsageError, match="not open"):
            await call


async def test_code_that_never_ends_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()
    async with Trial(DEFINITIONS) as trial:

        @trial.fake(charge)
        async def _(order: Order, *, currency: str = "") -> str:
            begun.set()
            await asyncio.Event().wait()
            return ""

        await trial.start("b-1", buy, BOOK)
        settling = asyncio.create_task(trial.settle())
        await begun.wait()
        settling.cancel()
        monkeypatch.setattr("perdure.testing.life.PATIENCE_S", 0.05)

        with pytest.raises(UsageError, match="activity 'charge' of instance 'b-1' still runs"):
            await trial.settle()


@pytest.mark.parametrize("way", ["advance", "settle", "crash", "result"])
async def test_what_an_activity_asks_of_its_own_trial_is_refused_at_once(way: str) -> None:
    async with Trial(DEFINITIONS) as trial:

        @trial.fake(charge)
        async def _(order: Order, *, currency: str = "") -> str:
            match way:
                case "advance":
                    await trial.advance(1)
                case "settle":
                    await trial.settle()
                case "crash":
                    await trial.crash()
                case _:
                    await handle.result()
            return ""

        handle = await trial.start("b-1", buy, BOOK)

        with pytest.raises(ResultTimeoutError, match="while activity 'charge' runs"):
            await handle.result()


async def test_time_that_is_due_all_the_time_comes_to_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @orchestration
    async def restless() -> None:
        for _ in range(1_000):
            await asyncio.sleep(1)

    monkeypatch.setattr("perdure.testing.world.MAX_WAKE_UPS", 5)
    async with Trial([restless]) as trial:
        await trial.start("r-1", restless)

        with pytest.raises(UsageError, match="more than 5 moments"):
            await trial.advance(timedelta(hours=1))


def test_a_trial_on_another_kind_of_loop_says_so() -> None:
    opening = Trial(DEFINITIONS).open()

    with pytest.raises(UsageError, match="a Trial needs asyncio"):
        opening.send(None)


# ----------------------------------------------------------------------------- crashes


async def test_a_crash_loses_what_was_in_memory_and_nothing_else(shop: Trial) -> None:
    shop.fake(charge).returns("paid")
    handle = await shop.start("b-1", buy, BOOK)
    await shop.settle()

    await shop.crash()
    await shop.advance(MONTH)
    await shop.crash()

    assert await handle.result() == "paid, book packed, book shipped at try 1"
    assert len(shop.calls(charge)) == 1


async def test_an_activity_that_ran_when_its_worker_died_is_tried_again() -> None:
    begun = asyncio.Event()

    @activity
    async def hang() -> int:
        begun.set()
        if len(trial.calls(hang)) == 1:
            await asyncio.Event().wait()
        return len(trial.calls(hang))

    @orchestration
    async def waits() -> int:
        return await hang()

    async with Trial([waits, hang]) as trial:
        handle = await trial.start("w-1", waits)
        settling = asyncio.create_task(trial.settle())
        await begun.wait()
        settling.cancel()

        await trial.crash()

        assert await handle.result() == 2
