"""Definitions for the tests of the command line, and a store with one instance of every kind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

from perdure import (
    Client,
    Decider,
    Decision,
    Engine,
    Retry,
    Signal,
    Stream,
    activity,
    orchestration,
)
from perdure.authoring.deciders.decider_definition import AnyDecider
from perdure.errors import ActivityError, InstanceFailedError
from perdure.model.feeds import ReaderStatus
from perdure.model.instances import Status
from perdure.model.turns import NOBODY, Hold
from perdure.projection import EventMeta, Projection
from tests.engine.stage import until, waits_for

EVIL = "\x1b[31mred\x07\n<script>\x7f\u202e"
"""What a terminal must not get as it is."""

approved = Signal("approved", bool)
texts = Stream("texts", str)


@activity
async def say_hello(name: str) -> str:
    return f"Hello, {name}!"


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(milliseconds=1)))
async def charge(amount: int) -> str:
    raise ValueError(f"card declined for {amount}")


@orchestration
async def greet(names: list[str]) -> list[str]:
    return await asyncio.gather(*(say_hello(name) for name in names))


@orchestration
async def approve(order: str) -> bool:
    texts.send("asked")
    return await approved.receive()


@orchestration
async def fulfil(order: str) -> bool:
    await greet([order])
    return await approved.receive()


@orchestration
async def fail(text: str) -> str:
    raise RuntimeError(text)


@orchestration
async def pay(amount: int) -> bool:
    with suppress(ActivityError):
        await charge(amount)
    return await approved.receive()


@orchestration
async def echo(text: str) -> str:
    texts.send("first")
    texts.send(text)
    return text


@dataclass(frozen=True)
class Deposit:
    till: str
    amount: int


@dataclass(frozen=True)
class Deposited:
    amount: int


@dataclass(frozen=True)
class Balance:
    amount: int = 0


class Till(Decider[Balance, Deposit, Deposited, str]):
    name = "till"

    def initial(self) -> Balance:
        return Balance()

    def instance_id(self, input: Deposit, /) -> str:
        return input.till

    def decide(
        self, state: Balance, input: Deposit, now: datetime, /
    ) -> Decision[Deposit, Deposited, str]:
        if input.amount <= 0:
            return Decision.reject("nothing to deposit")
        return Decision.accept(Deposited(input.amount))

    def evolve(self, state: Balance, event: Deposited, /) -> Balance:
        return replace(state, amount=state.amount + event.amount)


class Sums(Projection[object]):
    """Gets stuck at the second deposit."""

    name = "sums"
    deciders: ClassVar[Sequence[type[AnyDecider]]] = (Till,)
    retry = Retry(max_attempts=1)

    async def handle(self, event: object, meta: EventMeta, /) -> None:
        if event == Deposited(7):
            raise ArithmeticError("seven is too much")


ALL: list[Any] = [say_hello, charge, greet, approve, fulfil, fail, pay, echo, Till, Sums]

IDS = {
    "greet-1": "completed",
    "fail-1": "failed",
    "wait-1": "running",
    "wait-2": "running",
    "pay-1": "running",
    "fulfil-1": "running",
    "evil-1": "completed",
    "cancelled-1": "cancelled",
    "terminated-1": "terminated",
    "parked-1": "parked",
    "blocked-1": "blocked",
    "till:t-1": "running",
}
"""What `seed` leaves, beside a child of fulfil-1."""


async def seed(url: str) -> None:
    """Fill a store; no worker is left."""
    async with Engine(url, ALL) as engine:
        await (await engine.start("greet-1", greet, ["Ada", "Grace"])).result()
        with suppress(InstanceFailedError):
            await (await engine.start("fail-1", fail, f"no luck {EVIL}")).result()
        await (await engine.start("evil-1", echo, EVIL)).result()
        waiting = [
            await engine.start(instance_id, approve, instance_id)
            for instance_id in ("wait-1", "wait-2", "cancelled-1", "terminated-1")
        ]
        waiting.append(await engine.start("pay-1", pay, 12))
        waiting.append(await engine.start("fulfil-1", fulfil, "Grace"))
        held = [await engine.start(one, approve, one) for one in ("parked-1", "blocked-1")]
        for handle in (*waiting, *held):
            await waits_for(handle, "signal 'approved'")
        await engine.handle("cancelled-1").cancel("not wanted")
        with suppress(Exception):
            await engine.handle("cancelled-1").result()
        await engine.handle("terminated-1").terminate("enough")
        await engine.execute(Till, Deposit("t-1", 5))
        await engine.execute(Till, Deposit("t-1", 7))
        await until(lambda: _is_stuck(engine))
    async with Client(url, create=True) as client:
        await _hold(client, "parked-1", Status.PARKED, "a turn took too long")
        await _hold(client, "blocked-1", Status.BLOCKED, "does not match\nat event 2")


async def _is_stuck(client: Client) -> bool:
    found = await client.projections()
    return [one.status for one in found] == [ReaderStatus.STUCK]


async def _hold(client: Client, instance_id: str, status: Status, reason: str) -> None:
    store = client._core.store
    live = await store.read_live(instance_id)
    assert live is not None
    assert await store.hold([Hold(instance_id, live.stamp, 0, status, NOBODY, reason)]) == [True]
