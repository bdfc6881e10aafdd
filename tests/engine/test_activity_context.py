from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure import (
    Activity,
    ActivityContext,
    Client,
    Worker,
    activity,
    activity_context,
    inline,
    orchestration,
)
from tests.engine.stage import Stage, options

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

    monkeypatch.setattr(elsewhere.store, "read_histories", refuse)
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
