"""An instance that lives for ever: signals come in, and its history stays short.

A loyalty account takes purchases for as long as there is a customer. After every four it continues
as new: the next execution begins with an empty history and the state it was handed. Signals that
nobody has read yet, and what `ctx.kv` holds, go along. Here ten purchases and the good-bye are sent
at once, far more than one execution reads; none is lost, none is counted twice.

    python examples/eternal.py
"""

import asyncio
from dataclasses import dataclass

from perdure import Context, Engine, Signal, activity, default_url, orchestration, race

STORE = default_url()
PURCHASES_PER_EXECUTION = 4


@dataclass(frozen=True)
class Purchase:
    """What a customer bought."""

    article: str
    cents: int


@dataclass(frozen=True)
class Account:
    """What is known of a customer."""

    customer: str
    points: int = 0
    purchases: int = 0

    def after(self, purchase: Purchase) -> "Account":
        """Return the account with one more purchase: a point for every whole unit of money."""
        return Account(self.customer, self.points + purchase.cents // 100, self.purchases + 1)


purchase_made = Signal("purchase_made", Purchase)
closed = Signal("closed", str)


@activity
async def congratulate(customer: str, points: int) -> None:
    """Write to a customer who has reached a hundred points."""
    print(f"mail to {customer}: you have {points} points")


@orchestration
async def loyalty(ctx: Context, account: Account) -> Account:
    """Count points until the account is closed."""
    for _ in range(PURCHASES_PER_EXECUTION):
        match await race(purchase_made.receive(), closed.receive()):
            case 0, purchase:
                before, account = account, account.after(purchase)
                ctx.kv["points"] = account.points
                if before.points < 100 <= account.points:
                    await congratulate(account.customer, account.points)
            case 1, reason:
                ctx.log.info("closed: %s", reason)
                return account
    loyalty.continue_as_new(account)


async def main() -> None:
    """Open an account, use it, close it."""
    async with Engine(STORE, [loyalty, congratulate]) as engine:
        handle = await engine.start(loyalty, Account("Ada"))
        for number in range(1, 11):
            await handle.send(purchase_made, Purchase(f"book {number}", 500 * number))
        await handle.send(closed, "Ada moves away")

        account = await handle.result()
        info = await handle.info()
        print(f"{account.customer} made {account.purchases} purchases: {account.points} points")
        print(f"{info.execution} executions, {len(await handle.history())} events in the last one")


if __name__ == "__main__":
    asyncio.run(main())
