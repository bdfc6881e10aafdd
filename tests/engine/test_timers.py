from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from perdure import Signal, activity, context, orchestration, race
from perdure.clock import ManualClock, system_clock
from perdure.errors import InstanceCancelledError
from tests.engine.stage import Gate, Stage, has_ended, is_waiting, kinds, until

go = Signal("go", str)


@activity
async def note(text: str) -> str:
    return text


async def test_a_sleep_is_never_early(stage: Stage) -> None:
    @orchestration
    async def sleeping() -> float:
        before = context().now()
        await asyncio.sleep(0.03)
        return (context().now() - before).total_seconds()

    engine = await stage.engine([sleeping])
    started_ms = system_clock()
    handle = await engine.start(sleeping)

    assert await handle.result() >= 0.03
    assert system_clock() - started_ms >= 30
    assert kinds(await handle.history()) == [
        "started",
        "timer_scheduled",
        "timer_fired",
        "completed",
    ]


async def test_sleeping_until_a_moment_that_has_passed_takes_no_time(stage: Stage) -> None:
    @orchestration
    async def sleeping() -> str:
        await context().sleep_until(datetime(2001, 1, 1, tzinfo=UTC))
        await asyncio.sleep(0)
        await asyncio.sleep(-1)
        return "up"

    engine = await stage.engine([sleeping])
    handle = await engine.start(sleeping)

    assert await handle.result() == "up"


async def test_sleeping_until_a_moment_to_come_wakes_then(stage: Stage) -> None:
    @orchestration
    async def sleeping() -> bool:
        when = context().now() + timedelta(milliseconds=30)
        await context().sleep_until(when)
        return context().now() >= when

    engine = await stage.engine([sleeping])

    assert await (await engine.start(sleeping)).result()


async def test_a_timeout_around_an_activity_ends_it(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def slow() -> str:
        await gate.pass_through()
        return "late"

    @orchestration
    async def impatient() -> str:
        try:
            async with asyncio.timeout(0.02):
                return await slow()
        except TimeoutError:
            return "too slow"

    engine = await stage.engine([slow, impatient])
    handle = await engine.start(impatient)

    assert await handle.result() == "too slow"
    assert kinds(await handle.history()) == [
        "started",
        "timer_scheduled",
        "activity_scheduled",
        "timer_fired",
        "activity_cancelled",
        "completed",
    ]


async def test_an_activity_in_time_ends_the_timeout(stage: Stage) -> None:
    @orchestration
    async def patient() -> str:
        async with asyncio.timeout(3600):
            return await note("in time")

    engine = await stage.engine([note, patient])
    handle = await engine.start(patient)

    assert await handle.result() == "in time"
    assert "timer_cancelled" in kinds(await handle.history())


async def test_a_race_between_a_timer_and_a_signal_is_won_by_the_first(stage: Stage) -> None:
    @orchestration
    async def racing(pause: float) -> int:
        won, _ = await race(go.receive(), asyncio.sleep(pause))
        return won

    engine = await stage.engine([racing])
    signalled = await engine.start(racing, 3600)
    await signalled.send(go, "x")
    timed = await engine.start(racing, 0.02)

    assert [await signalled.result(), await timed.result()] == [0, 1]


async def test_timers_fire_in_order_of_their_due_time(stage: Stage) -> None:
    @orchestration
    async def ordered() -> list[int]:
        woken: list[int] = []

        async def sleep(ms: int) -> None:
            await asyncio.sleep(ms / 1000)
            woken.append(ms)

        await asyncio.gather(*(sleep(ms) for ms in (30, 10, 40, 20, 10, 0)))
        return woken

    engine = await stage.engine([ordered])

    assert await (await engine.start(ordered)).result() == [0, 10, 10, 20, 30, 40]


async def test_many_timers_of_many_instances_all_fire(stage: Stage) -> None:
    @orchestration
    async def many(number: int) -> int:
        await asyncio.gather(*(asyncio.sleep((number + n) % 20 / 1000) for n in range(20)))
        return number

    engine = await stage.engine([many])
    handles = await asyncio.gather(*(engine.start(many, number) for number in range(50)))

    assert [await handle.result() for handle in handles] == list(range(50))


async def test_a_timer_survives_the_engine(stage: Stage) -> None:
    @orchestration
    async def sleeping() -> str:
        await asyncio.sleep(0.05)
        return "up"

    engine = await stage.engine([sleeping])
    handle = await engine.start("s", sleeping)
    before = await handle.history()
    await engine.close()

    engine = await stage.engine([sleeping])

    assert await engine.handle("s").result() == "up"
    after = await engine.handle("s").history()
    assert after[: len(before)] == before
    fired = next(event for event in after if event.kind == "timer_fired")
    assert fired.at.timestamp() * 1000 >= before[1].data["due_ms"]


async def test_a_timer_that_became_due_while_nobody_worked_fires_at_once(stage: Stage) -> None:
    """Hours pass on the store's clock, not in the test."""
    clock = ManualClock()

    @orchestration
    async def sleeping() -> str:
        await asyncio.sleep(24 * 3600)
        return "up"

    engine = await stage.engine([sleeping], clock=clock)
    await engine.start("s", sleeping)
    await engine.close()
    clock.advance(timedelta(hours=23))
    engine = await stage.engine([sleeping], clock=clock)
    await until(lambda: is_waiting(engine, "s"))
    assert not await has_ended(engine, "s")
    await engine.close()

    clock.advance(timedelta(hours=1))
    engine = await stage.engine([sleeping], clock=clock)

    assert await engine.handle("s").result() == "up"


async def test_a_result_that_came_in_time_beats_a_timeout_that_became_due_later(
    stage: Stage,
) -> None:
    """After an outage both wait in the inbox; the earlier one counts."""
    clock = ManualClock()

    @orchestration
    async def impatient() -> str:
        try:
            async with asyncio.timeout(60):
                return await go.receive()
        except TimeoutError:
            return "timed out"

    engine = await stage.engine([impatient], clock=clock)
    await engine.start("i", impatient)
    await engine.close()
    clock.advance(timedelta(seconds=59))
    sender = await stage.client(clock=clock)
    await sender.handle("i").send(go, "in time")
    clock.advance(timedelta(hours=5))

    engine = await stage.engine([impatient], clock=clock)

    assert await engine.handle("i").result() == "in time"


async def test_a_naive_time_is_refused(stage: Stage) -> None:
    @orchestration
    async def sleeping() -> str:
        try:
            await context().sleep_until(datetime(2030, 1, 1))
        except ValueError as error:
            return str(error)
        return ""

    engine = await stage.engine([sleeping])

    assert "has no time zone" in await (await engine.start(sleeping)).result()


async def test_an_endless_sleep_ends_only_by_cancellation(stage: Stage) -> None:
    @orchestration
    async def sleeping() -> None:
        await asyncio.sleep(float("inf"))

    engine = await stage.engine([sleeping])
    handle = await engine.start(sleeping)

    await handle.cancel("wake up")

    with pytest.raises(InstanceCancelledError):
        await handle.result()


async def test_a_timeout_ends_a_chain_that_never_pauses(stage: Stage) -> None:
    """Local results take the short way; a timer that is due must come through all the same."""

    @orchestration
    async def chain() -> str:
        try:
            async with asyncio.timeout(0.05):
                while True:
                    await note("again")
        except TimeoutError:
            return "in time"

    engine = await stage.engine([note, chain])

    assert await (await engine.start(chain)).result() == "in time"
