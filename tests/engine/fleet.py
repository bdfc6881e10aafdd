"""What several processes share in the tests of one store: definitions, a worker, a client.

Run as `python -m tests.engine.fleet worker URL` or `python -m tests.engine.fleet client URL NAME`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys

from perdure import Client, Signal, Worker, WorkerOptions, activity, inline, orchestration

confirmed = Signal("confirmed", int)

COUNT = 25


@activity
async def reserve(number: int) -> list[int]:
    return [number, os.getpid()]


@activity
def price(number: int) -> int:
    return number * 10


@orchestration
async def shipping(number: int) -> int:
    reserved, _ = await reserve(number)
    return reserved


@orchestration
async def ordering(number: int) -> int:
    costs, shipped = await asyncio.gather(price(number), shipping(number))
    await asyncio.sleep(0.001)
    extra = await inline(lambda: 1, name="extra")
    return costs + shipped + extra + await confirmed.receive()


async def work(url: str) -> None:
    """Serve until told to stop."""
    options = WorkerOptions(shadow_rate=1, watch_calls="always")
    async with Worker(url, [reserve, price, shipping, ordering], options=options) as worker:
        say("ready")
        await worker.run()
        say(worker.health.last_error)


async def order(url: str, name: str) -> None:
    """Start orders, confirm them, and print what came of them."""
    async with Client(url, create=True) as client:
        handles = [await client.start(f"{name}-{n}", ordering, n) for n in range(COUNT)]
        shared = await client.start("shared", ordering, 1000)
        await asyncio.gather(*(handle.send(confirmed, 5) for handle in handles))
        await shared.send(confirmed, 5, message_id="only once")
        results = await asyncio.gather(*(handle.result() for handle in (*handles, shared)))
        say(json.dumps(results))


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    match sys.argv[1:]:
        case ["worker", url]:
            asyncio.run(work(url))
        case ["client", url, name]:
            asyncio.run(order(url, name))
