from __future__ import annotations

import asyncio
import os
import threading
from datetime import timedelta
from typing import Any

import pytest

from perdure import (
    Activity,
    ActivityContext,
    Retry,
    activity,
    activity_context,
    inline,
    orchestration,
)
from perdure.errors import ActivityError, InstanceFailedError, PayloadError
from tests.engine.stage import PATIENCE, Gate, RunningClock, Stage, kinds, options, until
from tests.sizes import WITHIN_S

SOON = Retry(max_attempts=3, first_delay=timedelta(0), jitter=0)
INSTANT = timedelta(milliseconds=20)


def line_of(defined: Activity[..., Any]) -> int:
    """Return the first line of the body of an activity of three lines."""
    return defined.fn.__code__.co_firstlineno + 2


class CardDeclinedError(Exception):
    def __init__(self, code: int, *, retry_in: str) -> None:
        super().__init__(f"declined with {code}")
        self.code = code
        self.retry_in = retry_in


@activity
async def plain(x: int) -> int:
    return x + 1


# ------------------------------------------------------------------- retries


async def test_every_attempt_is_visible_in_the_history(stage: Stage) -> None:
    attempts: list[int] = []

    @activity(retry=SOON)
    async def flaky(ctx: ActivityContext) -> str:
        attempts.append(ctx.attempt)
        if ctx.attempt < 3:
            raise ConnectionError(f"try {ctx.attempt}")
        return "there"

    @orchestration
    async def asking() -> str:
        return await flaky()

    engine = await stage.engine([flaky, asking])
    handle = await engine.start(asking)

    assert await handle.result() == "there"
    assert attempts == [1, 2, 3]
    [done] = [e for e in await handle.history() if e.kind == "activity_completed"]
    tried = [(failure["type_name"], failure["message"]) for failure in done.data["failures"]]
    assert tried == [("ConnectionError", "try 1"), ("ConnectionError", "try 2")]
    assert all(failure["at_ms"] > 0 for failure in done.data["failures"])
    assert all("raise ConnectionError" in f["traceback_text"] for f in done.data["failures"])


async def test_an_activity_out_of_attempts_raises_with_all_that_is_known(stage: Stage) -> None:
    @activity(retry=SOON)
    async def broken() -> None:
        raise ConnectionError("no route")

    @orchestration
    async def asking() -> list[Any]:
        try:
            await broken()
        except ActivityError as error:
            return [
                error.activity,
                error.attempts,
                error.type_name,
                error.message,
                'raise ConnectionError("no route")' in error.traceback_text,
                str(error),
            ]
        return []

    engine = await stage.engine([broken, asking])
    handle = await engine.start(asking)

    assert await handle.result() == [
        "broken",
        3,
        "ConnectionError",
        "no route",
        True,
        "activity 'broken' failed after 3 attempts: ConnectionError: no route "
        f"(test_activities.py:{line_of(broken)} in broken)",
    ]
    [failed] = [e for e in await handle.history() if e.kind == "activity_failed"]
    assert len(failed.data["failures"]) == 3


async def test_a_failure_that_nobody_catches_fails_the_instance(stage: Stage) -> None:
    @activity
    async def broken() -> None:
        raise ConnectionError("no route")

    @orchestration
    async def asking() -> None:
        await broken()

    engine = await stage.engine([broken, asking])
    handle = await engine.start("a", asking)

    with pytest.raises(InstanceFailedError) as caught:
        await handle.result()

    assert str(caught.value) == (
        "instance 'a' failed: ActivityError: activity 'broken' failed: ConnectionError: no route "
        f"(test_activities.py:{line_of(broken)} in broken)"
    )
    assert "await broken()" in caught.value.traceback_text
    info = await handle.info()
    assert (info.reason or "").startswith("activity 'broken' failed: ConnectionError: no route")
    assert f"test_activities.py:{line_of(broken)} in broken" in await handle.explain()


async def test_errors_not_to_retry_fail_at_once(stage: Stage) -> None:
    runs: list[int] = []

    @activity(retry=Retry(max_attempts=9, first_delay=timedelta(0), no_retry=[LookupError]))
    async def broken() -> None:
        runs.append(1)
        raise KeyError("k")

    @orchestration
    async def asking() -> str:
        try:
            await broken()
        except ActivityError as error:
            return error.type_name
        return ""

    engine = await stage.engine([broken, asking])

    assert await (await engine.start(asking)).result() == "KeyError"
    assert len(runs) == 1


