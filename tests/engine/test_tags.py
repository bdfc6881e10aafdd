from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from perdure import Activity, ActivityContext, Engine, Signal, activity, context, orchestration
from perdure.authoring.registry import activity_key
from perdure.errors import ActivityError
from tests.engine.stage import SELDOM, Stage, idle, is_waiting, options, until

QUICK = {"poll_max": timedelta(milliseconds=40)}

go = Signal("go", str)


@activity
async def work(ctx: ActivityContext) -> str:
    return f"{ctx.worker_id} {ctx.tag}"


@activity(tag="gpu")
async def train(ctx: ActivityContext) -> str:
    return f"{ctx.worker_id} {ctx.tag}"


@orchestration
async def tagged(tag: str | None) -> str:
    return await work.with_options(tag=tag)()


@orchestration
async def training(tag: str | None) -> str:
    return await train.with_options(tag=tag)()


@orchestration
async def waiting() -> str:
    return await go.receive()


async def worker(stage: Stage, name: str, served: Any, **changes: Any) -> Engine:
    return await stage.engine(served, options=options(**({"name": name} | QUICK | changes)))


def takes(engine: Engine, tag: str | None) -> bool:
    """Return whether an engine runs the activity when it is called with a tag."""
    reservation = engine._serving.jobs.reserve()
    is_taken = reservation.takes(activity_key("work", tag))
    reservation.drop()
    return is_taken


@pytest.mark.parametrize(
    ("tags", "taken", "left"),
    [
        ("own", [None], ["gpu", "cpu"]),
        ("any", [None, "gpu", "anything"], []),
        ((None,), [None], ["gpu"]),
        (("gpu",), ["gpu"], [None, "cpu"]),
        ((None, "gpu"), [None, "gpu"], ["cpu"]),
        ((), [], [None, "gpu"]),
    ],
    ids=["own", "any", "untagged", "gpu", "both", "none"],
)
async def test_a_worker_takes_the_calls_whose_tag_it_serves(
    stage: Stage, tags: Any, taken: list[str | None], left: list[str | None]
) -> None:
    engine = await worker(stage, "here", [tagged, work], tags=tags)

    assert [tag for tag in taken if not takes(engine, tag)] == []
    assert [tag for tag in left if takes(engine, tag)] == []
    for tag in taken:
        assert await (await engine.start(tagged, tag)).result() == f"here {tag}"


async def test_by_default_a_definition_is_served_under_its_own_tag_and_without_one(
    stage: Stage,
) -> None:
    engine = await worker(stage, "here", [training, train])

    assert await (await engine.start(training, "gpu")).result() == "here gpu"
    assert await (await engine.start(training, None)).result() == "here None"


async def test_a_tag_reaches_the_worker_that_serves_it(stage: Stage) -> None:
    """Trap 15: the tag is on the row that the commit inserts, and comes back with the claim."""
    stage.expect_log("with tag 'gpu'")
    engine = await worker(stage, "plain", [tagged, work])
    handle = await engine.start(tagged, "gpu")
    await until(lambda: stage.logged("with tag 'gpu'"))

    await worker(stage, "special", [work], tags=("gpu",))

    assert await handle.result() == "special gpu"


async def test_a_worker_without_activities_runs_orchestrations_only(stage: Stage) -> None:
    await worker(stage, "hands", [work])
    engine = await worker(stage, "head", [tagged, work], tags=())

    assert await (await engine.start(tagged, None)).result() == "hands None"


async def test_a_worker_of_any_tag_finds_tags_that_come_up_later(stage: Stage) -> None:
    remote = Activity.named("work", str)

    @orchestration
    async def asking(tag: str) -> str:
        return await remote.with_options(tag=tag)()

    stage.expect_log("no live worker serves")
    serving = await worker(stage, "any", [work], tags="any")
    asker = await worker(stage, "asker", [asking])
    handle = await asker.start("a", asking, "brand new")
    await until(lambda: is_waiting(asker, "a"))
    await idle(serving)

    await serving._serving._beat_once()

    assert await handle.result() == "any brand new"


