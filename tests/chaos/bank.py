"""A bank whose every movement names the call that asked for it.

Calls are told apart by their marks, which events keep. So what a caller was told can be compared
with what is stored: recorded twice, recorded without a caller, told and not recorded all show.
Money goes from one account to another by an effect or by a message, never out of the bank.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from perdure import (
    Accepted,
    Context,
    Decider,
    Decision,
    Rejected,
    activity,
    orchestration,
)
from perdure.authoring.registry import Defined
from tests.chaos.forking import is_refused_in_child
from tests.chaos.ledger import noted

TOO_LITTLE = "too little"
ARRIVED = ">"
"""Ends the mark of a transfer where it arrives."""
SIGN = {"deposit": 1, "withdraw": -1, "transfer": -1}
POISON = "poison"
"""The account that a rule of the database refuses."""

FORK_EVERY = 3


@dataclass(frozen=True)
class Deposit:
    account: str
    amount: int
    mark: str


@dataclass(frozen=True)
class Withdraw:
    account: str
    amount: int
    mark: str


@dataclass(frozen=True)
class Transfer:
    account: str
    amount: int
    mark: str
    to: str


Input = Deposit | Withdraw | Transfer


@dataclass(frozen=True)
class Moved:
    amount: int
    mark: str


@activity
async def carry(to: str, amount: int, mark: str) -> Deposit:
    """Bring money to an account. At times it forks."""
    with noted():
        if _number_in(mark) % FORK_EVERY == 0 and not await is_refused_in_child():
            raise RuntimeError("a forked child used the client of its parent")
        return Deposit(to, amount, mark + ARRIVED)


def _number_in(mark: str) -> int:
    return int("".join(filter(str.isdigit, mark)))


class Account(Decider[int, Input, Moved, str]):
    """Its state is its balance, which is never below zero."""

    name = "bank"
    snapshot_every: ClassVar[int] = 16

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Input, /) -> str:
        return input.account

    def decide(self, state: int, input: Input, now: datetime, /) -> Decision[Input, Moved, str]:
        match input:
            case Deposit(amount=amount, mark=mark):
                return Decision.accept(Moved(amount, mark))
            case Withdraw(amount=amount) | Transfer(amount=amount) if amount > state:
                return Decision.reject(TOO_LITTLE)
            case Withdraw(amount=amount, mark=mark):
                return Decision.accept(Moved(-amount, mark))
            case Transfer(amount=amount, mark=mark, to=to):
                gone = Decision.accept(Moved(-amount, mark))
                if amount % 2:
                    return gone.effect(carry, to, amount, mark)
                return gone.send(Account, Deposit(to, amount, mark + ARRIVED))

    def evolve(self, state: int, event: Moved, /) -> int:
        return state + event.amount


@dataclass(frozen=True)
class Step:
    """What an orchestration was told of one input."""

    mark: str
    answer: str
    version: int = 0
    balance: int = 0


@orchestration
async def errand(ctx: Context, mark: str, accounts: list[str], amount: int) -> list[Step]:
    """Go to some accounts one after another: have inputs decided, send others."""
    told = []
    for number, account in enumerate(accounts):
        step = f"{mark}/{number}"
        if number % 3 == 2:
            await ctx.send(Account, Deposit(account, amount, step))
            told.append(Step(step, "sent"))
            continue
        given = (Deposit if number % 3 == 0 else Withdraw)(account, amount, step)
        told.append(step_of(step, await ctx.execute(Account, given)))
    return told


def step_of(mark: str, outcome: Any) -> Step:
    """Put into words what an input came to."""
    match outcome:
        case Accepted(events=[Moved(mark=recorded)], state=balance, version=version):
            return Step(recorded, "accepted", version, balance)
        case Rejected(reason="too little"):
            return Step(mark, "rejected")
    return Step(mark, f"strange: {outcome!r}")


DEFINITIONS: list[Defined] = [carry, Account, errand]