async def test_options_of_one_call_do_not_change_the_next(stage: Stage) -> None:
    runs: list[int] = []

    @activity(retry=SOON)
    async def broken() -> None:
        runs.append(1)
        raise ValueError

    @orchestration
    async def asking() -> list[int]:
        found = []
        for one in (broken.with_options(retry=None), broken):
            try:
                await one()
            except ActivityError as error:
                found.append(error.attempts)
        return found

    engine = await stage.engine([broken, asking])

    assert await (await engine.start(asking)).result() == [1, 3]
    assert len(runs) == 4


async def test_named_exceptions_come_back_as_themselves(stage: Stage) -> None:
    @activity(raises=[CardDeclinedError])
    async def charge() -> None:
        raise CardDeclinedError(51, retry_in="1 h")

    @orchestration
    async def asking() -> list[Any]:
        try:
            await charge()
        except CardDeclinedError as error:
            return [error.code, error.retry_in, str(error), type(error.__cause__).__name__]
        return []

    engine = await stage.engine([charge, asking])

    assert await (await engine.start(asking)).result() == [
        51,
        "1 h",
        "declined with 51",
        "ActivityError",
    ]


# -------------------------------------------------------------------- limits


async def test_a_timeout_ends_each_attempt(stage: Stage) -> None:
    runs: list[int] = []

    @activity(timeout=INSTANT, retry=SOON)
    async def endless(ctx: ActivityContext) -> None:
        runs.append(ctx.attempt)
        await asyncio.Event().wait()

    @orchestration
    async def asking() -> str:
        try:
            await endless()
        except ActivityError as error:
            return f"{error.type_name} {error.attempts} {error.message}"
        return ""

    engine = await stage.engine([endless, asking])

    assert await (await engine.start(asking)).result() == (
        "TimeoutError 3 endless took longer than 0.02 s"
    )
    assert runs == [1, 2, 3]


async def test_a_deadline_ends_all_attempts_together(stage: Stage) -> None:
    gate, told = Gate(), asyncio.Event()

    @activity(deadline=PATIENCE, retry=Retry(max_attempts=None))
    async def endless() -> None:
        try:
            await gate.pass_through()
        finally:
            told.set()

    @orchestration
    async def asking() -> str:
        try:
            await endless()
        except ActivityError as error:
            return f"{error.type_name}: {error.message}"
        return ""

    clock = RunningClock()
    engine = await stage.engine([endless, asking], clock=clock)
    handle = await engine.start(asking)
    await gate.reached()
    clock.advance(PATIENCE)

    assert await handle.result() == "DeadlineExceeded: endless did not end in time"
    await until(told.is_set)


async def test_a_deadline_that_is_kept_leaves_nothing(stage: Stage) -> None:
    @activity(deadline=timedelta(hours=1))
    async def quick() -> int:
        return 1

    @orchestration
    async def asking() -> int:
        first = await quick()
        return first + await quick()

    engine = await stage.engine([quick, asking])
    handle = await engine.start(asking)

    assert await handle.result() == 2


async def test_a_deadline_holds_for_what_nobody_serves(stage: Stage) -> None:
    stage.expect_log("no live worker serves")
    elsewhere = Activity.named("elsewhere", int).with_options(deadline=INSTANT)

    @orchestration
    async def asking() -> str:
        try:
            await elsewhere()
        except ActivityError as error:
            return error.type_name
        return ""

    engine = await stage.engine([asking])

    assert await (await engine.start(asking)).result() == "DeadlineExceeded"


# ------------------------------------------------------------- where it runs


def busy_process(x: int) -> list[int]:
    return [x * x, os.getpid()]


in_process = activity(name="in_process", process=True)(busy_process)


async def test_plain_functions_run_in_threads_beside_each_other(stage: Stage) -> None:
    both = threading.Barrier(2)

    @activity
    def meet(name: str) -> str:
        both.wait(timeout=WITHIN_S)
        return f"{name} {threading.current_thread() is threading.main_thread()}"

    @orchestration
    async def asking() -> list[str]:
        return list(await asyncio.gather(meet("a"), meet("b")))

    engine = await stage.engine([meet, asking])

    assert await (await engine.start(asking)).result() == ["a False", "b False"]


async def test_process_activities_run_in_another_process(stage: Stage) -> None:
    @orchestration
    async def asking() -> list[int]:
        return await in_process(7)

    engine = await stage.engine([in_process, asking])
    square, pid = await (await engine.start(asking)).result()

    assert square == 49
    assert pid != os.getpid()


async def test_inline_runs_anything_callable_once(stage: Stage) -> None:
    runs: list[str] = []

    def add(a: int, b: int) -> int:
        runs.append("sync")
        return a + b

    async def fetch(url: str) -> dict[str, str]:
        runs.append("async")
        return {"from": url}

    @orchestration
    async def asking() -> list[Any]:
        total = await inline(add, 1, 2)
        page = await inline(fetch, "u")
        both = await inline(lambda: [total, page], name="both", returns=list[Any])
        return [total, page, both]

    engine = await stage.engine([asking])
    handle = await engine.start(asking)

    assert await handle.result() == [3, {"from": "u"}, [3, {"from": "u"}]]
    assert runs == ["sync", "async"]
    names = [e.data["name"] for e in await handle.history() if e.kind == "inline_scheduled"]
    assert names == ["add", "fetch", "both"]


