"""Mistakes inside orchestrations and activities: calls, clocks, values, exceptions."""

import asyncio
import random
import threading
import time
import urllib.request
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

from perdure import WorkerOptions
from perdure.errors import InstanceFailedError, InstanceHeldError, UsageError
from tests.mistakes.plain import echo
from tests.mistakes.table import OPTIONS, Ground, mistake
from tests.mistakes.untyped import activity, context, inline, orchestration

BLOCKED = "is blocked: "
QUICK_WARNINGS = WorkerOptions(
    turn_warning=0.05,
    stop_grace=OPTIONS.stop_grace,
    cancel_grace=OPTIONS.cancel_grace,
)
NOTHING: dict[str, int] = {}


@dataclass
class Order:
    number: int


@activity
async def anything(x) -> Any:  # type: ignore[no-untyped-def]  # the mistake
    return x


# ------------------------------------------------------------- a forgotten await


@mistake(
    InstanceFailedError,
    "echo(...) at calling.py:",
    "was not awaited, so there is no value yet: write `await echo(...)`",
    before="TypeError: unsupported operand type(s) for +: 'Call' and 'int'",
)
async def a_call_is_not_awaited_and_its_value_used(ground: Ground) -> None:
    @orchestration
    async def flow() -> int:
        return echo(1) + 1  # type: ignore[no-any-return]  # the mistake

    await ground.result(flow, echo)


@mistake(
    InstanceFailedError,
    "echo(...) at calling.py:",
    "was not awaited",
    before="nothing: it is always true",
)
async def a_call_is_not_awaited_and_decides_an_if(ground: Ground) -> None:
    @orchestration
    async def flow() -> str:
        return "yes" if echo(0) else "no"

    await ground.result(flow, echo)


@mistake(None, "call of 'echo' at calling.py:", "was never awaited", before="the same")
async def a_call_is_not_awaited_and_dropped(ground: Ground) -> None:
    @orchestration
    async def flow() -> int:
        echo(1)
        return 2

    await ground.result(flow, echo)


@mistake(
    InstanceFailedError,
    "got a call that was not awaited; write `await echo(...)`",
    before="got Call where int is annotated; pass int, or annotate Call",
)
async def a_call_is_not_awaited_and_returned(ground: Ground) -> None:
    @orchestration
    async def flow() -> int:
        return echo(1)  # type: ignore[no-any-return]  # the mistake

    await ground.result(flow, echo)


# ---------------------------------------------------------- what cannot be replayed


def _use(call: Any) -> Any:
    @orchestration
    async def flow() -> None:
        call()

    return flow


@mistake(
    InstanceHeldError,
    BLOCKED,
    "time.time() at calling.py:",
    "cannot be replayed: use context().now()",
    before="the same; with run() it waited for ever, and after 20 turns nothing was said",
)
async def the_clock_is_read(ground: Ground) -> None:
    await ground.result(_use(lambda: time.time()))


@mistake(
    InstanceHeldError, "datetime.now() at calling.py:", "use context().now()", before="the same"
)
async def the_date_is_read(ground: Ground) -> None:
    await ground.result(_use(lambda: datetime.now()))


@mistake(InstanceHeldError, "random.random() at calling.py:", "context().random", before="the same")
async def a_random_number_is_drawn(ground: Ground) -> None:
    await ground.result(_use(lambda: random.random()))


@mistake(InstanceHeldError, "time.sleep() at calling.py:", "asyncio.sleep", before="the same")
async def time_is_slept_away(ground: Ground) -> None:
    await ground.result(_use(lambda: time.sleep(0.001)))


@mistake(
    InstanceHeldError, "pathlib.Path.read_text() at calling.py:", "activity", before="the same"
)
async def a_file_is_opened(ground: Ground) -> None:
    (ground.folder / "prices.txt").write_text("book 10")
    await ground.result(_use((ground.folder / "prices.txt").read_text))


@mistake(InstanceHeldError, "at calling.py:", "activity", before="the same")
async def a_page_is_fetched(ground: Ground) -> None:
    await ground.result(_use(lambda: urllib.request.urlopen("http://127.0.0.1:9")))


