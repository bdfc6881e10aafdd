"""A store in which all is open that instances ask, promise, tell, go back to and do in pages, as a
commit leaves it behind that was killed, and its code.

Run as a program it fills a store and is killed. `tests/golden/stores/everyday.db` was made by it,
with the code of the commit that added it: only what that code knew is used here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

from perdure import (
    Client,
    Engine,
    Every,
    Key,
    Promise,
    Retry,
    Schedule,
    Signal,
    Stream,
    Tally,
    Update,
    WorkerOptions,
    activity,
    context,
    for_each,
    orchestration,
)
from perdure.errors import InstanceFailedError
from perdure.repair import at_event, before
from tests.engine.stage import until

go = Signal("go", str)
add = Update("add", int, int)
paid = Promise("paid", str)
tokens = Key("tokens", list[str])
words = Stream("words", str)
results = Stream("results", int)

IS_FILLING = {"now": False}
HANGING: dict[str, asyncio.Event] = {}
HELD_ITEM = 5


async def hang(name: str) -> None:
    """While the store is filled, never go on."""
    if IS_FILLING["now"]:
        HANGING.setdefault(name, asyncio.Event()).set()
        await asyncio.Event().wait()


@activity
async def book(part: str) -> str:
    return f"booked {part}"


@activity
async def give_up(part: str) -> str:
    return f"gave up {part}"


@activity
async def speak(word: str) -> str:
    words.send(word)
    words.send(f"{word}?" if IS_FILLING["now"] else f"{word}!")
    await words.flush()
    await hang("speak")
    return word


@activity(retry=Retry(max_attempts=1))
async def charge(amount: int) -> str:
    if IS_FILLING["now"]:
        raise OSError("the bank is down")
    return f"paid {amount}"


@activity
async def double(number: int) -> int:
    if number == HELD_ITEM:
        await hang("double")
    return 2 * number


@orchestration
async def asked(waits: bool) -> list[int]:
    """Take two requests; before the first, or with it in hand, wait for a signal."""
    taken: list[int] = []
    if not waits:
        await go.receive()
    for _ in range(2):
        request = await add.receive()
        if waits and not taken:
            await go.receive()
        taken.append(request.value)
        request.answer(sum(taken))
    return taken


@orchestration
async def promised() -> list[str]:
    made = [paid.make(), paid.make()]
    tokens.set([due.token for due in made])
    await go.receive()
    return [await due.receive() for due in made]


@orchestration
async def tells() -> str:
    words.send("once")
    said = await speak("upon")
    words.send("a time")
    return said


@orchestration
async def checkout(amount: int) -> str:
    order = str(context().uuid())
    await book(order)
    context().kv["order"] = order
    return f"{await charge(amount)} for {order}"


@orchestration
async def items() -> Tally:
    return await for_each(double, list(range(10)), page_size=2, pages=2, results=results)


@orchestration
async def trip(parts: list[str]) -> list[str]:
    undone: list[str] = []

    async def undo_one(part: str) -> None:
        undone.append(await give_up(part))

    try:
        async with AsyncExitStack() as undo:
            for part in parts:
                undo.push_async_callback(undo_one, part)
                await book(part)
            await go.receive()
            raise ValueError("not worth it")
    except ValueError:
        return undone


@orchestration
async def report(place: str) -> str:
    return f"{place} {await go.receive()}"


daily = Schedule("daily", Every(timedelta(days=1)), report, "eu").with_options(overlap="queue")

CODE: list[Any] = [
    *(asked, promised, tells, checkout, items, trip, report),
    *(book, give_up, speak, charge, double),
]


async def is_at(client: Client, instance_id: str, text: str) -> None:
    async def look() -> bool:
        return text in await client.handle(instance_id).explain()

    await until(look)


async def ask_in_vain(client: Client, instance_id: str) -> asyncio.Task[int]:
    """Ask, and have the request stored."""
    asking = asyncio.create_task(client.handle(instance_id).update(add, 3, update_id="u-1"))

    async def is_there() -> bool:
        history = await client.handle(instance_id).history()
        return any(event.kind == "signal_received" for event in history)

    await until(is_there)
    return asking


async def fill(url: str) -> None:
    """Leave one of each behind."""
    IS_FILLING["now"] = True
    options = WorkerOptions(lease_for=timedelta(seconds=2))
    async with Engine(url, CODE, options=options) as engine:
        for name in ("ev-failed", "ev-back"):
            handle = await engine.start(name, checkout, 40)
            try:
                await handle.result()
            except InstanceFailedError:
                continue
    async with Client(url) as client:
        # Nobody works: what goes back waits for its first turn.
        await client.handle("ev-back").reset(before(charge), reason="the bank was down")
        await client.handle("ev-failed").fork("ev-branch", at_event(1))
    work = [one for one in CODE if one is not checkout]
    async with Engine(url, work, options=options) as engine:
        for name, waits in (("ev-asked", False), ("ev-holding", True)):
            await engine.start(name, asked, waits)
            await is_at(engine, name, "'add'" if waits else "signal 'go'")
        asking = [await ask_in_vain(engine, name) for name in ("ev-asked", "ev-holding")]
        waiting = await engine.start("ev-promised", promised)
        await is_at(engine, "ev-promised", "signal 'go'")
        [first, _] = await waiting.kv(tokens) or []
        assert await engine.resolve(paid, first, "first")
        await engine.start("ev-trip", trip, ["flight", "hotel"])
        await is_at(engine, "ev-trip", "signal 'go'")
        schedule = await engine.put_schedule(daily)
        await schedule.trigger(trigger_id="t")
        await is_at(engine, "daily@trigger#t", "signal 'go'")
        await schedule.pause("holidays")
        await engine.start("ev-tells", tells)
        await engine.start("ev-items", items)
        for name in ("speak", "double"):
            await HANGING.setdefault(name, asyncio.Event()).wait()
        assert not any(one.done() for one in asking)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(fill(sys.argv[1]))
