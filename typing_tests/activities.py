"""Activities: what the decorators make of a function, and what may be passed to the result."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, assert_type

from perdure import (
    Activity,
    ActivityContext,
    BlockingClient,
    Client,
    Retry,
    activity,
    activity_context,
)
from typing_tests.shop import No, Order, Receipt, Yes, charge, checkout, count, notify, price, use


class CardDeclinedError(Exception): ...


@activity(
    name="refund",
    retry=Retry(max_attempts=5),
    timeout=timedelta(seconds=30),
    deadline=timedelta(minutes=5),
    start_within=timedelta(minutes=1),
    tag="gpu",
    raises=[CardDeclinedError],
)
async def refund(receipt: Receipt, /, amount: int = 0) -> bool:
    return amount > len(receipt.order_id)


@activity(process=True)
def resize(data: bytes, *, width: int) -> bytes:
    return data[:width]


@activity(tag="mail")
async def remind(ctx: ActivityContext, to: str) -> None:
    ctx.heartbeat(to)


@activity(name="tell")
def announce(ctx: ActivityContext, *to: str, **texts: int) -> int:
    return ctx.attempt + len(to) + len(texts)


@activity()
def ping() -> None: ...


@activity
async def not_the_context(it: ActivityContext, to: str) -> None:
    """Only a parameter named `ctx` is left out of the call."""


def make(order: Order) -> Receipt:
    return Receipt(order.order_id)


made = activity(make)
made_with_options = activity(name="made")(make)


def a_call_is_a_coroutine_for_async_and_sync_alike(
    order: Order,
) -> tuple[Coroutine[object, None, Receipt], Coroutine[object, None, int]]:
    return (
        assert_type(charge(order), Coroutine[object, None, Receipt]),
        assert_type(price(1), Coroutine[object, None, int]),
    )


async def a_call_gives_what_the_function_returns(order: Order, receipt: Receipt) -> None:
    assert_type(await charge(order), Receipt)
    assert_type(await charge(order, currency="USD"), Receipt)
    assert_type(await charge(order=order), Receipt)
    assert_type(await price(1), int)
    assert_type(await price(1, 1.5), int)
    assert_type(await price(amount=1, rate=1.5), int)
    assert_type(await count(["a"]), dict[str, int])
    assert_type(await count(words=["a"]), dict[str, int])
    await notify("ada")
    await notify("ada", text="hello")
    assert_type(await refund(receipt), bool)
    assert_type(await refund(receipt, amount=3), bool)
    assert_type(await resize(b"", width=3), bytes)
    assert_type(await announce("a", "b", c=3), int)
    await remind("ada")
    await ping()
    assert_type(await made(order), Receipt)
    assert_type(await made_with_options(order), Receipt)


async def with_options_keeps_the_signature(order: Order) -> None:
    other = charge.with_options(
        retry=Retry(max_attempts=None),
        timeout=timedelta(seconds=1),
        deadline=timedelta(seconds=9),
        start_within=timedelta(seconds=5),
        tag="gpu",
        session="cart-7",
    )
    assert_type(await other(order, currency="USD"), Receipt)
    none = charge.with_options(retry=None, timeout=None, deadline=None, tag=None, session=None)
    assert_type(await none.with_options(start_within=None)(order), Receipt)
    assert_type(await charge.with_options()(order), Receipt)
    assert_type(await count.with_options(tag="x").with_options(retry=None)([]), dict[str, int])


async def named_activities_take_anything_and_return_their_type(order: Order) -> None:
    assert_type(Activity.named("charge", Receipt), Activity[..., Receipt])
    assert_type(await Activity.named("charge", Receipt)(order, anything=3), Receipt)
    assert_type(await Activity.named("answer", Yes | No)(), Yes | No)
    assert_type(await Activity.named("find", Receipt | None)("id"), Receipt | None)
    assert_type(await Activity.named("find", list[int])("id"), list[int])
    assert_type(await Activity.named("quiet", None)(), None)


async def a_parameter_of_another_name_is_part_of_the_call(ctx: ActivityContext) -> None:
    await not_the_context(ctx, "ada")


def results_are_covariant(mine: Activity[[], bool]) -> Activity[[], int]:
    return mine


def parts_of_an_activity() -> None:
    assert_type(charge.name, str)
    assert_type(charge.is_elsewhere, bool)
    charge.fn(Order("a", 1))


def context_of_an_activity() -> None:
    ctx = activity_context()
    assert_type(ctx, ActivityContext)
    assert_type(ctx.instance_id, str)
    assert_type(ctx.activity, str)
    assert_type(ctx.attempt, int)
    assert_type(ctx.idempotency_key, str)
    assert_type(ctx.execution, int)
    assert_type(ctx.orchestration, str)
    assert_type(ctx.orchestration_version, str)
    assert_type(ctx.tag, str | None)
    assert_type(ctx.session, str | None)
    assert_type(ctx.worker_id, str)
    assert_type(ctx.scheduled_at, datetime)
    assert_type(ctx.deadline, datetime | None)
    assert_type(ctx.is_cancelled, bool)
    assert_type(ctx.wait_cancelled(timedelta(seconds=1)), bool)
    assert_type(ctx.resource(Order), Order)
    ctx.heartbeat()
    ctx.heartbeat({"done": 3})
    assert_type(ctx.last_details(), Any)
    assert_type(ctx.last_details(Order), Order | None)
    assert_type(ctx.last_details(list[int]), list[int] | None)
    ctx.progress({"done": 3})
    ctx.log.info("packed", extra={"boxes": 3})


async def a_client_of_the_worker(ctx: ActivityContext, order: Order) -> None:
    client: Client = ctx.client
    await client.start(checkout, order)
    await ctx.cancelled()


def a_client_that_waits_of_the_worker(ctx: ActivityContext, order: Order) -> None:
    client: BlockingClient = ctx.client
    assert_type(client.start(checkout, order).result(), Receipt)


# ----------------------------------------------- misuses: every marked line is refused


async def wrong_arguments(order: Order, receipt: Receipt) -> None:
    await charge("o-1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await charge()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await charge(order, "USD")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await charge(order, currency=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await charge(order, money="USD")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await charge(order, order=order)  # type: ignore[misc]  # pyright: ignore[reportCallIssue]
    await price("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await price(1, 2.0, 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await price(1, tax=2.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await notify()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await notify(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await notify("ada", subject="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await count("abc", "d")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue]
    await count([1])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    await refund(receipt=receipt)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await resize(b"", 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await announce(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await announce(c="d")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await ping(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await made("o-1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await made_with_options()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def context_is_not_part_of_the_call(ctx: ActivityContext) -> None:
    await not_the_context("ada")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue]
    await notify(ctx, "ada")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await count(ctx, ["a"])  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue]
    await count(ctx=ctx, words=["a"])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def wrong_results(order: Order) -> None:
    a: str = await charge(order)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    b: Receipt = charge(order)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    c: str = await price(1)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    d: list[str] = await count([])  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    e: Receipt = await Activity.named("answer", Yes | No)()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    f = await notify("ada")  # type: ignore[func-returns-value]
    use(a, b, c, d, e, f)


async def calls_nobody_awaits(order: Order) -> None:
    charge(order)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    price(1)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    notify("ada")  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    charge.with_options(tag="gpu")(order)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    Activity.named("charge", Receipt)(order)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


def wrong_options(retry: Retry) -> None:
    charge.with_options(retry)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    charge.with_options(queue="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    charge.with_options(retry=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    charge.with_options(timeout="30")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    charge.with_options(start_within="30")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    charge.with_options(tag=b"gpu")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    activity("charge")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    activity(retry=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    activity(timeout="30")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    activity(session="cart-7")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    activity(raises=[ValueError("x")])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    activity(make, tag="gpu")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Activity.named("charge")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Activity.named("charge", Receipt("o-1"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Activity.named(name="charge", returns=Receipt)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


class Shop:
    """A method can be decorated, as far as a checker sees, but its calls lack `self`."""

    @activity
    async def sell(self, order: Order) -> int:
        return order.amount


async def methods_are_no_activities(order: Order) -> None:
    await Shop().sell(order)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue]


def wrong_decorations() -> None:
    activity(3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    activity(name="x")("not a function")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


def results_are_not_contravariant(mine: Activity[[], int]) -> Activity[[], bool]:
    return mine  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def activities_cannot_be_changed(receipt: Receipt) -> None:
    charge.options = charge.options  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    charge.name = "x"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def wrong_use_of_the_context(ctx: ActivityContext) -> None:
    ctx.resource("Order")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    a: str | None = ctx.last_details(int)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    b: int = ctx.last_details(int)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    ctx.progress()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ctx.wait_cancelled("3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.cancelled()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    use(a, b)
    ctx.attempt = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    ctx.report("x")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
