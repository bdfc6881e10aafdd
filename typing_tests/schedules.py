"""Schedules: arguments are checked as for a start; what is no time is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import assert_type

from perdure import (
    BlockingClient,
    Client,
    Context,
    Cron,
    Engine,
    Every,
    Schedule,
    ScheduleHandle,
    ScheduleInfo,
    Slot,
    activity,
    orchestration,
)
from perdure.client.blocking.schedules import BlockingScheduleHandle


@activity
async def send(region: str) -> None: ...


@orchestration
async def report(ctx: Context, region: str, *, full: bool = False) -> str:
    assert_type(ctx.slot, Slot | None)
    if ctx.slot is not None:
        assert_type(ctx.slot.at, datetime)
        assert_type(ctx.slot.schedule, str)
    return region


nightly = Schedule("nightly", Cron("0 2 * * *", "Europe/Berlin"), report, "eu", full=True)
often = Schedule(
    "often", [Every(timedelta(minutes=5)), Cron("0 0 1 1 *")], report, region="us"
).with_options(
    overlap="queue",
    missed="all",
    within=timedelta(hours=6),
    jitter=timedelta(seconds=30),
    except_on=[date(2026, 12, 25)],
)
rarely = Schedule("rarely", Every(300, 7.5), report, "eu").with_options(within=3600, jitter=0.5)
assert_type(Every(300).period, timedelta)
assert_type(Every(300).offset, timedelta)


def refused_when_made() -> None:
    Schedule("n", Cron("0 2 * * *"), report)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Schedule("n", Cron("0 2 * * *"), report, 7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Schedule("n", Cron("0 2 * * *"), report, "eu", fast=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Schedule("n", Cron("0 2 * * *"), send, "eu")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    Schedule("n", "0 2 * * *", report, "eu")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Cron(2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Every("5 min")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    nightly.with_options(overlap="never")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    nightly.with_options(missed="some")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    nightly.with_options(except_on=["2026-12-25"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    nightly.slots("today")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def what_clients_do(client: Client) -> None:
    handle = await client.put_schedule(nightly)
    assert_type(handle, ScheduleHandle)
    await handle.pause("migration")
    assert_type(await handle.trigger(trigger_id="t-1"), str)
    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    assert_type(await client.schedule("nightly").backfill(begin, end), int)
    assert_type(await client.schedules(), list[ScheduleInfo])
    assert_type(await handle.info(), ScheduleInfo)
    assert_type(nightly.slots(begin, count=3), list[datetime])
    await client.put_schedule(report)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.backfill(begin, "then")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.trigger("t-1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.schedule(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def what_waits(client: BlockingClient) -> None:
    assert_type(client.put_schedule(often), BlockingScheduleHandle)
    assert_type(client.schedule("often").trigger(), str)
    assert_type(client.schedules(), list[ScheduleInfo])


def handed_over() -> None:
    Engine("sqlite:///shop.db", [report, send, nightly, often])
