from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from perdure import (
    Activity,
    ActivityContext,
    BlockingClient,
    Client,
    Worker,
    activity,
    activity_context,
    inline,
    orchestration,
)
from perdure.errors import UsageError
from tests.engine.stage import Stage, options, until

QUICK = options(poll_max=timedelta(milliseconds=40))


@activity
async def describe(ctx: ActivityContext) -> list[str]:
    return [
        ctx.instance_id,
        str(ctx.execution),
        ctx.orchestration,
        ctx.orchestration_version,
        ctx.worker_id,
    ]


@orchestration(version="2.1.0")
async def calling() -> list[str]:
    return await describe()


@orchestration(version="2.1.0")
async def asking() -> list[str]:
    return await Activity.named("describe", list[str])()


async def test_a_call_that_runs_where_it_was_made_knows_its_orchestration(stage: Stage) -> None:
    engine = await stage.engine([calling, describe], options=options(name="here"))

    result = await (await engine.start("c", calling)).result()

    assert result == ["c", "1", "calling", "2.1.0", "here"]


async def test_a_call_that_runs_elsewhere_knows_its_orchestration_without_the_history(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defect k: a whole history was read for every activity, to fill in two fields."""
    elsewhere = await stage.engine([describe], options=options(name="elsewhere"))
    engine = await stage.engine([asking], options=QUICK)

    async def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a history was read")

    monkeypatch.setattr(elsewhere._core.store, "read_histories", refuse)
    result = await (await engine.start("a", asking)).result()

    assert result == ["a", "1", "asking", "2.1.0", "elsewhere"]


async def test_an_inline_call_has_a_context_too(stage: Stage) -> None:
    @orchestration
    async def looking() -> list[str]:
        def look() -> list[str]:
            ctx = activity_context()
            return [ctx.activity, ctx.orchestration, str(ctx.tag)]

        return await inline(look, name="glance", returns=list[str])

    engine = await stage.engine([looking])

    assert await (await engine.start(looking)).result() == ["glance", "looking", "None"]


@activity
async def start_another(ctx: ActivityContext) -> str:
    client: Client = ctx.client
    handle = await client.start("another", calling)
    return (await handle.result())[2]


@orchestration
async def delegating() -> str:
    return await start_another()


async def test_an_activity_has_the_whole_client(stage: Stage) -> None:
    engine = await stage.engine([delegating, start_another, calling, describe])

    assert await (await engine.start(delegating)).result() == "calling"


async def test_an_activity_of_a_worker_has_a_client_too(stage: Stage) -> None:
    client = await stage.client()
    async with Worker(stage.url, [delegating, start_another, calling, describe], options=QUICK):
        assert await (await client.start(delegating)).result() == "calling"


# ------------------------------------------------- the client in a thread


@orchestration
async def answer() -> int:
    return 42


@activity
def look_around(ctx: ActivityContext) -> list[str]:
    client: BlockingClient = ctx.client
    started = client.start("started", answer)
    assert isinstance(client, BlockingClient)
    return [client.handle("there").info().status.value, str(started.result()), str(client.count())]


@orchestration
async def looking_around() -> list[str]:
    return await look_around()


@activity
def forget_the_past(ctx: ActivityContext) -> int:
    client: BlockingClient = ctx.client
    return client.handle(ctx.instance_id).prune().executions


@orchestration
async def pruning_itself(round: int) -> int:
    if round < 4:
        pruning_itself.continue_as_new(round + 1)
    return await forget_the_past()


async def test_an_activity_in_a_thread_has_a_client_that_waits(stage: Stage) -> None:
    engine = await stage.engine([answer, looking_around, look_around])
    await (await engine.start("there", answer)).result()

    result = await (await engine.start(looking_around)).result()

    assert result == ["completed", "42", "3"]


async def test_an_activity_in_a_thread_of_a_worker_has_one_too(stage: Stage) -> None:
    client = await stage.client()
    await client.start("there", answer)
    async with Worker(stage.url, [answer, looking_around, look_around], options=QUICK):
        await client.handle("there").result()
        assert (await (await client.start(looking_around)).result())[1] == "42"


async def test_an_activity_in_a_thread_can_prune_its_own_instance(stage: Stage) -> None:
    engine = await stage.engine([pruning_itself, forget_the_past])

    handle = await engine.start(pruning_itself, 1)

    assert await handle.result() == 3
    assert [one.execution for one in await handle.executions()] == [4]


async def test_opening_and_closing_the_client_of_the_worker_does_nothing(stage: Stage) -> None:
    @activity
    def counting(ctx: ActivityContext) -> list[int]:
        with ctx.client as client:
            inside = client.count()
        return [inside, ctx.client.count()]

    @orchestration
    async def counts() -> list[int]:
        return await counting()

    engine = await stage.engine([counts, counting])

    assert await (await engine.start(counts)).result() == [1, 1]
    assert await engine.count() == 1


async def test_a_loop_of_the_activity_s_own_gets_the_client_that_waits(stage: Stage) -> None:
    @activity
    def with_a_loop(ctx: ActivityContext) -> bool:
        async def kind() -> bool:
            return isinstance(ctx.client, BlockingClient)

        return asyncio.run(kind())

    @orchestration
    async def asking_there() -> bool:
        return await with_a_loop()

    engine = await stage.engine([asking_there, with_a_loop])

    assert await (await engine.start(asking_there)).result()


async def test_the_client_that_waits_is_refused_on_the_worker_s_own_loop(stage: Stage) -> None:
    engine = await stage.engine([answer])
    found = await asyncio.to_thread(engine._client_here)
    assert isinstance(found, BlockingClient)

    with pytest.raises(UsageError, match="is used on its own thread, where the call would wait"):
        found.count()
    assert engine._client_here() is engine


async def test_a_thread_that_waits_is_let_go_when_the_worker_stops(stage: Stage) -> None:
    said: list[str] = []
    over = threading.Event()

    @activity
    def wait_for_it(ctx: ActivityContext) -> None:
        client: BlockingClient = ctx.client
        handle = client.start("never", silent)
        try:
            said.append("waiting")
            handle.result()
        except UsageError as error:
            said.append(str(error))
        over.set()

    @orchestration
    async def silent() -> None:
        await asyncio.sleep(3600)

    @orchestration
    async def waits() -> None:
        await wait_for_it()

    stage.expect_log("activity .* goes on after it was told to stop and is abandoned")
    definitions = [silent, waits, wait_for_it]
    engine = await stage.engine(definitions, options=options(stop_grace=timedelta(0)))
    await engine.start(waits)
    await until(lambda: said)

    await engine.close()

    assert await asyncio.to_thread(over.wait, 10)
    assert said[1] == "this client of the worker was closed while the call waited"
    with pytest.raises(UsageError, match="this client of the worker is not open"):
        (await asyncio.to_thread(engine._client_here)).handle("never").info()