@pytest.mark.parametrize("tags", [(), ("gpu",)], ids=["none", "gpu only"])
async def test_built_ins_are_served_whatever_the_tags(stage: Stage, tags: Any) -> None:
    """Of 1.5: a node for tags only could not serve the untagged system calls."""

    @orchestration
    async def telling(instance_id: str) -> str:
        ref = context().ref(instance_id, waiting)
        await ref.send(go, "now")
        return await ref.result()

    engine = await worker(stage, "here", [telling, waiting], tags=tags)
    await engine.start("w", waiting)

    assert await (await engine.start(telling, "w")).result() == "now"


async def test_a_call_whose_tag_nobody_serves_waits_and_can_be_given_up(stage: Stage) -> None:
    @orchestration
    async def impatient() -> str:
        try:
            async with asyncio.timeout(0.05):
                return await work.with_options(tag="nowhere")()
        except TimeoutError:
            return "gave up"

    stage.expect_log("with tag 'nowhere'")
    engine = await worker(stage, "here", [impatient, work])

    assert await (await engine.start("i", impatient)).result() == "gave up"
    assert await engine._core.store.read_jobs("i") == []
    await until(lambda: stage.logged("with tag 'nowhere'"))


@pytest.mark.parametrize(
    ("served", "tags", "advice"),
    [
        ([work], "own", 'WorkerOptions(tags=[None, "tpu"])'),
        # What it takes by now stays: the option is for all of its activities.
        ([work, train], "own", 'WorkerOptions(tags=[None, "gpu", "tpu"])'),
        ([work], ["gpu"], 'WorkerOptions(tags=["gpu", "tpu"])'),
        ([train], "own", "hand it to a worker, Worker(url, [...]), and start that"),
    ],
)
async def test_a_call_that_nobody_takes_for_its_tag_says_which_option_to_set(
    stage: Stage, served: list[Any], tags: Any, advice: str
) -> None:
    stage.expect_log("with tag 'tpu'")
    engine = await worker(stage, "here", [tagged, *served], tags=tags)

    handle = await engine.start("t", tagged, "tpu")

    await until(lambda: stage.logged("with tag 'tpu'"))
    [text] = stage.logged("with tag 'tpu'")
    assert text.endswith(advice)
    explained = await handle.explain()
    assert "no live worker serves activity 'work' with tag 'tpu'" in explained
    assert (advice in explained) == ("WorkerOptions" in advice)


async def test_a_call_that_must_start_soon_fails_when_nobody_takes_it(stage: Stage) -> None:
    urgent = work.with_options(tag="nowhere", start_within=timedelta(milliseconds=50))

    @orchestration
    async def hurrying() -> str:
        try:
            return await urgent()
        except ActivityError as error:
            return error.type_name

    stage.expect_log("with tag 'nowhere'")
    engine = await worker(stage, "here", [hurrying, work])

    assert await (await engine.start("h", hurrying)).result() == "StartedTooLate"
    assert await engine._core.store.read_jobs("h") == []
    await until(lambda: stage.logged("with tag 'nowhere'"))


async def test_a_call_that_starts_in_time_may_take_longer(stage: Stage) -> None:
    begun = asyncio.Event()
    let_go = asyncio.Event()

    @activity(name="work")
    async def hold() -> str:
        begun.set()
        await let_go.wait()
        return "done"

    remote = Activity.named("work", str).with_options(start_within=SELDOM)

    @orchestration
    async def hurrying() -> str:
        return await remote()

    await worker(stage, "hands", [hold])
    engine = await worker(stage, "head", [hurrying])
    handle = await engine.start("h", hurrying)
    await begun.wait()
    assert [m for m in await engine._core.store.read_inbox("h") if m.timer_key] == []
    let_go.set()

    assert await handle.result() == "done"
