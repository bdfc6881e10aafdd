"""What instances report and keep, read and waited for by clients."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import pytest

from perdure import Client, Context, Signal, orchestration
from perdure.authoring.registry import Defined
from perdure.clock import ManualClock, to_datetime
from perdure.errors import (
    InstanceNotFoundError,
    PayloadError,
    ResultTimeoutError,
    StoreUnavailableError,
    UsageError,
)
from tests.engine.stage import Stage, until, waits_for

SOON = timedelta(milliseconds=10)
go = Signal("go", int)


@dataclass
class Done:
    of: int
    done: int


@orchestration
async def reporting(ctx: Context) -> str:
    async for done in go:
        if done < 0:
            break
        ctx.report(Done(of=10, done=done))
    ctx.report(None)
    return "over"


@orchestration
async def silent() -> int:
    return await go.receive()


@orchestration
async def keeping(ctx: Context) -> None:
    ctx.kv["b"] = 1
    ctx.kv["a"] = [1, 2]
    async for number in go:
        if number < 0:
            break
        ctx.kv[f"k-{number}"] = {"of": 10, "done": number}


@orchestration
async def continuing(ctx: Context, round: int) -> None:
    ctx.report({"round": round})
    ctx.kv[f"round-{round}"] = round
    await go.receive()
    continuing.continue_as_new(round + 1)


ALL: list[Defined] = [reporting, silent, keeping, continuing]


async def is_watching(client: Client) -> bool:
    return bool(client._core._watching()._wants)


# --------------------------------------------------------------------------- reports


async def test_an_instance_that_never_reported_has_no_report(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("s", silent)

    assert await handle.report() is None


async def test_a_report_is_read_with_its_version_and_time(stage: Stage) -> None:
    clock = ManualClock()
    engine = await stage.engine(ALL, clock=clock)
    handle = await engine.start("r", reporting)
    clock.advance(timedelta(seconds=5))
    await handle.send(go, 3)

    report = await handle.wait_report()

    assert report is not None
    assert report == await handle.report()
    assert (report.version, report.value) == (1, {"of": 10, "done": 3})
    assert report.at == to_datetime(clock())
    assert report.read(Done) == Done(10, 3)
    with pytest.raises(PayloadError):
        report.read(int)


async def test_whoever_follows_reports_sees_every_version_it_asks_for(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("r", reporting)
    version = 0
    for number in range(3):
        await handle.send(go, number)
        report = await handle.wait_report(after=version)
        assert report is not None
        assert (report.version, report.read(Done).done) == (version + 1, number)
        version = report.version
    await handle.send(go, -1)

    last = await handle.wait_report(after=version)

    assert last is not None
    assert (last.version, last.value) == (version + 1, None)


async def test_whoever_follows_reports_comes_to_an_end_with_the_instance(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("r", reporting)
    for said in (1, 2, -1):
        await handle.send(go, said)
    await handle.result()
    seen = [0]

    while (report := await handle.wait_report(after=seen[-1])) is not None:
        seen.append(report.version)

    last = await handle.report()
    assert last is not None
    assert seen == [0, last.version]


async def test_an_instance_that_ends_lets_go_of_whoever_waits_for_a_newer_report(
    stage: Stage,
) -> None:
    engine = await stage.engine(ALL)
    elsewhere = await stage.client()
    handle = await engine.start("r", reporting)
    await handle.send(go, 1)
    first = await handle.wait_report()
    assert first is not None
    waiting = [
        asyncio.create_task(client.handle("r").wait_report(after=first.version))
        for client in (engine, elsewhere)
    ]
    await until(lambda: is_watching(engine))
    await until(lambda: is_watching(elsewhere))

    await handle.terminate("enough")

    assert await asyncio.gather(*waiting) == [None, None]


async def test_waiting_for_a_report_of_an_ended_instance_gives_what_is_newer_or_none(
    stage: Stage,
) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("s", silent)
    waiting = asyncio.create_task(handle.wait_report())
    await until(lambda: is_watching(engine))
    await handle.send(go, 1)

    assert await waiting is None
    assert await handle.wait_report() is None

    reporting_one = await engine.start("r", reporting)
    await reporting_one.send(go, 1)
    await reporting_one.send(go, -1)
    await reporting_one.result()
    last = await reporting_one.wait_report()
    assert last is not None
    assert last == await reporting_one.report()
    assert await reporting_one.wait_report(after=last.version) is None
    assert await reporting_one.wait_report(after=100) is None


async def test_a_report_of_another_process_is_seen(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    client = await stage.client()
    await engine.start("r", reporting)
    waiting = asyncio.create_task(client.handle("r").wait_report())
    await until(lambda: is_watching(client))

    await engine.handle("r").send(go, 5)

    report = await waiting
    assert report is not None
    assert report.read(Done).done == 5


async def test_a_report_of_this_process_is_seen_without_looking(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.client.reading.watch.LOOK_MIN_S", 1000.0)
    engine = await stage.engine(ALL)
    handle = await engine.start("r", reporting)
    waiting = asyncio.create_task(handle.wait_report())
    await until(lambda: is_watching(engine))

    await handle.send(go, 5)

    report = await waiting
    assert report is not None
    assert report.version == 1


async def test_many_who_wait_ask_one_question(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await stage.engine(ALL)
    client = await stage.client()
    for number in range(20):
        await engine.start(f"r-{number}", reporting)
    asked: list[int] = []
    read_reports = client._core.store.admin.read_reports

    async def counted(instance_ids: list[str]) -> object:
        asked.append(len(instance_ids))
        return await read_reports(instance_ids)

    monkeypatch.setattr(client._core.store.admin, "read_reports", counted)
    waiting = [
        asyncio.create_task(client.handle(f"r-{number}").wait_report()) for number in range(20)
    ]
    # Each looks once by itself when it begins to wait.
    await until(lambda: asked.count(1) == 20)
    asked.clear()
    await engine.handle("r-0").send(go, 1)

    await waiting[0]

    assert min(asked) >= 19
    for task in waiting[1:]:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_report_that_does_not_come_in_time_says_what_is_waited_for(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("r", reporting)
    await waits_for(handle, "signal 'go'")

    with pytest.raises(ResultTimeoutError, match=r"has no report after 0.01 s: r .* signal 'go'"):
        await handle.wait_report(timeout=SOON)
    await handle.send(go, 1)
    await handle.wait_report()
    with pytest.raises(ResultTimeoutError, match="has no report after version 1 after 0"):
        await handle.wait_report(after=1, timeout=SOON)
    with pytest.raises(UsageError, match="after must be a whole number of at least 0, got -1"):
        await handle.wait_report(after=-1)


async def test_waiting_costs_nothing_when_nobody_waits_any_more(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("r", reporting)
    with pytest.raises(ResultTimeoutError):
        await handle.wait_report(timeout=SOON)

    assert engine._core._watching()._wants == []
    assert engine._core.endings._listeners == {}


async def test_store_trouble_does_not_end_a_wait(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.expect_log("could not look for news this time")
    engine = await stage.engine(ALL)
    client = await stage.client()
    await engine.start("r", reporting)
    waiting = asyncio.create_task(client.handle("r").wait_report())
    ending = asyncio.create_task(client.handle("r").result())
    await until(lambda: is_watching(client))
    read_instances = client._core.store.read_instances
    refused = 0

    async def troubled(instance_ids: list[str]) -> object:
        nonlocal refused
        if refused < 3:
            refused += 1
            raise StoreUnavailableError("the disk is gone for a moment")
        return await read_instances(instance_ids)

    await until(lambda: client._core._watching()._task is not None)
    monkeypatch.setattr(client._core.store, "read_instances", troubled)
    # Before there is anything to find: a look that began earlier could find it.
    await until(lambda: refused == 3)
    await engine.handle("r").send(go, 5)

    report = await waiting
    assert report is not None
    await engine.handle("r").send(go, -1)
    assert await ending == "over"


# -------------------------------------------------------------------------------- kv


async def test_values_are_read_sorted_by_key(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("k", keeping)

    values = await handle.kv()

    assert list(values.items()) == [("a", [1, 2]), ("b", 1)]


async def test_a_value_is_decoded_by_its_type(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("k", keeping)

    assert await handle.kv("a", list[int]) == [1, 2]
    assert await handle.kv("b") == 1
    assert await handle.kv("c", int) is None
    with pytest.raises(PayloadError):
        await handle.kv("a", int)


async def test_a_value_is_waited_for(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    client = await stage.client()
    handle = await engine.start("k", keeping)
    here = asyncio.create_task(handle.wait_kv("k-7", Done))
    there = asyncio.create_task(client.handle("k").wait_kv("k-7", Done))
    await until(lambda: is_watching(engine))
    await until(lambda: is_watching(client))

    await handle.send(go, 7)

    assert await here == await there == Done(10, 7)
    assert await handle.wait_kv("a") == [1, 2]


async def test_a_value_of_this_process_is_seen_without_looking(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.client.reading.watch.LOOK_MIN_S", 1000.0)
    engine = await stage.engine(ALL)
    handle = await engine.start("k", keeping)
    waiting = asyncio.create_task(handle.wait_kv("k-7", Done))
    await until(lambda: is_watching(engine))

    await handle.send(go, 7)

    assert await waiting == Done(10, 7)


async def test_an_ended_instance_sets_no_more_values(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("k", keeping)
    waiting = asyncio.create_task(handle.wait_kv("k-7", Done))
    await until(lambda: is_watching(engine))
    await handle.send(go, -1)

    assert await waiting is None
    assert await handle.wait_kv("k-8") is None
    assert await handle.wait_kv("b", int) == 1
    assert await handle.kv() == {"a": [1, 2], "b": 1}


async def test_a_value_that_does_not_come_in_time_says_what_is_waited_for(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("k", keeping)

    with pytest.raises(ResultTimeoutError, match="has no value under key 'x' after"):
        await handle.wait_kv("x", timeout=SOON)


# ------------------------------------------------------------------- over generations


async def test_report_and_values_outlive_an_execution(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("c", continuing, 1)
    await handle.send(go, 1)

    report = await handle.wait_report(after=1)

    assert report is not None
    assert (report.version, report.value) == (2, {"round": 2})
    assert await handle.wait_kv("round-2", int) == 2
    assert await handle.kv() == {"round-1": 1, "round-2": 2}
    info = await handle.info()
    assert (info.execution, info.input) == (2, {"round": 2})
    assert [one.ended_as for one in await handle.executions()] == ["continued_as_new", None]
    assert (await handle.history(1))[-1].kind == "continued_as_new"
    assert (await handle.history(2))[0].kind == "started"
    assert "execution 2" in await handle.explain()


async def test_a_deleted_instance_takes_report_and_values_along(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("c", continuing, 1)
    await handle.delete(force=True)

    for asked in (handle.report(), handle.kv(), handle.wait_report(), handle.wait_kv("a")):
        with pytest.raises(InstanceNotFoundError):
            await asked

    again = await engine.start("c", silent)
    assert await again.report() is None
    assert await again.kv() == {}
