"""Transactions: callers do not see the connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, Never, assert_type

import asyncpg
import psycopg

from perdure import Activity, Context, Decider, Decision, Retry, orchestration, transaction
from typing_tests.shop import Order, Receipt, use


@transaction
def book(connection: sqlite3.Connection, order: Order, *, seat: int = 1) -> Receipt:
    connection.execute("INSERT INTO seats VALUES (?)", (seat,))
    return Receipt(order.order_id)


@transaction
async def book_async(connection: asyncpg.Connection[Any], order: Order) -> Receipt:
    await connection.execute("INSERT INTO seats VALUES ($1)", order.order_id)
    return Receipt(order.order_id)


@transaction(
    name="sell",
    retry=Retry(max_attempts=5),
    timeout=timedelta(seconds=1),
    deadline=timedelta(minutes=5),
    start_within=timedelta(minutes=1),
    tag="box office",
    raises=[LookupError],
)
def sell(connection: psycopg.Connection[tuple[Any, ...]], *orders: Order) -> int:
    return len(orders)


@transaction()
async def sell_async(connection: asyncpg.Connection[Any]) -> None: ...


async def the_connection_is_left_out(order: Order) -> None:
    assert_type(await book(order), Receipt)
    assert_type(await book(order, seat=3), Receipt)
    assert_type(await book_async(order=order), Receipt)
    assert_type(await sell(order, order), int)
    assert_type(await sell_async(), None)
    assert_type(await book_async.with_options(tag="late")(order), Receipt)
    coroutine: Coroutine[object, None, Receipt] = book(order)
    use(await coroutine, takes_order(book_async))


def takes_order(activity: Activity[[Order], Receipt]) -> str:
    return activity.name


@orchestration
async def checkout(ctx: Context, order: Order) -> Receipt:
    receipt = await book(order, seat=2)
    assert_type(receipt, Receipt)
    return await book_async(order)


class Booking(Decider[int, Order, Receipt, Never]):
    def initial(self) -> int:
        return 0

    def instance_id(self, input: Order, /) -> str:
        return input.order_id

    def decide(self, state: int, input: Order, now: datetime, /) -> Decision[Order, Receipt, Never]:
        return Decision.accept(Receipt(input.order_id)).effect(sell_async)

    def evolve(self, state: int, event: Receipt, /) -> int:
        return state + 1


async def wrong_calls(connection: sqlite3.Connection, order: Order) -> None:
    await book(connection, order)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue]
    await book()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await book(order, seat="A")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await sell_async(order)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    book(order)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    said: int = await book(order)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    use(said)


def wrong_decorations() -> None:
    transaction(process=True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    transaction(session="cart-7")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    transaction(no_parameters)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]


def no_parameters() -> int:
    return 1
