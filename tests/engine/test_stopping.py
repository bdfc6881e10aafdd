"""A worker that is told to stop: how long it waits for what runs."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from perdure import Engine, activity, orchestration
from tests.engine.stage import Gate, Stage, options, until
from tests.sizes import WITHIN_S

PATIENT = options(stop_grace=timedelta(hours=1))


async def at_work(stage: Stage, gate: Gate) -> Engine:
    """Return an engine with an activity that stands in the gate."""

    @activity
    async def stand() -> None:
        await gate.pass_through()

    @orchestration
    async def standing() -> None:
        await stand()

    engine = await stage.engine([standing, stand], options=PATIENT)
    await engine.start("standing-1", standing)
    await gate.reached()
    return engine


async def check_given_back(stage: Stage) -> None:
    client = await stage.client()
    [job] = await client.handle("standing-1").jobs()
    assert job.worker_id is None
    await client.handle("standing-1").terminate("the test is over")


async def test_a_patient_worker_waits_for_what_runs(stage: Stage) -> None:
    gate = Gate()
    engine = await at_work(stage, gate)

    closing = asyncio.ensure_future(engine.close())
    await until(lambda: engine._serving.jobs._is_stopping)
    gate.opened.set()
    await asyncio.wait_for(closing, WITHIN_S)

    assert gate.passed == 1


async def test_a_worker_in_a_hurry_gives_back_what_runs(stage: Stage) -> None:
    engine = await at_work(stage, Gate())

    engine.hurry()
    await asyncio.wait_for(engine.close(), WITHIN_S)

    await check_given_back(stage)


async def test_a_worker_that_waits_already_can_be_hurried(stage: Stage) -> None:
    engine = await at_work(stage, Gate())

    closing = asyncio.ensure_future(engine.close())
    await until(lambda: engine._serving.jobs._patience)
    engine.hurry()
    engine.hurry()
    await asyncio.wait_for(closing, WITHIN_S)

    await check_given_back(stage)
