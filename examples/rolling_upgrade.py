"""New code while instances are alive: two versions side by side, and a repair inside one of them.

On Monday a worker has 1.0.0. On Tuesday the next worker has 1.0.0 with a repair, and 2.0.0 as well.
An instance stays on the version it began with, and takes the repair only if it has not yet passed
that place (`ctx.patched`). When it continues as new, it moves to the latest version. A worker never
touches an instance whose version it does not have, so old and new workers may run together.

    python examples/rolling_upgrade.py
"""

import asyncio
from dataclasses import dataclass, replace

from perdure import ActivityContext, Context, Engine, Signal, activity, default_url, orchestration

STORE = default_url()

month_over = Signal("month_over", None)


@dataclass(frozen=True)
class Subscription:
    """Who pays, which month it is, and how many are wanted."""

    customer: str
    month: int = 1
    months: int = 2


@activity
async def charge(ctx: ActivityContext, subscription: Subscription) -> None:
    """Take the money for a month."""
    who, month = subscription.customer, subscription.month
    print(f"  {who} is charged for month {month}, by {ctx.orchestration_version}")


@activity
async def say_thanks(subscription: Subscription) -> None:
    """Write a short mail."""
    print(f"  {subscription.customer} is thanked")


@activity
async def send_invoice(subscription: Subscription) -> None:
    """Write an invoice."""
    print(f"  {subscription.customer} gets an invoice")


# ----------------------------------------------------------------- the code on Monday


@orchestration(name="subscribe", version="1.0.0")
async def subscribe_on_monday(ctx: Context, subscription: Subscription) -> str:
    """Charge for a month, wait for the next one."""
    await charge(subscription)
    ctx.report(f"month {subscription.month} paid")
    await month_over.receive()
    subscribe_on_monday.continue_as_new(replace(subscription, month=subscription.month + 1))


# ----------------------------------------------------------------- the code on Tuesday


@orchestration(name="subscribe", version="1.0.0")
async def subscribe_1(ctx: Context, subscription: Subscription) -> str:
    """1.0.0, repaired: it forgot to say thanks. Delete the `if` once nobody is left without it."""
    await charge(subscription)
    if ctx.patched("say-thanks"):
        await say_thanks(subscription)
    ctx.report(f"month {subscription.month} paid")
    await month_over.receive()
    subscribe_1.continue_as_new(replace(subscription, month=subscription.month + 1))


@orchestration(name="subscribe", version="2.0.0")
async def subscribe_2(ctx: Context, subscription: Subscription) -> str:
    """2.0.0: too different to fit a history of 1.0.0, so it is a version of its own."""
    await asyncio.gather(send_invoice(subscription), charge(subscription))
    ctx.report(f"month {subscription.month} paid")
    if subscription.month == subscription.months:
        return f"{subscription.customer} leaves after {subscription.months} months"
    await month_over.receive()
    subscribe_2.continue_as_new(replace(subscription, month=subscription.month + 1))


async def main() -> None:
    """Deploy on Monday, deploy again on Tuesday, let the month pass."""
    print("Monday: a worker with 1.0.0")
    async with Engine(STORE, [subscribe_on_monday, charge]) as engine:
        ada = await engine.start(subscribe_on_monday, Subscription("Ada"))
        await ada.wait_report()

    print("Tuesday: a worker with 1.0.0, repaired, and 2.0.0")
    definitions = [subscribe_1, subscribe_2]
    async with Engine(STORE, [*definitions, charge, say_thanks, send_invoice]) as engine:
        ada = engine.handle(ada.instance_id, subscribe_2)
        joan = await engine.start(subscribe_1, Subscription("Joan"))
        await joan.wait_report()
        grace = await engine.start(subscribe_2, Subscription("Grace"))
        await grace.wait_report()

        print("The month is over")
        for handle in (ada, joan, grace):
            await handle.send(month_over, None)
            print(f"  {await handle.result()}")


if __name__ == "__main__":
    asyncio.run(main())
