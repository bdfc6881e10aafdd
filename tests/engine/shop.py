"""A decider for the tests: an order that is paid, shipped or expires."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from perdure import ActivityContext, Decider, Decision, Retry, activity
from perdure.authoring.deciders.decider import DeadEffect

PAY_WITHIN = timedelta(hours=1)


@dataclass(frozen=True)
class Place:
    order_id: str
    amount: int = 10
    reference: str | None = None


@dataclass(frozen=True)
class Pay:
    order_id: str
    receipt: str = ""


@dataclass(frozen=True)
class Expire:
    order_id: str


@dataclass(frozen=True)
class Note:
    order_id: str
    text: str


@dataclass(frozen=True)
class Ship:
    order_id: str


@dataclass(frozen=True)
class Rename:
    order_id: str
    reference: str


@dataclass(frozen=True)
class Placed:
    amount: int


@dataclass(frozen=True)
class Paid:
    receipt: str


@dataclass(frozen=True)
class Expired:
    pass


@dataclass(frozen=True)
class Noted:
    text: str


@dataclass(frozen=True)
class Shipped:
    pass


@dataclass(frozen=True)
class Refused:
    why: str


@dataclass(frozen=True)
class OrderState:
    status: str = "new"
    amount: int = 0
    receipt: str = ""
    notes: tuple[str, ...] = ()


OrderInput = Place | Pay | Expire | Note | Ship | Rename
OrderEvent = Placed | Paid | Expired | Noted | Shipped


class Order(Decider[OrderState, OrderInput, OrderEvent, Refused]):
    """Placed, then paid within an hour or expired, then shipped."""

    name = "order"

    def initial(self) -> OrderState:
        return OrderState()

    def instance_id(self, input: OrderInput, /) -> str:
        return input.order_id

    def unique_key(self, input: OrderInput, /) -> str | None:
        return input.reference if isinstance(input, Place | Rename) else None

    def decide(
        self, state: OrderState, input: OrderInput, now: datetime, /
    ) -> Decision[OrderInput, OrderEvent, Refused]:
        match input:
            case Place(order_id=order_id, amount=amount) if state.status == "new":
                if amount <= 0:
                    return Decision.reject(Refused("nothing ordered"))
                timeout = Expire(order_id)
                return Decision.accept(Placed(amount)).timer(
                    "payment", after=PAY_WITHIN, input=timeout
                )
            case Pay(receipt=receipt) if state.status == "placed":
                return Decision.accept(Paid(receipt)).cancel_timer("payment").reply(state.amount)
            case Expire() if state.status == "placed":
                return Decision.accept(Expired())
            case Note(text=text) if state.status != "new":
                return Decision.accept(Noted(text))
            case Ship() if state.status == "paid":
                return Decision.accept(Shipped())
            case Rename() if state.status != "new":
                return Decision.accept(Noted("renamed"))
        return Decision.reject(Refused(f"{type(input).__name__} while {state.status}"))

    def evolve(self, state: OrderState, event: OrderEvent, /) -> OrderState:
        match event:
            case Placed(amount=amount):
                return replace(state, status="placed", amount=amount)
            case Paid(receipt=receipt):
                return replace(state, status="paid", receipt=receipt)
            case Expired():
                return replace(state, status="expired")
            case Shipped():
                return replace(state, status="shipped")
            case Noted(text=text):
                return replace(state, notes=(*state.notes, text))

    def is_terminal(self, state: OrderState, /) -> bool:
        return state.status in ("shipped", "expired")


# ------------------------------------------------------------------- with effects


@dataclass(frozen=True)
class Buy:
    basket_id: str
    item: str


@dataclass(frozen=True)
class Charged:
    basket_id: str
    key: str


@dataclass(frozen=True)
class ChargeFailed:
    basket_id: str
    why: str


@dataclass(frozen=True)
class Bought:
    item: str


@dataclass(frozen=True)
class Settled:
    key: str


@dataclass(frozen=True)
class Lost:
    why: str


@dataclass(frozen=True)
class BasketState:
    items: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(0), jitter=0))
async def charge(ctx: ActivityContext, basket_id: str, item: str) -> Charged | None:
    """Charge an item; one that is free needs nothing."""
    if item == "free":
        return None
    if item == "broken":
        raise ValueError("no such card")
    return Charged(basket_id, ctx.idempotency_key)


BasketInput = Buy | Charged | ChargeFailed
BasketEvent = Bought | Settled | Lost


class Basket(Decider[BasketState, BasketInput, BasketEvent, Refused]):
    """Charges for every item that is bought."""

    name = "basket"

    def initial(self) -> BasketState:
        return BasketState()

    def instance_id(self, input: BasketInput, /) -> str:
        return input.basket_id

    def decide(
        self, state: BasketState, input: BasketInput, now: datetime, /
    ) -> Decision[BasketInput, BasketEvent, Refused]:
        match input:
            case Buy(basket_id=basket_id, item=item):
                return Decision.accept(Bought(item)).effect(charge, basket_id, item)
            case Charged(key=key):
                return Decision.accept(Settled(key))
            case ChargeFailed(why=why):
                return Decision.accept(Lost(why))

    def evolve(self, state: BasketState, event: BasketEvent, /) -> BasketState:
        match event:
            case Bought(item=item):
                return replace(state, items=(*state.items, item))
            case Settled(key=key):
                return replace(state, settled=(*state.settled, key))
            case Lost(why=why):
                return replace(state, lost=(*state.lost, why))

    def on_dead(self, effect: DeadEffect, /) -> BasketInput | None:
        return ChargeFailed(effect.instance_id, f"{effect.type_name}: {effect.message}")
