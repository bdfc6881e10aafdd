"""A decider whose events add up: what is recorded twice, or not at all, shows in the balance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perdure import Client, Decider, Decision


@dataclass(frozen=True)
class Deposit:
    account: str
    amount: int


@dataclass(frozen=True)
class Withdraw:
    account: str
    amount: int


@dataclass(frozen=True)
class Moved:
    amount: int


class Account(Decider[int, Deposit | Withdraw, Moved, str]):
    name = "account"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Deposit | Withdraw, /) -> str:
        return input.account

    def decide(
        self, state: int, input: Deposit | Withdraw, now: datetime, /
    ) -> Decision[Deposit | Withdraw, Moved, str]:
        if isinstance(input, Withdraw):
            if input.amount > state:
                return Decision.reject("too little")
            return Decision.accept(Moved(-input.amount))
        return Decision.accept(Moved(input.amount))

    def evolve(self, state: int, event: Moved, /) -> int:
        return state + event.amount


async def movements(client: Client, account: str) -> list[int]:
    """Return the amounts of the events of an account."""
    return [one.event.amount for one in await client.events(Account, account)]
