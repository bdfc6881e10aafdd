"""Traps others fell into that need an engine to be shown; most have their place elsewhere."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest

from perdure import Engine, Signal, Status, activity, orchestration
from perdure.authoring.registry import orchestration_key
from perdure.clock import ManualClock
from perdure.errors import InstanceFailedError, StoreUnavailableError
from perdure.model.turns import KnownEnd
from tests.contract.store_values import LEASE_MS, claim
from tests.engine.stage import SELDOM, Stage, idle, options, until
from tests.sizes import WITHIN_S

go = Signal("go", str)


@orchestration
async def greeting() -> str:
    return "hello"


@orchestration
async def waiting() -> str:
    return await go.receive()


async def test_an_idle_engine_closes_at_once_and_leaves_no_thread(stage: Stage) -> None:
    before = set(threading.enumerate())
    patient = options(stop_grace=timedelta(hours=1), poll_max=SELDOM, lease_for=2 * SELDOM)
    engine = await stage.engine([greeting], options=patient)
    await idle(engine)

    async with asyncio.timeout(WITHIN_S):
        await engine.close()

    left = {each.name for each in set(threading.enumerate()) - before}
    assert {name for name in left if not name.startswith("asyncio_")} == set()  # the loop's own


async def test_a_turn_that_keeps_killing_its_worker_is_parked_and_can_be_tried_again(
    stage: Stage,
) -> None:
    """Nothing is failed for it: whoever can run it goes on."""
    stage.expect_log("instance .* is parked")
    clock = ManualClock()
    client = await stage.client(clock=clock)
    handle = await client.start("g", greeting)
    key = orchestration_key(greeting.name, greeting.version)
    for number in range(2):
        [claimed] = await claim(client._core.store, f"died {number}", definitions=(key,))
        assert claimed.attempts == number + 1
        clock.advance(timedelta(milliseconds=LEASE_MS + 1))

    engine = await stage.engine([greeting], options=options(max_attempts=2), clock=clock)
    await until(lambda: has_status(engine, Status.PARKED))
    assert "claimed 2 times without a commit" in await handle.explain()

    await engine.handle("g").unpark()
    assert await engine.handle("g", greeting).result() == "hello"


async def has_status(engine: Engine, status: Status) -> bool:
    return (await engine.handle("g").info()).status is status


async def test_a_failure_is_recorded_where_it_happened(stage: Stage) -> None:
    @orchestration
    async def failing(left: int) -> None:
        if left:
            failing.continue_as_new(left - 1)
        raise ValueError("no")

    engine = await stage.engine([failing])
    handle = await engine.start("f", failing, 1)
    with pytest.raises(InstanceFailedError) as failed:
        await handle.result()

    assert failed.value.instance_id == "f"
    assert (await handle.info()).execution == 2
    [started, failure] = await handle.history()
    assert (started.seq, failure.seq) == (1, 2)
    assert failure.kind == "failed"
    assert failure.at >= started.at
    assert [event.kind for event in await handle.history(1)] == ["started", "continued_as_new"]


async def test_each_worker_has_an_id_that_names_host_and_process(stage: Stage) -> None:
    engines = [await stage.engine([greeting]) for _ in range(2)]

    workers = await engines[0].workers()

    assert len({worker.worker_id for worker in workers}) == 2
    for worker in workers:
        assert worker.worker_id.startswith(f"{socket.gethostname()}-{os.getpid()}-")


async def test_turns_and_async_activities_run_on_the_loop_they_were_opened_on(
    stage: Stage,
) -> None:
    """One thread is enough for everything but blocking functions, which get one of their own."""
    seen: dict[str, int] = {}

    @activity
    async def asynchronous() -> None:
        seen["async"] = threading.get_ident()

    @activity
    def blocking() -> None:
        seen["blocking"] = threading.get_ident()

    @orchestration
    async def looks() -> None:
        seen["turn"] = threading.get_ident()
        await asyncio.gather(asynchronous(), blocking())

    engine = await stage.engine([asynchronous, blocking, looks])
    await (await engine.start(looks)).result()

    assert seen["turn"] == seen["async"] == threading.get_ident()
    assert seen["blocking"] != threading.get_ident()


async def test_engines_of_one_process_have_nothing_in_common(stage: Stage) -> None:
    """There is no table of names beside those that are handed over."""

    @orchestration(name="greeting")
    async def other() -> str:
        return "goodbye"

    engine = await stage.engine([greeting])
    async with Engine("sqlite://:memory:", [other]) as beside:
        assert await (await beside.start("g", other)).result() == "goodbye"
        assert await (await engine.start("g", greeting)).result() == "hello"


async def test_trouble_with_the_store_does_not_end_the_wait_for_a_result(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.expect_log("could not look for news this time")
    engine = await stage.engine([waiting])
    here = await engine.start("w", waiting)
    client = await stage.client()
    read, asked = client._core.store.read_ends, 0

    async def moody(ids: Sequence[str]) -> dict[str, KnownEnd | None]:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise StoreUnavailableError("locked")
        return await read(ids)

    monkeypatch.setattr(client._core.store, "read_ends", moody)
    result = asyncio.create_task(client.handle("w", waiting).result())
    await until(lambda: asked > 1)
    await here.send(go, "on")

    assert await result == "on"
