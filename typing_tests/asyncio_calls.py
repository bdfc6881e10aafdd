"""Calls in the hands of asyncio: everything that takes a coroutine takes one, and keeps its type."""

from __future__ import annotations

import asyncio
from typing import assert_type

from typing_tests.shop import Order, Receipt, approved, charge, checkout, count, notify, price


async def gather_keeps_each_type(order: Order) -> None:
    assert_type(await asyncio.gather(charge(order), price(1)), tuple[Receipt, int])
    assert_type(
        await asyncio.gather(charge(order), count([]), checkout(order), approved.receive()),
        tuple[Receipt, dict[str, int], Receipt, bool],
    )
    assert_type(await asyncio.gather(*(price(n) for n in range(3))), list[int])
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


# --- misuses


async def wrong_results(order: Order) -> None:
    a: tuple[int, int] = await asyncio.gather(charge(order), price(1))
    b: list[str] = await asyncio.gather(*(price(n) for n in range(3)))
    c: str = await asyncio.wait_for(charge(order), 60)
    d: str = await asyncio.shield(price(1))
    e: asyncio.Task[str] = asyncio.create_task(charge(order))
    print(a, b, c, d, e)


async def wrong_arguments(order: Order) -> None:
    await asyncio.gather(charge(order), price("1"))
    await asyncio.wait_for(checkout(3), 60)
    async with asyncio.TaskGroup() as group:
        group.create_task(charge())
        group.create_task(charge)
        group.create_task(checkout)
    await asyncio.gather(charge, price(1))
    await asyncio.wait_for(charge, 60)


async def nobody_awaits(order: Order) -> None:
    asyncio.gather(charge(order), price(1))
    asyncio.wait_for(charge(order), 60)
    asyncio.wait([charge(order)])
