"""The order of the demo, and the worker process that is killed in the middle of it.

Every activity writes a line when it begins and one when it ends, so that the demo can count runs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from threading import Thread

from perdure import Retry, Worker, WorkerOptions, activity, orchestration

LEASE = timedelta(seconds=2)
"""Short, so that the demo does not wait long for the killed worker's lease to end."""


@activity(retry=Retry(first_delay=timedelta(milliseconds=100)))
async def reserve_stock(order: str, seconds: float, ledger: str) -> str:
    return await _work("reserve_stock", order, seconds, ledger)


@activity(retry=Retry(first_delay=timedelta(milliseconds=100)))
async def charge_card(order: str, seconds: float, ledger: str) -> str:
    return await _work("charge_card", order, seconds, ledger)


@activity(retry=Retry(first_delay=timedelta(milliseconds=100)))
async def pack_parcel(order: str, seconds: float, ledger: str) -> str:
    return await _work("pack_parcel", order, seconds, ledger)


@activity(retry=Retry(first_delay=timedelta(milliseconds=100)))
async def send_receipt(order: str, seconds: float, ledger: str) -> str:
    return await _work("send_receipt", order, seconds, ledger)


STEPS = (reserve_stock, charge_card, pack_parcel, send_receipt)


@orchestration
async def fulfil(order: str, seconds: float, ledger: str) -> list[str]:
    """Do one step after the other, with a short rest before the last."""
    done = [await step(order, seconds, ledger) for step in STEPS[:3]]
    await asyncio.sleep(seconds)
    done.append(await STEPS[3](order, seconds, ledger))
    return done


async def _work(name: str, order: str, seconds: float, ledger: str) -> str:
    _note(ledger, f"begin {name}")
    await asyncio.sleep(seconds)
    _note(ledger, f"end {name}")
    return f"{name} of {order}"


def _note(ledger: str, line: str) -> None:
    """Append a line that survives a kill of this process."""
    with Path(ledger).open("a") as file:
        file.write(f"{time.time():.3f} {os.getpid()} {line}\n")


def _end_with_parent() -> None:
    """End this process in order once the one that started it is gone, however that ended."""
    os.read(0, 1)  # A pipe whose other end only the parent has: nothing ever comes.
    os.kill(os.getpid(), signal.SIGTERM)


async def _serve(url: str) -> None:
    options = WorkerOptions(lease_for=LEASE, poll_max=timedelta(milliseconds=100))
    async with Worker(url, [fulfil, *STEPS], options=options) as worker:
        await worker.run()


if __name__ == "__main__":
    Thread(target=_end_with_parent, daemon=True).start()
    asyncio.run(_serve(sys.argv[1]))
