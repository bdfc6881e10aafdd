"""`race`: the index tells the type."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Literal, assert_never, assert_type

from perdure import inline, race
from typing_tests.shop import (
    No,
    Order,
    Receipt,
    Yes,
    answer,
    approved,
    charge,
    checkout,
    price,
    use,
)


def a_race_is_a_coroutine(
    order: Order,
) -> Coroutine[object, None, tuple[Literal[0], bool] | tuple[Literal[1], Receipt]]:
    return race(approved.receive(), charge(order))


async def of_two(order: Order) -> None:
    match await race(approved.receive(), charge(order)):
        case 0, ok:
            assert_type(ok, bool)
        case 1, receipt:
            assert_type(receipt, Receipt)


async def of_three(order: Order) -> None:
    match await race(answer.receive(), price(1), asyncio.sleep(60)):
        case 0, reply:
            assert_type(reply, Yes | No)
        case 1, amount:
            assert_type(amount, int)
        case 2, nothing:
            assert_type(nothing, None)
    use(order)


async def of_four(order: Order) -> None:
    match await race(checkout(order), price(1), approved.receive(), asyncio.sleep(60, "late")):
        case 0, receipt:
            assert_type(receipt, Receipt)
        case 1, amount:
            assert_type(amount, int)
        case 2, ok:
            assert_type(ok, bool)
        case 3, late:
            assert_type(late, str)


async def all_indexes_are_covered(order: Order) -> str:
    match await race(approved.receive(), charge(order)):
        case 0, ok:
            return str(ok)
        case 1, receipt:
            return receipt.order_id


async def by_comparison(order: Order) -> None:
    won = await race(approved.receive(), charge(order))
    if won[0] == 0:
        assert_type(won[1], bool)
    else:
        assert_type(won[1], Receipt)


async def of_many() -> None:
    index, amount = await race(*(price(n) for n in range(9)))
    assert_type(index, int)
    assert_type(amount, int)
    index, amount = await race(price(1), price(2), price(3), price(4), price(5))
    assert_type(amount, int)


async def of_other_awaitables(order: Order) -> None:
    task = asyncio.create_task(charge(order))
    match await race(task, inline(len, "abc")):
        case 0, receipt:
            assert_type(receipt, Receipt)
        case 1, length:
            assert_type(length, int)


# ----------------------------------------------- misuses: every marked line is refused


async def wrong_results(order: Order) -> None:
    a: tuple[int, str] = await race(price(1), price(2))  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    b: bool = await race(approved.receive(), charge(order))  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    match await race(approved.receive(), charge(order)):
        case 0, ok:
            use(ok.order_id)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]
        case 1, receipt:
            use(receipt.real)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]
    use(a, b)


async def a_case_is_missing(order: Order) -> None:
    won = await race(approved.receive(), charge(order))
    match won:
        case 0, ok:
            use(ok)
        case _:
            assert_never(won)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def wrong_arguments(order: Order) -> None:
    await race(1, 2)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await race(charge, approved.receive())  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await race([price(1), price(2)])  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await race(a=price(1), b=price(2))  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await race(price(1), timeout=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


async def nobody_awaits(order: Order) -> None:
    race(approved.receive(), charge(order))  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
