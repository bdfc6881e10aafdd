"""A worker as a process, to be killed: python -m tests.chaos.worker_process URL LEDGER STARTS.

It works until SIGTERM, by a clock that others may set (`wrong_clock`), and with wake-ups that are
spoilt where its environment says so (`wake_faults`). It also starts so many
instances itself, so that the first turn goes with the start, and notes in the ledger what it asked
for and what was acknowledged; also, how much of its work was refused. Where callers note what they
are told (`told`), it asks tills as well.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

from perdure import Engine, Retention, WorkerOptions
from perdure.clock import Clock
from perdure.errors import StoreUnavailableError
from tests.chaos import accounts, bank, pledges, till, wake_faults, workload
from tests.chaos.bank_client import HUSH, Customers
from tests.chaos.ledger import FileLedger, Ledger, Line, own_id
from tests.chaos.told import Telling
from tests.chaos.workload import chain
from tests.chaos.wrong_clock import own_clock

DEFINITIONS = [
    *workload.DEFINITIONS,
    *accounts.DEFINITIONS,
    *bank.DEFINITIONS,
    *till.DEFINITIONS,
    *pledges.DEFINITIONS,
]
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
    # By a clock that is years ahead everything would be too old.
    retention=Retention(ended=timedelta(days=1)),
    housekeeping_every=timedelta(seconds=1),
)


async def work(url: str, ledger: Ledger, clock: Clock, starts: int, told: Path | None) -> None:
    """Serve everything until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with await opened(url, ledger, clock) as engine:
        ledger.note("ready", "")
        tasks = [
            asyncio.create_task(start_some(engine, ledger, starts)),
            asyncio.create_task(tell_refused(engine, ledger)),
        ]
        if told is not None:
            tasks.append(
                asyncio.create_task(customers_of(engine, told).ask_tills(told.with_name(HUSH)))
            )
        await stopped.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def customers_of(engine: Engine, told: Path) -> Customers:
    """Return callers in the worker's own process."""
    name = f"w{os.getpid()}-{time.monotonic_ns()}"
    return Customers(engine, Telling(told), name, name)


async def opened(url: str, ledger: Ledger, clock: Clock) -> Engine:
    """Open an engine; where the database is down just now, as often as it takes."""
    while True:
        engine = Engine(url, DEFINITIONS, options=OPTIONS, resources=[ledger], clock=clock)
        try:
            return await engine.open()
        except StoreUnavailableError:
            await asyncio.sleep(0.25)


async def tell_refused(engine: Engine, ledger: Ledger) -> None:
    """Note what others were faster with: turns, and jobs whose lease was somebody else's by then.
    Now and then, because the process may be killed at any moment."""
    told = {"turns": 0, "jobs": 0}
    while True:
        refused = engine.telemetry.snapshot().value("perdure_commits_refused_total")
        for what, count in (("turns", int(refused)), ("jobs", engine._serving.jobs.counts.lost)):
            if count > told[what]:
                ledger.note("refused", what, count - told[what])
                told[what] = count
        await asyncio.sleep(0.2)


async def start_some(engine: Engine, ledger: Ledger, starts: int) -> None:
    """Start instances one after another."""
    for number in range(starts):
        instance_id = own_id(os.getpid(), number)
        ledger.note("asked", instance_id)
        while True:
            try:
                await engine.start(instance_id, chain, number, 2)
            except StoreUnavailableError:
                await asyncio.sleep(0.25)
            else:
                break
        ledger.note("started", instance_id)
        await asyncio.sleep(0.05)


class SeedingLedger(FileLedger):
    """Seeds `random` at every begin of an activity, as much of what people run does."""

    def append(self, line: Line) -> None:
        super().append(line)
        if line.what == "begin":
            random.seed(0)


class OneLine(logging.Formatter):
    """Writes every record on a line of its own, with its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace("\n", "\\n")


def main() -> None:
    """Work as a process."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(process)d %(name)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    url, path, starts = sys.argv[1:]
    beside = Path(path).parent / "told"
    told = beside if beside.exists() else None
    clock = own_clock(url, Path(path).parent)
    if os.environ.get(wake_faults.SWITCH):
        wake_faults.spoil(url, random.Random())
    try:
        asyncio.run(work(url, SeedingLedger(path), clock, int(starts), told))
    except Exception:
        logging.getLogger(__name__).exception("a worker ended by itself")
        sys.exit(1)


if __name__ == "__main__":
    main()
