"""A worker as a process, to be killed: python -m tests.chaos.worker_process URL LEDGER STARTS.

It works until SIGTERM. It also starts so many instances itself, so that the first turn goes with
the start, and notes in the ledger what it asked for and what was acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from datetime import timedelta

from perdure import Engine, WorkerOptions
from tests.chaos.ledger import FileLedger, Ledger
from tests.chaos.workload import DEFINITIONS, chain

LEASE = timedelta(seconds=1)

OPTIONS = WorkerOptions(
    lease_for=LEASE,
    session_lease=LEASE,
    poll_max=timedelta(milliseconds=200),
    stop_grace=timedelta(milliseconds=100),
    cancel_grace=timedelta(milliseconds=500),
    max_attempts=50,
    shadow_rate=0.2,
    collect_after=0,
)


async def work(url: str, ledger: Ledger, starts: int) -> None:
    """Serve everything until SIGTERM."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with Engine(url, DEFINITIONS, options=OPTIONS, resources=[ledger]) as engine:
        ledger.note("ready", "")
        starting = asyncio.create_task(start_some(engine, ledger, starts))
        await told.wait()
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)


async def start_some(engine: Engine, ledger: Ledger, starts: int) -> None:
    """Start instances one after another."""
    for number in range(starts):
        instance_id = f"own-{os.getpid()}-{number}"
        ledger.note("asked", instance_id)
        await engine.start(instance_id, chain, number, 2)
        ledger.note("started", instance_id)
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(process)d %(name)s %(message)s")
    url, path, starts = sys.argv[1:]
    asyncio.run(work(url, FileLedger(path), int(starts)))
