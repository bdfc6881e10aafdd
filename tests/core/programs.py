"""Orchestrations in plain asyncio, one per thing that asyncio can do.

They are importable, so that their histories can be replayed in another process. Most of them call
`say`, which the scripts answer with the word in capitals.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

from perdure.authoring.activity import activity
from perdure.authoring.context import Context, context
from perdure.authoring.inline import inline
from perdure.authoring.orchestration import orchestration
from perdure.authoring.race import race
from perdure.authoring.signal import Signal
from perdure.errors import (
    ActivityError,
    AlreadyExistsError,
    ChildError,
    InstanceEndedError,
    InstanceFailedError,
    InstanceNotFoundError,
)


@activity
async def say(word: str) -> str:
    return word.upper()


@orchestration
async def child(word: str) -> str:
    return await say(word)


number = Signal("number", int)
other = Signal("other", int)

AnyCall = Coroutine[object, None, object]

WORDS = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l")


class CardDeclinedError(Exception):
    pass


@activity(raises=[CardDeclinedError])
async def charge(word: str) -> str:
    return word


# ------------------------------------------------------------------ awaiting


@orchestration
async def awaits() -> str:
    return await say("a") + await say("b")


async def _both(first: str, second: str) -> list[str]:
    return [await say(first), await say(second)]


async def _deep(levels: int, word: str) -> str:
    return await (say(word) if levels == 0 else _deep(levels - 1, word))


@orchestration
async def nests() -> list[str]:
    return [*await _both("a", "b"), await _deep(50, "c")]


@orchestration
async def catches() -> str:
    try:
        return await say("a")
    except ActivityError as error:
        return f"{error.type_name}: {error.message}"


@orchestration
async def catches_its_own_type() -> str:
    try:
        return await charge("a")
    except CardDeclinedError as error:
        return str(error)


@orchestration
async def does_not_catch() -> str:
    return await say("a")


# ---------------------------------------------------------- gather and tasks


@orchestration
async def gathers() -> list[str]:
    return list(await asyncio.gather(say("a"), say("b"), say("c")))


@orchestration
async def gathers_failures() -> list[str]:
    found = await asyncio.gather(say("a"), say("b"), say("c"), return_exceptions=True)
    return [type(each).__name__ if isinstance(each, Exception) else str(each) for each in found]


@orchestration
async def gathers_until_one_fails() -> list[str]:
    tasks = [asyncio.create_task(say(word)) for word in "abc"]
    try:
        await asyncio.gather(*tasks)
    except ActivityError:
        return await asyncio.gather(*tasks[1:])
    return []


@orchestration
async def gathers_gathers() -> list[str]:
    first, second = await asyncio.gather(
        asyncio.gather(say("a"), say("b")), asyncio.gather(say("c"), say("d"))
    )
    return [*first, *second]


@orchestration
async def cancels_a_gather() -> str:
    gathering = asyncio.gather(say("a"), _both("b", "c"))
    await say("d")
    gathering.cancel()
    try:
        await gathering
    except asyncio.CancelledError:
        return "cancelled"
    return "not cancelled"


@orchestration
async def makes_tasks() -> list[str]:
    first = asyncio.create_task(say("a"))
    second = asyncio.create_task(_both("b", "c"))
    return [*await second, await first]


@orchestration
async def names_tasks() -> list[str]:
    own = asyncio.current_task()
    tasks = [asyncio.create_task(say("a")), asyncio.create_task(say("b"), name="second")]
    tasks[0].set_name("first")
    await asyncio.gather(*tasks)
    third = asyncio.create_task(asyncio.sleep(0))
    assert own is not None
    return [own.get_name(), *(task.get_name() for task in tasks), third.get_name()]


@orchestration
async def iterates_over_a_set_of_tasks() -> list[str]:
    tasks = {asyncio.create_task(say(word), name=word) for word in WORDS}
    await asyncio.gather(*tasks)
    return [task.get_name() for task in tasks]


@orchestration
async def groups() -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(say(word), name=word) for word in WORDS]
    return [await task for task in tasks]


@orchestration
async def groups_with_a_failure() -> list[str]:
    try:
        async with asyncio.TaskGroup() as group:
            for word in WORDS:
                group.create_task(say(word))
    except* ActivityError as errors:
        caught = [str(error.__class__.__name__) for error in errors.exceptions]
    return caught


@orchestration
async def groups_with_two_failures() -> list[str]:
    async def fail_when_cancelled() -> None:
        try:
            await say("b")
        finally:
            raise ValueError("while cancelled")

    caught: list[str] = []
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(say("a"))
            group.create_task(fail_when_cancelled())
    except* ActivityError:
        caught.append("activity")
    except* ValueError as errors:
        caught += [str(error) for error in errors.exceptions]
    return caught


@orchestration
async def groups_in_groups() -> list[str]:
    async def inner(first: str, second: str) -> list[str]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(say(first)), group.create_task(say(second))]
        return [task.result() for task in tasks]

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(inner("a", "b")), group.create_task(inner("c", "d"))]
    return [word for task in tasks for word in task.result()]


@orchestration
async def cancels_a_task() -> list[str]:
    task = asyncio.create_task(say("a"))
    await say("b")
    task.cancel("not needed")
    try:
        await task
    except asyncio.CancelledError as error:
        return [str(error), str(task.cancelled())]
    return []


@orchestration
async def makes_and_cancels_at_once() -> str:
    task = asyncio.create_task(say("a"))
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return await say("b")


@orchestration
async def leaves_tasks_behind() -> str:
    asyncio.create_task(say("a"))  # noqa: RUF006 - left behind on purpose
    asyncio.create_task(_both("b", "c"))  # noqa: RUF006 - left behind on purpose
    return await say("d")


@orchestration
async def loses_an_exception() -> str:
    async def fail() -> NoReturn:
        raise ValueError("lost")

    task = asyncio.create_task(fail())
    result = await say("a")
    assert task.done()
    return result


# --------------------------------------------------------- waiting for several


def _names(tasks: Iterable[asyncio.Task[Any]]) -> list[str]:
    return [task.get_name() for task in tasks]


async def _wait(return_when: str) -> list[list[str]]:
    tasks = [asyncio.create_task(say(word), name=word) for word in WORDS]
    done, pending = await asyncio.wait(tasks, return_when=return_when)
    for task in pending:
        task.cancel()
    return [_names(done), _names(pending)]


@orchestration
async def waits_for_all() -> list[list[str]]:
    return await _wait(asyncio.ALL_COMPLETED)


@orchestration
async def waits_for_the_first() -> list[list[str]]:
    return await _wait(asyncio.FIRST_COMPLETED)


@orchestration
async def waits_for_an_exception() -> list[list[str]]:
    return await _wait(asyncio.FIRST_EXCEPTION)


@orchestration
async def waits_with_a_timeout() -> list[list[str]]:
    tasks = [asyncio.create_task(say(word), name=word) for word in "abc"]
    done, pending = await asyncio.wait(tasks, timeout=60)
    return [_names(done), _names(pending)]


@orchestration
async def waits_for_gathers() -> list[str]:
    """Gathers are not made by the loop; they must have an order in the sets all the same."""
    everything = [asyncio.gather(say(word), asyncio.sleep(0, word)) for word in WORDS]
    done, _ = await asyncio.wait(everything)
    return [gathered.result()[1] for gathered in done]


@orchestration
async def takes_calls_as_they_complete() -> list[str]:
    return [await each for each in asyncio.as_completed([say(word) for word in WORDS])]


@orchestration
async def takes_tasks_as_they_complete() -> list[str]:
    tasks = [asyncio.create_task(say(word)) for word in WORDS]
    return [await each for each in asyncio.as_completed(tasks)]


@orchestration
async def takes_as_completed_with_a_timeout() -> list[str]:
    taken = []
    try:
        for each in asyncio.as_completed([say("a"), say("b")], timeout=60):
            taken.append(await each)
    except TimeoutError:
        taken.append("late")
    return taken


# ---------------------------------------------------------------------- time


@orchestration
async def sleeps() -> list[float]:
    begun = context().now()
    loop_begun = asyncio.get_running_loop().time()
    await asyncio.sleep(1.5)
    await context().sleep_until(begun + timedelta(seconds=10))
    await context().sleep_until(begun)
    await asyncio.sleep(0)
    await asyncio.sleep(-1)
    return [
        (context().now() - begun).total_seconds(),
        asyncio.get_running_loop().time() - loop_begun,
    ]


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
async def times_out_at() -> str:
    try:
        async with asyncio.timeout_at(asyncio.get_running_loop().time() + 60):
            return await say("a")
    except TimeoutError:
        return await say("late")


@orchestration
async def reschedules_a_timeout() -> str:
    try:
        async with asyncio.timeout(None) as scope:
            await say("a")
            scope.reschedule(asyncio.get_running_loop().time() + 5)
            await say("b")
    except TimeoutError:
        return f"late {scope.expired()}"
    return "in time"


@orchestration
async def times_out_in_a_timeout() -> list[str]:
    seen = []
    try:
        async with asyncio.timeout(10):
            try:
                async with asyncio.timeout(5):
                    await say("a")
            except TimeoutError:
                seen.append("inner")
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


@orchestration
async def waits_for_a_task_no_longer() -> str:
    task = asyncio.create_task(_both("a", "b"))
    try:
        await asyncio.wait_for(asyncio.shield(task), 60)
    except TimeoutError:
        return "".join(await task)
    return "in time"


@orchestration
async def does_not_wait_at_all() -> str:
    try:
        return await asyncio.wait_for(say("a"), 0)
    except TimeoutError:
        return await say("b")


@orchestration
async def calls_later() -> list[str]:
    loop = asyncio.get_running_loop()
    called: list[str] = []
    done = loop.create_future()
    loop.call_later(2, called.append, "second")
    loop.call_later(1, called.append, "first")
    loop.call_at(loop.time() + 3, done.set_result, None)
    never = loop.call_later(1, called.append, "never")
    await asyncio.sleep(0.5)
    never.cancel()
    await done
    return called


# -------------------------------------------------------- shield, locks, queues


@orchestration
async def shields() -> list[str]:
    inner = asyncio.create_task(say("a"))
    outer = asyncio.create_task(_wait_shielded(inner))
    await say("b")
    outer.cancel()
    return [await outer, await inner]


async def _wait_shielded(inner: Awaitable[str]) -> str:
    try:
        return await asyncio.shield(inner)
    except asyncio.CancelledError:
        return "let go"


@orchestration
async def waits_for_an_event() -> list[str]:
    event, seen = asyncio.Event(), []

    async def wait(name: str) -> None:
        await event.wait()
        seen.append(name)

    async with asyncio.TaskGroup() as group:
        for name in "xyz":
            group.create_task(wait(name))
        await say("a")
        event.set()
    return seen


@orchestration
async def takes_turns_with_a_lock() -> list[str]:
    lock, seen = asyncio.Lock(), []

    async def work(word: str) -> None:
        async with lock:
            seen.append(f"{word} in")
            await say(word)
            seen.append(f"{word} out")

    await asyncio.gather(work("a"), work("b"), work("c"))
    return seen


@orchestration
async def limits_with_a_semaphore() -> int:
    semaphore, now, most = asyncio.Semaphore(3), 0, 0

    async def work(word: str) -> None:
        nonlocal now, most
        async with semaphore:
            now += 1
            most = max(most, now)
            await say(word)
            now -= 1

    await asyncio.gather(*(work(word) for word in WORDS))
    return most


@orchestration
async def waits_for_a_condition() -> list[str]:
    condition = asyncio.Condition()
    seen: list[str] = []

    async def wait(name: str) -> None:
        async with condition:
            await condition.wait_for(lambda: len(seen) > 0)
            seen.append(name)

    tasks = [asyncio.create_task(wait(name)) for name in "xyz"]
    await say("a")
    async with condition:
        seen.append("first")
        condition.notify_all()
    await asyncio.gather(*tasks)
    return seen


@orchestration
async def meets_at_a_barrier() -> list[int]:
    barrier = asyncio.Barrier(3)

    async def meet(word: str) -> int:
        await say(word)
        return await barrier.wait()

    return sorted(await asyncio.gather(meet("a"), meet("b"), meet("c")))


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


# --------------------------------------------- generators, managers, variables


async def _said(*words: str) -> AsyncGenerator[str, None]:
    try:
        for word in words:
            yield await say(word)
    finally:
        await say("end")


@orchestration
async def reads_a_generator() -> list[str]:
    return [word async for word in _said("a", "b")]


@orchestration
async def leaves_a_generator() -> list[str]:
    """What the generator does in its finally block is done at once, by a task of its own."""
    async for word in _said("a", "b"):
        seen = [word]
        break
    return [*seen, await say("c")]


@orchestration
async def closes_a_generator() -> list[str]:
    async with contextlib.aclosing(_said("a", "b")) as words:
        async for word in words:
            return [word]
    return []


@orchestration
async def leaves_a_generator_by_an_error() -> str:
    try:
        async for _ in _said("a", "b"):
            raise ValueError("left")
    except ValueError as error:
        return f"{error} {await say('c')}"
    return ""


@orchestration
async def feeds_a_generator() -> list[str]:
    async def echo() -> AsyncGenerator[str, str]:
        heard = "a"
        while True:
            heard = yield await say(heard)

    words = echo()
    return [await anext(words), await words.asend("b"), await words.asend("c")]


class _Manager:
    async def __aenter__(self) -> str:
        return await say("enter")

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        await say("exit")
        return isinstance(error, ValueError)


@contextlib.asynccontextmanager
async def _managed(word: str) -> AsyncGenerator[str, None]:
    taken = await say(word)
    try:
        yield taken
    finally:
        await say(f"no {word}")


@orchestration
async def manages() -> list[str]:
    async with _Manager() as entered, _managed("a") as a:
        seen = [entered, a]
        raise ValueError("swallowed by the outer one")
    return seen


@orchestration
async def stacks() -> list[str]:
    async with contextlib.AsyncExitStack() as stack:
        seen = [await stack.enter_async_context(_managed(word)) for word in "abc"]
        stack.push_async_callback(say, "last")
    return seen


_variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@orchestration
async def sets_variables() -> list[str]:
    seen = [_variable.get()]

    async def change(word: str) -> str:
        _variable.set(word)
        await say(word)
        return _variable.get()

    _variable.set("root")
    seen += await asyncio.gather(change("a"), change("b"))
    seen.append(_variable.get())
    seen.append(await change("c"))
    seen.append(_variable.get())
    own = contextvars.copy_context()
    seen.append(await asyncio.create_task(change("d"), context=own))
    return [*seen, _variable.get(), own[_variable]]


# ----------------------------------------------------------------- callbacks


@orchestration
async def calls_back() -> list[str]:
    called: list[str] = []
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(say("a"))
    for name in ("first", "second"):
        task.add_done_callback(lambda _, name=name: called.append(name))  # type: ignore[misc]
    task.remove_done_callback(print)
    loop.call_soon(called.append, "soon")
    await task
    await asyncio.sleep(0)
    return called


@orchestration
async def starts_calls_in_callbacks() -> list[str]:
    later: list[asyncio.Task[str]] = []
    task = asyncio.create_task(say("a"))
    task.add_done_callback(lambda _: later.append(asyncio.create_task(say("b"))))
    await task
    await asyncio.sleep(0)
    return [await task for task in later]


@orchestration
async def fails_in_a_callback() -> str:
    def fail() -> None:
        raise ValueError("in a callback")

    asyncio.get_running_loop().call_soon(fail)
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    return await say("a")


@orchestration
async def exits() -> str:
    await say("a")
    sys.exit(3)


@orchestration
async def exits_in_a_task() -> str:
    async def leave() -> NoReturn:
        sys.exit(3)

    try:
        await asyncio.create_task(leave())
    except SystemExit as error:
        return f"{await say('a')} {error.code}"
    return ""


@orchestration
async def interrupts() -> str:
    await say("a")
    raise KeyboardInterrupt


@orchestration
async def raises_a_group() -> None:
    raise ExceptionGroup("both", [ValueError("a"), TypeError("b")])


# --------------------------------------------------------------------- races


@orchestration
async def races() -> list[str]:
    match await race(say("a"), say("b")):
        case 0, word:
            return ["first", word]
        case 1, word:
            return ["second", word]


@orchestration
async def races_many() -> list[str]:
    index, word = await race(*(say(word) for word in WORDS))
    return [str(index), word]


@orchestration
async def races_with_a_failure() -> str:
    try:
        await race(say("a"), say("b"))
    except ActivityError:
        return "failed"
    return "not failed"


@orchestration
async def races_in_a_race() -> list[object]:
    outer, inner = await race(race(say("a"), say("b")), race(say("c"), say("d")))
    return [outer, *inner]


@orchestration
async def races_with_clean_up() -> list[str]:
    seen: list[str] = []

    async def clean_up() -> str:
        try:
            return await say("a")
        finally:
            seen.append(await say("clean"))

    index, word = await race(clean_up(), say("b"))
    return [*seen, str(index), word]


@orchestration
async def races_for_kept_signals() -> list[int]:
    """Both are there: the first wins, and the other must not be used up."""
    await say("a")
    index, value = await race(number.receive(), other.receive())
    return [index, value, await other.receive()]


@orchestration
async def races_for_kept_signals_in_races() -> list[object]:
    await say("a")
    index, (_, value) = await race(
        race(number.receive(), asyncio.wait_for(say("b"), 5)),
        race(other.receive(), say("c")),
    )
    return [index, value, await other.receive()]


@orchestration
async def races_for_a_kept_signal_in_time() -> list[int]:
    await say("a")
    index, value = await race(asyncio.wait_for(number.receive(), 60), other.receive())
    return [index, value, await other.receive()]


@orchestration
async def races_a_signal_against_time() -> str:
    match await race(number.receive(), asyncio.sleep(60)):
        case 0, value:
            return f"got {value}"
        case 1, _:
            return f"late, then {await number.receive()}"


# ------------------------------------------------------------------- signals


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
async def receives_in_several_tasks() -> list[list[object]]:
    async def receive(name: str) -> list[object]:
        return [name, await number.receive()]

    return list(await asyncio.gather(receive("x"), receive("y"), receive("z")))


@orchestration
async def stops_receiving() -> list[int]:
    waits = [asyncio.create_task(number.receive()) for _ in range(3)]
    await say("a")
    waits[0].cancel()
    return [await waits[1], await waits[2]]


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


# ------------------------------------------------------------ children, inline


@orchestration
async def has_children() -> list[str]:
    return [await child("a"), *await asyncio.gather(child("b"), child("c"))]


@orchestration
async def has_a_failing_child() -> str:
    try:
        return await child.with_options(instance_id="kid")("a")
    except ChildError as error:
        return f"{error.instance_id} {error.status}"


@orchestration
async def gives_up_a_child() -> str:
    try:
        return await asyncio.wait_for(child("a"), 60)
    except TimeoutError:
        return "gave up"


def _shout(word: str) -> str:
    return word + "!"


@orchestration
async def runs_inline() -> list[str]:
    try:
        return [await inline(_shout, "a"), await inline(lambda: "x", name="x", returns=str)]
    except ActivityError as error:
        return [error.message]


# ---------------------------------------------------------------- cancellation


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
async def is_cancelled_in_a_timeout() -> str:
    try:
        async with asyncio.timeout(60):
            try:
                await say("a")
            finally:
                await say("undo")
    except TimeoutError:
        return "late"
    return ""


@orchestration
async def uncancels() -> str:
    task = asyncio.current_task()
    assert task is not None
    try:
        await say("a")
    except asyncio.CancelledError:
        left = task.uncancel()
    async with asyncio.timeout(60):
        return f"{left} {await say('b')}"


@orchestration
async def shields_from_a_cancel() -> str:
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
async def cancels_itself() -> None:
    task = asyncio.create_task(say("a"))
    task.cancel()
    await task


# -------------------------------------------------------------- itself, payloads


@orchestration
async def looks_at_itself(ctx: Context, word: str) -> list[object]:
    first = [ctx.now().isoformat(), str(ctx.uuid()), ctx.random.random()]
    said = await say(word)
    second = [ctx.now().isoformat(), str(ctx.uuid()), ctx.random.randint(1, 1_000_000)]
    return [*first, said, *second, ctx.instance_id, ctx.execution, ctx.name, ctx.version]


@dataclass
class Order:
    order_id: int
    lines: list[str]


@activity
async def price(order: Order, currency: str = "EUR") -> Order:
    return order


@orchestration
async def passes_values(order: Order) -> Order:
    first = await price(order)
    return await price(first, currency="USD")


# -------------------------------------------------------------- what it keeps by key


@orchestration
async def keeps_values(ctx: Context) -> list[object]:
    kv = ctx.kv
    kv.update({"b": [1, 2], "a": None, "c": {"z": 1, "y": 2}})
    kv["b"] = [*kv["b"], 3]
    said = await say("a")
    kv["d"] = said
    first = [len(kv), list(kv), kv.get("e", 0), kv.setdefault("e", 5), kv.pop("a")]
    del kv["c"]
    await say("b")
    return [*first, dict(kv), "c" in kv, kv.pop("c", "gone")]


@orchestration
async def counts_in_kv(ctx: Context, upto: int = 10) -> int:
    """Read, modify, write, over many turns: what is read must never be what a later turn wrote."""
    while ctx.kv.get("sum", 0) < upto:
        got = await number.receive()
        ctx.kv["sum"] = ctx.kv.get("sum", 0) + got
        ctx.kv[f"at {ctx.kv['sum']}"] = got
    return int(ctx.kv["sum"])


@orchestration
async def prunes(ctx: Context) -> list[list[str]]:
    ctx.kv["first"] = 1
    await asyncio.sleep(10)
    ctx.kv["second"] = 2
    ctx.kv["third"] = 3
    await asyncio.sleep(10)
    ctx.kv["first"] = 4
    middle = ctx.now() - timedelta(seconds=5)
    ctx.kv.prune(middle)
    ctx.kv.prune(middle)
    left = list(ctx.kv)
    ctx.kv.prune(ctx.now())
    ctx.kv["fourth"] = 5
    await say("a")
    ctx.kv.prune(ctx.now() + timedelta(seconds=1))
    return [left, list(ctx.kv)]


@orchestration
async def clears(ctx: Context) -> list[object]:
    ctx.kv.clear()
    ctx.kv.update(a=1, b=2)
    ctx.kv.clear()
    ctx.kv.clear()
    ctx.kv["c"] = 3
    await say("a")
    ctx.kv.clear()
    return [dict(ctx.kv), len(ctx.kv)]


@orchestration
async def keeps_values_in_tasks(ctx: Context) -> list[str]:
    async def keep(word: str) -> None:
        ctx.kv[word] = await say(word)
        ctx.kv["last"] = word

    await asyncio.gather(*(keep(word) for word in WORDS[:4]))
    return [*ctx.kv, ctx.kv["last"]]


@orchestration
async def takes_values_over(ctx: Context) -> list[object]:
    found = [dict(ctx.kv), ctx.reported]
    ctx.kv["a"] = [*ctx.kv.get("a", []), "again"]
    await say("a")
    ctx.kv.prune(ctx.now())
    return [*found, dict(ctx.kv)]


@orchestration
async def reads_values_of_others(ctx: Context) -> list[object]:
    seen: list[object] = [await ctx.read_kv("other", "n", int)]
    seen.append(await ctx.read_kv("other", "order", Order | None))
    try:
        await ctx.read_kv("nobody", "n", int)
    except InstanceNotFoundError as error:
        seen.append(str(error))
    return seen


# ------------------------------------------------------- what it says of itself


@orchestration
async def reports(ctx: Context) -> list[object]:
    seen = [ctx.reported]
    ctx.report({"done": 0})
    ctx.report({"done": 1})
    seen.append(ctx.reported)
    await say("a")
    ctx.report(Order(1, ["x"]))
    await say("b")
    seen.append(ctx.reported)
    ctx.report(None)
    return [*seen, ctx.reported]


# ------------------------------------------------------------ changes of the code


@orchestration
async def is_patched(ctx: Context) -> list[str]:
    said = []
    for word in "ab":
        said.append(await say(f"new {word}" if ctx.patched("greeting") else f"old {word}"))
    if ctx.patched("farewell"):
        said.append(await say("bye"))
    return said


# ------------------------------------------------------------- detached, and refs


@orchestration
async def starts_detached(ctx: Context) -> list[str]:
    given = await ctx.start("ship-1", child, "a")
    made = await ctx.start(child, "b")
    return [given.instance_id, made.instance_id.partition("/")[0], await say("c")]


@orchestration
async def starts_many_detached(ctx: Context) -> list[str]:
    refs = await asyncio.gather(*(ctx.start(f"ship-{word}", child, word) for word in "abc"))
    return [ref.instance_id for ref in refs]


@orchestration
async def starts_what_is_taken(ctx: Context) -> str:
    try:
        await ctx.start("ship-1", child, "a")
    except AlreadyExistsError as error:
        return f"{error} {await say('b')}"
    return "started"


@orchestration
async def gives_up_a_detached_start(ctx: Context) -> str:
    try:
        async with asyncio.timeout(5):
            await ctx.start("ship-1", child, "a")
    except TimeoutError:
        return await say("late")
    return await say("started")


@orchestration
async def starts_detached_and_ends(ctx: Context) -> str:
    task = asyncio.create_task(ctx.start("ship-1", child, "a"))
    await asyncio.sleep(0)
    return "ended" if not task.done() else "answered"


@orchestration
async def asks_others(ctx: Context) -> list[object]:
    ref = ctx.ref("other", child)
    seen: list[object] = []
    await ref.send(number, 5)
    asks: list[Callable[[], AnyCall]] = [
        lambda: ref.cancel("enough"),
        lambda: ref.send(number, 6),
        ref.result,
        ref.result,
    ]
    for ask in asks:
        try:
            seen.append(await ask())
        except (InstanceNotFoundError, InstanceEndedError, InstanceFailedError) as error:
            seen.append(f"{type(error).__name__}: {error}")
    return [*seen, await ctx.ref("json").result()]


# --------------------------------------------------------------- continue as new


@orchestration
async def counts_down(ctx: Context, left: int = 2) -> str:
    ctx.kv["left"] = left
    ctx.report(f"{left} left")
    await say("a")
    if left:
        counts_down.continue_as_new(left - 1)
    return f"done in {ctx.execution}"


@orchestration
async def continues_at_once() -> str:
    continues_at_once.continue_as_new()


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
async def continues_in_a_group(left: int = 1) -> str:
    async with asyncio.TaskGroup() as outer, asyncio.TaskGroup() as group:
        outer.create_task(say("a"))
        group.create_task(say("b"))
        await say("c")
        if left:
            continues_in_a_group.continue_as_new(left - 1)
    return "done"


@orchestration
async def continues_while_another_fails() -> str:
    async def fails_when_cancelled() -> None:
        try:
            await say("a")
        finally:
            raise ValueError("no")

    async with asyncio.TaskGroup() as group:
        group.create_task(fails_when_cancelled())
        await say("b")
        continues_while_another_fails.continue_as_new()


@orchestration
async def changes_its_mind() -> str:
    try:
        changes_its_mind.continue_as_new()
    except BaseException:
        return await say("a")


@orchestration
async def continues_leaving_everything(ctx: Context, left: int = 1) -> list[object]:
    """Leaves an activity, a timer, three children, a wait and kept signals behind."""
    if not left:
        seen: list[object] = [await number.receive(), await other.receive()]
        return [*seen, await number.receive(), ctx.kv["a"], ctx.reported]
    ctx.kv["a"] = 1
    for close in ("cancel", "terminate", "abandon"):
        call = child.with_options(instance_id=close, on_parent_close=close)(close)
        asyncio.create_task(call)  # noqa: RUF006 - left behind on purpose
    for coroutine in (say("a"), asyncio.sleep(60), ctx.start("ship-1", child, "b")):
        asyncio.create_task(coroutine)  # noqa: RUF006 - left behind on purpose
    await say("b")
    ctx.report("half")
    asyncio.create_task(ctx.start("ship-2", child, "c"))  # noqa: RUF006 - left behind on purpose
    await asyncio.sleep(0)
    continues_leaving_everything.continue_as_new(left - 1)


@orchestration
async def continues_although_cancelled(left: int = 1) -> str:
    try:
        await say("a")
    except asyncio.CancelledError:
        continues_although_cancelled.continue_as_new(left - 1)
    return "done"


@orchestration
async def drains(total: int = 3) -> int:
    """Receives what is kept, then all that comes, and goes on with the sum."""
    await say("a")
    found = [await number.receive() for _ in range(total)]
    return sum(found)


@orchestration
async def lasts(ctx: Context, round: int = 0) -> list[str]:
    """Keeps, reports, starts, asks and continues as the numbers say, for random ones."""

    async def keep(call: AnyCall, name: str) -> None:
        try:
            ctx.kv[name] = str(await call)
        except (ActivityError, AlreadyExistsError, TimeoutError) as error:
            ctx.kv[name] = type(error).__name__
        ctx.report({"last": name, "keys": list(ctx.kv)})

    async with asyncio.TaskGroup() as group:
        group.create_task(keep(ctx.start(f"ship-{round}", child, "a"), "detached"))
        group.create_task(keep(ctx.ref("other").send(number, round), "send"))
        group.create_task(keep(say("t"), "activity"))
        group.create_task(keep(asyncio.wait_for(other.receive(), 10), "wait"))
        for _ in range(4):
            got = await number.receive()
            ctx.kv[f"got {got % 7}"] = round
            if ctx.patched(f"change {got % 2}") and got % 3 == 0:
                ctx.kv.prune(ctx.now())
            elif got % 5 == 0:
                ctx.kv.clear()
            if got % 4 == 0 and round < 3:
                lasts.continue_as_new(round + 1)
    return list(ctx.kv)


@orchestration
async def does_everything() -> list[str]:
    """Something of everything, for random answers in random order."""
    seen: list[str] = []

    async def note(call: AnyCall, name: str) -> None:
        try:
            seen.append(f"{name} {await call}")
        except (ActivityError, ChildError, TimeoutError) as error:
            seen.append(f"{name} {type(error).__name__}")

    async def in_time() -> object:
        async with asyncio.timeout(30):
            return await race(number.receive(), say("r1"), race(other.receive(), say("r2")))

    async with asyncio.TaskGroup() as group:
        group.create_task(note(say("t1"), "activity"))
        group.create_task(note(child("t2"), "child"))
        group.create_task(note(asyncio.wait_for(number.receive(), 10), "signal"))
        group.create_task(note(in_time(), "race"))
        group.create_task(note(asyncio.sleep(20), "sleep"))
        async for word in _said("g1", "g2", "g3"):
            seen.append(word)
            if len(seen) > 3:
                break
        async with _managed("m"):
            done, pending = await asyncio.wait(
                [asyncio.create_task(say(word), name=word) for word in "wxyz"],
                return_when=asyncio.FIRST_COMPLETED,
            )
            seen += _names(done) + sorted(_names(pending))
            for task in pending:
                task.cancel()
    return seen
