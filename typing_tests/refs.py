"""Other instances, seen from inside an orchestration: detached starts and refs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_type

from perdure import Context, InstanceRef, Orchestration, Signal
from typing_tests.shop import No, Order, Receipt, Yes, answer, approved, charge, checkout, ship, use

remote = Orchestration.named("checkout", Receipt)


async def a_detached_start_gives_a_typed_ref(ctx: Context, order: Order) -> None:
    assert_type(await ctx.start("o-1", checkout, order), InstanceRef[Receipt])
    assert_type(await ctx.start("o-1", checkout, order, gift=True), InstanceRef[Receipt])
    assert_type(await ctx.start(checkout, order=order), InstanceRef[Receipt])
    assert_type(await ctx.start(ship, order, days=3), InstanceRef[str])
    assert_type(await ctx.start("o-1", remote, "anything", x=3), InstanceRef[Receipt])
    later = checkout.with_options(delay=timedelta(hours=1))
    assert_type(await ctx.start("o-2", later, order), InstanceRef[Receipt])


def a_ref_is_typed_by_its_orchestration(ctx: Context) -> None:
    assert_type(ctx.ref("o-1", checkout), InstanceRef[Receipt])
    assert_type(ctx.ref("s-1", ship), InstanceRef[str])
    assert_type(ctx.ref("o-1", remote), InstanceRef[Receipt])
    assert_type(ctx.ref("o-1"), InstanceRef[Any])


async def what_a_ref_can_do(ctx: Context, ref: InstanceRef[Receipt]) -> None:
    assert_type(ref.instance_id, str)
    assert_type(await ref.result(), Receipt)
    assert_type(await ctx.ref("o-1").result(), Any)
    await ref.send(approved, True)
    await ref.send(answer, Yes("ada"))
    await ref.send(answer, No("dear"))
    await ref.cancel()
    await ref.cancel("no longer needed")


def refs_are_covariant(ref: InstanceRef[bool]) -> InstanceRef[int]:
    return ref


# ----------------------------------------------- misuses: every marked line is refused


async def wrong_starts(ctx: Context, order: Order) -> None:
    await ctx.start("o-1", checkout)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await ctx.start("o-1", checkout, "o-1")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await ctx.start("o-1", checkout, order, gift="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await ctx.start("o-1", checkout, order, wrapped=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await ctx.start(checkout, "o-1")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await ctx.start(ship, order, "3")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await ctx.start("o-1", charge, order)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await ctx.start("o-1", "checkout", order)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    ctx.start("o-1", checkout, order)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    ctx.start(checkout, order)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


async def wrong_results(ctx: Context, order: Order, ref: InstanceRef[Receipt]) -> None:
    a: InstanceRef[str] = await ctx.start("o-1", checkout, order)  # type: ignore[call-overload]  # pyright: ignore[reportAssignmentType]
    b: Receipt = await ctx.start("o-1", checkout, order)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    c: InstanceRef[str] = ctx.ref("o-1", checkout)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    d: str = await ref.result()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    e: Receipt = ref.result()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    use(a, b, c, d, e)


async def wrong_refs(ctx: Context) -> None:
    ctx.ref(3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    ctx.ref("o-1", charge)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    ctx.ref("o-1", "checkout")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    ctx.ref()  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


async def wrong_signals(ref: InstanceRef[Receipt], numbers: Signal[list[int]]) -> None:
    await ref.send(approved, "yes")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await ref.send(approved, None)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await ref.send(answer, True)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await ref.send(numbers, ["a"])  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await ref.send(approved)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await ref.send("approved", True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await ref.cancel(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def nobody_awaits(ref: InstanceRef[Receipt]) -> None:
    ref.result()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    ref.send(approved, True)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    ref.cancel()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


def refs_are_not_contravariant(ref: InstanceRef[int]) -> InstanceRef[bool]:
    return ref  # type: ignore[return-value]  # pyright: ignore[reportReturnType]
