"""Transactions on SQLite: nobody else can write meanwhile, and the function cannot end them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, activity_context, orchestration, transaction
from perdure.errors import InstanceFailedError, UsageError
from perdure.store.sqlite.file_lock import WriteLock
from perdure.store.sqlite.within import transactions
from perdure.store.within.transactions import OwnWork
from tests.engine.booking import Gate, Shop, shop_with
from tests.engine.stage import Stage, until
from tests.sizes import WITHIN_S


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
async def shop(url: str, stage: Stage) -> Shop:
    await stage.client()
    shop = Shop("sqlite3", url)
    shop.make_table()
    return shop


def enter_and_leave(connection: Any) -> None:
    with connection:
        pass


ENDS: dict[str, Callable[[Any], Any]] = {
    "commit": lambda connection: connection.commit(),
    "rollback": lambda connection: connection.rollback(),
    "with": enter_and_leave,
    "COMMIT": lambda connection: connection.execute("COMMIT"),
    "END": lambda connection: connection.cursor().execute("end"),
    "script": lambda connection: connection.executescript("SELECT 1"),
}


@pytest.mark.parametrize("way", ENDS)
async def test_a_function_cannot_end_the_transaction(way: str, shop: Shop, stage: Stage) -> None:
    book = shop.book(lambda connection, _: ENDS[way](connection))
    engine = await stage.engine([book, shop_with(book)])

    with pytest.raises(InstanceFailedError, match="book must not begin or end a transaction"):
        await (await engine.start("s", shop_with(book), "o-1")).result()

    assert shop.orders() == []


async def test_a_function_that_tried_to_end_it_fails_whatever_it_makes_of_the_error(
    shop: Shop, stage: Stage
) -> None:
    def commit_anyhow(connection: sqlite3.Connection, order: str) -> None:
        with pytest.raises(sqlite3.DatabaseError):
            connection.commit()

    book = shop.book(commit_anyhow)
    engine = await stage.engine([book, shop_with(book)])

    with pytest.raises(InstanceFailedError, match="must not begin or end"):
        await (await engine.start("s", shop_with(book), "o-1")).result()

    assert shop.orders() == []


async def test_nothing_is_written_after_a_statement_that_rolled_everything_back(
    shop: Shop, stage: Stage
) -> None:
    """It would be committed by itself, without the rest."""
    shop.run("CREATE UNIQUE INDEX one_each ON orders (name)")

    def stumble(connection: sqlite3.Connection, order: str) -> None:
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute("INSERT OR ROLLBACK INTO orders VALUES (?)", [order])
        connection.execute("INSERT INTO orders VALUES ('after')")

    book = shop.book(stumble)
    engine = await stage.engine([book, shop_with(book)])

    with pytest.raises(InstanceFailedError, match="has rolled back the transaction"):
        await (await engine.start("s", shop_with(book), "o-1")).result()

    assert shop.orders() == []


async def test_no_table_of_ours_can_be_hidden(shop: Shop, stage: Stage) -> None:
    """The end of the job would go into the table of the function's own."""
    book = shop.book(lambda connection, _: connection.execute("CREATE TEMP TABLE Jobs (x)") and "")
    engine = await stage.engine([book, shop_with(book)])

    with pytest.raises(InstanceFailedError, match="must not hide a table of perdure's own"):
        await (await engine.start("s", shop_with(book), "o-1")).result()

    assert shop.orders() == []


async def test_a_call_that_would_wait_for_its_own_transaction_is_refused(
    shop: Shop, stage: Stage
) -> None:
    book = shop.book(lambda _, order: activity_context().client.start(order, trade))
    engine = await stage.engine([book, shop_with(book)])

    with pytest.raises(InstanceFailedError, match=r"use client\.within\(connection\)"):
        await (await engine.start("s", shop_with(book), "o-1")).result()

    assert shop.orders() == []


async def test_an_async_function_is_refused_before_anything_runs(url: str) -> None:
    @transaction
    async def book(connection: Any, order: str) -> str:
        return order

    with pytest.raises(UsageError, match=r"transaction 'book' is async: on SQLite .* plain `def`"):
        Engine(url, [book])


