"""Deciders that the tests of deciders run: an order, its stock, and some that are odd."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Never

from perdure.authoring.activity import activity
from perdure.authoring.context import Context
from perdure.authoring.deciders.decider import DeadEffect, Decider, EndedOrchestration
from perdure.authoring.deciders.decision import Decision
from perdure.authoring.orchestration import orchestration
from perdure.model.options import Retry

HOUR = timedelta(hours=1)

# ------------------------------------------------------------------------ the order


@dataclass(frozen=True)
class Place:
    order_id: str
    items: list[str] = field(default_factory=list)
    key: str | None = None


@dataclass(frozen=True)
class Pay:
    order_id: str
    amount: int


@dataclass(frozen=True)
class PaymentFailed:
    order_id: str
    why: str


@dataclass(frozen=True)
class PaymentTimeout:
    order_id: str


@dataclass(frozen=True)
class Remind:
    order_id: str


@dataclass(frozen=True)
class Ship:
    order_id: str
    parcels: int = 1


@dataclass(frozen=True)
class Snooze:
    order_id: str
    minutes: int = 5


@dataclass(frozen=True)
class Ended:
    order_id: str
    status: str


OrderInput = Place | Pay | PaymentFailed | PaymentTimeout | Remind | Ship | Snooze | Ended


@dataclass(frozen=True)
class Placed:
    items: list[str]


@dataclass(frozen=True)
class Paid:
    amount: int


@dataclass(frozen=True)
class Reminded:
    at: datetime


@dataclass(frozen=True)
class Shipped:
    parcels: int


@dataclass(frozen=True)
class GivenUp:
    why: str


OrderEvent = Placed | Paid | Reminded | Shipped | GivenUp


@dataclass(frozen=True)
class NotPlaced:
    order_id: str


@dataclass(frozen=True)
class AlreadyPlaced:
    pass


OrderRejection = NotPlaced | AlreadyPlaced


@dataclass(frozen=True)
class OrderState:
    status: str = "new"
    items: tuple[str, ...] = ()
    paid: int = 0
    reminders: int = 0


@activity(retry=Retry(max_attempts=3), deadline=timedelta(minutes=10))
async def charge(order_id: str, amount: int) -> Pay | PaymentFailed | None:
    return Pay(order_id, amount)


@activity
async def notify(order_id: str, text: str = "") -> None: ...


@activity(start_within=timedelta(minutes=1), tag="pack")
async def pack(order_id: str, parcel: int) -> None: ...


@orchestration
async def deliver(ctx: Context, order_id: str) -> str:
    return order_id


class Order(Decider[OrderState, OrderInput, OrderEvent, OrderRejection]):
    name = "order"

    def initial(self) -> OrderState:
        return OrderState()

    def instance_id(self, input: OrderInput, /) -> str:
        return input.order_id

    def decide(
        self, state: OrderState, input: OrderInput, now: datetime, /
    ) -> Decision[OrderInput, OrderEvent, OrderRejection]:
        if isinstance(input, Place):
            return self._place(state, input)
        if state.status == "new":
            return Decision.reject(NotPlaced(input.order_id))
        match input:
            case Pay(order_id=order_id, amount=amount):
                return (
                    Decision.accept(Paid(amount))
                    .cancel_timer("payment")
                    .effect(notify, order_id, text="paid")
                    .reply({"thanks": amount})
                )
            case PaymentFailed(why=why):
                return Decision.accept(GivenUp(why))
            case PaymentTimeout():
                return Decision.accept(GivenUp("timeout"))
            case Remind(order_id=order_id):
                return (
                    Decision.accept(Reminded(now))
                    .timer("remind", after=HOUR, input=Remind(order_id))
                    .effect(notify, order_id)
                )
            case Snooze(order_id=order_id, minutes=minutes):
                later = timedelta(minutes=minutes)
                return Decision.accept().timer("remind", after=later, input=Remind(order_id))
            case Ship(order_id=order_id, parcels=parcels):
                return self._ship(order_id, parcels)
            case Ended(status=status):
                return Decision.accept(GivenUp(f"delivery {status}"))

    def _place(
        self, state: OrderState, input: Place
    ) -> Decision[OrderInput, OrderEvent, OrderRejection]:
        if state.status != "new":
            return Decision.reject(AlreadyPlaced())
        return (
            Decision.accept(Placed(input.items))
            .effect(charge, input.order_id, len(input.items))
            .timer("payment", after=HOUR, input=PaymentTimeout(input.order_id))
            .timer("remind", after=timedelta(minutes=30), input=Remind(input.order_id))
        )

    def _ship(self, order_id: str, parcels: int) -> Decision[OrderInput, OrderEvent, Never]:
        decision = Decision.accept(Shipped(parcels)).in_order()
        for parcel in range(parcels):
            decision = decision.effect(pack, order_id, parcel)
        return decision.send(Stock, Take(order_id, parcels)).start(
            "d-" + order_id, deliver, order_id
        )

    def evolve(self, state: OrderState, event: OrderEvent, /) -> OrderState:
        match event:
            case Placed(items=items):
                return replace(state, status="placed", items=tuple(items))
            case Paid(amount=amount):
                return replace(state, status="paid", paid=state.paid + amount)
            case Reminded():
                return replace(state, reminders=state.reminders + 1)
            case Shipped():
                return replace(state, status="shipped")
            case GivenUp():
                return replace(state, status="given up")

    def is_terminal(self, state: OrderState, /) -> bool:
        return state.status == "given up"

    def unique_key(self, input: OrderInput, /) -> str | None:
        return input.key if isinstance(input, Place) else None

    def on_dead(self, effect: DeadEffect, /) -> OrderInput | None:
        if effect.activity == "charge":
            return PaymentFailed(effect.instance_id, f"{effect.type_name}: {effect.message}")
        return None

    def on_ended(self, ended: EndedOrchestration, /) -> OrderInput | None:
        if ended.status == "completed":
            return None
        return Ended(ended.instance_id, ended.status)


# ------------------------------------------------------------------------ the stock


@dataclass(frozen=True)
class Take:
    order_id: str
    parcels: int


@dataclass(frozen=True)
class Taken:
    order_id: str


@dataclass
class StockState:
    """A state that `evolve` changes in place."""

    orders: list[str] = field(default_factory=list)


class Stock(Decider[StockState, Take, Taken, Never]):
    name = "stock"
    observe_inputs = True
    snapshot_every = 3

    def initial(self) -> StockState:
        return StockState()

    def instance_id(self, input: Take, /) -> str:
        return "main"

    def decide(
        self, state: StockState, input: Take, now: datetime, /
    ) -> Decision[Take, Taken, Never]:
        if input.parcels < 0:
            raise ValueError("no such number of parcels")
        return Decision.accept(Taken(input.order_id)).reply(len(state.orders))

    def evolve(self, state: StockState, event: Taken, /) -> StockState:
        state.orders.append(event.order_id)
        if event.order_id == "broken":
            raise RuntimeError("cannot evolve")
        return state


NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)
