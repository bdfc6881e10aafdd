"""A store with an instance of every kind of trouble, and a browser or a program before it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

import httpx
from starlette.types import ASGIApp

from perdure import (
    Accepted,
    Decider,
    Decision,
    Engine,
    Query,
    Retry,
    Signal,
    Stream,
    activity,
    context,
    orchestration,
)
from perdure.authoring.deciders.decider_definition import AnyDecider
from perdure.errors import InstanceFailedError
from perdure.ids import fresh_name
from perdure.projection import EventMeta, Projection
from tests.engine.stage import waits_for

HOSTILE = "<script>alert(1)</script>\"'&`{{7*7}}"
KEY = "key-of-sixteen-or-more"

go = Signal("go", str)
said = Stream(f"said{HOSTILE}", str)
stage = Query("stage", dict[str, str])


@activity
async def pack(order: str) -> str:
    return f"{order} packed"


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(0)))
async def explode(text: str) -> str:
    raise ValueError(text)


@orchestration
async def ship(order: str) -> str:
    """Pack an order and wait until it may go."""
    said.send(order)
    packed = await pack(order)
    stage.answer_with(lambda: {"packed": packed})
    return f"{packed}, {await go.receive()}"


@orchestration
async def quick(order: str) -> str:
    return await pack(order)


@orchestration
async def count(times: int) -> int:
    return times


@orchestration
async def long(signals: int) -> int:
    """Have a history of that many events and two more."""
    ctx = context()
    for number in range(signals):
        ctx.kv["number"] = number
    return signals


@orchestration
async def doomed(text: str) -> str:
    return await explode(text)


@orchestration
async def family(order: str) -> str:
    return await quick.with_options(instance_id=f"{order}-child")(order)


@dataclass(frozen=True)
class Opened:
    owner: str


@dataclass(frozen=True)
class Deposited:
    amount: int


@dataclass(frozen=True)
class Open:
    account: str
    owner: str


@dataclass(frozen=True)
class Deposit:
    account: str
    amount: int


@dataclass(frozen=True)
class TooMuch:
    limit: int


@dataclass(frozen=True)
class Balance:
    owner: str = ""
    amount: int = 0


class Account(Decider[Balance, Open | Deposit, Opened | Deposited, TooMuch]):
    name = "account"
    observe_inputs = True

    def unique_key(self, input: Open | Deposit, /) -> str | None:
        return f"owner {input.owner}" if isinstance(input, Open) else None

    def initial(self) -> Balance:
        return Balance()

    def instance_id(self, input: Open | Deposit, /) -> str:
        return input.account

    def decide(
        self, state: Balance, input: Open | Deposit, now: datetime, /
    ) -> Decision[Open | Deposit, Opened | Deposited, TooMuch]:
        if isinstance(input, Open):
            return Decision.accept(Opened(input.owner))
        if input.amount > 100:
            return Decision.reject(TooMuch(100))
        return Decision.accept(Deposited(input.amount))

    def evolve(self, state: Balance, event: Opened | Deposited, /) -> Balance:
        if isinstance(event, Opened):
            return Balance(event.owner, 0)
        return Balance(state.owner, state.amount + event.amount)


class Ledger(Projection[object]):
    """Has nothing to do with what it reads."""

    name = "ledger"
    deciders: ClassVar[Sequence[type[AnyDecider]]] = (Account,)

    async def handle(self, event: object, meta: EventMeta, /) -> None: ...


DEFINITIONS: list[Any] = [ship, quick, count, doomed, family, pack, explode, Account, Ledger]


def memory_url() -> str:
    return f"sqlite://:memory:{fresh_name()}"


@asynccontextmanager
async def engine_with_all() -> AsyncIterator[Engine]:
    """An engine on a store with what pages and routes can show."""
    async with Engine(memory_url(), DEFINITIONS) as engine:
        waiting = await engine.start("order/1", ship, HOSTILE)
        await (await engine.start("done-1", quick, "book")).result()
        await (await engine.start("family-1", family, "toys")).result()
        failed = await engine.start("failed-1", doomed, HOSTILE)
        with suppress(InstanceFailedError):
            await failed.result()
        for given in (Open("a-1", "Ada"), Deposit("a-1", 40), Deposit("a-1", 2)):
            assert isinstance(await engine.execute(Account, given), Accepted)
        await waits_for(waiting, "signal 'go'")
        yield engine


def caller(app: ASGIApp, **headers: str) -> httpx.AsyncClient:
    """A program that asks an application, from this machine."""
    named: Any = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False),
        base_url="http://127.0.0.1",
        headers=named,
    )


@asynccontextmanager
async def browser(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that has opened the first URL and sends what a page of ours would send."""
    async with caller(app, accept="text/html") as client:
        await client.get(f"/?k={KEY}")
        page = await client.get("/")
        client.headers["x-perdure-csrf"] = page.text.partition('data-csrf="')[2].partition('"')[0]
        client.headers["origin"] = "http://127.0.0.1"
        yield client
