"""How soon do instances go on after their worker is gone?

Three answers: how fast a long history is replayed, how long it keeps the other instances of its
worker waiting meanwhile, and how long after a SIGKILL another worker of the same host commits. What
would have been left of the lease then is reported beside it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta

from bench.harness import Case, Measured, Meter, Setup
from perdure import (
    Client,
    Engine,
    Signal,
    Worker,
    WorkerOptions,
    activity,
    activity_context,
    orchestration,
)
from perdure.authoring.registry import Defined
from perdure.model.turns import ProcessId
from perdure.worker import serving

QUICK = WorkerOptions(lease_for=timedelta(milliseconds=600), poll_max=timedelta(milliseconds=100))
WITHIN_S = 120.0

go_on = Signal("go_on", int)


@activity
async def add_one(number: int) -> int:
    return number + 1


@orchestration
async def chain_then_wait(length: int) -> int:
    number = 0
    for _ in range(length):
        number = await add_one(number)
    return number + await go_on.receive()


@orchestration
async def add_once() -> int:
    return await add_one(1)


@activity
async def hang_at_first() -> int:
    """Hang until the worker dies; return at once when another one tries again."""
    attempt = activity_context().attempt
    if attempt == 1:
        await asyncio.Event().wait()
    return attempt


@orchestration
async def call_hanging() -> int:
    return await hang_at_first()


@orchestration
async def wait_for_signal() -> int:
    return await go_on.receive()


DEFINITIONS: list[Defined] = [hang_at_first, call_hanging, wait_for_signal]


async def replay(setup: Setup) -> list[Measured]:
    """Build a long history, close the engine, open another one and let the instance go on."""
    length = setup.size(5_000, quick=200)
    definitions: list[Defined] = [add_one, chain_then_wait]
    async with setup.engine(definitions) as engine:
        await build(engine, "warm-up", 10)
        await build(engine, "long", length)
    async with setup.engine(definitions) as engine:
        warm_up = engine.handle("warm-up", chain_then_wait)
        await warm_up.send(go_on, 1)
        await warm_up.result()
        handle = engine.handle("long", chain_then_wait)
        with Meter(engine._core.store) as meter:
            await handle.send(go_on, 1)
            total = await handle.result()
    assert total == length + 1, "the replay went wrong"
    events = 2 * length + 2
    return [
        meter.measured(
            "a cold instance with 10,000 events goes on",
            events / meter.took_s,
            "events/s",
            units=events,
            per="event",
        ),
        Measured(row="the same, signal to result", value=meter.took_s * 1000, unit="ms"),
    ]


async def others(setup: Setup) -> list[Measured]:
    """Let small instances run one after the other, alone and beside the replay of a long one."""
    length = setup.size(20_000, quick=200)
    definitions: list[Defined] = [add_one, chain_then_wait, add_once]
    async with setup.engine(definitions) as engine:
        await build(engine, "long", length)
    async with setup.engine(definitions) as engine:
        alone: list[float] = []
        for _ in range(setup.size(300, quick=20)):
            alone.append(await took_s(engine))
        handle = engine.handle("long", chain_then_wait)
        await handle.send(go_on, 1)
        replay = asyncio.ensure_future(handle.result())
        beside: list[float] = []
        while not replay.done():
            beside.append(await took_s(engine))
    assert await replay == length + 1, "the replay went wrong"
    usual_s = sorted(alone)[len(alone) // 2]
    return [
        Measured(row="a small instance, alone, p50", value=usual_s * 1000, unit="ms"),
        Measured(
            row="a small instance beside the replay of 40,000 events, p50",
            value=sorted(beside)[len(beside) // 2] * 1000,
            unit="ms",
        ),
        Measured(row="the same, longest delay", value=(max(beside) - usual_s) * 1000, unit="ms"),
    ]


async def took_s(engine: Engine) -> float:
    """Return how long a small instance takes."""
    began_s = time.perf_counter()
    await (await engine.start(add_once)).result()
    return time.perf_counter() - began_s


async def build(engine: Engine, instance_id: str, length: int) -> None:
    """Run an instance up to the point where it waits."""
    await engine.start(instance_id, chain_then_wait, length)
    await until(lambda: is_waiting(engine, instance_id, 2 * length + 2))


async def killed(setup: Setup) -> list[Measured]:
    """Kill a worker of the same host; where a server knows its connections, one of another too."""
    found = await kill_one(setup)
    if setup.url.startswith("postgresql"):
        *_, leased, _ = await kill_one(setup, is_far=True)
        found.append(replace(leased, row=f"{leased.row}, as if on another host"))
    return found


async def kill_one(setup: Setup, *, is_far: bool = False) -> list[Measured]:
    """Let one worker take two instances, kill it, and time what another one does with them."""
    named = "far-" if is_far else ""
    options = QUICK if setup.quick else WorkerOptions()
    async with Client(setup.url, create=True) as client, victim(setup, is_far=is_far) as kill:
        await client.start(f"{named}leased", call_hanging)
        await client.start(f"{named}waiting", wait_for_signal)
        await until(lambda: has_running_job(client, f"{named}leased"))
        await until(lambda: is_waiting(client, f"{named}waiting", 2))
        async with setup.engine(DEFINITIONS, options) as engine:
            [job] = await engine._core.store.read_jobs(f"{named}leased")
            killed_s = time.time()
            kill()
            waiting = engine.handle(f"{named}waiting", wait_for_signal)
            await waiting.send(go_on, 1)
            assert await waiting.result() == 1, "the signal went astray"
            unleased_s = time.time() - killed_s
            attempts = await engine.handle(f"{named}leased", call_hanging).result()
            leased_s = time.time() - killed_s
    assert attempts == 2, "the activity was not tried again"
    lease_left_s = job.visible_at_ms / 1000 - killed_s
    return [
        Measured(
            row="SIGKILL to the next commit, instance waiting at the dead worker",
            value=unleased_s * 1000,
            unit="ms",
        ),
        Measured(row="SIGKILL to the next commit, activity leased to it", value=leased_s, unit="s"),
        Measured(row="what was left of the lease, not waited for", value=lease_left_s, unit="s"),
    ]


@asynccontextmanager
async def victim(setup: Setup, *, is_far: bool) -> AsyncIterator[Callable[[], None]]:
    """Run a worker in another process, and return what kills it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from bench.recovery import serve; serve()",
        setup.url,
        "quick" if setup.quick else "full",
        "far" if is_far else "near",
    )
    try:
        yield lambda: os.kill(process.pid, signal.SIGKILL)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def serve() -> None:
    """Be the worker that is killed."""
    _, url, size, where = sys.argv
    if where == "far":
        # As if it ran elsewhere: no other process can tell whether it lives.
        vars(serving)["own_process"] = lambda: ProcessId("", os.getpid(), 0)

    async def main() -> None:
        options = QUICK if size == "quick" else WorkerOptions()
        async with Worker(url, DEFINITIONS, options=options) as worker:
            await worker.run()

    asyncio.run(main())


async def until(holds: Callable[[], Coroutine[None, None, bool]]) -> None:
    """Wait for something that only the store can tell."""
    async with asyncio.timeout(WITHIN_S):
        while not await holds():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.02)


async def is_waiting(client: Client, instance_id: str, events: int) -> bool:
    live = await client._core.store.read_live(instance_id)
    return live is not None and live.stamp.next_seq == events + 1


async def has_running_job(client: Client, instance_id: str) -> bool:
    return any(job.worker_id for job in await client._core.store.read_jobs(instance_id))


CASES = (
    Case(name="recovery", run=replay),
    Case(name="recovery/others", run=others, most_repeats=2),
    Case(name="recovery/killed", run=killed, most_repeats=2),
)
