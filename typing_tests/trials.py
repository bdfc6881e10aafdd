"""The test kit: what a fake takes is what the activity takes and returns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import assert_type

from perdure import Handle
from perdure.testing import (
    CallMade,
    Trial,
    activity_context,
    crash_everywhere,
    replay,
)
from typing_tests.shop import Order, Receipt, charge, checkout, notify, price, use


async def a_trial_is_a_client_with_time_and_fakes(order: Order) -> None:
    async with Trial([checkout, charge], now=datetime(2030, 1, 1, tzinfo=UTC), seed=3) as trial:
        assert_type(trial, Trial)
        await trial.settle()
        await trial.advance(timedelta(days=30))
        await trial.crash()
        assert_type(trial.now, datetime)
        assert_type(trial.calls(charge), list[CallMade])
        handle = trial.handle("o-1", checkout)
        assert_type(handle, Handle[Receipt])
        replay(await handle.export(), [checkout])


def fakes_are_values_errors_and_functions(trial: Trial) -> None:
    trial.fake(charge).returns(Receipt("1"), Receipt("2"))
    trial.fake(charge).raises(TimeoutError(), OSError())
    trial.fake(price)(lambda amount, rate=1.0: amount)

    @trial.fake(charge)
    async def _(order: Order, *, currency: str = "EUR") -> Receipt:
        return Receipt(order.order_id + currency)

    @trial.fake(charge)
    def _(order: Order, *, currency: str = "EUR") -> Receipt:
        return Receipt(order.order_id + currency)

    @trial.fake(notify)
    async def _(to: str, text: str = "") -> None:
        use(to, text)


def a_fake_of_another_type_is_refused(trial: Trial) -> None:
    trial.fake(charge).returns("paid")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    trial.fake(price).returns(Receipt("1"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    trial.fake(charge).raises(TimeoutError)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    trial.fake(checkout)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    @trial.fake(charge)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
    async def _() -> Receipt:
        return Receipt("")

    @trial.fake(charge)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
    async def _(order: Order, *, currency: str = "EUR") -> str:
        return order.order_id + currency

    @trial.fake(charge)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
    async def _(order: int, *, currency: str = "EUR") -> Receipt:
        return Receipt(f"{order}{currency}")


async def a_test(trial: Trial) -> None:
    await trial.settle()


def crashes_take_a_test_of_a_trial() -> None:
    crash_everywhere(a_test, [checkout, charge], max_runs=20, seed=1)
    crash_everywhere(a_trial_is_a_client_with_time_and_fakes, [checkout])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def an_activity_alone(order: Order) -> None:
    with activity_context(attempt=2, resources=[order]) as ctx:
        assert_type(ctx.attempt, int)
        assert_type(await charge(order), Receipt)
