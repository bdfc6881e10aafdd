"""Orchestrations: what the decorator makes of a function, children, options."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import timedelta
from typing import Any, assert_type

from perdure import Context, Orchestration, orchestration
from typing_tests.shop import No, Order, Receipt, Yes, checkout, ship, use


@orchestration(name="pack", version="2.1.0")
async def pack(order: Order, /, *, boxes: int = 1) -> list[str]:
    return [order.order_id] * boxes


@orchestration(version="1.2.3")
async def wrap(ctx: Context, *orders: Order) -> int:
    return ctx.execution + len(orders)


@orchestration()
async def nothing() -> None: ...


async def make(order: Order) -> Receipt:
    return Receipt(order.order_id)


made = orchestration(make)
made_with_options = orchestration(name="made")(make)


def a_child_is_a_coroutine(order: Order) -> Coroutine[object, None, Receipt]:
    return assert_type(checkout(order), Coroutine[object, None, Receipt])


async def a_child_gives_what_the_function_returns(order: Order) -> None:
    assert_type(await checkout(order), Receipt)
    assert_type(await checkout(order, gift=True), Receipt)
    assert_type(await checkout(order=order), Receipt)
    assert_type(await ship(order), str)
    assert_type(await ship(order, 4), str)
    assert_type(await ship(order, days=4), str)
    assert_type(await pack(order, boxes=2), list[str])
    assert_type(await wrap(order, order), int)
    assert_type(await made(order), Receipt)
    assert_type(await made_with_options(order), Receipt)
    await nothing()


async def with_options_keeps_the_signature(order: Order) -> None:
    other = checkout.with_options(
        instance_id="ship-1", version="2.1.0", on_parent_close="abandon", if_exists="restart"
    )
    assert_type(await other(order, gift=True), Receipt)
    assert_type(await checkout.with_options()(order), Receipt)
    assert_type(await ship.with_options(on_parent_close="terminate")(order, 3), str)
    assert_type(await ship.with_options(delay=timedelta(hours=1))(order), str)
    assert_type(await ship.with_options(delay=None)(order), str)


async def named_orchestrations_take_anything_and_return_their_type(order: Order) -> None:
    assert_type(Orchestration.named("checkout", Receipt), Orchestration[..., Receipt])
    assert_type(await Orchestration.named("checkout", Receipt)(order, anything=3), Receipt)
    assert_type(await Orchestration.named("ask", Yes | No)(), Yes | No)
    assert_type(await Orchestration.named("find", Receipt | None)(), Receipt | None)
    assert_type(
        await Orchestration.named("find", list[int]).with_options(version="2.0.0")(), list[int]
    )


def results_are_covariant(mine: Orchestration[[], bool]) -> Orchestration[[], int]:
    return mine


def parts_of_an_orchestration() -> None:
    assert_type(checkout.name, str)
    assert_type(checkout.version, str)
    assert_type(checkout.is_elsewhere, bool)
    assert_type(checkout.fn, Callable[..., Coroutine[Any, Any, Any]])


# ----------------------------------------------- misuses: every marked line is refused


async def wrong_arguments(ctx: Context, order: Order) -> None:
    await checkout("o-1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await checkout()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await checkout(order, True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await checkout(order, gift="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await checkout(order, wrapped=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await ship("o-1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await ship(order, "4")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await ship(order, 4, 5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await ship(ctx, order)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await ship(ctx=ctx, order=order)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await pack(order=order)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await wrap("o-1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await nothing(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await made(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await made_with_options()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await checkout.with_options(version="2.0.0")("o-1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def wrong_results(order: Order) -> None:
    a: str = await checkout(order)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    b: Receipt = checkout(order)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    c: int = await ship(order)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    d: Receipt = await Orchestration.named("ask", Yes | No)()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    e: Orchestration[..., str] = Orchestration.named("checkout", Receipt)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    use(a, b, c, d, e)


async def children_nobody_awaits(order: Order) -> None:
    checkout(order)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    ship(order)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    checkout.with_options(instance_id="c-1")(order)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


def wrong_options() -> None:
    checkout.with_options("ship-1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    checkout.with_options(tag="gpu")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    checkout.with_options(instance_id=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    checkout.with_options(version=2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    checkout.with_options(on_parent_close="kill")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    checkout.with_options(delay="60")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    checkout.with_options(if_exists="replace")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    orchestration(name=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    orchestration(version=2)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    orchestration(retry=None)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    orchestration(make, version="2.0.0")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    orchestration("checkout")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    Orchestration.named("checkout")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Orchestration.named("checkout", Receipt("o-1"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def not_async(order: Order) -> Receipt:
    return Receipt(order.order_id)


def not_async_with_context(ctx: Context, order: Order) -> Receipt:
    return Receipt(ctx.instance_id + order.order_id)


async def generator(order: Order) -> AsyncIterator[str]:
    yield order.order_id


def only_async_functions_are_orchestrations() -> None:
    orchestration(not_async)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    orchestration(not_async_with_context)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    orchestration(name="x")(not_async)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    orchestration(generator)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]


def results_are_not_contravariant(mine: Orchestration[[], int]) -> Orchestration[[], bool]:
    return mine  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def orchestrations_cannot_be_changed() -> None:
    checkout.version = "2.0.0"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    checkout.name = "x"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