async def test_an_inline_call_that_raises_is_an_activity_error(stage: Stage) -> None:
    @orchestration
    async def asking() -> str:
        try:
            await inline(lambda: 1 // 0, name="divide")
        except ActivityError as error:
            return f"{error.activity} {error.type_name}"
        return ""

    engine = await stage.engine([asking])

    assert await (await engine.start(asking)).result() == "divide ZeroDivisionError"


async def test_an_inline_lambda_without_a_name_is_told_to_take_one(stage: Stage) -> None:
    @orchestration
    async def asking() -> int:
        return await inline(lambda: 1)

    engine = await stage.engine([asking])

    with pytest.raises(InstanceFailedError, match=r"DefinitionError.*name=\.\.\."):
        await (await engine.start(asking)).result()


# ------------------------------------------------------- what it can know


class Pool:
    def __init__(self) -> None:
        self.used = 0


async def test_an_activity_gets_its_resources_and_its_place(stage: Stage) -> None:
    pool = Pool()
    keys: list[str] = []

    @activity(retry=SOON)
    async def use(ctx: ActivityContext, x: int) -> str:
        assert activity_context() is ctx
        ctx.resource(Pool).used += 1
        ctx.heartbeat({"at": x})
        keys.append(ctx.idempotency_key)
        if ctx.attempt == 1:
            raise ConnectionError
        return f"{ctx.instance_id} {ctx.activity} {ctx.attempt} {ctx.is_cancelled}"

    @activity
    def use_in_thread(ctx: ActivityContext) -> int:
        ctx.resource(Pool).used += 1
        return activity_context().resource(Pool).used

    @orchestration
    async def asking() -> list[Any]:
        return [await use(1), await use(2), await use_in_thread()]

    engine = await stage.engine([use, use_in_thread, asking], resources=[pool])

    assert await (await engine.start("a", asking)).result() == [
        "a use 2 False",
        "a use 2 False",
        5,
    ]
    assert keys[0] == keys[1] != keys[2] == keys[3]
    assert keys[0].startswith("a:")


async def test_a_missing_resource_says_what_was_handed_over(stage: Stage) -> None:
    @activity
    async def use(ctx: ActivityContext) -> None:
        ctx.resource(Pool)

    @orchestration
    async def asking() -> str:
        try:
            await use()
        except ActivityError as error:
            return error.message
        return ""

    engine = await stage.engine([use, asking], resources=["text"])

    assert await (await engine.start(asking)).result() == (
        "use: no resource is a Pool (handed to the worker: str); "
        "hand over exactly one with resources=[...]"
    )


# ----------------------------------------------------------------- bad ones


async def test_garbage_fails_the_call_and_names_the_path(stage: Stage) -> None:
    runs: list[int] = []

    @activity(retry=SOON)
    async def garbage() -> dict[str, Any]:
        runs.append(1)
        return {"deep": [object()]}

    @activity
    async def wrong_type() -> int:
        return "text"  # type: ignore[return-value]  # the mistake under test

    @orchestration
    async def asking() -> list[str]:
        found = []
        for one in (garbage, wrong_type):
            try:
                await one()
            except ActivityError as error:
                found.append(f"{error.type_name}: {error.message}")
        return found

    engine = await stage.engine([garbage, wrong_type, asking])
    first, second = await (await engine.start(asking)).result()

    assert first.startswith("PayloadError: result of garbage")
    assert "deep" in first
    assert "object" in first
    assert second.startswith("PayloadError: result of wrong_type")
    assert "int" in second
    assert len(runs) == 1  # the same code would return the same garbage


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(3), GeneratorExit(3)], ids=repr)
@pytest.mark.parametrize("colour", ["async", "thread"])
async def test_what_would_end_a_program_fails_the_call_and_nothing_else(
    stage: Stage, colour: str, error: BaseException
) -> None:
    @activity
    async def leave() -> None:
        raise error

    @activity
    def leave_thread() -> None:
        raise error

    chosen = leave if colour == "async" else leave_thread

    @orchestration
    async def asking() -> str:
        try:
            await chosen()
        except ActivityError as error:
            return f"{error.type_name}: {error.message}, then {await plain(1)}"
        return ""

    engine = await stage.engine([leave, leave_thread, plain, asking])

    assert await (await engine.start(asking)).result() == f"{type(error).__name__}: 3, then 2"


