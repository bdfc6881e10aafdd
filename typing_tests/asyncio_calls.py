"""Calls in the hands of asyncio: what takes a coroutine takes a call, and keeps its type."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import assert_type

from typing_tests.shop import Order, Receipt, approved, charge, checkout, count, notify, price, use


async def gather_keeps_each_type(order: Order) -> None:
    assert_type(await asyncio.gather(charge(order), price(1)), tuple[Receipt, int])
    assert_type(
        await asyncio.gather(charge(order), count([]), checkout(order), approved.receive()),
        tuple[Receipt, dict[str, int], Receipt, bool],
    )
    assert_type(await asyncio.gather(*(price(n) for n in range(3))), list[int])
    assert_type(await asyncio.gather(*map(charge, [order, order])), list[Receipt])
    calls = [charge(each) for each in [order, order]]
    assert_type(await asyncio.gather(*calls), list[Receipt])
    assert_type(
        await asyncio.gather(charge(order), price(1), return_exceptions=True),
        tuple[Receipt | BaseException, int | BaseException],
    )


async def task_groups_and_tasks_keep_the_type(order: Order) -> None:
    async with asyncio.TaskGroup() as group:
        charged = group.create_task(charge(order))
        priced = group.create_task(price(1), name="price")
        group.create_task(notify("ada"))
    assert_type(charged, asyncio.Task[Receipt])
    assert_type(priced.result(), int)
    task = asyncio.create_task(checkout(order))
    assert_type(await task, Receipt)
    future = asyncio.ensure_future(price(1))
    assert_type(await future, int)


async def waiting_keeps_the_type(order: Order) -> None:
    assert_type(await asyncio.wait_for(charge(order), timeout=60), Receipt)
    assert_type(await asyncio.wait_for(approved.receive(), 60), bool)
    assert_type(await asyncio.shield(charge(order)), Receipt)
    assert_type(await asyncio.shield(checkout(order)), Receipt)
    for first in asyncio.as_completed([price(1), price(2)]):
        assert_type(await first, int)
    done, pending = await asyncio.wait(
        [asyncio.create_task(charge(order))], return_when=asyncio.FIRST_COMPLETED
    )
    assert_type(done, set[asyncio.Task[Receipt]])
    assert_type(pending, set[asyncio.Task[Receipt]])
    async with asyncio.timeout(60):
        assert_type(await charge(order), Receipt)


def definitions_are_callables(order: Order) -> Coroutine[object, None, Receipt]:
    takes_order: Callable[[Order], Awaitable[Receipt]] = charge
    takes_order = checkout
    use(takes_order)
    return partial(charge, currency="USD")(order)


# ----------------------------------------------- misuses: every marked line is refused


async def wrong_results(order: Order) -> None:
    a: tuple[int, int] = await asyncio.gather(charge(order), price(1))  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    b: list[str] = await asyncio.gather(*(price(n) for n in range(3)))  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    c: str = await asyncio.wait_for(charge(order), 60)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    d: str = await asyncio.shield(price(1))  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    e: asyncio.Task[str] = asyncio.create_task(charge(order))  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    use(a, b, c, d, e)


async def wrong_arguments(order: Order) -> None:
    await asyncio.gather(charge(order), price("1"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await asyncio.wait_for(checkout(3), 60)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    async with asyncio.TaskGroup() as group:
        group.create_task(charge())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue, reportUnknownArgumentType]
        group.create_task(charge)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        group.create_task(checkout)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await asyncio.gather(charge, price(1))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await asyncio.wait_for(charge, 60)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await asyncio.wait([charge(order)])  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]


async def nobody_awaits(order: Order) -> None:
    asyncio.wait_for(charge(order), 60)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
