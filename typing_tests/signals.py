"""Signals: of any type, unions too; received as what they were declared."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Literal, assert_type

from perdure import Signal
from typing_tests.shop import No, Order, Yes, answer, approved, use

orders = Signal("orders", list[Order])
maybe = Signal("maybe", int | None)
level = Signal("level", Literal["low", "high"])
tick = Signal("tick", None)


def the_type_is_inferred() -> None:
    assert_type(approved, Signal[bool])
    assert_type(answer, Signal[Yes | No])
    assert_type(orders, Signal[list[Order]])
    assert_type(maybe, Signal[int | None])
    assert_type(level, Signal[Literal["low", "high"]])
    assert_type(tick, Signal[None])
    assert_type(approved.name, str)


def receiving_is_a_coroutine() -> Coroutine[object, None, bool]:
    return assert_type(approved.receive(), Coroutine[object, None, bool])


async def receiving_gives_the_type() -> None:
    assert_type(await approved.receive(), bool)
    assert_type(await orders.receive(), list[Order])
    assert_type(await maybe.receive(), int | None)
    assert_type(await level.receive(), Literal["low", "high"])
    await tick.receive()
    match await answer.receive():
        case Yes(by):
            assert_type(by, str)
        case No(why):
            assert_type(why, str)


async def iterating_gives_the_type() -> None:
    async for ok in approved:
        assert_type(ok, bool)
    async for reply in answer:
        assert_type(reply, Yes | No)


# ----------------------------------------------- misuses: every marked line is refused


def wrong_declarations() -> None:
    Signal("approved")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Signal(bool, "approved")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    Signal("approved", True)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    Signal(name="approved", type=bool)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Signal("approved", bool, 3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


async def wrong_values() -> None:
    a: str = await approved.receive()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    b: Yes = await answer.receive()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    c: bool = approved.receive()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    d: Signal[str] = approved  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    # Invariant: a sender that sees it as Signal[object] would send anything.
    e: Signal[object] = approved  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    f: Signal[Yes] = answer  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    use(a, b, c, d, e, f)


async def nobody_awaits() -> None:
    approved.receive()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


async def wrong_calls() -> None:
    await approved.receive(3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await approved  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    list(approved)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    approved.send(True)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