async def test_nobody_else_writes_meanwhile_and_a_long_one_is_said(
    shop: Shop, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "LONG_S", 0.0)
    stage.expect_log("kept everybody else from writing for")
    gate = Gate(shop)
    book = shop.book(gate)
    engine = await stage.engine([book, shop_with(book)])
    await engine.start("s", shop_with(book), "o-1")
    await until(gate.entered.is_set)
    lock = WriteLock(f"{shop.path}-lock")

    assert not lock._try()
    other = sqlite3.connect(shop.path, timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("INSERT INTO orders VALUES ('no')")
    other.close()

    gate.opened.set()
    assert await engine.handle("s").result() == "o-1 booked"
    lock.close()


async def test_another_program_that_writes_is_waited_for(
    shop: Shop, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not know our lock. A job that cannot begin is given back, and has not failed."""
    monkeypatch.setattr(transactions, "BUSY_WITHIN_S", 0.0)
    stage.expect_log("could not be committed and is tried again")
    stage.expect_log("the store cannot be written now")
    may_begin = threading.Event()
    run = transactions.OwnTransactions.run

    def run_later(own: transactions.OwnTransactions, work: OwnWork) -> bool | None:
        may_begin.wait()
        return run(own, work)

    monkeypatch.setattr(transactions.OwnTransactions, "run", run_later)
    other = sqlite3.connect(shop.path, isolation_level=None)
    book = shop.book()
    engine = await stage.engine([book, shop_with(book)])
    handle = await engine.start("s", shop_with(book), "o-1")
    other.execute("BEGIN IMMEDIATE")
    may_begin.set()

    await until(lambda: stage.logged("could not be committed and is tried again"))
    await until(lambda: stage.logged("the store cannot be written now"))
    other.execute("ROLLBACK")
    other.close()

    assert await handle.result() == "o-1 booked"
    assert shop.orders() == ["o-1"]


# ---------------------------------------------------------------------------- in memory


@transaction
def make_table(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE orders (name TEXT)")


@transaction
def book_in_memory(connection: sqlite3.Connection, order: str) -> str:
    connection.row_factory = sqlite3.Row
    connection.execute("INSERT INTO orders VALUES (?)", [order])
    if order == "none":
        raise LookupError("no such book")
    if order == "commit":
        connection.commit()
    return activity_context().activity


@transaction
def count(connection: sqlite3.Connection) -> int:
    [(found,)] = connection.execute("SELECT count(*) FROM orders")
    return int(found)


@orchestration
async def trade(*orders: str) -> list[str]:
    await make_table()
    said = []
    for order in orders:
        try:
            said.append(await book_in_memory(order))
        except Exception as error:
            said.append(str(error))
    return [*said, str(await count())]


async def test_in_memory_it_runs_in_the_one_connection_there_is() -> None:
    async with Engine("sqlite://:memory:", [make_table, book_in_memory, count, trade]) as engine:
        said = await (await engine.start("s", trade, "a", "none", "commit", "b")).result()

    assert said[0] == said[3] == "book_in_memory"
    assert "no such book" in said[1]
    assert "must not begin or end a transaction" in said[2]
    assert said[4] == "2"


async def test_in_memory_a_timeout_lets_nothing_stay() -> None:
    begun, gate = threading.Event(), threading.Event()

    @transaction(timeout=timedelta(seconds=1))
    def late(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO orders VALUES ('late')")
        begun.set()
        gate.wait(WITHIN_S)

    @orchestration
    async def wait_in_vain() -> int:
        await make_table()
        try:
            await late()
        except Exception:
            return await count()
        return -1

    async with Engine("sqlite://:memory:", [make_table, late, count, wait_in_vain]) as engine:
        handle = await engine.start("s", wait_in_vain)
        await until(begun.is_set)
        await until(lambda: engine._serving.jobs.counts.timed_out == 1)
        gate.set()

        assert await handle.result() == 0
