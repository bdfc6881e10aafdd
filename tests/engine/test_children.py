from __future__ import annotations

import asyncio

import pytest

from perdure import Orchestration, Signal, Status, activity, context, orchestration
from perdure.authoring.registry import Defined
from perdure.errors import (
    ChildError,
    InstanceCancelledError,
    InstanceFailedError,
    InstanceTerminatedError,
)
from tests.engine.stage import Stage, has_ended, is_waiting, kinds, until, waits_for

go = Signal("go", str)


@activity
async def double(x: int) -> int:
    return 2 * x


@orchestration
async def child(x: int) -> int:
    return await double(x)


@orchestration
async def failing(text: str) -> None:
    raise LookupError(text)


LINE = failing.fn.__code__.co_firstlineno + 2
"""Where it raises."""


@orchestration
async def fails_below(levels: int) -> None:
    await (fails_below(levels - 1) if levels else failing("at the bottom"))


@orchestration
async def waiting() -> str:
    return await go.receive()


@orchestration
async def deep(levels: int) -> int:
    return 0 if levels == 0 else 1 + await deep(levels - 1)


ALL: list[Defined] = [double, child, failing, waiting, deep]


async def test_a_parent_gets_what_its_child_returns(stage: Stage) -> None:
    @orchestration
    async def parent() -> int:
        return 1 + await child(4)

    engine = await stage.engine([*ALL, parent])
    handle = await engine.start("p", parent)

    assert await handle.result() == 9
    history = await handle.history()
    assert kinds(history) == ["started", "child_scheduled", "child_completed", "completed"]
    info = await engine.handle(history[1].data["instance_id"]).info()
    assert (info.parent_id, info.status, info.name) == ("p", Status.COMPLETED, "child")


async def test_a_child_may_have_an_id_of_its_own(stage: Stage) -> None:
    @orchestration
    async def parent() -> int:
        return await child.with_options(instance_id="my-child")(4)

    engine = await stage.engine([*ALL, parent])
    await (await engine.start(parent)).result()

    assert (await engine.handle("my-child").info()).output == 8


async def test_a_child_knows_its_parent(stage: Stage) -> None:
    @orchestration
    async def inner() -> str | None:
        parent = context().parent
        return None if parent is None else parent.instance_id

    @orchestration
    async def outer() -> str | None:
        return await inner()

    engine = await stage.engine([inner, outer])

    assert await (await engine.start("p", outer)).result() == "p"
    assert await (await engine.start("alone", inner)).result() is None


async def test_a_failed_child_raises_with_all_that_is_known(stage: Stage) -> None:
    @orchestration
    async def parent() -> list[str]:
        try:
            await failing.with_options(instance_id="f")("gone")
        except ChildError as error:
            return [
                error.instance_id,
                error.status,
                error.type_name,
                error.message,
                str(error),
                str("raise LookupError" in error.traceback_text),
            ]
        return []

    engine = await stage.engine([*ALL, parent])

    assert await (await engine.start(parent)).result() == [
        "f",
        "failed",
        "LookupError",
        "gone",
        f"child 'f' failed: LookupError: gone (test_children.py:{LINE} in failing)",
        "True",
    ]


async def test_a_failure_nobody_catches_goes_all_the_way_up(stage: Stage) -> None:
    @orchestration
    async def middle() -> None:
        await failing.with_options(instance_id="f")("gone")

    @orchestration
    async def top() -> None:
        await middle.with_options(instance_id="m")()

    engine = await stage.engine([*ALL, middle, top])

    with pytest.raises(InstanceFailedError) as caught:
        await (await engine.start("t", top)).result()

    assert str(caught.value) == (
        "instance 't' failed: ChildError: child 'm' failed: ChildError: "
        f"child 'f' failed: LookupError: gone (test_children.py:{LINE} in failing)"
    )


async def test_cancelling_a_parent_cancels_the_child_it_waits_for(stage: Stage) -> None:
    @orchestration
    async def parent() -> str:
        return await waiting.with_options(instance_id="c")()

    engine = await stage.engine([*ALL, parent])
    handle = await engine.start(parent)
    inner = engine.handle("c")
    await until(lambda: is_waiting(engine, "c"))

    await handle.cancel("enough")

    with pytest.raises(InstanceCancelledError, match="enough"):
        await handle.result()
    with pytest.raises(InstanceCancelledError, match="parent"):
        await inner.result()


async def test_a_parent_sees_that_its_child_was_cancelled(stage: Stage) -> None:
    @orchestration
    async def parent() -> str:
        try:
            return await waiting.with_options(instance_id="c")()
        except ChildError as error:
            return f"{error.status}: {error.message}"

    engine = await stage.engine([*ALL, parent])
    handle = await engine.start(parent)
    await until(lambda: is_waiting(engine, "c"))

    await engine.handle("c").cancel("not needed")

    assert await handle.result() == "was cancelled: not needed"


async def test_a_parent_sees_that_its_child_was_terminated(stage: Stage) -> None:
    @orchestration
    async def parent() -> str:
        try:
            return await waiting.with_options(instance_id="c")()
        except ChildError as error:
            return f"{error.status}: {error.message}"

    engine = await stage.engine([*ALL, parent])
    handle = await engine.start(parent)
    await until(lambda: is_waiting(engine, "c"))

    await engine.handle("c").terminate("stop")

    assert await handle.result() == "was terminated: stop"


