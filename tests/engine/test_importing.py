"""Histories that were exported from one store become instances of another."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from perdure import Client, Context, Engine, Signal, activity, orchestration
from perdure.cli.importing import import_histories
from perdure.client.histories.recorded import (
    RecordedHistory,
    read_lines,
    read_recorded,
    write_lines,
)
from tests.engine.stage import Stage, waits_for

go = Signal("go", str)


@activity
async def double(n: int) -> int:
    return 2 * n


@orchestration
async def child(n: int) -> int:
    return await double(n)


@orchestration
async def busy(ctx: Context, n: int) -> int:
    ctx.kv["seen"] = n
    ctx.report({"at": 1})
    first = await double(n)
    await asyncio.sleep(0.001)
    del ctx.kv["seen"]
    ctx.kv["kept"] = first
    ctx.report({"at": 2})
    return await child(first)


@orchestration
async def failing() -> None:
    raise RuntimeError("no")


@orchestration
async def waiting() -> str:
    return await go.receive()


@orchestration
async def continuing(n: int) -> int:
    if n:
        continuing.continue_as_new(n - 1)
    return n


@pytest.fixture
async def exported() -> dict[str, RecordedHistory]:
    definitions = [double, child, busy, failing, waiting, continuing]
    async with Engine("sqlite://:memory:", definitions) as engine:
        handles = [
            await engine.start("busy-1", busy, 4),
            await engine.start("failed-1", failing),
            await engine.start("continued-1", continuing, 1),
        ]
        await asyncio.gather(*(one.result() for one in handles), return_exceptions=True)
        await engine.start("waiting-1", waiting)
        stopped = await engine.start("stopped-1", waiting)
        await waits_for(stopped, "signal 'go'")
        await stopped.terminate("enough")
        page = await engine.instances()
        recorded = [await read_recorded(engine, one.instance_id) for one in page.items]
    # As a file has them.
    lines = [line for one in reversed(recorded) for line in write_lines(one)]
    found = {one.instance_id: one for one in read_lines(lines, source="test")}
    return dict(sorted(found.items(), key=lambda item: item[1].events[0].at_ms))


async def brought(client: Client, *histories: RecordedHistory) -> dict[str, tuple[str, str]]:
    found = await import_histories(client, list(histories))
    return {one.instance_id: (one.result, one.why) for one in found}


async def test_what_has_ended_is_as_it_was(
    stage: Stage, exported: dict[str, RecordedHistory]
) -> None:
    client = await stage.client()
    [child_id] = [one for one in exported if exported[one].name == "child"]
    chosen = [exported[one] for one in ("busy-1", child_id, "failed-1", "stopped-1")]

    assert set((await brought(client, *chosen)).values()) == {("imported", "")}

    for history in chosen:
        again = await read_recorded(client, history.instance_id)
        assert again == replace(history, events=again.events)
        assert list(again.events) == list(history.events)
    handle = client.handle("busy-1", busy)
    assert await handle.result() == 16
    assert await handle.kv() == {"kept": 8}
    report = await handle.report()
    assert report is not None
    assert report.value == {"at": 2}
    info = await handle.info()
    assert info.created_at.timestamp() * 1000 == exported["busy-1"].events[0].at_ms
    assert [one.info.instance_id for one in (await handle.tree()).children] == [child_id]
    assert (await client.handle("stopped-1").info()).reason == "enough"

    assert set((await brought(client, *chosen)).values()) == {("there", "")}


async def test_what_cannot_be_imported_is_said_and_leaves_nothing(
    stage: Stage, exported: dict[str, RecordedHistory]
) -> None:
    client = await stage.client()
    busy_1 = exported["busy-1"]
    [child_id] = [one for one in exported if exported[one].name == "child"]
    taken = replace(exported["failed-1"], instance_id="taken-1")
    await client.start("taken-1", waiting)
    cut = replace(busy_1, events=[*busy_1.events[:3], busy_1.events[-1]])
    twice = replace(busy_1, events=[*busy_1.events[:-1], *busy_1.events[-2:]])
    back = replace(busy_1, events=[busy_1.events[0]._replace(at_ms=2**50), *busy_1.events[1:]])
    unknown = replace(busy_1, events=[busy_1.events[0]._replace(kind="spell"), *busy_1.events[1:]])
    reasons = {
        "has not ended": exported["waiting-1"],
        "it is execution 2": exported["continued-1"],
        "is not here: export that with --children": exported[child_id],
        "the id is taken by another instance (waiting, running)": taken,
        "events are numbered": cut,
        "numbered": twice,
        "its times go back": back,
        "an event cannot be read": unknown,
        "it is said to be failed": replace(busy_1, status="failed"),
        "it is a decider's": replace(busy_1, kind="decider"),
        "was started as busy": replace(busy_1, name="other"),
    }

    for reason, history in reasons.items():
        [(result, why)] = (await brought(client, history)).values()
        assert result == "refused", reason
        assert reason in why

    assert [one.instance_id for one in (await client.instances()).items] == ["taken-1"]
