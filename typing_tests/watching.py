"""Watching an instance from outside: its report, its keys and values, its executions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, assert_type

from perdure import Client, Handle
from perdure.client.blocking.client import BlockingHandle
from perdure.client.histories.history import History
from perdure.client.reading.info import (
    ExecutionInfo,
    InstanceInfo,
    InstanceTree,
    JobInfo,
    Progress,
    Report,
)
from perdure.model.admin import InstanceStats
from typing_tests.shop import No, Order, Receipt, Yes, use


async def reports(handle: Handle[Receipt]) -> None:
    assert_type(await handle.report(), Report | None)
    assert_type(await handle.wait_report(), Report | None)
    report = await handle.wait_report(after=3, timeout=timedelta(seconds=30))
    if report is not None:
        assert_type(report.value, Any)
        assert_type(report.version, int)
        assert_type(report.at, datetime)
        assert_type(report.read(Order), Order)
        assert_type(report.read(list[int]), list[int])
        assert_type(report.read(Yes | No), Yes | No)


async def values(handle: Handle[Receipt]) -> None:
    assert_type(await handle.kv(), dict[str, Any])
    assert_type(await handle.kv("count"), Any)
    assert_type(await handle.kv("count", int), int | None)
    assert_type(await handle.kv("order", Order), Order | None)
    assert_type(await handle.kv("orders", list[Order]), list[Order] | None)
    assert_type(await handle.kv("answer", Yes | No), Yes | No | None)
    assert_type(await handle.wait_kv("count"), Any)
    assert_type(await handle.wait_kv("count", int), int | None)
    assert_type(await handle.wait_kv("answer", Yes | No, timeout=timedelta(1)), Yes | No | None)


def without_await(handle: BlockingHandle[Receipt]) -> None:
    assert_type(handle.report(), Report | None)
    assert_type(handle.wait_report(after=3), Report | None)
    assert_type(handle.kv(), dict[str, Any])
    assert_type(handle.kv("count", int), int | None)
    assert_type(handle.kv("answer", Yes | No), Yes | No | None)
    assert_type(handle.wait_kv("order", Order), Order | None)


async def the_rest(client: Client, handle: Handle[Receipt]) -> None:
    assert_type(await handle.executions(), list[ExecutionInfo])
    assert_type(await handle.history(2, after=10, limit=100), History)
    tree = await handle.tree()
    assert_type(tree, InstanceTree)
    assert_type(tree.children, tuple[InstanceTree, ...])
    assert_type(await handle.stats(), InstanceStats)
    assert_type(await handle.jobs(), list[JobInfo])
    assert_type(await handle.progress(), list[Progress])
    assert_type(await handle.unpark(), bool)
    await handle.restart()
    await handle.delete(force=True)
    await handle.prune(keep_last=3)
    page = await client.instances(status="failed", name="checkout", limit=10)
    assert_type(page.items, list[InstanceInfo])
    assert_type(page.next, str | None)
    assert_type(await client.count(status=["failed", "cancelled"], prefix="o-"), int)


# ----------------------------------------------- misuses: every marked line is refused


async def wrong_reports(handle: Handle[Receipt], report: Report) -> None:
    a: Report = await handle.wait_report()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    b: Report | None = handle.wait_report()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    use((await handle.report()).value)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    await handle.wait_report(3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await handle.wait_report(after="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.wait_report(timeout="30")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    handle.wait_report()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    c: str = report.read(Order)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    report.read()  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    use(a, b, c)


async def wrong_values(handle: Handle[Receipt]) -> None:
    a: int = await handle.kv("count", int)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    b: str | None = await handle.kv("count", int)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    c: int | None = handle.kv("count", int)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    d: Yes | None = await handle.wait_kv("answer", Yes | No)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    await handle.kv(3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await handle.kv("count", 3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await handle.wait_kv()  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    handle.kv("count")  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    use(a, b, c, d)


def wrong_without_await(handle: BlockingHandle[Receipt]) -> None:
    a: int = handle.kv("count", int)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    b: Report = handle.wait_report()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    handle.kv(3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    use(a, b)


async def wrong_lists(client: Client) -> None:
    await client.instances(state="failed")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await client.instances(name=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await client.instances("failed")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue]
    await client.count(created_after=timedelta(days=1))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.instances()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
