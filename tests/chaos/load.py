"""Load on a fleet: cases are run while something happens to the workers, then all is counted, and
what the client was told is compared with what is stored."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from perdure import Client
from perdure.clock import system_clock
from perdure.store.contents import Contents, Inspectable
from perdure.store.opening import open_store
from tests.chaos.accounting import problems_in
from tests.chaos.accounts import problems_of_statement
from tests.chaos.answers import Call, Listener, answer_of, not_as_told
from tests.chaos.cases import Book, Cases
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import read_ledger
from tests.chaos.wrong_clock import wrong_times

IN_FLIGHT = 40
IDLE_WITHIN_S = 180.0

Nemesis = Callable[[Book], Awaitable[None]]
"""What happens meanwhile. It is told how far the cases are."""


async def load(
    fleet: Fleet,
    chance: random.Random,
    nemesis: Nemesis,
    *,
    at_least: int = 0,
    poison: str | None = None,
) -> Book:
    """Run cases until the nemesis is through and there were enough, then let all work end."""
    calls: list[Call] = []
    async with Client(fleet.url, create=True) as client:
        Listener(client, calls)
        cases = Cases(client, chance, poison=poison)
        happening = asyncio.ensure_future(nemesis(cases.book))
        running: set[asyncio.Task[None]] = set()
        number = 0
        while not happening.done() or number < at_least:
            while len(running) < IN_FLIGHT:
                running.add(asyncio.create_task(cases.run(number)))
                number += 1
            waited = running if happening.done() else {*running, happening}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            running = {task for task in running if not task.done()}
        await happening
        if running:
            await asyncio.wait(running)
        cases.book.problems += await until_idle(fleet, client)
        asked = {line.key for line in read_ledger(fleet.ledger) if line.what == "asked"}
        contents = await read_all(fleet)
        cases.book.problems += not_as_told(calls, contents, elsewhere=asked)
        cases.book.answers = Counter(map(answer_of, calls))
    return cases.book


async def until_idle(fleet: Fleet, client: Client) -> list[str]:
    """Wait until nothing is left to do: also what the workers started themselves has ended.

    Returns:
        What is left when it takes too long.
    """
    left: list[str] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(IDLE_WITHIN_S):
            began_s = time.monotonic()
            while left := await left_to_do(fleet, client):
                # To look is work, on the loop that may also hand on what workers say to the store.
                await asyncio.sleep(max(0.5, 3 * (time.monotonic() - began_s)))
                began_s = time.monotonic()
    return left


async def left_to_do(fleet: Fleet, client: Client) -> list[str]:
    """Return what has not ended."""
    contents = await read_all(fleet)
    started = {line.key for line in read_ledger(fleet.ledger) if line.what == "started"}
    return [
        *(f"not all started: {one}" for one in fleet.last_starts() if one not in started),
        *(f"not ended: {row}" for row in contents.live.values()),
        *(f"not there: {one}" for one in sorted(started - contents.instances.keys())),
        *(f"not handled: {one}" for one in await client.projections() if one.behind),
    ]


async def read_all(fleet: Fleet) -> Contents:
    """Return all that the store holds."""
    store = open_store(fleet.url)
    await store.open()
    try:
        assert isinstance(store, Inspectable)
        return await store.read_contents()
    finally:
        await store.close()


async def last_look(fleet: Fleet) -> list[str]:
    """Stop all workers and return everything that is wrong in the end."""
    codes = await asyncio.gather(*(fleet.stop(worker) for worker in list(fleet.workers)))
    problems = [f"a worker ended with {code}" for code in codes if code]
    store = open_store(fleet.url)
    await store.open()
    try:
        problems += await problems_in(store, read_ledger(fleet.ledger), paused=fleet.paused)
    finally:
        await store.close()
    contents = await read_all(fleet)
    problems += wrong_times(contents, fleet.began_ms, system_clock())
    # In a thread: what stands between may run on this loop.
    problems += await asyncio.to_thread(problems_of_statement, fleet.url, contents)
    return [*problems, *fleet.complaints()]
