"""Deciders whose every crash point is tried: inputs, effects, keyed timers, a dead effect, messages
between them, and orchestrations on both sides.

Time is the test's clock, so effects take none and timers may be long. They are so much longer than
a lease that a crash lets none of them fire out of turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

from perdure import (
    Accepted,
    Context,
    DeadEffect,
    Decider,
    Decision,
    EndedOrchestration,
    Retry,
    activity,
    orchestration,
)
from perdure.authoring.registry import Defined
from tests.chaos.ledger import noted

RETRY = Retry(max_attempts=2, first_delay=timedelta(seconds=1), jitter=0)

# ------------------------------------------------------------------------------- a stock


@dataclass(frozen=True)
class Move:
    item: str
    count: int


@dataclass(frozen=True)
class Moved:
    count: int


class Stock(Decider[int, Move, Moved, str]):
    name = "stock"
    snapshot_every = 2
    observe_inputs = True

    def initial(self) -> int:
        return 2

    def instance_id(self, input: Move, /) -> str:
        return input.item

    def decide(self, state: int, input: Move, now: datetime, /) -> Decision[Move, Moved, str]:
        if state + input.count < 0:
            return Decision.reject("too few")
        return Decision.accept(Moved(input.count)).reply(state + input.count)

    def evolve(self, state: int, event: Moved, /) -> int:
        return state + event.count


# ------------------------------------------------------------------------------- an order


@dataclass(frozen=True)
class Place:
    order: str
    charge: str = "charge"
    customer: str = ""


@dataclass(frozen=True)
class Paid:
    order: str


@dataclass(frozen=True)
class Remind:
    order: str
    number: int


@dataclass(frozen=True)
class Postpone:
    order: str


@dataclass(frozen=True)
class Expire:
    order: str


@dataclass(frozen=True)
class Lost:
    order: str
    why: str


@dataclass(frozen=True)
class Arrived:
    order: str
    how: str


Input = Place | Paid | Remind | Postpone | Expire | Lost | Arrived


@dataclass(frozen=True)
class Noted:
    status: str
    what: str = ""


@dataclass(frozen=True)
class State:
    status: str = "new"
    notes: int = 0


@activity(retry=RETRY)
async def charge(order: str) -> Paid:
    with noted() as attempt:
        if attempt < 2:
            raise RuntimeError("not yet")
        return Paid(order)


@activity(retry=RETRY)
async def declined(order: str) -> Paid:
    with noted():
        raise RuntimeError("never")


@activity
def slow(order: str) -> Paid | None:
    with noted():
        return None


@activity
async def write(order: str, subject: str) -> None:
    with noted():
        return


@activity
def pack(order: str) -> str:
    with noted():
        return f"parcel {order}"


@orchestration
async def ship(ctx: Context, order: str) -> str:
    """Called by a decider; calls another one, which gives twice and then has no more."""
    said = []
    for _ in range(2):
        outcome = await ctx.execute(Stock, Move(order, -1))
        said.append(type(outcome).__name__)
    await ctx.send(Stock, Move(order, 1))
    outcome = await ctx.execute(Stock, Move(order, -5))
    return " ".join([*said, type(outcome).__name__, await pack(order)])


CHARGES = {"charge": charge, "declined": declined, "slow": slow}


class Order(Decider[State, Input, Noted, str]):
    name = "order"
    snapshot_every: ClassVar[int] = 3

    def initial(self) -> State:
        return State()

    def instance_id(self, input: Input, /) -> str:
        return input.order

    def unique_key(self, input: Input, /) -> str | None:
        return (input.customer or None) if isinstance(input, Place) else None

    def decide(self, state: State, input: Input, now: datetime, /) -> Decision[Input, Noted, str]:
        match state.status, input:
            case "new", Place(order, how):
                return (
                    Decision.accept(Noted("placed", how))
                    .effect(CHARGES[how], order)
                    .timer("expire", after=timedelta(hours=1), input=Expire(order))
                    .timer("remind", after=timedelta(hours=2), input=Remind(order, 1))
                )
            case "placed", Postpone(order):
                later = Decision.accept(Noted("placed", "postponed"))
                return later.timer("expire", after=timedelta(hours=9), input=Expire(order)).reply(9)
            case "placed", Remind(order, number):
                reminded = Decision.accept(Noted("placed", f"reminder {number}"))
                reminded = reminded.effect(write, order, f"reminder {number}")
                return reminded.timer(
                    "remind", after=timedelta(hours=3), input=Remind(order, number + 1)
                )
            case "placed", Paid(order):
                return (
                    Decision.accept(Noted("paid"), Noted("paid", "twice"))
                    .cancel_timer("expire")
                    .cancel_timer("remind")
                    .effect(write, order, "receipt")
                    .effect(write, order, "survey")
                    .in_order()
                    .send(Stock, Move(f"{order}-box", -1))
                    .start(f"ship-{order}", ship, order)
                )
            case "paid", Arrived(_, how):
                return Decision.accept(Noted("ended", how))
            case "placed", Lost(_, why):
                return Decision.accept(Noted("ended", why))
            case "placed", Expire():
                return Decision.accept(Noted("ended", "expired"))
            case _:
                return Decision.reject(f"{state.status} takes no {type(input).__name__}")

    def evolve(self, state: State, event: Noted, /) -> State:
        return replace(state, status=event.status, notes=state.notes + 1)

    def is_terminal(self, state: State, /) -> bool:
        return state.status == "ended"

    def on_dead(self, effect: DeadEffect, /) -> Input | None:
        return Lost(effect.instance_id, f"{effect.activity}: {effect.message}")

    def on_ended(self, ended: EndedOrchestration, /) -> Input | None:
        return Arrived(ended.instance_id, str(ended.result))


@orchestration
async def checkout(ctx: Context, order: str) -> list[str]:
    """Drive a decider that drives an orchestration."""
    placed = await ctx.execute(Order, Place(order, customer="Grace"))
    again = await ctx.execute(Order, Place(order))
    assert isinstance(placed, Accepted)
    return [*(event.what for event in placed.events), type(again).__name__]


# --------------------------------------------------- a parcel whose effect is retried by hand


@dataclass(frozen=True)
class Post:
    parcel: str


@dataclass(frozen=True)
class Posted:
    parcel: str
    how: str


@dataclass(frozen=True)
class Told:
    how: str


class Roads:
    """Which roads are open: whoever repairs them does that outside the processes that may die."""

    is_open = False


@activity(retry=RETRY)
async def deliver(parcel: str) -> Posted:
    """Not in the ledger: when a dead job is put back its attempts are counted anew."""
    if parcel == "remote" or not Roads.is_open:
        raise RuntimeError("no road")
    return Posted(parcel, "delivered")


class Parcel(Decider[int, Post | Posted, Told, str]):
    """Goes on when its effect is dead, and when that is retried."""

    name = "parcel"
    snapshot_every = 2

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Post | Posted, /) -> str:
        return input.parcel

    def decide(
        self, state: int, input: Post | Posted, now: datetime, /
    ) -> Decision[Post | Posted, Told, str]:
        if isinstance(input, Posted):
            return Decision.accept(Told(f"{input.how} {state}"))
        return Decision.accept(Told("posted")).effect(deliver, input.parcel)

    def evolve(self, state: int, event: Told, /) -> int:
        return state + 1

    def on_dead(self, effect: DeadEffect, /) -> Post | Posted | None:
        # Not how often it was tried: runs that were lost with their process count as well.
        return Posted(effect.arguments["parcel"], effect.message)


DEFINITIONS: list[Defined] = [
    *(Parcel, deliver),
    *(charge, declined, slow, write, pack, ship, checkout, Order, Stock),
]
