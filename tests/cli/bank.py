"""Definitions for tests of commands that do the same on a store and on a server before it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from click.testing import Result

from perdure import (
    Decider,
    Decision,
    Engine,
    Key,
    Query,
    Signal,
    Update,
    activity,
    orchestration,
)
from perdure.cli.serving.http_server import served
from perdure.web.access import make_token
from perdure.web.application import app
from tests.cli.commands import typed
from tests.engine.stage import waits_for

go = Signal("go", str)
add = Update("add", int, int)
seen = Query("seen", list[int])
total = Key("total", int)


@activity
async def note(text: str) -> str:
    return text


@orchestration
async def rounds(left: int) -> str:
    """Continue as new so often, then wait."""
    if left:
        rounds.continue_as_new(left - 1)
    return await go.receive()


@orchestration
async def parent(text: str) -> str:
    return await child(text)


@orchestration
async def child(text: str) -> str:
    return await note(text)


@orchestration
async def pinned(name: str) -> str:
    await note.with_options(session=name)(name)
    return await go.receive()


@orchestration
async def adding() -> None:
    values: list[int] = []
    seen.answer_with(lambda: values)
    async for request in add:
        values.append(request.value)
        total.set(sum(values))
        request.answer(sum(values))


@dataclass(frozen=True)
class Open:
    account: str
    iban: str


@dataclass(frozen=True)
class Pay:
    account: str
    amount: int


@dataclass(frozen=True)
class Changed:
    amount: int


@dataclass(frozen=True)
class Balance:
    amount: int = 0


class Account(Decider[Balance, Open | Pay, Changed, str]):
    name = "account"
    observe_inputs = True

    def initial(self) -> Balance:
        return Balance()

    def instance_id(self, input: Open | Pay, /) -> str:
        return input.account

    def unique_key(self, input: Open | Pay, /) -> str | None:
        return input.iban if isinstance(input, Open) else None

    def decide(
        self, state: Balance, input: Open | Pay, now: datetime, /
    ) -> Decision[Open | Pay, Changed, str]:
        match input:
            case Open():
                return Decision.accept(Changed(0))
            case Pay(amount=amount) if amount <= 0:
                return Decision.reject("nothing to pay")
            case Pay(amount=amount):
                return Decision.accept(Changed(amount))

    def evolve(self, state: Balance, event: Changed, /) -> Balance:
        return replace(state, amount=state.amount + event.amount)


BANK: list[Any] = [note, rounds, parent, child, pinned, adding, Account]
TARGET = f"{__file__}:BANK"


class Place(NamedTuple):
    """Where commands are typed at: a store, or a server before it."""

    url: str
    engine: Engine

    async def typed(self, *args: str, stdin: str | None = None) -> Result:
        """Run a command to its end; its loop is not that of the test."""
        return await asyncio.to_thread(typed, *args, store=self.url, stdin=stdin)

    async def lines(self, *args: str, stdin: str | None = None) -> list[list[str]]:
        """Run a command that succeeds, and return the cells of its lines."""
        done = await self.typed(*args, stdin=stdin)
        assert done.exit_code == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]


@asynccontextmanager
async def opened_store(url: str) -> AsyncIterator[Place]:
    """A worker with all definitions, and its store."""
    async with Engine(url, BANK) as engine:
        yield Place(url, engine)


@asynccontextmanager
async def opened_server(url: str) -> AsyncIterator[tuple[Place, str]]:
    """A worker with all definitions and a server before it, with the token that it asks for."""
    token, kept = make_token("test", scopes=["read", "write", "admin"])
    listening = socket.create_server(("127.0.0.1", 0))
    async with (
        Engine(url, BANK) as engine,
        served(app(engine, tokens=[kept]), [listening], drain_s=0),
    ):
        yield Place(f"http://127.0.0.1:{listening.getsockname()[1]}", engine), token


async def seed(engine: Engine) -> None:
    """Leave one instance of every kind that the commands are about."""
    await engine.start("rounds-1", rounds, 3)
    await waits_for(engine.handle("rounds-1"), "signal 'go'")
    await (await engine.start("parent-1", parent, "x")).result()
    await engine.start("pinned-1", pinned, "desk-7")
    await waits_for(engine.handle("pinned-1"), "signal 'go'")
    handle = await engine.start("adding-1", adding)
    await handle.update(add, 3)
    await engine.execute(Account, Open("a-1", "DE1"))
    await engine.execute(Account, Pay("a-1", 5), input_id="p-1")
    await engine.execute(Account, Pay("a-1", -5), input_id="p-2")
