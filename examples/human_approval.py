"""A person decides: a signal with a timeout, reminders, and an answer for when nobody comes.

Two expenses wait for the same approver. The first one is approved after a reminder; the second one
is declined when the time is up. Waiting costs nothing but a few rows: with three days instead of
some milliseconds it would be the same code.

    python examples/human_approval.py
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from perdure import Engine, Signal, activity, context, default_url, orchestration

STORE = default_url()


@dataclass(frozen=True)
class Expense:
    """What an employee wants to have paid back."""

    employee: str
    purpose: str
    cents: int


@dataclass(frozen=True)
class Approved:
    """Yes, and who said so."""

    by: str


@dataclass(frozen=True)
class Declined:
    """No, and why."""

    reason: str


decision = Signal("decision", Approved | Declined)


@activity
async def ask_approver(expense: Expense, reminder: int) -> None:
    """Write to the approver."""
    subject = "please decide" if reminder == 0 else f"reminder {reminder}"
    print(f"mail to the approver: {subject}, {expense.purpose} of {expense.employee}")


@activity
async def pay_back(expense: Expense) -> str:
    """Transfer the money; return the bank's reference."""
    print(f"bank: {expense.cents / 100:.2f} to {expense.employee}")
    return f"transfer-{expense.employee.lower()}-{expense.cents}"


@orchestration
async def reimburse(expense: Expense, patience: timedelta, reminders: int) -> str:
    """Pay an expense back if somebody approves it in time."""
    match await wait_for_decision(expense, patience, reminders):
        case Approved(by):
            return f"approved by {by}, {await pay_back(expense)}"
        case Declined(reason):
            return f"declined: {reason}"


async def wait_for_decision(
    expense: Expense, patience: timedelta, reminders: int
) -> Approved | Declined:
    """Ask and wait, again and again. An ordinary function: inside, everything is durable too."""
    for reminder in range(reminders + 1):
        await ask_approver(expense, reminder)
        context().report(f"asked {reminder + 1} times")
        try:
            async with asyncio.timeout(patience.total_seconds()):
                return await decision.receive()
        except TimeoutError:
            continue
    return Declined("nobody answered")


async def main() -> None:
    """Hand in two expenses, approve one of them."""
    async with Engine(STORE, [reimburse, ask_approver, pay_back]) as engine:
        patience = timedelta(milliseconds=400)
        train = await engine.start(reimburse, Expense("Ada", "train", 4_250), patience, 2)
        lunch = await engine.start(reimburse, Expense("Grace", "lunch", 1_890), patience, 2)

        # Any process can do this: `Client(STORE)` is enough, or `BlockingClient` without asyncio.
        await train.wait_report(after=1)  # Barbara was reminded
        await train.send(decision, Approved("Barbara"))

        print(f"train: {await train.result()}")
        print(f"lunch: {await lunch.result()}")


if __name__ == "__main__":
    asyncio.run(main())
