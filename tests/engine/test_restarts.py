"""Restarting what has ended, and trying again what was parked."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from perdure import Client, Context, Handle, Signal, Status, activity, orchestration
from perdure.authoring.registry import Defined
from perdure.core.identity import ExecutionId, child_id
from perdure.errors import (
    ChildError,
    InstanceFailedError,
    InstanceRunningError,
    InstanceTerminatedError,
)
from tests.engine.stage import Stage, kinds, options, until, waits_for

go = Signal("go", str)
runs: Counter[str] = Counter()


@activity
async def count(name: str) -> int:
    runs[name] += 1
    return runs[name]


@orchestration
async def counted(ctx: Context, name: str) -> int:
    number = await count(name)
    ctx.report(number)
    ctx.kv[f"run-{number}"] = number
    return number


@orchestration
async def waiting() -> str:
    return await go.receive()


@orchestration
async def family(child: str) -> str:
    return await waiting.with_options(instance_id=child)()


@orchestration
async def starts_a_child_later() -> str:
    await go.receive()
    try:
        return await waiting()
    except ChildError as error:
        return str(error)


ALL: list[Defined] = [count, counted, waiting, family, starts_a_child_later]


async def test_a_finished_instance_runs_again_with_its_input(stage: Stage) -> None:
    runs.clear()
    engine = await stage.engine(ALL)
    handle = await engine.start("c", counted, "a")
    assert await handle.result() == 1
    first = await handle.info()

    await handle.restart()

    assert await handle.result() == 2
    second = await handle.info()
    assert (second.name, second.version, second.input) == (first.name, first.version, first.input)
    assert second.execution == 1
    # Nothing of the first time is left.
    assert await handle.kv() == {"run-2": 2}
    report = await handle.report()
    assert report is not None
    assert (report.value, report.version) == (2, 1)


async def test_a_failed_or_terminated_instance_can_be_restarted(stage: Stage) -> None:
    is_broken = True

    @orchestration
    async def flaky() -> str:
        if is_broken:
            raise ValueError("not today")
        return "fine"

    # The code changes on purpose: a replay of what failed may come only after that.
    engine = await stage.engine([flaky, waiting], options=options(shadow_rate=0))
    failed = await engine.start("f", flaky)
    with pytest.raises(InstanceFailedError):
        await failed.result()
    stopped = await engine.start("w", waiting)
    await stopped.terminate()
    with pytest.raises(InstanceTerminatedError):
        await stopped.result()

    is_broken = False
    await failed.restart()
    await stopped.restart()

    assert await failed.result() == "fine"
    await stopped.send(go, "on")
    assert await stopped.result() == "on"


async def test_a_live_instance_is_not_restarted(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("w", waiting)

    with pytest.raises(
        InstanceRunningError, match=r"'w' has not ended \(running\): only what has ended can be re"
    ):
        await handle.restart()

    await handle.send(go, "on")
    assert await handle.result() == "on"


async def test_a_restart_works_without_a_worker(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("w", waiting)
    await handle.terminate()
    await handle.restart()
    assert (await handle.info()).status is Status.RUNNING

    engine = await stage.engine(ALL)
    await handle.send(go, "on")

    assert await engine.handle("w").result() == "on"


async def test_of_many_restarts_at_once_one_wins_and_the_others_say_so(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("w", waiting)
    await handle.terminate()

    outcomes = await asyncio.gather(*(handle.restart() for _ in range(10)), return_exceptions=True)

    assert outcomes.count(None) == 1
    assert [type(one) for one in outcomes if one is not None] == [InstanceRunningError] * 9


async def test_a_restarted_parent_can_have_the_same_children_again(stage: Stage) -> None:
    """Those of the first time go with it: they would have no root, and their ids be taken."""
    engine = await stage.engine(ALL)
    handle = await engine.start("p", family, "child")
    await until(lambda: exists(engine, "child"))
    await engine.handle("child").send(go, "first")
    assert await handle.result() == "first"

    await handle.restart()
    await waits_for(engine.handle("p"), "child 'child'")
    await engine.handle("child").send(go, "second")

    assert await handle.result() == "second"
    assert (await handle.delete()).instances == 2


async def test_a_replaced_parent_can_have_the_same_children_again(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    restarting = family.with_options(if_exists="restart")
    for said in ("first", "second"):
        handle = await engine.start("p", restarting, "child")
        await waits_for(handle, "child 'child'")
        await engine.handle("child").send(go, said)
        assert await handle.result() == said

    assert await engine.count() == 2


async def exists(client: Client, instance_id: str) -> bool:
    return await client.count(ids=[instance_id]) == 1


async def test_a_second_start_does_not_disturb_a_live_instance(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    client = await stage.client()
    handle = await engine.start("w", waiting)
    await waits_for(handle, "signal 'go'")
    before = await handle.info()

    for _ in range(3):
        await client.start("w", waiting)
        await engine.start("w", waiting)

    assert await handle.info() == before
    await handle.send(go, "on")
    assert await handle.result() == "on"
    assert kinds(await handle.history()).count("started") == 1


async def test_a_root_that_took_a_childs_made_id_is_a_clear_error_for_the_child(
    stage: Stage,
) -> None:
    """Such an id has a part that cannot be guessed before the parent runs. Whoever takes it all the
    same keeps it; the parent is told at once and does not hang."""
    engine = await stage.engine(ALL)
    handle = await engine.start("p", starts_a_child_later)
    await waits_for(handle, "signal 'go'")
    [row] = await engine._core.store.read_instances(["p"])
    assert row is not None
    taken = child_id(ExecutionId("p", row.incarnation, 1), 1)
    squatter = await engine.start(taken, waiting)

    await handle.send(go, "on")

    assert "is taken" in await handle.result()
    await squatter.send(go, "mine")
    assert await squatter.result() == "mine"


# ------------------------------------------------------------------------------ unpark


async def test_a_parked_instance_is_tried_again_when_asked(stage: Stage) -> None:
    """By any worker, also the one whose code could not run it."""
    stage.expect_log("computes for")
    stage.expect_log("instance .* is parked")
    is_endless = True

    @orchestration
    async def endless() -> str:
        while is_endless:
            pass
        return "calm"

    # So long that the turn which does end is not struck because the machine is busy.
    limits = options(turn_warning=timedelta(milliseconds=10), turn_limit=timedelta(seconds=0.5))
    engine = await stage.engine([endless], options=limits)
    handle = await engine.start("e", endless)
    await until(lambda: has_status(handle, Status.PARKED))
    assert "handle.unpark() lets it be tried again" in await handle.explain()

    is_endless = False
    assert await handle.unpark() is True

    assert await handle.result() == "calm"


async def has_status(handle: Handle[Any], status: Status) -> bool:
    return (await handle.info()).status is status


async def test_unparking_what_is_not_parked_says_so(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("w", waiting)

    assert await handle.unpark() is False
