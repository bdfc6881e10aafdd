"""Several code versions on one store at once: rolling deploys, draining, rolling back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Handle, Orchestration, Signal, Status, activity, orchestration
from perdure.clock import ManualClock
from tests.engine.stage import Stage, idle, is_waiting, options, until, waits_for
from tests.engine.versioned_fleet import go, shop

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60

HERE = os.getpid()
OLD, NEW = "1.0.0", "2.0.0"

number = Signal("number", int)


async def started(client: Client, prefix: str, version: str, count: int = 5) -> list[Handle[Any]]:
    """Start instances of a version and wait until somebody has begun them."""
    handles = [await client.start(f"{prefix}{n}", shop(version)) for n in range(count)]
    for handle in handles:
        await until(partial(is_waiting, client, handle.instance_id))
    return handles


async def finish(handles: list[Handle[Any]]) -> list[Any]:
    """Let instances end, and return their results without the process."""
    await asyncio.gather(*(handle.send(go, "end") for handle in handles))
    return [(await handle.result())[:3] for handle in handles]


async def test_old_instances_stay_with_old_code_and_new_ones_go_to_new_code(stage: Stage) -> None:
    await stage.engine([shop(OLD)])
    client = await stage.client()
    old = await started(client, "old", OLD)

    await stage.engine([shop(NEW)])
    new = await started(client, "new", NEW)

    assert await finish(new) == [[NEW, NEW, NEW]] * 5
    assert await finish(old) == [[OLD, OLD, OLD]] * 5


async def test_starts_by_name_are_taken_by_either_and_stay_where_they_began(stage: Stage) -> None:
    await stage.engine([shop(OLD)])
    await stage.engine([shop(NEW)])
    client = await stage.client()
    by_name: Orchestration[..., list[Any]] = Orchestration.named("shop", list[Any])
    handles = [await client.start(f"s{n}", by_name) for n in range(30)]

    for code, recorded, began in await finish(handles):
        assert code == recorded == began
        assert code in (OLD, NEW)


async def test_an_eternal_instance_is_upgraded_when_a_worker_with_new_code_continues_it(
    stage: Stage,
) -> None:
    before = await stage.engine([shop(OLD)])
    [handle] = await started(before, "e", OLD, 1)
    await before.handle("e0").send(go, "continue")
    await until(lambda: _is_at(before, "e0", 2))
    assert (await handle.info()).version == OLD

    after = await stage.engine([shop(OLD), shop(NEW)])
    await before.close()
    await after.handle("e0").send(go, "continue")
    await until(lambda: _is_at(after, "e0", 3))

    assert (await after.handle("e0").info()).version == NEW
    assert await finish([after.handle("e0")]) == [[NEW, NEW, OLD]]


async def _is_at(client: Client, instance_id: str, execution: int) -> bool:
    return (await client.handle(instance_id).info()).execution == execution


async def test_a_worker_that_prefers_the_old_version_holds_an_upgrade_back(stage: Stage) -> None:
    engine = await stage.engine([shop(OLD), shop(NEW)], options=options(prefer={"shop": OLD}))
    [handle] = await started(engine, "e", OLD, 1)
    await handle.send(go, "continue")
    await until(lambda: _is_at(engine, "e0", 2))

    assert (await handle.info()).version == OLD
    engine.registry.prefer("shop", None)
    await handle.send(go, "continue")
    await until(lambda: _is_at(engine, "e0", 3))
    assert await finish([handle]) == [[NEW, NEW, OLD]]


async def test_a_worker_narrowed_to_old_versions_drains_them_and_begins_no_new_ones(
    stage: Stage,
) -> None:
    client = await stage.client()
    first = await stage.engine([shop(OLD), shop(NEW)])
    old = await started(client, "old", OLD)
    await first.close()
    new = [await client.start(f"new{n}", shop(NEW)) for n in range(5)]

    draining = await stage.engine(
        [shop(OLD), shop(NEW)], options=options(versions={"shop": f"<{NEW}"})
    )
    assert await finish(old) == [[OLD, OLD, OLD]] * 5
    await idle(draining)
    assert {(await handle.info()).status for handle in new} == {Status.RUNNING}
    assert not any([await is_waiting(client, handle.instance_id) for handle in new])

    await stage.engine([shop(NEW)])
    assert await finish(new) == [[NEW, NEW, NEW]] * 5


async def test_after_a_rollback_new_instances_wait_and_old_ones_go_on(stage: Stage) -> None:
    client = await stage.client()
    deployed = await stage.engine([shop(OLD), shop(NEW)])
    old = await started(client, "old", OLD)
    new = await started(client, "new", NEW)
    await deployed.close()

    rolled_back = await stage.engine([shop(OLD)])
    assert await finish(old) == [[OLD, OLD, OLD]] * 5
    for handle in new:
        await handle.send(go, "end")
    await idle(rolled_back)
    for handle in new:
        assert (await handle.info()).status is Status.RUNNING
        assert "unclaimed: needs shop 2.0.0" in await handle.explain()

    await stage.engine([shop(NEW)])
    assert [(await handle.result())[:3] for handle in new] == [[NEW, NEW, NEW]] * 5


async def test_code_that_does_not_fit_a_widened_version_blocks_and_the_right_code_goes_on(
    stage: Stage,
) -> None:
    """A range that is too wide is a mistake of an operator, and must cost no instance."""

    @activity
    async def step(n: int) -> int:
        return n

    @orchestration(name="stepping", version=NEW)
    async def new() -> int:
        return await step(1) + await number.receive()

    @orchestration(name="stepping", version=OLD)
    async def old() -> int:
        return await number.receive()

    stage.expect_log("instance .* is blocked")
    client = await stage.client()
    deployed = await stage.engine([step, new])
    handle = await client.start("s", new)
    await until(lambda: is_waiting(client, "s"))
    await deployed.close()

    await stage.engine([step, old], options=options(versions={"stepping": ">=1"}))
    await handle.send(number, 1)
    await until(lambda: _has_status(handle, Status.BLOCKED))
    await stage.engine([step, new])

    assert await handle.result(if_held="wait") == 2


async def _has_status(handle: Handle[Any], status: Status) -> bool:
    return (await handle.info()).status is status


# ---------------------------------------------------------------- in another process


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    begun: list[subprocess.Popen[str]] = []
    yield begun
    for process in begun:
        process.kill()
        process.communicate()


async def ready(url: str, *versions: str) -> subprocess.Popen[str]:
    """Start a worker process and wait until it serves."""
    process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
        [sys.executable, "-m", "tests.engine.versioned_fleet", url, *versions],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
    return process


async def test_processes_with_different_versions_share_a_store(
    stage: Stage, processes: list[subprocess.Popen[str]]
) -> None:
    await stage.engine([shop(OLD)])
    client = await stage.client()
    processes.append(await ready(stage.url, NEW))
    old, new = await started(client, "old", OLD), await started(client, "new", NEW)

    for handle in (*old, *new):
        await handle.send(go, "end")

    there = processes[0].pid
    assert [await handle.result() for handle in old] == [[OLD, OLD, OLD, HERE]] * 5
    assert [await handle.result() for handle in new] == [[NEW, NEW, NEW, there]] * 5
    processes[0].send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(processes[0].wait, PATIENCE_S) == 0


async def test_a_continued_instance_moves_to_the_process_that_has_the_new_code(
    stage: Stage, processes: list[subprocess.Popen[str]]
) -> None:
    """The old process leaves while instances are between two versions; nothing is lost."""
    first = await stage.engine([shop(OLD)])
    client = await stage.client()
    handles = await started(client, "e", OLD)
    processes.append(await ready(stage.url, OLD, NEW))
    await first.close()

    for handle in handles:
        await handle.send(go, "continue")
        await handle.send(go, "end")

    there = processes[0].pid
    assert [await handle.result() for handle in handles] == [[NEW, NEW, OLD, there]] * 5


# ------------------------------------------------------- code that fits only its own


async def test_what_old_workers_block_goes_on_with_a_new_one_that_was_there_all_the_time(
    stage: Stage,
) -> None:
    """Everybody claims what a gone worker left. Equal digests: the versions are in one file."""

    def made(*steps: int) -> Orchestration[[], int]:
        @orchestration(name="patient")
        async def patient() -> int:
            for n in steps:
                await step(n)
            await asyncio.sleep(60)
            await asyncio.sleep(60)
            return await number.receive()

        return patient

    @activity
    async def step(n: int) -> int:
        return n

    clock = ManualClock()
    client = await stage.client(clock=clock)
    deployed = await stage.engine([step, made(1)], clock=clock)
    ids = [f"p{n}" for n in range(20)]
    for instance_id in ids:
        await deployed.start(instance_id, made(1))
    for instance_id in ids:
        await waits_for(deployed.handle(instance_id), "timer")
    await deployed.close()
    stage.allow_log("instance .* is blocked")
    # Time flies below, and no lease shall run out while its worker works.
    slow = options(lease_for=timedelta(days=1), session_idle=timedelta(days=1))
    workers = [
        await stage.engine([step, made(*steps)], clock=clock, options=slow)
        for steps in ((1,), (), ())
    ]
    for instance_id in ids:
        await client.handle(instance_id).send(number, 7)

    async def have_ended() -> bool:
        clock.advance(timedelta(seconds=1))
        return await client.count(status="completed") == len(ids)

    clock.advance(timedelta(seconds=60))
    for old in workers[1:]:
        await old._serving.claimer.run_once()
    await until(have_ended)

    assert len(stage.logged("instance .* is blocked")) <= 2 * len(ids)
