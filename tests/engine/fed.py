"""Two deciders for the tests of what reads their events, and events recorded without a turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Never

from perdure import Decider, Decision
from perdure.authoring.deciders.decider_definition import definition_of
from perdure.core.deciders.turn import start_of
from perdure.model.histories.events import NULL, Body, InputTaken, write_event
from perdure.model.instances import Stamp
from perdure.model.turns import FedEvent, Turn, TurnStatus
from perdure.store.base import Store
from tests.contract.store_values import token


@dataclass(frozen=True)
class Place:
    order_id: str
    sku: str = "book"


@dataclass(frozen=True)
class Ship:
    order_id: str


@dataclass(frozen=True)
class Placed:
    order_id: str
    sku: str = "book"


@dataclass(frozen=True)
class Shipped:
    order_id: str


@dataclass(frozen=True)
class OrderState:
    placed: int = 0
    shipped: bool = False


class Order(Decider[OrderState, Place | Ship, Placed | Shipped, str]):
    name = "order"

    def initial(self) -> OrderState:
        return OrderState()

    def instance_id(self, input: Place | Ship, /) -> str:
        return input.order_id

    def decide(
        self, state: OrderState, input: Place | Ship, now: datetime, /
    ) -> Decision[Place | Ship, Placed | Shipped, str]:
        match input:
            case Place(order_id, sku):
                return Decision.accept(Placed(order_id, sku))
            case Ship(order_id):
                if state.shipped:
                    return Decision.reject("shipped already")
                return Decision.accept(Shipped(order_id))

    def evolve(self, state: OrderState, event: Placed | Shipped, /) -> OrderState:
        match event:
            case Placed():
                return replace(state, placed=state.placed + 1)
            case Shipped():
                return replace(state, shipped=True)


@dataclass(frozen=True)
class Reserve:
    sku: str
    order_id: str


@dataclass(frozen=True)
class Reserved:
    sku: str
    order_id: str


class Stock(Decider[int, Reserve, Reserved, Never]):
    name = "stock"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Reserve, /) -> str:
        return input.sku

    def decide(
        self, state: int, input: Reserve, now: datetime, /
    ) -> Decision[Reserve, Reserved, Never]:
        return Decision.accept(Reserved(input.sku, input.order_id))

    def evolve(self, state: int, event: Reserved, /) -> int:
        return state + 1


class Recorder:
    """Commits events of deciders as their turns do."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stamps: dict[str, Stamp] = {}

    async def record(
        self, instance_id: str, *events: object, decider: type[Decider[Any, Any, Any, Any]] = Order
    ) -> None:
        """Record events of one instance in one commit."""
        definition = definition_of(decider)
        stored_id = definition.stored_id(instance_id)
        taken = write_event(InputTaken(tag="Input", input=NULL, cause="client"))
        recorded = [definition.write_event(event) for event in events]
        bodies: list[Body] = [taken, *map(write_event, recorded)]
        stamp = self._stamps.get(stored_id)
        start = None
        now_ms = self._store.clock()
        if stamp is None:
            incarnation = token()
            start = start_of(
                definition.name, stored_id, None, incarnation=incarnation, now_ms=now_ms
            )
            bodies.insert(0, Body(start.start_kind, start.start_body))
            stamp = Stamp(incarnation, 1, 1)
        first = len(bodies) - len(recorded)
        turn = Turn(
            instance_id=stored_id,
            stamp=stamp,
            commit_id=token(),
            now_ms=now_ms,
            worker_id="w1",
            start=start,
            events=tuple(bodies),
            feed=tuple(FedEvent(first + n, one.tag) for n, one in enumerate(recorded)),
        )
        [receipt] = await self._store.commit([turn])
        assert receipt.status is TurnStatus.ACCEPTED
        self._stamps[stored_id] = turn.next_stamp
