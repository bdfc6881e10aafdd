"""The context of an orchestration."""

from __future__ import annotations

import logging
import random
from datetime import UTC, datetime, timedelta
from typing import assert_type
from uuid import UUID

from perdure import ActivityContext, Context, activity, context, orchestration
from perdure.model.histories.events import Parent
from typing_tests.shop import Order, Receipt, use


async def what_it_knows() -> None:
    ctx = context()
    assert_type(ctx, Context)
    assert_type(ctx.instance_id, str)
    assert_type(ctx.execution, int)
    assert_type(ctx.name, str)
    assert_type(ctx.version, str)
    assert_type(ctx.is_replaying, bool)
    assert_type(ctx.parent, Parent | None)
    assert_type(ctx.now(), datetime)
    assert_type(ctx.uuid(), UUID)
    assert_type(ctx.random, random.Random)
    assert_type(ctx.random.choice(["a"]), str)
    assert_type(ctx.log, logging.LoggerAdapter[logging.Logger])
    ctx.log.info("packed", extra={"boxes": 3})
    await ctx.sleep_until(ctx.now() + timedelta(hours=1))


# ----------------------------------------------- misuses: every marked line is refused


async def wrong_uses(ctx: Context) -> None:
    ctx.sleep_until(datetime.now(UTC))  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    await ctx.sleep_until(3600)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await ctx.sleep_until()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ctx.instance_id = "x"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    ctx.random = random.Random(3)  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    a: str = ctx.uuid()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    b: float = ctx.now()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    ctx.schedule_activity("charge")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    context("i-1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    use(ctx.parent.instance_id)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    use(a, b)


def the_wrong_context() -> None:
    @orchestration
    async def checkout(ctx: ActivityContext, order: Order) -> Receipt:
        return Receipt(ctx.instance_id + order.order_id)

    @activity
    async def charge(ctx: Context, order: Order) -> Receipt:
        return Receipt(ctx.instance_id + order.order_id)

    async def use(order: Order) -> None:
        await checkout(order)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue]
        await charge(order)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue]

    use(use)  # type: ignore[arg-type, unused-coroutine]  # pyright: ignore[reportArgumentType, reportUnusedCoroutine]
