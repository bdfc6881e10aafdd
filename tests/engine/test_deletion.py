"""Deleting: all of it or nothing, no way back, and never by mistake."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from perdure import ActivityContext, Client, Signal, Status, activity, orchestration
from perdure.authoring.registry import Defined
from perdure.clock import ManualClock, to_datetime
from perdure.errors import (
    InstanceNotFoundError,
    InstanceRunningError,
    InstanceTerminatedError,
    NotRootError,
    UsageError,
)
from perdure.model.admin import DeletedCounts
from perdure.store.sql.store import SqlStore
from tests.each import each
from tests.engine.stage import Gate, Stage, has_ended, options, until, waits_for

SECOND = timedelta(seconds=1)
go = Signal("go", str)


@orchestration
async def waiting(x: int = 0) -> str:
    return await go.receive()


@orchestration
async def returns(x: int = 0) -> int:
    return x


@orchestration
async def parent(child_id: str = "c") -> str:
    return await middle.with_options(instance_id=child_id)()


@orchestration
async def middle() -> str:
    return await waiting.with_options(instance_id="g")()


@orchestration
async def leaves_a_child() -> None:
    child = waiting.with_options(instance_id="left", on_parent_close="abandon")
    task = asyncio.create_task(child())
    await asyncio.sleep(0)
    await go.receive()
    del task


ALL: list[Defined] = [waiting, returns, parent, middle, leaves_a_child]


async def rows_of(client: Client, *instance_ids: str) -> list[str]:
    """Return the tables that still know one of these ids."""
    assert isinstance(client._core.store, SqlStore)
    contents = await client._core.store.read_contents()
    return [
        field.name
        for field in fields(contents)
        if any(repr(one) in repr(getattr(contents, field.name)) for one in instance_ids)
    ]


async def waits(client: Client, instance_id: str) -> None:
    """Wait until an instance is there and waits for the signal."""
    await until(lambda: exists(client, instance_id))
    await waits_for(client.handle(instance_id), "signal 'go'")


async def exists(client: Client, instance_id: str) -> bool:
    return await client.count(ids=[instance_id]) == 1


# ------------------------------------------------------------------------- one tree


async def test_a_deleted_instance_leaves_no_row_behind(stage: Stage) -> None:
    """In any table."""
    engine = await stage.engine(ALL)
    handle = await engine.start("w-1", waiting)
    await handle.send(go, "on", message_id="m-1")
    await handle.result()

    counts = await engine.delete("w-1")

    assert (counts.instances, counts.executions) == (1, 1)
    assert counts.events >= 4
    assert await rows_of(engine, "w-1") == []
    with pytest.raises(InstanceNotFoundError):
        await handle.info()


async def test_a_tree_is_deleted_as_a_whole(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("p", parent)
    await waits(engine, "g")
    await engine.handle("g").send(go, "on")
    await handle.result()

    counts = await handle.delete()

    assert counts.instances == 3
    assert await rows_of(engine, "p", "c", "g") == []


async def test_a_child_is_not_deleted_without_its_root(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("p", parent)
    await waits(engine, "g")

    with pytest.raises(NotRootError, match=r"'g' is a child .* delete its root 'p'") as caught:
        await engine.delete("g", force=True)
    with pytest.raises(NotRootError, match=r"'c' is a child .* delete its root 'p'"):
        await engine.delete("c")

    assert caught.value.root_id == "p"
    await engine.handle("g").send(go, "on")
    assert await handle.result() == "on"


async def test_a_running_instance_is_not_deleted_without_force(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("w", waiting)

    with pytest.raises(InstanceRunningError, match=r"'w' has not ended \(running\): end it first"):
        await handle.delete()

    await handle.send(go, "on")
    assert await handle.result() == "on"


async def test_an_ended_root_stays_while_something_below_it_runs(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("l", leaves_a_child)
    await waits(engine, "left")
    await handle.send(go, "end")
    await handle.result()

    with pytest.raises(InstanceRunningError, match=r"'left' has not ended .* is below 'l'"):
        await handle.delete()
    assert (await engine.delete_all(prefix="l")).instances == 0

    counts = await handle.delete(force=True)
    assert counts.instances == 2
    assert await rows_of(engine, "l", "left") == []


async def test_whoever_waits_for_a_deleted_instance_is_told(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    elsewhere = await stage.client()
    handle = await engine.start("w", waiting)
    here = asyncio.create_task(handle.result())
    there = asyncio.create_task(elsewhere.handle("w").result())
    for_report = asyncio.create_task(elsewhere.handle("w").wait_report())
    await until(lambda: elsewhere._core._watching()._task is not None)

    await engine.delete("w", force=True)

    for waiter in (here, there, for_report):
        with pytest.raises(InstanceNotFoundError):
            await waiter


@pytest.mark.parametrize("hot_instances", [20_000, 0], ids=["in memory", "not in memory"])
async def test_a_forced_deletion_ends_running_work_and_nothing_comes_back(
    stage: Stage, hot_instances: int
) -> None:
    """The activity is told, its result is refused, and the id is free."""
    gate = Gate()
    told: list[str] = []

    @activity
    async def stand(ctx: ActivityContext) -> str:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            told.append(ctx.instance_id)
            raise
        return "late"

    @orchestration
    async def stands() -> str:
        return await stand()

    engine = await stage.engine(
        [stand, stands, returns], options=options(hot_instances=hot_instances)
    )
    handle = await engine.start("s", stands)
    await gate.reached()

    counts = await engine.delete("s", force=True)

    assert (counts.instances, counts.jobs) == (1, 1)
    await until(lambda: told == ["s"])
    assert await rows_of(engine, "s") == []
    assert await (await engine.start("s", returns, 7)).result() == 7
    assert (await handle.info()).name == "returns"


async def test_a_deletion_elsewhere_reaches_the_activity_here(stage: Stage) -> None:
    gate = Gate()
    told = asyncio.Event()

    @activity
    async def stand() -> str:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            told.set()
            raise
        return "late"

    @orchestration
    async def stands() -> str:
        return await stand()

    engine = await stage.engine(
        [stand, stands], options=options(poll_max=timedelta(milliseconds=50))
    )
    await engine.start("s", stands)
    await gate.reached()
    client = await stage.client()

    await client.delete("s", force=True)

    await until(told.is_set)
    assert await rows_of(client, "s") == []


async def test_a_result_that_is_under_way_cannot_bring_an_instance_back(stage: Stage) -> None:
    """The activity does not listen, returns, and its commit finds nothing."""
    gate, has_returned = Gate(), asyncio.Event()

    @activity
    async def deaf() -> str:
        while not gate.opened.is_set():
            with suppress(asyncio.CancelledError):
                await gate.pass_through()
        has_returned.set()
        return "late"

    @orchestration
    async def stands() -> str:
        return await deaf()

    engine = await stage.engine([deaf, stands])
    await engine.start("s", stands)
    await gate.reached()

    await engine.delete("s", force=True)
    gate.opened.set()
    await until(has_returned.is_set)
    await engine.close()

    client = await stage.client()
    assert await rows_of(client, "s") == []


async def test_a_child_born_during_the_deletion_is_never_left_alone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tree is read again until the deletion has all of it."""
    engine = await stage.engine(ALL)
    handle = await engine.start("p", parent)
    client = await stage.client()
    store = client._core.store
    asked: list[list[str]] = []
    delete = store.admin.delete

    async def late(
        instances: Sequence[tuple[str, int]], *, force: bool = False
    ) -> DeletedCounts | None:
        asked.append([one for one, _ in instances])
        if len(asked) == 1:
            # What was read before the grandchild was there.
            instances = [one for one in instances if one[0] != "g"]
        return await delete(instances, force=force)

    monkeypatch.setattr(store.admin, "delete", late)
    await waits(engine, "g")

    counts = await client.delete("p", force=True)

    assert len(asked) == 2
    assert counts.instances == 3
    assert await rows_of(client, "p", "c", "g") == []
    with pytest.raises(InstanceNotFoundError):
        await handle.info()