async def test_a_parent_that_gives_up_cancels_its_child(stage: Stage) -> None:
    @orchestration
    async def parent() -> str:
        task = asyncio.create_task(waiting.with_options(instance_id="c")())
        await go.receive()
        task.cancel()
        return "went on"

    engine = await stage.engine([*ALL, parent])
    handle = await engine.start(parent)
    await until(lambda: is_waiting(engine, "c"))

    await handle.send(go, "x")

    assert await handle.result() == "went on"
    with pytest.raises(InstanceCancelledError):
        await engine.handle("c").result()


@pytest.mark.parametrize(
    ("policy", "error"),
    [("cancel", InstanceCancelledError), ("terminate", InstanceTerminatedError)],
)
@pytest.mark.parametrize("end", ["return", "terminate"])
async def test_the_close_policy_ends_a_child_when_its_parent_ends(
    stage: Stage, policy: str, error: type[Exception], end: str
) -> None:
    started = waiting.with_options(instance_id="c", on_parent_close=policy)  # type: ignore[arg-type]  # one of the literals

    @orchestration
    async def parent() -> str:
        asyncio.create_task(started())  # noqa: RUF006 - left alone on purpose
        return await go.receive()

    engine = await stage.engine([*ALL, parent])
    handle = await engine.start("p", parent)
    await until(lambda: is_waiting(engine, "c"))

    if end == "return":
        await handle.send(go, "done")
    else:
        await handle.terminate("stop")

    with pytest.raises(error, match="its parent 'p'"):
        await engine.handle("c").result()


@pytest.mark.parametrize("end", ["return", "terminate", "cancel"])
async def test_an_abandoned_child_outlives_its_parent(stage: Stage, end: str) -> None:
    started = waiting.with_options(instance_id="c", on_parent_close="abandon")

    @orchestration
    async def parent() -> str:
        task = asyncio.create_task(started())
        try:
            return await go.receive()
        finally:
            del task

    engine = await stage.engine([*ALL, parent])
    handle = await engine.start("p", parent)
    await until(lambda: is_waiting(engine, "c"))
    match end:
        case "return":
            await handle.send(go, "done")
        case "terminate":
            await handle.terminate()
        case _:
            await handle.cancel()
    await until(lambda: has_ended(engine, "p"))

    await engine.handle("c").send(go, "alone")

    assert await engine.handle("c").result() == "alone"


async def test_a_child_id_that_is_taken_fails_the_call(stage: Stage) -> None:
    @orchestration
    async def parent() -> str:
        try:
            return await waiting.with_options(instance_id="taken")()
        except ChildError as error:
            return str(error)

    engine = await stage.engine([*ALL, parent])
    other = await engine.start("taken", waiting)

    assert await (await engine.start(parent)).result() == (
        "child 'taken' not started: AlreadyExistsError: the id 'taken' is taken"
    )
    await other.send(go, "unharmed")
    assert await other.result() == "unharmed"


async def test_the_same_child_id_twice_in_one_parent_fails_the_second(stage: Stage) -> None:
    @orchestration
    async def parent() -> list[str]:
        one = child.with_options(instance_id="same")
        results = await asyncio.gather(one(1), one(2), return_exceptions=True)
        return [
            error.type_name if isinstance(error, ChildError) else repr(error) for error in results
        ]

    engine = await stage.engine([*ALL, parent])

    assert await (await engine.start(parent)).result() == ["2", "AlreadyExistsError"]


async def test_children_nest_deeply(stage: Stage) -> None:
    engine = await stage.engine(ALL)

    assert await (await engine.start("d", deep, 30)).result() == 30


async def test_two_hundred_children_at_once_all_count(stage: Stage) -> None:
    @orchestration
    async def parent() -> int:
        return sum(await asyncio.gather(*(child(x) for x in range(200))))

    engine = await stage.engine([*ALL, parent])

    assert await (await engine.start(parent)).result() == 2 * sum(range(200))


async def test_a_child_may_run_in_another_engine(stage: Stage) -> None:
    remote = Orchestration.named("child", int)

    @orchestration
    async def parent() -> int:
        return await remote(x=4)

    await stage.engine([double, child])
    engine = await stage.engine([parent])

    assert await (await engine.start(parent)).result() == 8


async def test_a_child_that_nobody_serves_is_explained(stage: Stage) -> None:
    stage.expect_log("no live worker serves orchestration 'child' 1.0.0")

    @orchestration
    async def parent() -> int:
        return await child.with_options(instance_id="c")(1)

    engine = await stage.engine([parent])
    handle = await engine.start("p", parent)
    await waits_for(handle, "child 'c'")

    assert "unclaimed: needs child 1.0.0" in await engine.handle("c").explain()


async def test_a_grandchild_is_reached_by_the_cancellation(stage: Stage) -> None:
    @orchestration
    async def middle() -> str:
        return await waiting.with_options(instance_id="leaf")()

    @orchestration
    async def top() -> str:
        return await middle.with_options(instance_id="middle")()

    engine = await stage.engine([*ALL, middle, top])
    handle = await engine.start("top", top)
    await until(lambda: is_waiting(engine, "leaf"))

    await handle.cancel("all of it")

    for instance_id in ("top", "middle", "leaf"):
        with pytest.raises(InstanceCancelledError):
            await engine.handle(instance_id).result()


async def test_the_failure_of_the_lowest_child_is_told_at_the_top(stage: Stage) -> None:
    engine = await stage.engine([fails_below, failing])

    with pytest.raises(InstanceFailedError) as caught:
        await (await engine.start("top", fails_below, 30)).result()

    told = str(caught.value)
    assert told.startswith("instance 'top' failed: ChildError: child 'top/")
    assert f"LookupError: at the bottom (test_children.py:{LINE} in failing)" in told
    assert told.count("ChildError") <= 4
    assert len(told) < 1000
