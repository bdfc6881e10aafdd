"""The context of an orchestration."""

from __future__ import annotations

import logging
import random
from datetime import UTC, datetime, timedelta
from typing import assert_type
from uuid import UUID

from perdure import ActivityContext, Context, activity, context, orchestration
from perdure.model.events import Parent
from typing_tests.shop import Order, Receipt


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


# --- misuses


async def wrong_uses(ctx: Context) -> None:
    ctx.sleep_until(datetime.now(UTC))
    await ctx.sleep_until(3600)
    await ctx.sleep_until()
    ctx.instance_id = "x"
    ctx.random = random.Random(3)
    ctx.now
    a: str = ctx.uuid()
    b: float = ctx.now()
    ctx.schedule_activity("charge")
    context("i-1")
    ctx.parent.instance_id
    print(a, b)


def the_wrong_context() -> None:
    @orchestration
    async def checkout(ctx: ActivityContext, order: Order) -> Receipt:
        return Receipt(ctx.instance_id + order.order_id)

    @activity
    async def charge(ctx: Context, order: Order) -> Receipt:
        return Receipt(ctx.instance_id + order.order_id)

    async def use(order: Order) -> None:
        await checkout(order)
        await charge(order)

    print(use)
