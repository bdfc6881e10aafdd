"""Deciders whose histories are replayed for ever. Never change one: add another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Never, TypeAlias

import msgspec

from perdure import (
    Context,
    DeadEffect,
    Decider,
    Decision,
    EndedOrchestration,
    Retry,
    activity,
    orchestration,
)

# ------------------------------------------------------------------------------- a stock


@dataclass(frozen=True)
class Reserve:
    item: str
    count: int


@dataclass(frozen=True)
class Reserved:
    count: int


@dataclass(frozen=True)
class TooFew:
    left: int


class Stock(Decider[int, Reserve, Reserved, TooFew]):
    """Replies, and rejects."""

    name = "stock"

    def initial(self) -> int:
        return 10

    def instance_id(self, input: Reserve, /) -> str:
        return input.item

    def decide(
        self, state: int, input: Reserve, now: datetime, /
    ) -> Decision[Reserve, Reserved, TooFew]:
        if input.count > state:
            return Decision.reject(TooFew(state))
        return Decision.accept(Reserved(input.count)).reply({"left": state - input.count})

    def evolve(self, state: int, event: Reserved, /) -> int:
        return state - event.count


# ------------------------------------------------------------------------------- an order


@dataclass(frozen=True)
class Place:
    order_id: str
    price: Decimal
    email: str = ""


@dataclass(frozen=True)
class Paid:
    order_id: str
    reference: str


@dataclass(frozen=True)
class Remind:
    order_id: str
    number: int


@dataclass(frozen=True)
class Expire:
    order_id: str


@dataclass(frozen=True)
class Fail:
    tag: ClassVar[str] = "Failed"
    order_id: str
    why: str


@dataclass(frozen=True)
class Ended:
    order_id: str
    status: str


Input: TypeAlias = Place | Paid | Remind | Expire | Fail | Ended


class Placed(msgspec.Struct, frozen=True):
    price: Decimal
    at: datetime


class Settled(msgspec.Struct, frozen=True, tag="paid"):
    reference: str


@dataclass(frozen=True)
class Reminded:
    number: int


@dataclass(frozen=True)
class Closed:
    why: str


Event: TypeAlias = Placed | Settled | Reminded | Closed


@dataclass(frozen=True)
class State:
    status: str = "new"
    price: Decimal = Decimal(0)
    reminders: int = 0


@activity
async def charge(order_id: str, price: Decimal) -> Paid:
    return Paid(order_id, "unused")


@activity(
    retry=Retry(max_attempts=2),
    timeout=timedelta(seconds=30),
    deadline=timedelta(hours=1),
    tag="mail",
)
async def write(order_id: str, subject: str) -> None:
    """Not run here."""


@orchestration(version="1.2.0")
async def ship(ctx: Context, order_id: str) -> str:
    return order_id


class Order(Decider[State, Input, Event, str]):
    """Has effects, timers, a message to another decider, an orchestration, an end."""

    name = "order"

    def initial(self) -> State:
        return State()

    def instance_id(self, input: Input, /) -> str:
        return input.order_id

    def unique_key(self, input: Input, /) -> str | None:
        return input.email or None if isinstance(input, Place) else None

    def decide(self, state: State, input: Input, now: datetime, /) -> Decision[Input, Event, str]:
        match state.status, input:
            case "new", Place(order_id, price):
                return (
                    Decision.accept(Placed(price, now))
                    .effect(charge, order_id, price)
                    .timer("expire", after=timedelta(hours=1), input=Expire(order_id))
                    .timer("remind", after=timedelta(minutes=10), input=Remind(order_id, 1))
                )
            case "placed", Remind(order_id, number):
                again = Remind(order_id, number + 1)
                return (
                    Decision.accept(Reminded(number))
                    .effect(write, order_id, f"reminder {number}")
                    .timer("remind", after=timedelta(minutes=10 * number), input=again)
                )
            case "placed", Paid(order_id, reference):
                return (
                    Decision.accept(Settled(reference))
                    .cancel_timer("expire")
                    .cancel_timer("remind")
                    .effect(write, order_id, "receipt")
                    .effect(write, order_id, "survey")
                    .in_order()
                    .send(Stock, Reserve("chair", 3))
                    .start(f"ship-{order_id}", ship, order_id)
                )
            case "paid", Ended(_, status):
                return Decision.accept(Closed(status))
            case "placed", Expire():
                return Decision.accept(Closed("expired"))
            case "placed", Fail(_, why):
                return Decision.accept(Reminded(0), Closed(why))
            case _:
                return Decision.reject(f"{state.status} takes no {type(input).__name__}")

    def evolve(self, state: State, event: Event, /) -> State:
        match event:
            case Placed(price=price):
                return replace(state, status="placed", price=price)
            case Settled():
                return replace(state, status="paid")
            case Reminded(number):
                return replace(state, reminders=number)
            case Closed():
                return replace(state, status="closed")

    def is_terminal(self, state: State, /) -> bool:
        return state.status == "closed"

    def on_dead(self, effect: DeadEffect, /) -> Input | None:
        if effect.activity != "charge":
            return None
        return Fail(effect.instance_id, f"{effect.type_name}: {effect.message}")

    def on_ended(self, ended: EndedOrchestration, /) -> Input | None:
        return Ended(ended.instance_id, ended.status)


# ------------------------------------------------------- a counter, and how it changed later


@dataclass(frozen=True)
class Add:
    to: str
    amount: int


@dataclass(frozen=True)
class Added:
    amount: int


class Counter(Decider[int, Add, Added, Never]):
    """Never rejects."""

    name = "counter"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Add, /) -> str:
        return input.to

    def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
        at = datetime(2027, 1, 15, 12, tzinfo=UTC)
        return Decision.accept(Added(input.amount)).timer("end", at=at, input=Add(input.to, 1))

    def evolve(self, state: int, event: Added, /) -> int:
        return state + event.amount


@dataclass(frozen=True)
class AddedInUnits:
    tag: ClassVar[str] = "Added"
    units: int
    unit: str


class CounterInUnits(Decider[dict[str, int], Add, AddedInUnits, Never]):
    """What `Counter` became: its events have another shape."""

    name = "counter"
    event_versions: ClassVar[Mapping[type, int]] = {AddedInUnits: 2}

    def initial(self) -> dict[str, int]:
        return {}

    def instance_id(self, input: Add, /) -> str:
        return input.to

    def decide(
        self, state: dict[str, int], input: Add, now: datetime, /
    ) -> Decision[Add, AddedInUnits, Never]:
        return Decision.accept(AddedInUnits(input.amount, "piece"))

    def evolve(self, state: dict[str, int], event: AddedInUnits, /) -> dict[str, int]:
        return {**state, event.unit: state.get(event.unit, 0) + event.units}

    def upcast(self, tag: str, version: int, data: Any, /) -> tuple[str, Any]:
        return tag, {"units": data["amount"], "unit": "piece"}


# ----------------------------------------------------- a parcel whose effect dies and is retried


@dataclass(frozen=True)
class Post:
    parcel_id: str


@dataclass(frozen=True)
class Posted:
    parcel_id: str
    number: str


@dataclass(frozen=True)
class NotPosted:
    parcel_id: str
    why: str


@dataclass(frozen=True)
class Moved:
    to: str


@activity(retry=Retry(max_attempts=2))
async def post(parcel_id: str) -> Posted:
    return Posted(parcel_id, "unused")


class Parcel(Decider[tuple[str, ...], Post | Posted | NotPosted, Moved, Never]):
    """Goes on after its effect has failed for good."""

    name = "parcel"

    def initial(self) -> tuple[str, ...]:
        return ()

    def instance_id(self, input: Post | Posted | NotPosted, /) -> str:
        return input.parcel_id

    def decide(
        self, state: tuple[str, ...], input: Post | Posted | NotPosted, now: datetime, /
    ) -> Decision[Post | Posted | NotPosted, Moved, Never]:
        match input:
            case Post(parcel_id):
                return Decision.accept(Moved("counter")).effect(post, parcel_id)
            case Posted(_, number):
                return Decision.accept(Moved(number))
            case NotPosted(_, why):
                return Decision.accept(Moved(why))

    def evolve(self, state: tuple[str, ...], event: Moved, /) -> tuple[str, ...]:
        return (*state, event.to)

    def on_dead(self, effect: DeadEffect, /) -> Post | Posted | NotPosted | None:
        why = f"{effect.attempts} times: {effect.message}"
        return NotPosted(effect.arguments["parcel_id"], why)
