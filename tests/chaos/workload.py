"""What the chaos tests run: small orchestrations of every kind, each with a known outcome.

Every activity notes its begin and end in the ledger and returns, beside its value, the attempt that
made it: so the history tells which attempt was recorded.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta

from perdure import Orchestration, Retry, Signal, activity, context, inline, orchestration, race
from perdure.authoring.registry import Defined
from perdure.errors import ActivityError, ChildError
from tests.chaos.forking import is_refused_in_child
from tests.chaos.ledger import noted

QUICKLY = Retry(max_attempts=3, first_delay=timedelta(milliseconds=20), jitter=0)

note = Signal("note", str)
never = Signal("never", str)


@dataclass(frozen=True, slots=True)
class Done:
    """What an activity gives back."""

    value: int
    attempt: int


# ------------------------------------------------------------------- activities


@activity
async def step(n: int) -> Done:
    """Take a moment on the loop."""
    with noted() as attempt:
        await asyncio.sleep(n % 5 * 0.01)
        return Done(n + 1, attempt)


@activity
def threaded(n: int) -> Done:
    """Take a moment in a thread."""
    with noted() as attempt:
        time.sleep(n % 5 * 0.01)
        return Done(n + 1, attempt)


@activity(retry=QUICKLY)
async def flaky(n: int) -> Done:
    """Succeed at the third attempt."""
    with noted() as attempt:
        if attempt < 3:
            raise RuntimeError("not yet")
        return Done(n + 1, attempt)


@activity(retry=QUICKLY)
def broken(n: int) -> Done:
    """Never succeed."""
    with noted():
        raise RuntimeError("never")


@activity
async def hanging(n: int) -> Done:
    """Go on until it is told to stop."""
    with noted() as attempt:
        await asyncio.sleep(60)
        return Done(n, attempt)


@activity
async def fork(n: int) -> Done:
    """Fork a child that tries to use the client."""
    with noted() as attempt:
        return Done(n + 1 if await is_refused_in_child() else 0, attempt)


# --------------------------------------------------------------- orchestrations


@orchestration
async def one(n: int) -> int:
    """Call one activity."""
    return (await step(n)).value


@orchestration
async def chain(n: int, length: int) -> int:
    """Call activities one after another, on the loop and in threads by turns."""
    for index in range(length):
        n = (await (step(n) if index % 2 else threaded(n))).value
    return n


@orchestration
async def fan(n: int, width: int) -> int:
    """Call many activities at once."""
    done = await asyncio.gather(*(step(n + index) for index in range(width)))
    return sum(each.value for each in done)


@orchestration
async def nap(n: int) -> int:
    """Sleep, work, sleep."""
    await asyncio.sleep(0.05 + n % 3 * 0.1)
    done, _ = await asyncio.gather(step(n), asyncio.sleep(0.15))
    await asyncio.sleep(0.02)
    return done.value


@orchestration
async def listen(count: int) -> list[str]:
    """Receive so many signals, and work on some of them."""
    heard = []
    for index in range(count):
        heard.append(await note.receive())
        if index % 2:
            await step(index)
    return heard


@orchestration
async def failing(n: int) -> int:
    """Fail after some work."""
    done = await step(n)
    raise ValueError(f"no {done.value}")


@orchestration
async def family(n: int) -> list[str]:
    """Wait for children that return and one that fails."""
    results = await asyncio.gather(one(n), chain(n, 2), failing(n), return_exceptions=True)
    return [
        f"{each.type_name}: {each.message}" if isinstance(each, ChildError) else str(each)
        for each in results
    ]


@orchestration
async def retried(n: int) -> list[str]:
    """Call something that needs three attempts and something that never succeeds."""
    done = await flaky(n)
    try:
        await broken(n)
    except ActivityError as error:
        return [str(done.value), f"{error.attempts} x {error.message}"]
    return []


@orchestration
async def hurried(n: int) -> list[str]:
    """Give up on calls: by a deadline, a timeout per attempt, a block, a race."""
    gone = []
    try:
        await hanging.with_options(deadline=timedelta(milliseconds=200))(n)
    except ActivityError as error:
        gone.append(error.type_name)
    twice = Retry(max_attempts=2, first_delay=timedelta(0))
    try:
        await hanging.with_options(timeout=timedelta(milliseconds=50), retry=twice)(n)
    except ActivityError as error:
        gone.append(f"{error.attempts} x {error.type_name}")
    try:
        async with asyncio.timeout(0.1):
            await hanging(n)
    except TimeoutError:
        gone.append("block")
    index, _ = await race(hanging(n), asyncio.sleep(0.05))
    return [*gone, f"race {index}"]


@orchestration
async def inlined(n: int) -> int:
    """Run code of its own, on the loop and in a thread."""

    async def add(n: int) -> Done:
        with noted() as attempt:
            await asyncio.sleep(n % 5 * 0.01)
            return Done(n + 1, attempt)

    def add_in_thread(n: int) -> Done:
        with noted() as attempt:
            return Done(n + 1, attempt)

    first = await inline(add, n)
    second = await inline(add_in_thread, first.value)
    return second.value


@orchestration
async def forking(n: int) -> int:
    """Call something that forks, and something else at the same time."""
    forked, done = await asyncio.gather(fork(n), step(n))
    return forked.value + done.value


@orchestration
async def guarded(n: int) -> int:
    """Wait for what never comes, with a child that does the same; clean up when cancelled."""
    try:
        await asyncio.gather(never.receive(), waiting())
    finally:
        await step(n)
    return n


@orchestration
async def waiting() -> str:
    """Wait for what never comes."""
    return await never.receive()


@orchestration
async def generations(n: int, left: int, heard: list[str]) -> list[str]:
    """Hear a signal in each of several executions, with a call open when it continues."""
    call = asyncio.ensure_future(hanging(n))
    heard = [*heard, await note.receive()]
    done = await step(n)
    if left:
        generations.continue_as_new(done.value, left - 1, heard)
    call.cancel()
    return [*heard, str(done.value)]


@orchestration
async def reaching(n: int) -> list[str]:
    """Start another instance apart, send to it twice, wait for its result."""
    ctx = context()
    ctx.report("begun")
    other = await ctx.start(f"{ctx.instance_id}-other", Orchestration.named("listen", list[str]), 2)
    for value in ("one", "two"):
        await other.send(note, value)
        ctx.kv["sent"] = value
    return [*await other.result(), str((await step(n)).value)]


@orchestration
async def bound(n: int) -> int:
    """Call activities that have to run on one worker, some at once."""
    here = step.with_options(session=f"s{n % 7}")
    done = await asyncio.gather(here(n), here(n))
    return (await here(done[0].value)).value


DEFINITIONS: list[Defined] = [
    *(step, threaded, flaky, broken, hanging, fork),
    *(one, chain, fan, nap, listen, failing, family, retried, hurried, inlined, guarded, waiting),
    *(generations, reaching, bound, forking),
]
