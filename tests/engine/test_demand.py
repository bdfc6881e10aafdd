"""The view `demand`: what autoscalers read in the database itself."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from perdure import ActivityContext, activity, orchestration
from perdure.store.upkeep import upkeep_for
from tests.engine.stage import Gate, Stage, options, until


@activity
async def dig(ctx: ActivityContext) -> None:
    await ctx.resource(Gate).pass_through()


@orchestration
async def digging(tag: str | None) -> None:
    await dig.with_options(tag=tag)()


@orchestration
async def resting() -> None:
    await asyncio.sleep(86_400)


async def read_demand(url: str) -> list[tuple[object, ...]]:
    schema = "" if url.startswith("sqlite") else "perdure."
    text = f"SELECT kind, name, tag, running, waiting, demand FROM {schema}demand ORDER BY 1, 2, 3"  # noqa: S608 - a test
    found = await asyncio.to_thread(upkeep_for(url).query, text, within_s=10, limit=10)
    return [tuple(row) for row in found.rows]


async def test_demand_is_what_runs_and_what_could_run_by_tag(stage: Stage) -> None:
    stage.expect_log("no live worker serves activity 'dig' with tag 'gpu'")
    gate = Gate()
    engine = await stage.engine(
        [dig, digging, resting], options=options(async_jobs=1), resources=[gate]
    )
    await engine.start("r-1", resting)
    for number in range(3):
        await engine.start(f"d-{number}", digging, None)
    await engine.start("g-1", digging, "gpu")

    await gate.reached()
    await until(lambda: _is_demand(stage.url, [3, 1]))
    plain, gpu = await read_demand(stage.url)
    [depth] = [one for one in await engine.queues() if (one.name, one.tag) == ("dig", None)]
    # A worker takes a job more than it can run, so that it need not wait for the next.
    assert plain == ("activity", "dig", "", depth.leased, depth.ready, 3)
    assert depth.leased >= 1
    assert depth.ready >= 1
    assert gpu == ("activity", "dig", "gpu", 0, 1, 1)

    gate.opened.set()
    for number in range(3):
        await engine.handle(f"d-{number}").result(timeout=timedelta(seconds=30))
    await until(lambda: _is_demand(stage.url, [1]))
    assert await read_demand(stage.url) == [gpu]


async def _is_demand(url: str, expected: list[int]) -> bool:
    return [row[5] for row in await read_demand(url)] == expected
