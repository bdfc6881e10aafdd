"""A worker as a process of its own, to be killed: python -m tests.chaos.worker_process URL.

It works until SIGTERM. With a number of starts it also starts instances itself, so that the first
turn goes with the start, and notes in the ledger what it asked for and what was acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from datetime import timedelta

from perdure import Engine, WorkerOptions
from tests.chaos.workload import DEFINITIONS, chain, ledger

LEASE = timedelta(seconds=1)

OPTIONS = WorkerOptions(
    lease_for=LEASE,
    poll_max=timedelta(milliseconds=200),
    stop_grace=timedelta(milliseconds=100),
    cancel_grace=timedelta(milliseconds=500),
    max_attempts=50,
    shadow_rate=0.2,
    collect_after=0,
)


async def work(url: str, starts: int) -> None:
    """Serve everything until SIGTERM."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with Engine(url, DEFINITIONS, options=OPTIONS) as engine:
        ledger().write("ready", str(os.getpid()))
        starting = asyncio.create_task(start_some(engine, starts))
        await told.wait()
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)


async def start_some(engine: Engine, starts: int) -> None:
    """Start instances one after another."""
    for number in range(starts):
        instance_id = f"own-{os.getpid()}-{number}"
        ledger().write("asked", instance_id)
        await engine.start(instance_id, chain, number, 2)
        ledger().write("started", instance_id)
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(process)d %(name)s %(message)s")
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))
