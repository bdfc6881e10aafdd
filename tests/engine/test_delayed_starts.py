"""Starts that begin later, and starts that come with a signal."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from perdure import Client, Context, Orchestration, Signal, Status, orchestration
from perdure.authoring.registry import Defined
from perdure.clock import ManualClock
from perdure.errors import (
    AlreadyExistsError,
    InstanceCancelledError,
    InstanceEndedError,
    InvalidIdError,
    PayloadError,
    UsageError,
)
from tests.engine.stage import Stage, idle, kinds, waits_for

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
go = Signal("go", str)


@orchestration
async def waiting(x: int = 0) -> str:
    return await go.receive()


@orchestration
async def returns(ctx: Context, x: int = 0) -> str:
    return ctx.now().isoformat()


@orchestration
async def other() -> str:
    return await go.receive()


@orchestration
async def collects(many: int) -> list[str]:
    return [await go.receive() for _ in range(many)]


@orchestration
async def delays_a_child() -> str:
    return await returns.with_options(delay=HOUR, instance_id="child")()


ALL: list[Defined] = [waiting, returns, other, collects, delays_a_child]


async def begun(client: Client, instance_id: str) -> bool:
    return bool(await client.handle(instance_id).history())


# ----------------------------------------------------------------------- delayed


async def test_a_delayed_instance_begins_when_its_time_has_come(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine(ALL, clock=clock)
    handle = await engine.start("r", returns.with_options(delay=HOUR))
    await idle(engine)
    assert await handle.history() == []
    assert (await handle.info()).status is Status.RUNNING

    clock.advance(HOUR)
    engine._serving.notice()

    assert await handle.result() == "2027-01-15T09:00:00+00:00"


async def test_a_delayed_instance_says_when_it_begins(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine(ALL, clock=clock)
    handle = await engine.start("r", returns.with_options(delay=HOUR))

    text = await handle.explain()

    assert text == "r (returns 1.0.0) starts at 2027-01-15 09:00:00 UTC, as it was delayed."
    [queue] = await engine.queues()
    assert (queue.ready, queue.later) == (0, 1)


async def test_a_short_delay_passes_by_itself(stage: Stage) -> None:
    engine = await stage.engine(ALL)

    handle = await engine.start(returns.with_options(delay=timedelta(milliseconds=30)))

    await handle.result()
    info = await handle.info()
    assert info.ended_at is not None
    assert info.ended_at - info.created_at >= timedelta(milliseconds=30)


async def test_a_message_does_not_begin_a_delayed_instance_early(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine(ALL, clock=clock)
    handle = await engine.start("w", waiting.with_options(delay=HOUR))

    await handle.send(go, "early")
    await idle(engine)
    assert await handle.history() == []

    clock.advance(HOUR)
    engine._serving.notice()
    assert await handle.result() == "early"


async def test_a_delayed_instance_that_is_cancelled_ends_at_once(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine(ALL, clock=clock)
    handle = await engine.start("w", waiting.with_options(delay=HOUR))

    await handle.cancel("changed my mind")

    with pytest.raises(InstanceCancelledError, match="changed my mind"):
        await handle.result()


async def test_a_delayed_instance_can_be_terminated_before_it_begins(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine(ALL, clock=clock)
    handle = await engine.start("w", waiting.with_options(delay=HOUR))

    await handle.terminate("changed my mind")

    assert (await handle.info()).status is Status.TERMINATED
    clock.advance(HOUR)
    engine._serving.notice()
    await idle(engine)
    assert kinds(await handle.history()) == ["started", "terminated"]


async def test_a_child_can_be_delayed(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine(ALL, clock=clock)
    handle = await engine.start("p", delays_a_child)
    await waits_for(handle, "child 'child'")
    assert not await begun(engine, "child")

    clock.advance(HOUR)
    engine._serving.notice()

    assert await handle.result() == "2027-01-15T09:00:00+00:00"


async def test_a_repeated_delayed_start_joins_the_first(stage: Stage) -> None:
    clock = ManualClock()
    client = await stage.client(clock=clock)
    delayed = returns.with_options(delay=HOUR)
    await client.start("r", delayed, 1)
    clock.advance(SECOND)

    await client.start("r", delayed, 1)

    live = await client._core.store.read_live("r")
    assert live is not None
    assert live.wake_at_ms == clock() - 1_000 + 3_600_000


def test_a_negative_delay_is_refused() -> None:
    with pytest.raises(ValueError, match="delay must not be negative, got -1 day"):
        returns.with_options(delay=-HOUR)


# ------------------------------------------------------------- with a signal


async def test_a_start_with_a_signal_is_one_commit(stage: Stage) -> None:
    client = await stage.client()

    handle = await client.send_with_start(go, "hello", "w", waiting, 3)

    assert [message.kind for message in await client.inbox("w")] == ["started", "signal_received"]
    assert (await handle.info()).input == {"x": 3}
    engine = await stage.engine(ALL)
    assert await engine.handle("w").result() == "hello"


async def test_a_start_with_a_signal_runs_at_once_in_an_engine(stage: Stage) -> None:
    engine = await stage.engine(ALL)

    handle = await engine.send_with_start(go, "hello", "w", waiting)

    assert await handle.result() == "hello"


async def test_a_live_instance_only_gets_the_signal(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    first = await engine.send_with_start(go, "a", "c", collects, 3)
    await engine.send_with_start(go, "b", "c", collects, 99)
    await engine.send_with_start(go, "c", "c", collects.with_options(if_exists="fail"), 3)

    assert await first.result() == ["a", "b", "c"]
    assert kinds(await first.history()).count("started") == 1


async def test_many_at_once_start_one_instance_and_lose_no_signal(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    clients = [engine, await stage.client(), await stage.client()]

    handles = await asyncio.gather(
        *(
            clients[number % 3].send_with_start(go, str(number), "c", collects, 30)
            for number in range(30)
        )
    )

    got = await handles[0].result()
    assert sorted(got, key=int) == [str(number) for number in range(30)]


async def test_an_ended_instance_is_not_signalled(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.send_with_start(go, "a", "w", waiting)
    await handle.result()

    with pytest.raises(InstanceEndedError, match=r"'w' has ended \(completed\)"):
        await engine.send_with_start(go, "b", "w", waiting)
    with pytest.raises(AlreadyExistsError, match=r"'w' already exists \(completed\)"):
        await engine.send_with_start(go, "b", "w", waiting.with_options(if_exists="fail"))
    assert await engine._core.store.read_inbox("w") == []


@pytest.mark.parametrize("policy", ["restart", "terminate"])
async def test_an_ended_instance_is_replaced_when_asked(stage: Stage, policy: str) -> None:
    engine = await stage.engine(ALL)
    again = waiting.with_options(if_exists=policy)  # type: ignore[arg-type]  # one of both
    assert await (await engine.send_with_start(go, "a", "w", again, 1)).result() == "a"

    handle = await engine.send_with_start(go, "b", "w", again, 2)

    assert await handle.result() == "b"
    assert (await handle.info()).input == {"x": 2}


async def test_a_signal_for_another_definition_is_not_sent(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("w", other)
    await waits_for(handle, "signal 'go'")

    with pytest.raises(AlreadyExistsError, match=r"as other 1.0.0, not waiting 1.0.0"):
        await engine.send_with_start(go, "a", "w", waiting)

    assert await engine._core.store.read_inbox("w") == []
    # A name alone fits every version.
    await engine.send_with_start(go, "b", "w", Orchestration.named("other", str))
    assert await handle.result() == "b"


async def test_a_delayed_start_with_a_signal_begins_later_and_has_it(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine(ALL, clock=clock)
    handle = await engine.send_with_start(go, "a", "w", waiting.with_options(delay=HOUR))
    await idle(engine)
    assert await handle.history() == []

    clock.advance(HOUR)
    engine._serving.notice()

    assert await handle.result() == "a"


async def test_wrong_input_of_a_start_with_a_signal_is_refused(stage: Stage) -> None:
    client = await stage.client()

    with pytest.raises(PayloadError, match="signal 'go'"):
        await client.send_with_start(go, 3, "w", waiting)  # type: ignore[misc]  # the point
    with pytest.raises(UsageError, match="is not a signal"):
        await client.send_with_start("go", "a", "w", waiting)  # type: ignore[arg-type]  # too
    with pytest.raises(UsageError, match="is not an orchestration: send_with_start takes"):
        await client.send_with_start(go, "a", "w", "waiting")  # type: ignore[arg-type]  # too
    with pytest.raises(InvalidIdError):
        await client.send_with_start(go, "a", "", waiting)
    with pytest.raises(PayloadError):
        await client.send_with_start(go, "a", "w", waiting, "x")  # type: ignore[arg-type]  # too
    totals = await client.metrics()
    assert (sum(totals.instances.values()), totals.unborn, totals.messages) == (0, 0, 0)
