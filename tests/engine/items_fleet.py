"""A worker for tests in which processes are killed in the midst of very many items.

Run as `python -m tests.engine.items_fleet URL LEDGER GATE`. What is done for an item is a line of
the ledger; one item waits until the gate is there.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from perdure import Page, Tally, Worker, WorkerOptions, activity, for_each, orchestration

COUNT = 300
HELD = 137
"""The item that waits; by then pages have ended, others are under way, others are not read."""


@activity
async def numbers(after: str | None) -> Page[int]:
    first = int(after or "0")
    return Page(list(range(first, first + 50)), next=str(first + 50) if first < 250 else None)


@activity
async def work_on(number: int) -> int:
    ledger, gate = (Path(path) for path in sys.argv[2:4])
    with ledger.open("a") as file:
        file.write(f"{number}\n")
    while number == HELD and not gate.exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)
    if number == 7:
        raise ValueError("not this one")
    return number


@orchestration
async def all_items() -> Tally:
    return await for_each(work_on, numbers, pages=3, page_size=20, max_failures=1)


async def serve(url: str) -> None:
    """Serve until told to stop."""
    options = WorkerOptions(shadow_rate=1, watch_calls="always", async_jobs=5)
    async with Worker(url, [numbers, work_on, all_items], options=options) as worker:
        os.write(1, b"ready\n")
        await worker.run()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