@mistake(
    InstanceHeldError,
    "network",
    "activity",
    before="time.perf_counter() ... use context().now()",
)
async def a_page_is_fetched_with_httpx(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        async with httpx.AsyncClient() as client:
            await client.get("http://127.0.0.1:9")

    await ground.result(flow)


@mistake(
    InstanceFailedError,
    "does not work inside an orchestration: call an activity, or await inline(...)",
    before="the same",
)
async def work_is_given_to_a_thread(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        await asyncio.to_thread(sum, [1])

    await ground.result(flow)


@mistake(None, "a turn of flow computes for", "at calling.py:", before="the same")
async def a_loop_computes_for_long(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        while not ground.heard:
            pass

    engine = await ground.engine(flow, options=QUICK_WARNINGS)
    await (await engine.start(flow)).result()


@mistake(
    None,
    "activity 'sleepy' of instance 'i-1' keeps the worker's loop busy for",
    "at calling.py:",
    "await there, or make it a plain def",
    before="nothing",
)
async def an_async_activity_blocks(ground: Ground) -> None:
    @activity
    async def sleepy() -> None:
        while not ground.heard:
            time.sleep(0.01)  # noqa: ASYNC251 - the mistake

    @orchestration
    async def flow() -> None:
        await sleepy()

    engine = await ground.engine(flow, sleepy, options=QUICK_WARNINGS)
    await (await engine.start("i-1", flow)).result()


@mistake(
    UsageError,
    "flow(...) was called outside an orchestration",
    "client.start(flow, ...) or run(flow, ...)",
    before="the same",
)
def an_orchestration_is_called_like_a_function(ground: Ground) -> None:
    @orchestration
    async def flow() -> int:
        return 1

    flow()


@mistake(UsageError, "no orchestration runs here: context() works inside one", before="the same")
def the_context_is_asked_for_elsewhere(ground: Ground) -> None:
    context()


@mistake(UsageError, "inline", "only inside an orchestration")
async def an_inline_call_is_made_elsewhere(ground: Ground) -> None:
    await inline(sum, [1])


# -------------------------------------------------------------------------- values


@mistake(
    InstanceFailedError,
    "anything(x): got lock, which cannot be stored",
    before="annotate it, for example as lock",
)
async def a_lock_as_an_argument(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        await anything(threading.Lock())

    await ground.result(flow, anything)


@mistake(
    InstanceFailedError,
    "echo(x): got str where int is annotated; pass int, or annotate str",
    before="the same",
)
async def an_argument_of_a_wrong_type(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        await echo("1")

    await ground.result(flow, echo)


@mistake(
    InstanceFailedError,
    "echo(x): got Scalar where int is annotated; pass int",
    before="pass int, or annotate int64 (which cannot be stored)",
)
async def a_number_of_a_library(ground: Ground) -> None:
    class Scalar:
        """Stands for numpy.int64: it counts like a number, and is none."""

        __module__ = "builtins"
        __qualname__ = "Scalar"

        def __index__(self) -> int:
            return 1

    @orchestration
    async def flow() -> None:
        await echo(Scalar())

    await ground.result(flow, echo)


@mistake(InstanceFailedError, "got Order where", "annotate it", before="the same")
async def a_dataclass_for_a_parameter_without_annotation(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        await anything({"d": Order(1)})

    await ground.result(flow, anything)


@mistake(InstanceFailedError, "has a key of type int; annotate the dict", before="the same")
async def a_dict_with_numbers_as_keys(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        await anything({1: 2})

    await ground.result(flow, anything)


@mistake(InstanceFailedError, "the size in bytes is limited to 2,097,152", before="the same")
async def a_value_that_is_too_large(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        await anything("x" * 3_000_000)

    await ground.result(flow, anything)


@mistake(InstanceFailedError, "result of wrong: got str where int is annotated", before="the same")
async def an_activity_that_returns_another_type(ground: Ground) -> None:
    @activity
    async def wrong() -> int:
        return "1"  # type: ignore[return-value]  # the mistake

    @orchestration
    async def flow() -> None:
        await wrong()

    await ground.result(flow, wrong)


@mistake(InstanceFailedError, "result of flow: got str where int is annotated", before="the same")
async def an_orchestration_that_returns_another_type(ground: Ground) -> None:
    @orchestration
    async def flow() -> int:
        return "1"  # type: ignore[return-value]  # the mistake

    await ground.result(flow)


@mistake(
    InstanceFailedError,
    "a point in time is a datetime with a time zone, got 5",
    before="AttributeError: 'int' object has no attribute 'tzinfo'",
)
async def a_number_to_sleep_until(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        await context().sleep_until(5)

    await ground.result(flow)


@mistake(InstanceFailedError, "has no time zone; use datetime(..., tzinfo=UTC)")
async def a_time_without_a_zone_to_sleep_until(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        await context().sleep_until(datetime(2030, 1, 1))

    await ground.result(flow)


# ---------------------------------------------------------------------- exceptions


class NastyError(Exception):
    """Holds what cannot be stored."""


@activity
async def deep() -> None:
    NOTHING["a"]


@activity
async def cannot_undo() -> None:
    raise ValueError("the money is gone")


@activity(raises=[NastyError])
async def nasty() -> None:
    raise NastyError("hi", threading.Lock())


@mistake(
    InstanceFailedError,
    "instance 'i-1' failed: ActivityError: activity 'deep' failed: KeyError: 'a' (calling.py:",
    'in deep\n    NOTHING["a"]',
    before="27 lines of perdure's, and not the one that failed",
)
async def an_activity_fails(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        await deep()

    await ground.result(flow, deep)


@mistake(None, "failed at", "KeyError: 'a' (calling.py:", "in deep)", before="no line")
async def an_activity_fails_and_explain_is_asked(ground: Ground) -> str:
    @orchestration
    async def flow() -> None:
        await deep()

    handle = await ground.start(flow, deep)
    await asyncio.gather(handle.result(), return_exceptions=True)
    return await handle.explain()


@mistake(
    InstanceFailedError,
    "activity 'cannot_undo' failed: ValueError: the money is gone (calling.py:",
    "raised while handling ActivityError: activity 'deep' failed: KeyError: 'a' (calling.py:",
    before="ValueError: the money is gone, and nothing of the first failure",
)
async def an_undo_fails(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        try:
            await deep()
        except Exception:
            await cannot_undo()
            raise

    await ground.result(flow, deep, cannot_undo)


@mistake(
    InstanceFailedError,
    "ExceptionGroup: both failed (2 sub-exceptions): ",
    "KeyError: 'a' (calling.py:",
    "ValueError: the money is gone (calling.py:",
    before="both failed (2 sub-exceptions)",
)
async def several_calls_fail_together(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        results: Any = await asyncio.gather(deep(), cannot_undo(), return_exceptions=True)
        raise ExceptionGroup("both failed", results)

    await ground.result(flow, deep, cannot_undo)


@mistake(
    InstanceFailedError,
    "LookupError: no such order (calling.py:",
    "KeyError: 'o-1'",
    "The above exception was the direct cause",
)
async def an_exception_with_a_cause(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        try:
            NOTHING["o-1"]
        except KeyError as error:
            raise LookupError("no such order") from error

    await ground.result(flow)


@mistake(
    InstanceFailedError,
    "NastyError: ('hi', <unlocked",
    "it comes as an ActivityError although raises= names it",
    "cannot be stored",
    before="ActivityError, and nobody says why it is not the class that raises= names",
)
async def an_exception_that_cannot_be_stored(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        await nasty()

    await ground.result(flow, nasty)


@mistake(
    InstanceFailedError,
    "ActivityError: activity 'cannot_undo' failed: ValueError",
    "to catch it as ValueError, name that in raises=",
    before="ActivityError; no document said that it needs raises=",
)
async def catching_the_class_that_an_activity_raised(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        try:
            await cannot_undo()
        except ValueError:
            return

    await ground.result(flow, cannot_undo)


@mistake(InstanceFailedError, "RecursionError: maximum recursion depth", before="the same")
async def a_function_that_calls_itself_without_end(ground: Ground) -> None:
    def again() -> None:
        again()

    @orchestration
    async def flow() -> None:
        again()

    await ground.result(flow)
