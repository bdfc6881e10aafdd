"""Deciders of the chaos tests: accounts whose events are counted, by them and by a projection.

An account takes deposits, has each confirmed by an effect, is reminded by a timer, and ends when it
is told to close and all that it waits for has come. What it must have recorded in the end is known.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

from perdure import Context, Decider, Decision, Retry, activity, orchestration
from perdure.authoring.deciders.decider_definition import AnyDecider
from perdure.authoring.registry import Defined
from perdure.projection import EventMeta, SqlProjection, Tables
from perdure.store.contents import Contents
from tests import rows
from tests.chaos.ledger import noted

REMIND_AFTER = timedelta(milliseconds=150)


@dataclass(frozen=True)
class Deposit:
    account: str
    number: int


@dataclass(frozen=True)
class Confirmed:
    """What the effect of a deposit gives back, with the attempt that made it."""

    account: str
    number: int
    attempt: int


@dataclass(frozen=True)
class Remind:
    account: str


@dataclass(frozen=True)
class Close:
    account: str


Input = Deposit | Confirmed | Remind | Close


@dataclass(frozen=True)
class Noted:
    account: str
    what: str


@dataclass(frozen=True)
class State:
    open: frozenset[int] = frozenset()
    taken: frozenset[int] = frozenset()
    is_reminded: bool = False
    is_closing: bool = False

    @property
    def is_over(self) -> bool:
        return self.is_closing and self.is_reminded and not self.open


@activity
async def confirm(account: str, number: int) -> Confirmed:
    """Take a moment, and give the account an input."""
    with noted() as attempt:
        await asyncio.sleep(number % 3 * 0.01)
        return Confirmed(account, number, attempt)


class Account(Decider[State, Input, Noted, str]):
    name = "account"
    snapshot_every: ClassVar[int] = 4

    def initial(self) -> State:
        return State()

    def instance_id(self, input: Input, /) -> str:
        return input.account

    def unique_key(self, input: Input, /) -> str | None:
        return f"number of {input.account}" if isinstance(input, Deposit) else None

    def decide(self, state: State, input: Input, now: datetime, /) -> Decision[Input, Noted, str]:
        match input:
            case Deposit(account, number) if number in state.taken:
                return Decision.reject(f"deposit {number} was decided twice")
            case Deposit(account, number):
                return (
                    Decision.accept(Noted(account, f"deposit {number}"))
                    .effect(confirm, account, number)
                    .timer("remind", after=REMIND_AFTER, input=Remind(account))
                )
            case Confirmed(account, number):
                return Decision.accept(Noted(account, f"confirmed {number}"))
            case Remind(account):
                return Decision.accept(Noted(account, "reminded"))
            case Close(account):
                return Decision.accept(Noted(account, "closing"))

    def evolve(self, state: State, event: Noted, /) -> State:
        what, _, number = event.what.partition(" ")
        match what:
            case "deposit":
                one = frozenset({int(number)})
                return replace(
                    state, open=state.open | one, taken=state.taken | one, is_reminded=False
                )
            case "confirmed":
                return replace(state, open=state.open - {int(number)})
            case "reminded":
                return replace(state, is_reminded=True)
        return replace(state, is_closing=True)

    def is_terminal(self, state: State, /) -> bool:
        return state.is_over


@orchestration
async def teller(ctx: Context, account: str, deposits: int) -> list[str]:
    """Drive an account from an orchestration: some inputs are decided at once, some sent."""
    said = []
    for number in range(deposits):
        if number % 2:
            await ctx.send(Account, Deposit(account, number))
        else:
            outcome = await ctx.execute(Account, Deposit(account, number))
            said.append(type(outcome).__name__)
    await ctx.send(Account, Close(account))
    return said


# ------------------------------------------------------------------ what must come of it


class Statement(SqlProjection[Noted]):
    """One row for each event, in a table that would take it twice."""

    name = "statement"
    deciders: ClassVar[Sequence[type[AnyDecider]]] = (Account,)
    # Workers that are lost here are lost for other reasons than the event that they handled.
    retry: ClassVar[Retry] = Retry(
        max_attempts=1_000, first_delay=timedelta(milliseconds=20), max_delay=timedelta(seconds=1)
    )

    def setup(self, tables: Tables, /) -> None:
        tables.execute(
            "CREATE TABLE IF NOT EXISTS statement (position BIGINT, account TEXT, what TEXT)"
        )

    def handle(self, event: Noted, meta: EventMeta, tables: Tables, /) -> None:
        # A literal, because the two databases write parameters differently.
        row = f"{meta.position}, '{event.account}', '{event.what}'"
        tables.execute(f"INSERT INTO statement VALUES ({row})")  # noqa: S608 - all of it is ours


def problems_of_account(account: str, events: Sequence[str], deposits: int) -> list[str]:
    """Return what an account should not have recorded, or should have and has not."""
    counts = Counter(events)
    wanted = {f"{what} {n}" for what in ("deposit", "confirmed") for n in range(deposits)}
    problems = [
        f"{account}: {what!r} is recorded {counts[what]} times"
        for what in sorted({*wanted, "closing"})
        if counts[what] != 1
    ]
    unknown = counts.keys() - wanted - {"closing", "reminded"}
    return [*problems, *(f"{account}: recorded {what!r}" for what in sorted(unknown))]


def problems_of_statement(url: str, contents: Contents) -> list[str]:
    """Return how the projection's table differs from the feed."""
    fed = [key.instance_id.removeprefix("account:") for key, _, _ in contents.feed]
    if not fed:
        return []
    found = rows.run(url, "SELECT position, account FROM statement ORDER BY position")
    if [account for _, account in found] == fed:
        return []
    written = Counter(position for position, _ in found)
    twice = sorted(position for position, count in written.items() if count > 1)
    return [f"S33: the feed has {len(fed)} events, the statement {len(found)}; twice: {twice[:10]}"]


DEFINITIONS: list[Defined] = [confirm, Account, teller, Statement]
