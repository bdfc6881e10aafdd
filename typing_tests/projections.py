"""Projections and subscriptions: what they are given, and what may follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Never, assert_type

from perdure import Client, Decider, Decision, Engine, orchestration
from perdure.client.deciders.projections import ProjectionInfo
from perdure.projection import EventMeta, Projection, SqlProjection, Subscription, Tables


@dataclass(frozen=True)
class Open:
    number: str


@dataclass(frozen=True)
class Opened:
    number: str


@dataclass(frozen=True)
class Closed:
    number: str


class Account(Decider[int, Open, Opened | Closed, Never]):
    name = "account"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Open, /) -> str:
        return input.number

    def decide(
        self, state: int, input: Open, now: datetime, /
    ) -> Decision[Open, Opened | Closed, Never]:
        return Decision.accept(Opened(input.number))

    def evolve(self, state: int, event: Opened | Closed, /) -> int:
        return state + 1


class Search(Projection[Opened | Closed]):
    name = "search"
    deciders = (Account,)
    events = (Opened, Closed)

    async def handle(self, event: Opened | Closed, meta: EventMeta, /) -> None:
        assert_type(meta.position, int)
        assert_type(meta.time, datetime)

    async def reset(self) -> None: ...


class Wrong(Projection[Opened | Closed]):
    name = "wrong"
    deciders = (Account,)

    async def handle(self, event: Opened, meta: EventMeta, /) -> None:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Gets only one of the two."""


class Accounts(SqlProjection[Opened | Closed]):
    name = "accounts"
    deciders = (Account,)

    def setup(self, tables: Tables, /) -> None:
        tables.execute("CREATE TABLE IF NOT EXISTS accounts (number TEXT PRIMARY KEY)")

    def handle(self, event: Opened | Closed, meta: EventMeta, tables: Tables, /) -> None:
        assert_type(tables.execute("SELECT ?", (event.number,)), list[tuple[Any, ...]])
        tables.execute_many("INSERT INTO accounts VALUES (:n)", [{"n": event.number}])


@orchestration
async def welcome(event: Opened) -> None: ...


@orchestration
async def letter(number: str) -> None: ...


def number_of(event: Opened, meta: EventMeta) -> str | None:
    return event.number


def open_again(event: Closed, meta: EventMeta) -> Open | None:
    return Open(event.number)


def sixty(event: Opened, meta: EventMeta) -> int:
    return 60


subscriptions: Sequence[Subscription[Any]] = [
    Subscription("welcome", Account, [Opened], start=welcome),
    Subscription("letter", Account, [Opened], start=(letter, number_of)),
    Subscription("again", Account, [Closed], send=(Account, open_again)),
]


def what_does_not_fit_is_refused() -> None:
    Subscription("a", Account, [Closed], start=welcome)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    Subscription("b", Account, [Opened], start=(letter, sixty))  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    Subscription("c", Account, [Opened], send=(Account, number_of))  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    Subscription("d", Account, [Opened])  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def an_engine_takes_them(url: str) -> Engine:
    return Engine(url, [Account, Search, Accounts(), *subscriptions, welcome, letter])


async def an_operator(client: Client) -> None:
    assert_type(await client.projections(), list[ProjectionInfo])
    assert_type((await client.projection("search")).behind, int)
    await client.resume_projection("search", skip=True)
