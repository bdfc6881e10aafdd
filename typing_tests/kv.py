"""What an instance keeps and says: its keys and values, its report."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from datetime import datetime, timedelta
from typing import Any, assert_type

from perdure import Context
from typing_tests.shop import No, Order, Receipt, Yes, use


def values_are_a_mapping_of_json(ctx: Context) -> MutableMapping[str, Any]:
    ctx.kv["order"] = Order("o-1", 3)
    ctx.kv["count"] = 3
    assert_type(ctx.kv["count"], Any)
    assert_type(ctx.kv.get("count"), Any | None)
    assert_type("count" in ctx.kv, bool)
    assert_type(len(ctx.kv), int)
    assert_type(iter(ctx.kv), Iterator[str])
    assert_type(sorted(ctx.kv), list[str])
    for key in ctx.kv:
        assert_type(key, str)
    del ctx.kv["count"]
    ctx.kv.update({"a": 1})
    ctx.kv.clear()
    ctx.kv.prune(ctx.now() - timedelta(days=1))
    return ctx.kv


def read_gives_the_type_or_none(ctx: Context) -> None:
    assert_type(ctx.kv.read("order", Order), Order | None)
    assert_type(ctx.kv.read("count", int), int | None)
    assert_type(ctx.kv.read("orders", list[Order]), list[Order] | None)
    assert_type(ctx.kv.read("answer", Yes | No), Yes | No | None)
    order = ctx.kv.read("order", Order)
    assert_type("" if order is None else order.order_id, str)


async def a_value_of_another_instance(ctx: Context) -> None:
    assert_type(await ctx.read_kv("o-1", "order", Order), Order | None)
    assert_type(await ctx.read_kv("o-1", "count", int), int | None)
    assert_type(await ctx.read_kv("o-1", "answer", Yes | No), Yes | No | None)


def a_report_is_anything(ctx: Context) -> None:
    ctx.report({"done": 3})
    ctx.report(Receipt("o-1"))
    ctx.report(None)
    assert_type(ctx.reported, Any)


# ----------------------------------------------- misuses: every marked line is refused


def wrong_keys(ctx: Context) -> None:
    ctx.kv[3] = "x"  # type: ignore[index]  # pyright: ignore[reportArgumentType]
    use(ctx.kv[3])  # type: ignore[index]  # pyright: ignore[reportArgumentType]
    del ctx.kv[3]  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.kv.read(3, int)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.kv.prune(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.kv.prune(timedelta(days=1))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.kv = {}  # type: ignore[assignment, misc]  # pyright: ignore[reportAttributeAccessIssue]


def wrong_reads(ctx: Context) -> None:
    a: str | None = ctx.kv.read("count", int)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    b: Order = ctx.kv.read("order", Order)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    use(ctx.kv.read("order", Order).order_id)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    c: Yes | None = ctx.kv.read("answer", Yes | No)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    ctx.kv.read("order")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ctx.kv.read("order", Order("o-1", 3))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    use(a, b, c)


async def wrong_reads_of_others(ctx: Context, moment: datetime) -> None:
    a: int = await ctx.read_kv("o-1", "count", int)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    b: str | None = await ctx.read_kv("o-1", "count", int)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    c: int | None = ctx.read_kv("o-1", "count", int)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    await ctx.read_kv("count", int)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue]
    await ctx.read_kv(moment, "count", int)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.read_kv("o-1", "count", int)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    use(a, b, c)


async def wrong_reports(ctx: Context) -> None:
    ctx.report()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ctx.report(1, 2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await ctx.report(1)  # type: ignore[func-returns-value, misc]  # pyright: ignore[reportGeneralTypeIssues]
