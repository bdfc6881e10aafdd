"""The code whose histories are kept here for ever.

Nothing in this file may ever change, not even the order of two lines: somewhere an instance of the
same shape sleeps in a database, and it must wake up. New behaviour is a new program at the end of
the file, with a world of its own in `worlds.py` and a new history. A change of a program that users
would make to running code (`ctx.patched`, a new version) is a new program as well, under the name
of the old one.

Only what every supported Python does alike is used here: 3.11, 3.12 and 3.13 record the same bytes.
Texts of errors that perdure makes are not used, so that they can be improved.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import NoReturn
from uuid import UUID

from perdure.authoring.activity import activity
from perdure.authoring.builtin.builtin_orchestrations import BUILTIN_ORCHESTRATIONS
from perdure.authoring.builtin.for_each import Page, for_each
from perdure.authoring.context import Context
from perdure.authoring.inline import inline
from perdure.authoring.orchestration import Orchestration, orchestration
from perdure.authoring.promise import Promise
from perdure.authoring.race import race
from perdure.authoring.signal import Signal
from perdure.authoring.update import Update
from perdure.errors import (
    ActivityError,
    AlreadyExistsError,
    ChildError,
    InstanceCancelledError,
    InstanceEndedError,
    InstanceFailedError,
    InstanceNotFoundError,
    PromiseRejectedError,
    TooManyFailuresError,
)
from perdure.model.options import Retry


class CardDeclinedError(Exception):
    """Names itself in `raises=` below."""


@dataclass
class Line:
    article: str
    price: Decimal
    amount: int = 1


@dataclass
class Order:
    order_id: UUID
    ordered_on: date
    lines: list[Line]
    notes: dict[str, str] = field(default_factory=dict)
    paid_at: datetime | None = None


@activity
async def say(word: str) -> str:
    return word.upper()


@activity(raises=[CardDeclinedError])
async def charge(word: str) -> str:
    return word


@activity
async def price(order: Order, currency: str = "EUR") -> Order:
    return order


number = Signal("number", int)
other = Signal("other", int)
approval = Signal("approval", Order)


@orchestration
async def child(word: str) -> str:
    return await say(word)


def shout(word: str) -> str:
    return word + "!"


# ------------------------------------------------------------------ activities


@orchestration
async def does_nothing() -> None:
    return None


@orchestration
async def calls(ctx: Context) -> str:
    return await say("a") + await say("b")


@orchestration
async def catches() -> str:
    try:
        return await charge("a")
    except CardDeclinedError as declined:
        return f"declined: {declined}"
    except ActivityError as error:
        return f"{error.type_name} after {error.attempts}: {error.message}"


@orchestration
async def calls_with_options() -> str:
    gpu = say.with_options(tag="gpu", session="s-1")
    hurried = gpu.with_options(deadline=timedelta(hours=1), start_within=timedelta(minutes=1))
    try:
        return await hurried("a")
    except ActivityError as error:
        return f"{error.type_name} {await say('b')}"


@orchestration
async def passes_values(order: Order) -> Order:
    priced = await price(order)
    return await price(priced, currency="CHF")


@orchestration
async def looks_at_itself(ctx: Context) -> list[str]:
    """Sends out what must be the same at every replay: ids, random numbers, the time."""
    drawn = [ctx.uuid().hex, str(ctx.random.random()), ctx.now().isoformat()]
    await asyncio.gather(*(say(each) for each in drawn))
    again = [ctx.uuid().hex, str(ctx.random.randint(1, 10**9)), ctx.now().isoformat()]
    ctx.random.shuffle(again)
    about = [ctx.instance_id, str(ctx.execution), ctx.name, ctx.version]
    return [*drawn, *[await say(each) for each in again], *about]


# --------------------------------------------------------------------- inline


@orchestration
async def runs_inline() -> list[str]:
    try:
        return [await inline(shout, "a"), await inline(lambda: "x", name="x", returns=str)]
    except ActivityError as error:
        return [error.message]


@orchestration
async def gives_up_inline() -> str:
    try:
        async with asyncio.timeout(5):
            return await inline(shout, "a")
    except TimeoutError:
        return "late"


# --------------------------------------------------------------------- timers


@orchestration
async def sleeps(ctx: Context) -> float:
    begun = ctx.now()
    await asyncio.sleep(1.5)
    await ctx.sleep_until(begun + timedelta(seconds=10))
    await ctx.sleep_until(begun)
    await asyncio.sleep(0)
    return (ctx.now() - begun).total_seconds()


@orchestration
async def sleeps_side_by_side() -> list[float]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
        slept.append(seconds)

    await asyncio.gather(sleep(3), sleep(1), sleep(2))
    return slept


@orchestration
async def times_out() -> str:
    try:
        async with asyncio.timeout(60):
            return await say("a")
    except TimeoutError:
        return await say("late")


@orchestration
async def times_out_in_a_timeout() -> list[str]:
    seen: list[str] = []
    try:
        async with asyncio.timeout(10) as outer:
            try:
                async with asyncio.timeout(5):
                    await say("a")
            except TimeoutError:
                seen.append("inner")
            outer.reschedule(asyncio.get_running_loop().time() + 20)
            await say("b")
    except TimeoutError:
        seen.append("outer")
    return seen


@orchestration
async def waits_for_one() -> str:
    try:
        return await asyncio.wait_for(say("a"), 60)
    except TimeoutError:
        return await say("late")


# -------------------------------------------------------------------- signals


@orchestration
async def receives() -> list[int]:
    first = await number.receive()
    await say("a")
    return [first, await number.receive(), await number.receive()]


@orchestration
async def receives_in_a_loop() -> list[int]:
    seen: list[int] = []
    async for value in number:
        if value == 0:
            break
        seen.append(value)
    return seen


@orchestration
async def receives_in_tasks() -> list[list[object]]:
    async def receive(name: str) -> list[object]:
        return [name, await number.receive()]

    tasks = [asyncio.create_task(receive(name)) for name in "xyz"]
    await say("a")
    tasks[0].cancel()
    return [await tasks[1], await tasks[2]]


@orchestration
async def receives_in_time() -> list[int]:
    seen: list[int] = []
    while len(seen) < 3:
        try:
            async with asyncio.timeout(10):
                seen.append(await number.receive())
        except TimeoutError:
            seen.append(-1)
    return seen


@orchestration
async def receives_an_order() -> str:
    order = await approval.receive()
    return f"{order.lines[0].price} on {order.ordered_on}"


# ------------------------------------------------------------------- children


@orchestration
async def has_children() -> list[str]:
    late = child.with_options(delay=timedelta(minutes=5), version="2.0.0")
    return [await child("a"), *await asyncio.gather(child("b"), late("c"))]


@orchestration
async def has_a_child() -> str:
    try:
        return await child.with_options(instance_id="kid")("a")
    except ChildError as error:
        return f"{error.instance_id} {error.status}: {error.type_name} {error.message}"


@orchestration
async def gives_up_a_child() -> str:
    try:
        async with asyncio.timeout(60):
            return await child("a")
    except TimeoutError:
        return "gave up"


@orchestration
async def leaves_children() -> str:
    for close in ("cancel", "terminate", "abandon"):
        kid = child.with_options(instance_id=close, on_parent_close=close)
        asyncio.create_task(kid(close))  # noqa: RUF006 - left behind on purpose
    return await say("a")


@orchestration
async def calls_by_name() -> str:
    return await Orchestration.named("elsewhere", str)("a")


# ---------------------------------------------------------- detached, and refs


@orchestration
async def starts_detached(ctx: Context) -> list[str]:
    given = await ctx.start("ship-1", child, "a")
    late = child.with_options(delay=timedelta(hours=1), version="2.0.0")
    made = await ctx.start(late, "b")
    return [given.instance_id, made.instance_id, await say("c")]


@orchestration
async def starts_what_is_taken(ctx: Context) -> str:
    try:
        await ctx.start("ship-1", child, "a")
    except AlreadyExistsError:
        return f"taken {await say('b')}"
    return "started"


@orchestration
async def gives_up_a_detached_start(ctx: Context) -> str:
    try:
        async with asyncio.timeout(5):
            await ctx.start("ship-1", child, "a")
    except TimeoutError:
        return await say("late")
    return "started"


@orchestration
async def starts_detached_and_ends(ctx: Context) -> str:
    asyncio.create_task(ctx.start("ship-1", child, "a"))  # noqa: RUF006 - left behind on purpose
    await asyncio.sleep(0)
    return "ended"


@orchestration
async def asks_others(ctx: Context) -> list[object]:
    ref = ctx.ref("other", child)
    seen: list[object] = [await ctx.read_kv("other", "n", int)]
    await ref.send(number, 5)
    for ask in (ref.cancel("enough"), ref.send(number, 6), ref.result(), ref.result()):
        try:
            seen.append(await ask)
        except InstanceFailedError as error:
            seen.append(error.type_name)
        except (InstanceNotFoundError, InstanceEndedError, InstanceCancelledError) as error:
            seen.append(type(error).__name__)
    return [*seen, await ctx.ref("json").result()]


# ------------------------------------------------------------- kv, and reports


@orchestration
async def keeps_values(ctx: Context) -> list[object]:
    kv = ctx.kv
    kv.update({"b": [1, 2], "a": None, "c": {"z": 1, "y": 2}})
    kv["b"] = [*kv["b"], 3]
    kv["d"] = await say("a")
    first = [list(kv), kv.pop("a")]
    del kv["c"]
    await say("b")
    kv.clear()
    kv["e"] = 5
    return [*first, dict(kv)]


@orchestration
async def counts_in_kv(ctx: Context) -> int:
    while ctx.kv.get("sum", 0) < 10:
        got = await number.receive()
        ctx.kv["sum"] = ctx.kv.get("sum", 0) + got
    return int(ctx.kv["sum"])


@orchestration
async def prunes(ctx: Context) -> list[str]:
    ctx.kv["first"] = 1
    await asyncio.sleep(10)
    ctx.kv["second"] = 2
    await asyncio.sleep(10)
    ctx.kv["third"] = 3
    ctx.kv.prune(ctx.now() - timedelta(seconds=5))
    await say("a")
    return list(ctx.kv)


@orchestration
async def reports(ctx: Context) -> list[object]:
    ctx.report({"done": 0})
    ctx.report({"done": 1})
    seen = [ctx.reported]
    await say("a")
    ctx.report(Line("x", Decimal("1.50")))
    await say("b")
    seen.append(ctx.reported)
    ctx.report(None)
    return seen


# --------------------------------------------------------- changes of the code


@orchestration(name="greets")
async def greets_first() -> list[str]:
    """As it was written first."""
    return [await say("old a"), await say("old b")]


@orchestration(name="greets")
async def greets_changed(ctx: Context) -> list[str]:
    """While instances of the first writing were alive."""
    said = [await say(f"new {w}" if ctx.patched("greeting") else f"old {w}") for w in "ab"]
    if ctx.patched("farewell"):
        said.append(await say("bye"))
    return said


@orchestration(name="greets")
async def greets_retired() -> list[str]:
    """When none of the first writing was left."""
    said = [await say(f"new {w}") for w in "ab"]
    said.append(await say("bye"))
    return said


# ------------------------------------------------------------- continue as new


@orchestration
async def counts_down(ctx: Context, left: int = 2) -> str:
    ctx.kv["left"] = left
    ctx.kv[f"seen {left}"] = ctx.uuid().hex
    ctx.report(f"{left} left")
    await say("a")
    if left:
        counts_down.continue_as_new(left - 1)
    return f"done in {ctx.execution}, parent {ctx.parent.instance_id if ctx.parent else None}"


@orchestration
async def continues_leaving_everything(ctx: Context, left: int = 1) -> list[object]:
    if not left:
        seen: list[object] = [await number.receive(), await other.receive()]
        return [*seen, await number.receive(), ctx.kv["a"], ctx.reported]
    ctx.kv["a"] = 1
    for close in ("cancel", "terminate", "abandon"):
        kid = child.with_options(instance_id=close, on_parent_close=close)
        asyncio.create_task(kid(close))  # noqa: RUF006 - left behind on purpose
    for call in (say("a"), asyncio.sleep(60), ctx.start("ship-1", child, "b")):
        asyncio.create_task(call)  # noqa: RUF006 - left behind on purpose
    await say("b")
    ctx.report("half")
    asyncio.create_task(ctx.start("ship-2", child, "c"))  # noqa: RUF006 - left behind on purpose
    await asyncio.sleep(0)
    continues_leaving_everything.continue_as_new(left - 1)


@orchestration
async def continues_pinned(left: int = 1) -> str:
    if left:
        continues_pinned.with_options(version="1.5.0").continue_as_new(left - 1)
    return await say("a")


@orchestration
async def cleans_up_before_it_continues(left: int = 1) -> str:
    try:
        await say("a")
        if left:
            cleans_up_before_it_continues.continue_as_new(left - 1)
    finally:
        await say("clean")
    return "done"


@orchestration
async def continues_although_cancelled(left: int = 1) -> str:
    try:
        await say("a")
    except asyncio.CancelledError:
        continues_although_cancelled.continue_as_new(left - 1)
    return "done"


# ------------------------------------------------------- cancelled, failed, ended


@orchestration
async def compensates() -> str:
    try:
        return await say("a")
    finally:
        await say("undo")
        await asyncio.sleep(1)


@orchestration
async def swallows_a_cancel() -> str:
    try:
        return await say("a")
    except asyncio.CancelledError as error:
        return f"{error} {await say('b')}"


@orchestration
async def compensates_in_a_group() -> None:
    async def work(word: str) -> None:
        try:
            await say(word)
        finally:
            await say(f"undo {word}")

    async with asyncio.TaskGroup() as group:
        group.create_task(work("a"))
        group.create_task(work("b"))


@orchestration
async def shields() -> str:
    inner = asyncio.create_task(say("a"))
    try:
        return await asyncio.shield(inner)
    except asyncio.CancelledError:
        return await inner


@orchestration
async def fails_in_compensation() -> None:
    try:
        await say("a")
    finally:
        raise ValueError("in compensation")


@orchestration
async def waits_for_everything(ctx: Context) -> None:
    """Has one of each open."""
    async with asyncio.TaskGroup() as group:
        group.create_task(say("a"))
        group.create_task(inline(shout, "b"))
        group.create_task(asyncio.sleep(60))
        group.create_task(number.receive())
        group.create_task(child("c"))
        group.create_task(ctx.start("ship-1", child, "d"))


# ---------------------------------------------------------- races, groups, the rest


@orchestration
async def races() -> list[object]:
    index, word = await race(say("a"), say("b"), say("c"))
    return [index, word]


@orchestration
async def races_in_a_race() -> list[object]:
    outer, inner = await race(race(say("a"), child("b")), race(say("c"), number.receive()))
    return [outer, *inner]


@orchestration
async def races_with_a_failure() -> str:
    try:
        await race(say("a"), say("b"))
    except ActivityError:
        return "failed"
    return "not failed"


@orchestration
async def races_with_clean_up() -> list[object]:
    seen: list[object] = []

    async def clean_up() -> str:
        try:
            return await say("a")
        finally:
            seen.append(await say("clean"))

    return [*await race(clean_up(), say("b")), *seen]


@orchestration
async def races_for_kept_signals() -> list[int]:
    await say("a")
    index, value = await race(number.receive(), other.receive())
    return [index, value, await other.receive()]


@orchestration
async def races_a_signal_against_time() -> str:
    match await race(number.receive(), asyncio.sleep(60)):
        case 0, value:
            return f"got {value}"
        case _:
            return f"late, then {await number.receive()}"


@orchestration
async def gathers() -> list[str]:
    return list(await asyncio.gather(say("a"), say("b"), say("c")))


@orchestration
async def gathers_failures() -> list[str]:
    found = await asyncio.gather(say("a"), say("b"), say("c"), return_exceptions=True)
    return [type(each).__name__ if isinstance(each, Exception) else str(each) for each in found]


@orchestration
async def groups() -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(say(word)) for word in "abc"]
    return [task.result() for task in tasks]


@orchestration
async def groups_with_a_failure() -> list[str]:
    caught: list[str] = []
    try:
        async with asyncio.TaskGroup() as group:
            for word in "abcd":
                group.create_task(say(word))
    except* ActivityError as errors:
        caught = [error.__class__.__name__ for error in errors.exceptions]
    return [*caught, await say("e")]


@orchestration
async def fails_in_a_group() -> None:
    async def fail() -> NoReturn:
        raise ValueError("no")

    async with asyncio.TaskGroup() as group:
        group.create_task(say("a"))
        group.create_task(fail())


@orchestration
async def waits_for_the_first() -> list[list[str]]:
    tasks = [asyncio.create_task(say(word), name=word) for word in "abcdef"]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return [[task.get_name() for task in some] for some in (done, pending)]


@orchestration
async def takes_as_completed() -> list[str]:
    return [await each for each in asyncio.as_completed([say(word) for word in "abcdef"])]


@orchestration
async def limits_with_a_semaphore() -> int:
    semaphore, now, most = asyncio.Semaphore(2), 0, 0

    async def work(word: str) -> None:
        nonlocal now, most
        async with semaphore:
            now += 1
            most = max(most, now)
            await say(word)
            now -= 1

    await asyncio.gather(*(work(word) for word in "abcde"))
    return most


@orchestration
async def works_off_a_queue() -> list[str]:
    queue: asyncio.Queue[str] = asyncio.Queue(maxsize=2)
    seen: list[str] = []

    async def consume() -> None:
        while True:
            seen.append(await say(await queue.get()))
            queue.task_done()

    consumers = [asyncio.create_task(consume()) for _ in range(2)]
    for word in "abcde":
        await queue.put(word)
    await queue.join()
    for consumer in consumers:
        consumer.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)
    return seen


async def _said(*words: str) -> AsyncGenerator[str, None]:
    try:
        for word in words:
            yield await say(word)
    finally:
        await say("end")


@orchestration
async def leaves_a_generator() -> list[str]:
    async for word in _said("a", "b"):
        seen = [word]
        break
    return [*seen, await say("c")]


@orchestration
async def draws_and_waits(ctx: Context) -> list[str]:
    drawn = [str(ctx.uuid()), f"{ctx.random.random():.6f}"]
    ctx.kv["first"] = await say("a")
    count = await number.receive()
    try:
        async with asyncio.timeout(3_600):
            drawn.append(await child(ctx.instance_id))
    except TimeoutError:
        drawn.append("late")
    ctx.report(count)
    await say("pay")
    return [*drawn, str(ctx.uuid()), f"{ctx.random.random():.6f}"]


add = Update("add", Line, int)


@orchestration
async def answers() -> list[str]:
    taken: list[str] = []
    while len(taken) < 2:
        request = await add.receive()
        if request.value.amount < 0:
            request.refuse("less than nothing")
        else:
            taken.append(await say(request.value.article))
            request.answer(len(taken))
    return taken


@orchestration
async def serves() -> str:
    def count(line: Line) -> int:
        return line.amount

    async with add.served_by(count):
        await say("while it serves")
    return "closed"


@orchestration
async def leaves_unanswered() -> None:
    await add.receive()
    leaves_unanswered.continue_as_new()


# ---------------------------------------------------------------------- very many items


@dataclass
class Invoice:
    number: int
    cents: Decimal = Decimal(0)


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(seconds=3), jitter=0))
async def remind(invoice: Invoice) -> None: ...


@activity
async def unpaid(after: str | None) -> Page[Invoice]:
    return Page([], next=None)


@orchestration
async def hands_items_over() -> tuple[int, int]:
    few = [Invoice(1, Decimal("9.50")), Invoice(2)]
    tally = await for_each(remind.with_options(tag="mail"), few, page_size=1, max_failures=None)
    return tally.done, tally.failed


@orchestration
async def hands_a_source_over() -> list[str]:
    try:
        await for_each(remind, unpaid, pages=2, max_failures=1)
    except TooManyFailuresError as error:
        return [f"{error.tally.done} done", *error.tally.failures]
    except ChildError as error:
        return [error.status]
    return []


coordinates = BUILTIN_ORCHESTRATIONS["perdure.for_each", "1.0.0"]
does_a_page = BUILTIN_ORCHESTRATIONS["perdure.page", "1.0.0"]


paid = Promise("paid", int)


@orchestration
async def makes_promises() -> list[str]:
    made = [paid.make() for _ in range(3)]
    for due in made:
        await say(due.token[:6])
    seen = [str(await made[0].receive())]
    try:
        async with asyncio.timeout(60):
            seen.append(str(await made[1].receive()))
    except TimeoutError:
        seen.append("late")
    try:
        await made[2].receive()
    except PromiseRejectedError as error:
        seen.append(error.reason)
    return [*seen, str(await made[1].receive())]


@orchestration
async def knows_its_slot(ctx: Context) -> str:
    assert ctx.slot is not None
    said = await say(f"{ctx.slot.schedule} {ctx.slot.at.isoformat()}")
    if ctx.execution == 1:
        knows_its_slot.continue_as_new()
    return said


@orchestration
async def knows_its_origin(ctx: Context) -> list[str]:
    heard = []
    for step in range(4):
        origin = ctx.origin
        whose = "own" if origin is None else f"{origin.instance_id} {origin.execution}"
        heard.append(await say(f"{step} {whose}"))
    return heard
