"""The scenario whose every crash point is tried: a bit of everything, and no real waiting.

Time is the test's clock, so activities take none and timers may be long.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from perdure import (
    Activity,
    Orchestration,
    Promise,
    Retry,
    Signal,
    Stream,
    activity,
    activity_context,
    context,
    for_each,
    inline,
    orchestration,
)
from perdure.authoring.registry import Defined
from perdure.errors import (
    ActivityError,
    AlreadyExistsError,
    ChildError,
    InstanceCancelledError,
    PromiseRejectedError,
)
from tests.chaos.ledger import noted
from tests.chaos.workload import Done

RETRY = Retry(max_attempts=3, first_delay=timedelta(seconds=1), jitter=0)
DEADLINE = timedelta(seconds=4)

note = Signal("note", str)
told = Stream("told", int)
never = Signal("never", str)
reply = Promise("reply", str)


@dataclass
class Hung:
    """Runs of `hanging` in one process: they go on until they are told to stop, or to end."""

    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)


@activity
async def step(n: int) -> Done:
    with noted() as attempt:
        await asyncio.sleep(0)
        return Done(n + 1, attempt)


@activity
def threaded(n: int) -> Done:
    with noted() as attempt:
        return Done(n + 1, attempt)


@activity(retry=RETRY)
async def flaky(n: int) -> Done:
    with noted() as attempt:
        if attempt < 2:
            raise RuntimeError("not yet")
        return Done(n + 1, attempt)


@activity(retry=RETRY)
async def broken(n: int) -> Done:
    with noted():
        raise RuntimeError("never")


@activity
async def hanging(n: int) -> Done:
    with noted() as attempt:
        task = asyncio.current_task()
        assert task is not None
        hung = activity_context().resource(Hung)
        hung.tasks.add(task)
        await hung.may_end.wait()
        hung.tasks.discard(task)
        return Done(n + 1, attempt)


@orchestration
async def work(n: int) -> list[int]:
    """Call activities: one, two at once, one inline."""

    async def add(n: int) -> Done:
        with noted() as attempt:
            return Done(n + 1, attempt)

    async with asyncio.timeout(3600):
        first = await step(n)
    both = await asyncio.gather(step(first.value), threaded(first.value))
    last = await inline(add, both[0].value)
    return [first.value, *(each.value for each in both), last.value]


@orchestration
async def failing(n: int) -> int:
    """Fail after some work."""
    done = await step(n)
    raise ValueError(f"no {done.value}")


@orchestration
async def parent(n: int) -> list[str]:
    """Sleep, then wait for a child that returns and one that fails."""
    await asyncio.sleep(5)
    good, bad = await asyncio.gather(work(n), failing(n), return_exceptions=True)
    assert isinstance(bad, ChildError)
    return [str(good), bad.message]


@orchestration
async def listen(count: int) -> list[str]:
    """Receive signals."""
    heard = [await note.receive() for _ in range(count)]
    done = await step(len(heard))
    return [*heard, str(done.value)]


@orchestration
async def trying(n: int) -> list[str]:
    """Call what needs retries, what never succeeds, and what never ends."""
    done = await flaky(n)
    said = [str(done.value)]
    for call in (broken(n), hanging.with_options(deadline=DEADLINE)(n)):
        try:
            await call
        except ActivityError as error:
            said.append(f"{error.attempts} x {error.type_name}")
    return said


@orchestration
async def told_to_add(n: int) -> list[int]:
    """Wait for a signal, then run code of its own, then wait for another one."""

    async def add(n: int) -> Done:
        with noted() as attempt:
            return Done(n + 1, attempt)

    await note.receive()
    done = await inline(add, n)
    await note.receive()
    return [done.value]


@orchestration
async def long(n: int) -> list[int]:
    """Wait for something that takes long, and meanwhile for a signal."""
    call = asyncio.create_task(hanging(n))
    await note.receive()
    last = await step(n)
    return [(await call).value, last.value]


@orchestration
async def hasty(n: int) -> int:
    """Call something and end without waiting for it."""
    call = asyncio.create_task(threaded(n))
    await asyncio.sleep(0)
    assert not call.done()
    return n


@orchestration
async def waiting() -> str:
    """Wait for what never comes."""
    return await never.receive()


@orchestration
async def guarded(n: int) -> int:
    """Wait for what never comes, also in a child and an activity; clean up when cancelled."""
    try:
        await asyncio.gather(never.receive(), waiting(), hanging(n))
    finally:
        await step(n)
    return n


@orchestration
async def again(left: int, heard: list[str]) -> list[str]:
    """Hear a signal and continue as new, with a call, a timer, a child and a start under way."""
    ctx = context()
    ctx.kv["runs"] = ctx.kv.get("runs", 0) + 1
    calls: list[Any] = [hanging(left), asyncio.sleep(3600), waiting()]
    under_way = [asyncio.ensure_future(call) for call in calls]
    heard = [*heard, await note.receive()]
    done = await step(left)
    ctx.report({"left": left})
    if left:
        under_way.append(asyncio.ensure_future(ctx.start(f"apart-{left}", hasty, left)))
        await asyncio.sleep(0)
        again.continue_as_new(left - 1, heard)
    return [*heard, str(ctx.kv["runs"]), str(done.value)]


@activity(retry=RETRY)
async def hopeless() -> None:
    """Not in the ledger: after a dead job was put back its attempts are counted anew."""
    raise RuntimeError("never")


@orchestration
async def kept(n: int) -> str:
    """Keep a value, and wait for a signal."""
    context().kv["n"] = n
    return await note.receive()


@orchestration
async def reaching(n: int) -> list[str]:
    """Start others apart, and send to them, wait for them, stop them, read what they keep."""
    ctx = context()
    other = await ctx.start(f"kept-{n}", kept.with_options(delay=timedelta(seconds=3)), n)
    await other.send(note, "hello")
    said = [await other.result(), str(await ctx.read_kv(other.instance_id, "n", int))]
    stopped = await ctx.start(f"stopped-{n}", Orchestration.named("waiting", str))
    await stopped.cancel("enough")
    try:
        await stopped.result()
    except InstanceCancelledError as error:
        said.append(error.reason)
    try:
        await ctx.start(f"kept-{n}", kept, n)
    except AlreadyExistsError:
        said.append("taken")
    ctx.report(said)
    return said


@orchestration
async def bound(n: int) -> list[str]:
    """Call activities that must all run on one worker, one that nobody starts, a hopeless one."""
    here = step.with_options(session="s")
    both = await asyncio.gather(here(n), here(n + 1))
    last = await here.with_options(session="t", start_within=timedelta(hours=9))(n + 2)
    said = [str(done.value) for done in (*both, last)]
    try:
        await Activity.named("nobody", str).with_options(start_within=timedelta(seconds=2))()
    except ActivityError as error:
        said.append(error.type_name)
    try:
        await hopeless()
    except ActivityError as error:
        said.append(error.type_name)
    return said


@activity(retry=RETRY)
async def say(n: int) -> Done:
    with noted() as attempt:
        told.send(n)
        told.send(n + 1)
        await told.flush()
        told.send(n + 2)
        if attempt < 2:
            raise RuntimeError("not yet")
        return Done(n + 1, attempt)


@orchestration
async def telling(n: int, left: int) -> int:
    """Send to a stream, and let activities send: one that is retried, one that is cancelled."""
    told.send(n)
    await say(n + 10)
    told.send(n + 1)
    given_up = asyncio.ensure_future(say(n + 30))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    if left:
        telling.continue_as_new(n + 100, left - 1)
    told.send(n + 2)
    return n


@orchestration
async def items(n: int) -> list[int]:
    """Do something for each of some items, in pages; of which one item fails."""
    tally = await for_each(step, [n, n + 1, n + 2], page_size=2, pages=1)
    failed = await for_each(broken, [n], max_failures=None)
    return [tally.done, tally.failed, failed.done, failed.failed]


@orchestration
async def back(n: int) -> list[str]:
    """Draw an id, call something, hear a signal, call a child. It goes back when it has ended."""
    ctx = context()
    drawn = ctx.uuid()
    first = await step(n)
    ctx.kv["first"] = first.value
    heard = await note.receive()
    below = await work(n)
    ctx.report(heard)
    return [str(drawn != ctx.uuid()), str(first.value), heard, str(below)]


@orchestration
async def stuck(n: int) -> int:
    """Wait for all there is to wait for. It goes back meanwhile."""
    await asyncio.gather(never.receive(), waiting(), hanging(n), asyncio.sleep(3600))
    return n


@orchestration
async def promised(n: int) -> list[str]:
    """Make promises, of which one is kept, one is rejected, before it is waited for, and one is
    kept by several at once."""
    made = [reply.make(), reply.make(), reply.make()]
    context().kv["tokens"] = [due.token for due in made]
    heard = [await made[0].receive()]
    await step(n)
    try:
        heard.append(await made[1].receive())
    except PromiseRejectedError as error:
        heard.append(error.reason)
    # Which of them was first is no matter.
    heard.append((await made[2].receive())[:6])
    return heard


@orchestration
async def undoing(n: int, waits: bool) -> list[int]:
    """Do three things, fail or wait for what never comes, and undo them, the last one first."""
    undone: list[int] = []

    async def undo_one(part: int) -> None:
        undone.append((await step(part)).value)

    try:
        async with AsyncExitStack() as undo:
            for part in range(n, n + 3):
                undo.push_async_callback(undo_one, part + 100)
                await step(part)
            await (never.receive() if waits else broken(n))
    except ActivityError:
        return undone
    finally:
        context().report(undone)
    raise AssertionError("it came through")


DEFINITIONS: list[Defined] = [
    *(step, threaded, flaky, broken, hanging, hopeless),
    *(work, failing, parent, listen, trying, told_to_add, long, hasty, waiting, guarded, again),
    *(kept, reaching, bound, promised, items, say, telling, back, stuck, undoing),
]
