"""Continue-as-new, typed by the orchestration's own parameters; and changes of code in between."""

from __future__ import annotations

from typing import Never, assert_type

from perdure import Context, Orchestration, orchestration
from typing_tests.shop import Order, checkout, ship, use

remote = Orchestration.named("count", int)


@orchestration
async def count(ctx: Context, number: int, *, step: int = 1) -> int:
    """No return is missing at the end: `continue_as_new` never returns."""
    if number > 100:
        return number
    if ctx.patched("faster"):
        count.continue_as_new(number, step=2 * step)
    count.with_options(version="2.0.0").continue_as_new(number + step)


def it_never_returns(order: Order) -> Never:
    checkout.continue_as_new(order, gift=True)


def patched_is_a_bool(ctx: Context) -> None:
    assert_type(ctx.patched("faster"), bool)


# ----------------------------------------------- misuses: every marked line is refused


def wrong_arguments(ctx: Context, order: Order, which: int) -> None:
    # One branch each: after a call that never returns, nothing is checked any more.
    match which:
        case 0:
            checkout.continue_as_new("o-1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        case 1:
            checkout.continue_as_new()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        case 2:
            checkout.continue_as_new(order, gift="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        case 3:
            checkout.continue_as_new(order, wrapped=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        case 4:
            ship.continue_as_new(ctx, order)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        case 5:
            ship.continue_as_new(order, "3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        case 6:
            count.with_options(version="2.0.0").continue_as_new("3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        case _:
            remote.continue_as_new(anything=3)


def wrong_changes(ctx: Context) -> None:
    ctx.patched()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ctx.patched(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    a: str = ctx.patched("faster")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    use(a)
