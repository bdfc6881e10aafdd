"""A worker process with some versions of one orchestration, for the tests of mixed fleets.

Run as `python -m tests.engine.versioned_fleet URL VERSION...`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from perdure import Orchestration, Signal, Worker, WorkerOptions, context, inline, orchestration

go = Signal("go", str)


def shop(version: str) -> Orchestration[[], list[str | int]]:
    """Return a version that tells which code ran it, under which version, and in which process."""

    @orchestration(name="shop", version=version)
    async def own() -> list[str | int]:
        ctx = context()
        began = ctx.kv.read("began", str)
        if began is None:
            ctx.kv["began"] = version
        match await go.receive():
            case "continue":
                own.continue_as_new()
            case _:
                pid = await inline(os.getpid, name="pid")
                return [version, ctx.version, began or version, pid]

    return own


async def work(url: str, versions: list[str]) -> None:
    """Serve until told to stop."""
    options = WorkerOptions(shadow_rate=1, watch_calls="always")
    async with Worker(url, [shop(version) for version in versions], options=options) as worker:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await worker.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(work(sys.argv[1], sys.argv[2:]))