async def test_a_message_to_a_deleted_instance_waits_for_the_next_one_of_its_id(
    stage: Stage,
) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("w", waiting)
    await handle.delete(force=True)

    await handle.send(go, "for the next")

    assert await (await engine.start("w", waiting)).result() == "for the next"


# ----------------------------------------------------------------------------- many


async def test_ended_instances_are_deleted_by_a_filter(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine(ALL, clock=clock)
    for number in range(3):
        await (await engine.start(f"r-{number}", returns)).result()
    clock.advance(SECOND)
    later = to_datetime(clock())
    await (await engine.start("r-new", returns)).result()
    await engine.start("r-running", waiting)

    counts = await engine.delete_all(prefix="r-", ended_before=later)

    assert counts.instances == 3
    left = await engine.instances()
    assert {info.instance_id for info in left.items} == {"r-new", "r-running"}


async def test_a_bulk_deletion_skips_what_runs(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await engine.start("w", waiting)
    await (await engine.start("r", returns)).result()

    counts = await engine.delete_all(status=["completed", "running"])

    assert counts.instances == 1
    assert (await engine.handle("w").info()).status is Status.RUNNING


async def test_a_bulk_deletion_takes_whole_trees_of_roots(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("p", parent)
    await waits(engine, "g")
    await engine.handle("g").send(go, "on")
    await handle.result()

    assert (await engine.delete_all(prefix="g")).instances == 0
    assert (await engine.delete_all(status="completed")).instances == 3
    assert await engine.count() == 0


async def test_an_unexpected_count_deletes_nothing(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    for number in range(3):
        await (await engine.start(f"r-{number}", returns)).result()

    with pytest.raises(UsageError, match=r"expect=2, but the filter matches 3 .* nothing was del"):
        await engine.delete_all(name="returns", expect=2)
    with pytest.raises(UsageError, match=r"expect=2, but the filter matches 3"):
        await engine.delete_all(name="returns", expect=2, limit=2)
    with pytest.raises(UsageError, match=r"expect=4, but the filter matches 3"):
        await engine.delete_all(name="returns", expect=4)
    with pytest.raises(UsageError, match=r"expect=3 is more than limit=2"):
        await engine.delete_all(name="returns", expect=3, limit=2)
    assert await engine.count() == 3

    assert (await engine.delete_all(name="returns", expect=3)).instances == 3
    assert (await engine.delete_all(name="returns", expect=0)).instances == 0


async def test_a_bulk_deletion_has_a_limit(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    for number in range(5):
        await (await engine.start(f"r-{number}", returns)).result()

    counts = await engine.delete_all(name="returns", limit=2)

    assert counts.instances == 2
    assert await engine.count() == 3


async def test_very_many_trees_are_deleted_in_a_few_transactions(stage: Stage) -> None:
    client = await stage.client()
    for number in range(250):
        handle = await client.start(f"r-{number}", returns)
        await handle.terminate()

    counts = await client.delete_all(status="terminated", expect=250)

    assert counts.instances == 250
    assert await client.count() == 0


@pytest.fixture
async def client(stage: Stage) -> Client:
    """For what is done wrong in many ways."""
    return await stage.client()


@each(
    [
        ({}, "delete_all needs a condition that says which instances"),
        ({"roots_only": True}, "delete_all needs a condition"),
        ({"name": None}, "delete_all needs a condition"),
        ({"status": "running"}, "status=running: only instances that have ended are deleted"),
        ({"status": "failed", "expect": -1}, "expect must be a whole number of at least 0"),
        ({"status": "failed", "limit": 0}, "limit must be a whole number of at least 1"),
    ],
)
async def test_a_bulk_deletion_without_a_clear_aim_is_refused(
    case: tuple[dict[str, Any], str], client: Client
) -> None:
    asked, problem = case
    with pytest.raises(UsageError, match=problem):
        await client.delete_all(**asked)


async def test_a_terminated_instance_can_be_deleted_without_a_worker(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("w", waiting)
    await handle.terminate("no longer needed")
    with pytest.raises(InstanceTerminatedError):
        await handle.result()

    await handle.delete()

    assert not await client.count()


async def test_a_second_deletion_finds_nothing(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await (await engine.start("r", returns)).result()
    await until(lambda: has_ended(engine, "r"))
    await engine.delete("r")

    with pytest.raises(InstanceNotFoundError):
        await engine.delete("r")
