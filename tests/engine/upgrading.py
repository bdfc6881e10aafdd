"""A store with instances in every state, as an earlier commit leaves it behind, and their code.

Run as a program it fills a store and is killed. `tests/golden/stores/first.db` was made by it with
the code of the last commit that had one migration: only what that code knew is used here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta
from typing import Any

from perdure import (
    Context,
    Engine,
    Retry,
    Signal,
    WorkerOptions,
    activity,
    orchestration,
)
from perdure.model.instances import Status
from perdure.model.turns import Hold
from tests.engine.accounts import Account, Deposit
from tests.engine.stage import until

go = Signal("go", str)
HANG = asyncio.Event()
IS_FILLING = {"now": False}


@activity
async def hang(word: str) -> str:
    if IS_FILLING["now"]:
        HANG.set()
        await asyncio.Event().wait()
    return word.upper()


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(0)))
async def fragile() -> str:
    if IS_FILLING["now"]:
        raise OSError("disk on fire")
    return "mended"


@activity
async def say(word: str) -> str:
    return word


@orchestration
async def waits(ctx: Context) -> str:
    ctx.kv["kept"] = "value"
    ctx.report({"at": 1})
    return f"{await go.receive()} {ctx.kv['kept']} {ctx.uuid()}"


@orchestration
async def sleeps() -> str:
    await asyncio.sleep(2)
    return "awake"


@orchestration
async def works() -> str:
    return await hang("word")


@orchestration
async def parent() -> str:
    return await waits.with_options(instance_id="up-child")()


@orchestration
async def continues(rounds: int) -> str:
    if rounds:
        await say("round")
        continues.continue_as_new(rounds - 1)
    return await go.receive()


@orchestration
async def returns() -> str:
    return "done"


@orchestration
async def fails() -> str:
    try:
        return await fragile()
    except Exception as error:
        raise ValueError("too bad") from error


async def _drifted() -> str:
    return f"{await say('new')} {await go.receive()}"


async def _drifts() -> str:
    return f"{await hang('other')} {await go.receive()}"


drifts = orchestration(name="drifts")(_drifted)
"""As the store's own code was: what blocked instances need."""
drifts_changed = orchestration(name="drifts")(_drifts)


CODE: list[Any] = [
    *(waits, sleeps, works, parent, continues, returns, fails, drifts, Account),
    *(hang, fragile, say),
]


async def is_at(engine: Engine, instance_id: str, text: str) -> None:
    async def look() -> bool:
        return text in await engine.handle(instance_id).explain()

    await until(look)


async def has(engine: Engine, instance_id: str, status: Status) -> None:
    async def look() -> bool:
        return (await engine.handle(instance_id).info()).status is status

    await until(look)


async def fill(url: str) -> None:
    """Leave one of each behind."""
    IS_FILLING["now"] = True
    options = WorkerOptions(lease_for=timedelta(seconds=2))
    async with Engine(url, CODE, options=options) as engine:
        for name in ("up-waits", "up-cancelled", "up-terminated", "up-parked"):
            await engine.start(name, waits)
            await is_at(engine, name, "signal 'go'")
        await engine.start("up-drifts", drifts)
        await is_at(engine, "up-drifts", "signal 'go'")
        await engine.start("up-parent", parent)
        await is_at(engine, "up-child", "signal 'go'")
        await engine.start("up-continued", continues, 2)
        await is_at(engine, "up-continued", "signal 'go'")
        await (await engine.start("up-completed", returns)).result()
        await engine.start("up-failed", fails)
        await has(engine, "up-failed", Status.FAILED)
        await engine.handle("up-cancelled").cancel("enough")
        await has(engine, "up-cancelled", Status.CANCELLED)
        await engine.handle("up-terminated").terminate("stop")
        await engine.execute(Account, Deposit("ada", 5), input_id="d-1")
        await engine.handle("up-unborn").send(go, "early")
        await engine.start("up-delayed", returns.with_options(delay=timedelta(seconds=3)))
    changed = [one for one in CODE if one is not drifts]
    async with Engine(url, [*changed, drifts_changed], options=options) as engine:
        await engine.handle("up-drifts").send(go, "on")
        await has(engine, "up-drifts", Status.BLOCKED)
        store = engine._core.store
        live = await store.read_live("up-parked")
        assert live is not None
        await store.hold([Hold("up-parked", live.stamp, 0, Status.PARKED, "*", "by hand")])
        await engine.start("up-sleeps", sleeps)
        await engine.start("up-works", works)
        await HANG.wait()
        await engine.send(Account, Deposit("ada", 7))
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(fill(sys.argv[1]))
