"""Transactions for the tests: a function that books an order, on every driver; what it left."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import psycopg

from perdure import Activity, Context, Orchestration, orchestration, transaction
from tests.sizes import WITHIN_S

Then = Callable[[Any, str], Any]
"""What a booking does with its connection after it has written; may be async."""


class Shop(NamedTuple):
    """A store with a table of orders beside perdure's, and how it is reached."""

    driver: str
    url: str

    @property
    def is_async(self) -> bool:
        """Whether its transactions are async functions."""
        return self.driver == "asyncpg"

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file."""
        return self.driver == "sqlite3"

    @property
    def path(self) -> Path:
        """The file, on SQLite."""
        return Path(self.url.removeprefix("sqlite:///"))

    def make_table(self) -> None:
        """Make the table of orders."""
        self.run("CREATE TABLE orders (name TEXT)")

    def orders(self) -> list[str]:
        """Return what was booked, sorted."""
        return sorted(name for (name,) in self.run("SELECT name FROM orders"))

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement of the shop's own, on a connection of its own."""
        if self.driver == "sqlite3":
            with sqlite3.connect(self.path, timeout=WITHIN_S) as file:
                rows = file.execute(statement).fetchall()
            file.close()
            return rows
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return [] if cursor.description is None else cursor.fetchall()

    # ------------------------------------------------------------ what books

    def book(self, then: Then | None = None, **settings: Any) -> Activity[[str], str]:
        """Return a transaction that writes an order down, then does something."""
        if self.is_async:

            @transaction(name="book", **settings)
            async def book_async(connection: asyncpg.Connection[Any], order: str) -> str:
                await connection.execute("INSERT INTO orders VALUES ($1)", order)
                said = then(connection, order) if then is not None else None
                return str((await said if inspect.isawaitable(said) else said) or f"{order} booked")

            return book_async

        @transaction(name="book", **settings)
        def book(connection: Any, order: str) -> str:
            place = "?" if self.is_sqlite else "%s"
            connection.execute(f"INSERT INTO orders VALUES ({place})", [order])  # noqa: S608 - a sign
            said = then(connection, order) if then is not None else None
            return str(said or f"{order} booked")

        return book

    def execute(self, connection: Any, statement: str) -> Any:
        """Run a statement in a transaction; to be awaited where that is async."""
        return connection.execute(statement)


def shop_with(book: Activity[[str], str]) -> Orchestration[[str], str]:
    """Return an orchestration that books one order."""

    @orchestration(name="shop")
    async def shop(ctx: Context, order: str) -> str:
        return await book(order)

    return shop


class Gate:
    """Where a booking stands until the test opens it: on the loop or in a thread."""

    def __init__(self, shop: Shop) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()
        self._is_async = shop.is_async

    def __call__(self, connection: Any, order: str) -> Awaitable[None] | None:
        if self._is_async:
            return self._wait()
        self.entered.set()
        assert self.opened.wait(WITHIN_S)
        return None

    async def _wait(self) -> None:
        self.entered.set()
        assert await asyncio.to_thread(self.opened.wait, WITHIN_S)
