from __future__ import annotations
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TypedDict
from perdure import *
from perdure import activity, orchestration, Signal, Activity, ActivityContext, Context, inline, Engine, Handle
from typing_tests import shop
from typing_tests.shop import charge, price, checkout, ship, Order, Receipt, Yes, No, notify

@activity
async def odd(c: ActivityContext, to: str) -> None: ...
@activity
async def posonly(ctx: ActivityContext, /, to: str) -> None: ...
@activity
async def loose(ctx: object, to: str) -> None: ...
@activity
async def many(*args: object, **kw: object) -> None: ...
async def agen() -> AsyncIterator[int]:
    yield 3
class Pay(TypedDict):
    x: int
pay = Signal("pay", Pay)
ratio = Signal("r", float)
class Shop:
    @activity
    async def method(self, order: Order) -> int: return 3
async def main(ctx: ActivityContext, orders: list[Order], h: Handle[int]) -> None:
    await odd(ctx, "ada")
    await odd("ada")
    await posonly("ada")
    await loose("ada")
    await loose(3, "ada")
    await many(1, 2, a=3)
    orchestration(agen)
    reveal_type(activity(agen))
    reveal_type(await pay.receive())
    await h.send(ratio, 3)
    await h.send(pay, {"x": 3})
    await h.send(pay, {"x": "3"})
    reveal_type(Signal("x", "Yes"))
    reveal_type(Activity.named("x", "Receipt"))
    reveal_type(await asyncio.gather(*map(charge, orders)))
    reveal_type(await partial(charge, currency="USD")(orders[0]))
    f: Callable[[Order], Awaitable[Receipt]] = charge
    print(f)
    reveal_type(inline(charge, orders[0]))
    mixed = [charge, price]
    reveal_type(mixed)
    Engine("x", mixed)
    mixed2 = [charge, checkout]
    reveal_type(mixed2)
    Engine("x", mixed2)
    mixed3 = [shop, charge]
    Engine("x", mixed3)
    Engine("x", [*mixed2, *mixed3])
    same = [checkout, ship]
    reveal_type(same)
    await Shop().method(orders[0])
    await asyncio.wait([charge(orders[0])])
    reveal_type(await asyncio.gather(*[charge(orders[0]), price(1)]))
    calls = [charge(o) for o in orders]
    reveal_type(await asyncio.gather(*calls))
    x = charge(orders[0])
    asyncio.gather(x)
    await asyncio.gather(*(price(n) for n in range(3)), return_exceptions=True)