async def test_an_activity_that_hangs_holds_up_nobody(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def hang() -> None:
        await gate.pass_through()

    @orchestration
    async def hanging() -> None:
        await hang()

    @orchestration
    async def quick(x: int) -> int:
        return await plain(x)

    engine = await stage.engine([hang, hanging, plain, quick])
    stuck = await engine.start("stuck", hanging)
    await gate.reached()

    assert await (await engine.start(quick, 1)).result() == 2
    text = await stuck.explain()
    assert "waits for activity 'hang' since" in text
    assert "(attempt 1, on " in text
    gate.opened.set()
    await stuck.result()


async def test_more_activities_than_room_all_run(stage: Stage) -> None:
    running = 0
    most = 0

    @activity
    async def count(x: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return x

    @orchestration
    async def many() -> int:
        return sum(await asyncio.gather(*(count(x) for x in range(50))))

    engine = await stage.engine([count, many], options=options(async_jobs=3))

    assert await (await engine.start(many)).result() == sum(range(50))
    assert most <= 3


async def test_arguments_are_checked_at_the_call(stage: Stage) -> None:
    @orchestration
    async def asking() -> list[str]:
        found = []
        for bad in ("text", object(), None):
            try:
                plain(bad)  # type: ignore[arg-type, unused-coroutine]  # the mistake under test
            except PayloadError as error:
                found.append(error.path)
        return found

    engine = await stage.engine([plain, asking])
    paths = await (await engine.start(asking)).result()

    assert len(paths) == 3
    assert all("x" in path for path in paths)


async def test_outside_an_orchestration_an_activity_is_a_plain_function() -> None:
    assert await plain(1) == 2
    assert await plain.fn(1) == 2


# ------------------------------------------------------------------- unserved


async def test_a_call_that_nobody_serves_warns_once_with_the_fix(stage: Stage) -> None:
    stage.expect_log("no live worker serves")
    elsewhere = Activity.named("elsewhere", int)

    @orchestration
    async def asking() -> int:
        return await elsewhere()

    engine = await stage.engine([asking])
    handles = [await engine.start(f"a-{number}", asking) for number in range(3)]
    await until(lambda: stage.logged("no live worker serves"))

    for handle in handles:
        assert "no live worker serves activity 'elsewhere'" in await handle.explain()
    [text] = stage.logged("no live worker serves")
    assert "'elsewhere'" in text
    assert "hand it to a worker" in text


async def test_a_tag_that_nobody_serves_is_named(stage: Stage) -> None:
    stage.expect_log("no live worker serves")

    @orchestration
    async def asking() -> int:
        return await plain.with_options(tag="gpu")(1)

    engine = await stage.engine([plain, asking])
    handle = await engine.start("a", asking)
    await until(lambda: stage.logged("no live worker serves"))

    assert "no live worker serves activity 'plain' with tag 'gpu'" in await handle.explain()
    assert "'gpu'" in stage.logged("no live worker serves")[0]


async def test_a_call_that_another_worker_serves_warns_nobody(stage: Stage) -> None:
    remote = Activity.named("plain", int)

    @orchestration
    async def asking() -> int:
        return await remote(x=1)

    await stage.engine([plain])
    engine = await stage.engine([asking])
    handle = await engine.start(asking)

    assert await handle.result() == 2


async def test_a_call_waits_for_the_worker_that_serves_it(stage: Stage) -> None:
    stage.expect_log("no live worker serves")
    remote = Activity.named("plain", int)

    @orchestration
    async def asking() -> int:
        return await remote(x=1)

    engine = await stage.engine([asking])
    handle = await engine.start(asking)
    await until(lambda: stage.logged("no live worker serves"))

    await stage.engine([plain])

    assert await handle.result() == 2
    assert kinds(await handle.history()) == [
        "started",
        "activity_scheduled",
        "activity_completed",
        "completed",
    ]


async def test_a_call_that_was_tried_again_tells_when_each_attempt_began(stage: Stage) -> None:
    """What the timeline draws: running, backing off, running."""

    @activity(retry=Retry(max_attempts=2, first_delay=timedelta(milliseconds=1)))
    async def second_time_lucky() -> int:
        if activity_context().attempt == 1:
            raise OSError("no route")
        return 2

    @orchestration
    async def asking() -> int:
        return await second_time_lucky()

    engine = await stage.engine([asking, second_time_lucky])
    handle = await engine.start(asking)
    assert await handle.result() == 2

    [done] = [one for one in await handle.history() if one.kind == "activity_completed"]
    [failed] = done.data["failures"]
    assert 0 < failed["began_ms"] <= failed["at_ms"] <= done.data["began_ms"]
