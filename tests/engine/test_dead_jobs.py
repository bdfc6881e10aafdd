from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from perdure import Activity, Engine, Retry, activity, orchestration
from perdure.errors import ActivityError
from perdure.model.jobs import JobKey
from tests import rows
from tests.engine.stage import Gate, Stage, options, until, waits_for

AT_ONCE = Retry(max_attempts=2, first_delay=timedelta(0))


@activity(retry=AT_ONCE)
async def fail(why: str) -> str:
    raise OSError(why)


@activity
async def fail_once(why: str) -> str:
    raise OSError(why)


@activity
async def double(value: int) -> int:
    return 2 * value


@orchestration
async def failing(why: str) -> str:
    try:
        return await fail(why)
    except ActivityError as error:
        return f"{error.type_name} after {error.attempts}"


async def dead_keys(engine: Engine) -> list[JobKey]:
    return [dead.key for dead in await engine._core.store.admin.read_dead_jobs(limit=100)]


async def test_a_job_out_of_attempts_answers_its_owner_and_is_kept(stage: Stage) -> None:
    engine = await stage.engine([failing, fail])
    handle = await engine.start("f", failing, "disk on fire")

    assert await handle.result() == "OSError after 2"
    [dead] = await engine._core.store.admin.read_dead_jobs(limit=100)
    assert (dead.key.instance_id, dead.key.seq) == ("f", 2)
    assert dead.queue.name == "fail"
    assert b"disk on fire" in dead.input


@pytest.mark.parametrize("how", ["once", "final"])
async def test_a_failure_that_is_an_answer_leaves_nothing_behind(stage: Stage, how: str) -> None:
    final = fail.with_options(retry=Retry(max_attempts=5, no_retry=[OSError]))

    @orchestration
    async def failing_for_good() -> str:
        try:
            return await (fail_once if how == "once" else final)("no")
        except ActivityError as error:
            return error.type_name

    engine = await stage.engine([failing_for_good, fail, fail_once])

    assert await (await engine.start(failing_for_good)).result() == "OSError"
    assert await dead_keys(engine) == []


async def test_a_job_that_keeps_losing_its_worker_is_dead(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def hold() -> None:
        await gate.pass_through()

    @orchestration
    async def holding() -> str:
        try:
            await hold()
        except ActivityError as error:
            return error.type_name
        return "held"

    engine = await stage.engine([holding, hold], options=options(max_attempts=2))
    handle = await engine.start("h", holding)
    await gate.reached()
    await engine.close()
    rows.run(stage.url, "UPDATE jobs SET lost = 2")

    again = await stage.engine([holding, hold], options=options(max_attempts=2))

    assert await again.handle("h", holding).result() == "WorkerLost"
    assert [key.instance_id for key in await dead_keys(again)] == ["h"]
    assert handle.instance_id == "h"


async def test_a_dead_job_can_be_run_again(stage: Stage) -> None:
    is_repaired = False
    sent: list[str] = []

    @activity(retry=AT_ONCE)
    async def mail(to: str) -> None:
        if not is_repaired:
            raise OSError("no network")
        sent.append(to)

    @orchestration
    async def mailing(to: str) -> str:
        try:
            await mail(to)
        except ActivityError:
            return "not sent"
        return "sent"

    engine = await stage.engine([mailing, mail])
    assert await (await engine.start(mailing, "Ada")).result() == "not sent"
    [key] = await dead_keys(engine)

    is_repaired = True
    assert await engine._core.store.admin.retry_dead_jobs([key]) == [True]
    engine._serving.notice()

    await until(lambda: sent == ["Ada"])
    assert await dead_keys(engine) == []


async def test_a_job_that_is_run_again_in_time_answers_its_call(stage: Stage) -> None:
    is_repaired = False

    @activity(retry=AT_ONCE)
    async def mail(to: str) -> str:
        if not is_repaired:
            raise OSError("no network")
        return f"sent to {to}"

    @orchestration
    async def mailing(to: str) -> str:
        return await mail(to)

    stage.expect_log("no live worker serves activity 'mail'")
    starter = await stage.engine([mailing])
    handle = await starter.start("m", mailing, "Ada")
    await waits_for(handle, "mail")
    await starter.close()
    mailer = await stage.engine([mail])
    await until(lambda: dead_keys(mailer))

    is_repaired = True
    assert await mailer.retry_dead_jobs() == 1
    await mailer.close()

    engine = await stage.engine([mailing, mail])
    assert await engine.handle("m", mailing).result() == "sent to Ada"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE jobs SET policy = ? WHERE instance_id = 'bad'",
        "UPDATE jobs SET input = ? WHERE instance_id = 'bad'",
        "UPDATE jobs SET failures = ? WHERE instance_id = 'bad'",
        "UPDATE jobs SET details = ? WHERE instance_id = 'bad'",
    ],
    ids=["policy", "input", "failures", "details"],
)
async def test_a_damaged_row_fails_its_own_call_and_blocks_nobody(
    stage: Stage, damage: str
) -> None:
    """Traps 9 and n: what cannot be read is neither tried for ever nor dropped without a word."""

    @orchestration
    async def doubling(value: int) -> str:
        try:
            return str(await Activity.named("double", int)(value=value))
        except ActivityError as error:
            return error.type_name

    stage.expect_log("no live worker serves")
    asker = await stage.engine([doubling])
    bad = await asker.start("bad", doubling, 1)
    good = await asker.start("good", doubling, 2)
    await until(lambda: stage.logged("no live worker serves"))
    rows.run(stage.url, damage, b"\xff")

    await stage.engine([double], options=options(poll_max=timedelta(milliseconds=40)))

    assert await good.result() == "4"
    # Details harm nobody who does not ask for them.
    assert (await bad.result() == "2") is ("details" in damage)


async def test_a_flood_of_dead_jobs_is_one_row_each(stage: Stage) -> None:
    @orchestration
    async def flooding() -> int:
        done: list[Any] = await asyncio.gather(
            *(fail(str(n)) for n in range(20)), return_exceptions=True
        )
        return len(done)

    engine = await stage.engine([flooding, fail])

    assert await (await engine.start(flooding)).result() == 20
    assert len(await dead_keys(engine)) == 20
