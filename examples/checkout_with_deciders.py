"""A checkout that drives two deciders: an item is taken, an account charged, or all is undone.

The deciders guard their own rules; the orchestration knows the process. `ctx.execute` gives a
decider an input and returns what it decided, exactly once, however often the process dies. The
account asks the bank by itself, so the checkout waits for the event that tells how that went.

    python examples/checkout_with_deciders.py
"""

import asyncio
import os
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from perdure import Accepted, Context, Decider, Decision, Engine, activity, orchestration

STORE = os.environ.get("PERDURE_STORE", "sqlite:///perdure.db")


@dataclass(frozen=True)
class Move:
    item: str
    count: int


@dataclass(frozen=True)
class Moved:
    count: int


class Stock(Decider[int, Move, Moved, str]):
    """How many there are of an item. It never gives what it does not have."""

    name = "stock"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Move, /) -> str:
        return input.item

    def decide(self, state: int, input: Move, now: datetime, /) -> Decision[Move, Moved, str]:
        if state + input.count < 0:
            return Decision.reject("sold out")
        return Decision.accept(Moved(input.count))

    def evolve(self, state: int, event: Moved, /) -> int:
        return state + event.count


@dataclass(frozen=True)
class Charge:
    customer: str
    cents: int


@dataclass(frozen=True)
class BankAnswer:
    customer: str
    cents: int
    is_yes: bool


@dataclass(frozen=True)
class Charged:
    cents: int


@dataclass(frozen=True)
class Declined:
    cents: int


@activity
async def ask_bank(customer: str, cents: int) -> BankAnswer:
    """Ask the bank. What is returned is the account's next input."""
    return BankAnswer(customer, cents, cents <= 5_000)


class Account(Decider[int, Charge | BankAnswer, Charged | Declined, str]):
    """What a customer has paid in all."""

    name = "account"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Charge | BankAnswer, /) -> str:
        return input.customer

    def decide(
        self, state: int, input: Charge | BankAnswer, now: datetime, /
    ) -> Decision[Charge | BankAnswer, Charged | Declined, str]:
        match input:
            case Charge(customer, cents):
                return Decision.accept().effect(ask_bank, customer, cents)
            case BankAnswer(_, cents, is_yes):
                return Decision.accept(Charged(cents) if is_yes else Declined(cents))

    def evolve(self, state: int, event: Charged | Declined, /) -> int:
        return state + event.cents if isinstance(event, Charged) else state


@orchestration
async def checkout(ctx: Context, item: str, customer: str, cents: int) -> str:
    """Sell one item to a customer, or leave nothing behind."""
    taken = await ctx.execute(Stock, Move(item, -1))
    if not isinstance(taken, Accepted):
        return "sold out"
    asked = await ctx.execute(Account, Charge(customer, cents))
    assert isinstance(asked, Accepted), "an account takes every charge"
    account = ctx.ref(customer, Account)
    answer, _ = await account.wait_event(Charged | Declined, after=asked.version)
    if isinstance(answer, Declined):
        await ctx.send(Stock, Move(item, +1))
        return f"the bank declines {cents}"
    return f"sold for {cents}"


async def main() -> None:
    """Four customers, two lamps."""
    lamp = f"lamp-{uuid4().hex[:6]}"
    async with Engine(STORE, [checkout, Stock, Account, ask_bank]) as engine:
        await engine.execute(Stock, Move(lamp, 2))
        for customer, cents in (("Ada", 3_900), ("Grace", 9_900), ("Joan", 3_900), ("Mary", 3_900)):
            handle = await engine.start(checkout, lamp, f"{customer} {lamp}", cents)
            print(f"{customer}: {await handle.result()}")
        left = await engine.state(Stock, lamp)
        print(f"{left} left")


if __name__ == "__main__":
    asyncio.run(main())
