"""What the tests of the kit try: an order that is paid, waited for, and shipped."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from perdure import ActivityContext, Defined, Retry, Signal, activity, context, orchestration


@dataclass(frozen=True)
class Order:
    order_id: str
    amount: int


class DeclinedError(Exception):
    """The card was declined."""


approved = Signal("approved", str)


@activity(
    retry=Retry(max_attempts=3, first_delay=timedelta(minutes=1), jitter=0), raises=[DeclinedError]
)
async def charge(order: Order, *, currency: str = "EUR") -> str:
    raise NotImplementedError("there is no bank here")


@activity
def pack(order_id: str) -> str:
    """Runs in a thread."""
    return f"{order_id} packed"


@activity
async def ship(ctx: ActivityContext, order_id: str) -> str:
    return f"{order_id} shipped at try {ctx.attempt}"


@orchestration
async def buy(order: Order) -> str:
    paid = await charge(order)
    await asyncio.sleep(timedelta(days=30).total_seconds())
    return f"{paid}, {await pack(order.order_id)}, {await ship(order.order_id)}"


@orchestration
async def approve(order: Order) -> str:
    ctx = context()
    ctx.kv["order"] = order.order_id
    ctx.report({"waits": True})
    try:
        async with asyncio.timeout(timedelta(days=3).total_seconds()):
            return await approved.receive()
    except TimeoutError:
        return "nobody"


@orchestration
async def buy_all(orders: list[Order]) -> list[str]:
    return list(await asyncio.gather(*(charge(order) for order in orders)))


@orchestration
async def family(order: Order) -> str:
    return await approve(order)


DEFINITIONS: list[Defined] = [buy, approve, buy_all, family, charge, pack, ship]
BOOK = Order("book", 12)
