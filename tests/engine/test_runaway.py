"""Orchestrations that call each other without end: a limit, and an end that catches up."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from perdure import Client, Engine, Signal, orchestration
from perdure.errors import ChildError, InstanceFailedError
from tests.engine.stage import Stage, has_ended, idle, until, waits_for

go = Signal("go", str)


@orchestration
async def ping(width: int) -> None:
    await asyncio.gather(*(pong(width) for _ in range(width)))


@orchestration
async def pong(width: int) -> None:
    await asyncio.gather(*(ping(width) for _ in range(width)))


@orchestration
async def undo_step(levels: int) -> str:
    return "undone" if levels == 0 else await undo_step(levels - 1)


@orchestration
async def careful() -> str:
    try:
        return await go.receive()
    finally:
        await undo_step.with_options(instance_id="undo")(3)


@orchestration
async def middle() -> str:
    return await careful.with_options(instance_id="careful")()


@orchestration
async def top() -> str:
    return await middle.with_options(instance_id="middle")()


async def has_more(client: Client, count: int) -> bool:
    return await client.count() >= count


async def none_runs(client: Client) -> bool:
    return await client.count(status="running") == 0


@pytest.fixture
async def endless(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> Engine:
    """An engine in which children may be as deep as they like."""
    monkeypatch.setattr("perdure.core.orchestrations.turn.MAX_CHILD_DEPTH", 1_000_000)
    return await stage.engine([ping, pong])


async def test_a_recursion_without_end_fails_at_the_limit_and_names_those_above(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    monkeypatch.setattr("perdure.core.orchestrations.turn.MAX_CHILD_DEPTH", 12)
    depth = 0

    @orchestration
    async def dive(level: int) -> None:
        nonlocal depth
        depth = max(depth, level)
        await dive.with_options(instance_id=f"level-{level + 1}")(level + 1)

    engine = await stage.engine([dive])
    handle = await engine.start("level-0", dive, 0)

    with pytest.raises(InstanceFailedError, match="ChildError"):
        await handle.result()

    assert depth == 12
    with pytest.raises(InstanceFailedError) as caught:
        await engine.handle("level-12").result()
    assert caught.value.type_name == ChildError.__name__
    assert caught.value.message == (
        "child 'level-13' not started: LimitExceededError: it would be 13 levels deep, and 12 are "
        "allowed; above it are level-12, level-11, level-10, level-9, ..., level-0. If the depth "
        "is meant, let ctx.start begin what nobody waits for"
    )


@pytest.mark.parametrize("width", [1, 2])
async def test_terminating_the_root_of_a_runaway_recursion_ends_all_of_it(
    endless: Engine, width: int
) -> None:
    handle = await endless.start("root", ping, width)
    await until(partial(has_more, endless, 50))

    await handle.terminate("enough")

    await until(partial(none_runs, endless))
    count = await endless.count()
    await idle(endless)
    assert await endless.count() == count


async def test_cancelling_the_root_of_a_runaway_recursion_ends_all_of_it(endless: Engine) -> None:
    handle = await endless.start("root", ping, 1)
    await until(partial(has_more, endless, 50))

    await handle.cancel("enough")

    await until(partial(none_runs, endless))


@pytest.mark.parametrize("width", [1, 2])
async def test_a_runaway_recursion_can_be_deleted_while_it_runs(
    endless: Engine, width: int
) -> None:
    await endless.start("root", ping, width)
    await until(partial(has_more, endless, 50))

    counts = await endless.delete("root", force=True)

    assert counts.instances >= 50
    await idle(endless)
    assert await endless.count() == 0


async def test_what_is_cancelled_since_those_above_have_ended_cleans_up_with_children(
    stage: Stage,
) -> None:
    """They were started by one that has heard of the end, and not in ignorance of it."""
    engine = await stage.engine([top, middle, careful, undo_step])
    handle = await engine.start("top", top)
    await until(partial(has_more, engine, 3))
    await waits_for(engine.handle("careful"), "signal 'go'")

    await handle.terminate("enough")
    await until(partial(has_ended, engine, "careful"))

    assert await engine.handle("undo", undo_step).result() == "undone"
