"""A worker for tests in which processes that share schedules are killed.

Run as `python -m tests.engine.schedule_fleet URL`.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from perdure import Context, Every, Schedule, Worker, WorkerOptions, orchestration

PERIOD = timedelta(milliseconds=100)


@orchestration
async def tell(ctx: Context) -> str:
    assert ctx.slot is not None
    return ctx.slot.at.isoformat()


ticking = Schedule("ticking", Every(PERIOD), tell).with_options(overlap="allow", missed="all")


async def serve(url: str) -> None:
    """Serve until told to stop."""
    options = WorkerOptions(poll_max=timedelta(milliseconds=50))
    async with Worker(url, [tell, ticking], options=options) as worker:
        await worker.run()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
