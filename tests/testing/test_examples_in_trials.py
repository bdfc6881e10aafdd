"""The examples, tested with the kit: with months instead of milliseconds, and with crashes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from examples import fan_out_fan_in, human_approval, periodic_job, polling_monitor, saga
from perdure.errors import InstanceCancelledError, InstanceFailedError
from perdure.testing import Trial, crash_everywhere

DAY = timedelta(days=1)
LUNCH = human_approval.Expense("Grace", "lunch", 1_890)


# ----------------------------------------------------------------------------- approval


async def test_an_expense_is_declined_after_two_reminders_in_three_weeks() -> None:
    async with Trial([human_approval]) as trial:
        handle = await trial.start("e-1", human_approval.reimburse, LUNCH, 7 * DAY, 2)
        await trial.advance(21 * DAY)

        assert await handle.result() == "declined: nobody answered"
        asked = trial.calls(human_approval.ask_approver)
        assert [call.arguments["reminder"] for call in asked] == [0, 1, 2]
        assert trial.calls(human_approval.pay_back) == []


def test_an_approved_expense_is_paid_back_once_whatever_dies() -> None:
    async def test(trial: Trial) -> None:
        trial.fake(human_approval.ask_approver).returns(None)
        trial.fake(human_approval.pay_back).returns("transfer-7")
        handle = await trial.start("e-1", human_approval.reimburse, LUNCH, 7 * DAY, 2)
        await trial.advance(8 * DAY)
        await handle.send(human_approval.decision, human_approval.Approved("Barbara"))
        assert await handle.result() == "approved by Barbara, transfer-7"

    crash_everywhere(test, [human_approval])


# --------------------------------------------------------------------------------- saga


async def booked(trial: Trial) -> list[str]:
    """Return the parts that are booked after all."""
    parts: list[str] = []
    for call in trial.calls(saga.book):
        parts.append(call.arguments["booking"].what)
    for call in trial.calls(saga.give_up):
        if call.arguments["booking"].what in parts:
            parts.remove(call.arguments["booking"].what)
    return parts


async def test_a_part_that_cannot_be_had_leaves_nothing_booked() -> None:
    async with Trial([saga]) as trial:
        trial.fake(saga.give_up).returns(None)
        trial.fake(saga.book).raises(saga.SoldOutError("no flight left"))
        handle = await trial.start("t-1", saga.book_trip, "Oslo")

        with pytest.raises(InstanceFailedError, match="no flight left"):
            await handle.result()
        assert await booked(trial) == []


async def test_a_trip_that_is_cancelled_while_it_is_thought_over_is_undone_in_reverse() -> None:
    async with Trial([saga]) as trial:
        trial.fake(saga.book).returns(None)
        trial.fake(saga.give_up).returns(None)
        handle = await trial.start("t-1", saga.book_trip, "Rome")
        await handle.wait_report()
        await handle.cancel("stays at home")

        with pytest.raises(InstanceCancelledError):
            await handle.result()
        undone = [call.arguments["booking"].what for call in trial.calls(saga.give_up)]
        assert undone == ["car", "hotel", "flight"]


def test_a_trip_that_cannot_be_had_is_undone_whatever_dies() -> None:
    async def test(trial: Trial) -> None:
        def sells_no_cars(booking: saga.Booking) -> None:
            if booking.what == "car":
                raise saga.SoldOutError("no car left")

        trial.fake(saga.book)(sells_no_cars)
        trial.fake(saga.give_up).returns(None)
        handle = await trial.start("t-1", saga.book_trip, "Oslo")
        with pytest.raises(InstanceFailedError, match="no car left"):
            await handle.result()
        undone = [call.arguments["booking"].what for call in trial.calls(saga.give_up)]
        assert list(dict.fromkeys(undone)) == ["car", "hotel", "flight"]

    crash_everywhere(test, [saga])


def test_a_trip_that_is_cancelled_is_undone_whatever_dies() -> None:
    async def test(trial: Trial) -> None:
        trial.fake(saga.book).returns(None)
        trial.fake(saga.give_up).returns(None)
        handle = await trial.start("t-1", saga.book_trip, "Rome")
        await handle.wait_report()
        await handle.cancel("stays at home")
        with pytest.raises(InstanceCancelledError):
            await handle.result()
        undone = [call.arguments["booking"].what for call in trial.calls(saga.give_up)]
        assert list(dict.fromkeys(undone)) == ["car", "hotel", "flight"]

    crash_everywhere(test, [saga])


# ------------------------------------------------------------------- polling, fan out, slots


async def test_an_export_that_takes_too_long_is_given_up() -> None:
    async with Trial([polling_monitor]) as trial:
        trial.fake(polling_monitor.ask_for_export).returns(polling_monitor.Export("e", trial.now))
        trial.fake(polling_monitor.look).returns(99)
        handle = await trial.start("m-1", polling_monitor.fetch_export, 2025, timedelta(seconds=20))
        await trial.advance(timedelta(seconds=20))

        with pytest.raises(InstanceFailedError, match="TimeoutError"):
            await handle.result()
        assert trial.calls(polling_monitor.download) == []


async def test_shops_are_added_up_whatever_order_they_answer_in() -> None:
    for seed in range(5):
        async with Trial([fan_out_fan_in], seed=seed) as trial:
            trial.fake(fan_out_fan_in.ask_shop)(lambda shop: fan_out_fan_in.Sales(shop, len(shop)))
            handle = await trial.start("s-1", fan_out_fan_in.sum_up, ["Lyon", "Berlin", "Oslo"])

            assert await handle.result() == fan_out_fan_in.Summary(14, "Berlin", [])


async def test_two_months_of_daily_backups_is_on_the_dot() -> None:
    new_year = datetime(2026, 1, 1, tzinfo=UTC)
    schedule = periodic_job.Schedule(new_year, DAY)
    async with Trial([periodic_job], now=new_year) as trial:
        trial.fake(periodic_job.back_up).returns(None)
        handle = await trial.start("b-1", periodic_job.back_up_regularly, schedule, 60)
        await trial.advance(60 * DAY)

        assert await handle.result() == 20
        slots = [call.arguments["slot"] for call in trial.calls(periodic_job.back_up)]
        assert slots == [new_year + number * DAY for number in range(1, 61)]
