"""Transactions on PostgreSQL: many at the same time, and servers and connections that die."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

import asyncpg
import psycopg
import pytest

from perdure import Retry, activity_context
from perdure.clock import ManualClock
from perdure.errors import InstanceCancelledError, InstanceFailedError, StoreError, UsageError
from perdure.store.opening import open_store
from perdure.store.postgres.within import async_transactions, threaded_transactions, transactions
from tests.engine.booking import Gate, Shop, shop_with
from tests.engine.stage import Stage, has_ended, options, until
from tests.postgres import ROLE, SUPERUSER, Server

ONE_KEY = 4711
"""Of the advisory lock that holds a commit up."""


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture(params=["asyncpg", "psycopg"])
def shop(request: pytest.FixtureRequest, url: str) -> Shop:
    shop = Shop(request.param, url)
    shop.make_table()
    return shop


def say(shop: Shop, statement: str) -> Any:
    """Return what runs a statement after the booking."""

    def then(connection: Any, order: str) -> Any:
        done = connection.execute(statement)
        return quietly(done) if shop.is_async else None

    async def quietly(done: Any) -> None:
        await done

    return then


# -------------------------------------------------------------------- who is not waited for


async def test_a_cancelled_instance_leaves_nothing_of_a_running_transaction(
    shop: Shop, stage: Stage
) -> None:
    if not shop.is_async:
        stage.expect_log("goes on after it was told to stop")
    gate = Gate(shop)
    book = shop.book(gate)
    engine = await stage.engine([book, shop_with(book)])
    handle = await engine.start("s", shop_with(book), "o-1")
    await until(gate.entered.is_set)

    await handle.cancel("enough")

    with pytest.raises(InstanceCancelledError):
        await handle.result()
    if not shop.is_async:
        await until(lambda: stage.logged("goes on after it was told to stop"))
    gate.opened.set()
    await until(lambda: not engine._serving.jobs.started)
    assert shop.orders() == []


async def test_a_worker_that_stood_still_while_another_took_over_leaves_nothing(
    shop: Shop, stage: Stage
) -> None:
    clock = ManualClock()
    gate = Gate(shop)
    frozen = shop.book(gate)
    patient = options(cancel_grace=timedelta(seconds=20))
    first = await stage.engine([frozen, shop_with(frozen)], clock=clock, options=patient)
    await first.start("s", shop_with(frozen), "o-1")
    await until(gate.entered.is_set)
    # Or it would take the job again itself.
    await first._serving._end_loops(["claims"])

    clock.advance(2 * options().lease_for)
    book = shop.book(lambda connection, order: "by the other")
    second = await stage.engine([book, shop_with(book)], clock=clock)

    async def has_ended_meanwhile() -> bool:
        clock.advance(timedelta(seconds=1))  # The first worker is preferred for a moment.
        return await has_ended(second, "s")

    await until(has_ended_meanwhile)
    assert await second.handle("s").result() == "by the other"
    gate.opened.set()

    await until(lambda: not first._serving.jobs.started)
    assert shop.orders() == ["o-1"]


# -------------------------------------------------------------- what passes is no failure


@pytest.mark.parametrize(
    "trouble",
    [
        "SELECT pg_terminate_backend(pg_backend_pid())",
        "DO $$BEGIN RAISE 'serialization' USING ERRCODE = '40001'; END$$",
        "DO $$BEGIN RAISE 'deadlock' USING ERRCODE = '40P01'; END$$",
    ],
    ids=["connection", "serialization", "deadlock"],
)
async def test_what_passes_is_tried_again_and_is_no_failure(
    trouble: str, shop: Shop, stage: Stage
) -> None:
    """The activity has one attempt, and it is not used up."""
    stage.expect_log("could not be committed and is tried again")

    def stumble_once(connection: Any, order: str) -> Any:
        return say(shop, trouble)(connection, order) if activity_context().attempt == 1 else None

    book = shop.book(stumble_once)
    engine = await stage.engine([book, shop_with(book)])
    handle = await engine.start("s", shop_with(book), "o-1")

    assert await handle.result() == "o-1 booked"
    assert shop.orders() == ["o-1"]


async def test_a_connection_that_was_lost_unnoticed_is_no_fault_of_the_function(
    shop: Shop, stage: Stage
) -> None:
    stage.expect_log("could not be committed and is tried again")
    hang_up = say(shop, "SELECT pg_terminate_backend(pg_backend_pid())")

    def lose_once(connection: Any, order: str) -> Any:
        if activity_context().attempt > 1:
            return None
        return pass_over_async(connection) if shop.is_async else pass_over(connection)

    def pass_over(connection: Any) -> None:
        with suppress(psycopg.OperationalError):
            hang_up(connection, "")

    async def pass_over_async(connection: Any) -> None:
        with suppress(asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError):
            await hang_up(connection, "")
        await until(lambda: is_gone(connection))

    book = shop.book(lose_once)
    engine = await stage.engine([book, shop_with(book)])
    handle = await engine.start("s", shop_with(book), "o-1")

    assert await handle.result() == "o-1 booked"
    assert shop.orders() == ["o-1"]


def is_gone(connection: Any) -> bool:
    """Return whether asyncpg's pool has taken a connection away."""
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:
        return True


@pytest.fixture
def slow_commits(shop: Shop) -> Iterator[psycopg.Connection[Any]]:
    """Whoever commits an order waits for a lock that this connection has."""
    shop.run(
        f"""
        CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN PERFORM pg_advisory_xact_lock({ONE_KEY}); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON orders
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()
        """
    )
    with psycopg.connect(shop.url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [ONE_KEY])
        yield connection


async def test_a_commit_whose_answer_is_lost_counts_once(
    shop: Shop, stage: Stage, slow_commits: psycopg.Connection[Any]
) -> None:
    """The server goes on with the commit, and nobody hears that it came through."""
    stage.expect_log("could not be committed and is tried again")
    used: list[Any] = []
    book = shop.book(lambda connection, order: used.append(connection))
    engine = await stage.engine([book, shop_with(book)])
    handle = await engine.start("s", shop_with(book), "o-1")

    def is_committing() -> bool:
        found = slow_commits.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        ).fetchone()
        return found == (1,)

    await until(is_committing)
    if shop.is_async:
        used[0].terminate()
    else:
        with socket.socket(fileno=os.dup(used[0].fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
    await until(lambda: stage.logged("could not be committed and is tried again"))
    slow_commits.execute("SELECT pg_advisory_unlock(%s)", [ONE_KEY])

    assert await handle.result() == "o-1 booked"
    assert shop.orders() == ["o-1"]
    assert len(used) == 1


async def test_a_commit_that_was_lost_with_its_server_is_done_again(
    shop: Shop, stage: Stage, slow_commits: psycopg.Connection[Any]
) -> None:
    stage.expect_log("could not be committed and is tried again")
    book = shop.book()
    engine = await stage.engine([book, shop_with(book)])
    handle = await engine.start("s", shop_with(book), "o-1")
    committing: list[Any] = []

    def is_committing() -> bool:
        committing[:] = slow_commits.execute(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        ).fetchall()
        return bool(committing)

    await until(is_committing)
    slow_commits.execute("SELECT pg_terminate_backend(%s)", committing[0])
    await until(lambda: stage.logged("could not be committed and is tried again"))
    slow_commits.execute("SELECT pg_advisory_unlock(%s)", [ONE_KEY])

    assert await handle.result() == "o-1 booked"
    assert shop.orders() == ["o-1"]


async def test_who_finds_all_connections_in_use_waits_and_has_not_failed(
    shop: Shop, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = (transactions, async_transactions, threaded_transactions)
    for module in places:
        monkeypatch.setattr(module, "CONNECTIONS", 1)
    stage.expect_log("all 1 connections for transactions have been in use")
    gate = Gate(shop)
    book = shop.book(lambda connection, order: gate(connection, order) if order == "o-1" else None)
    engine = await stage.engine([book, shop_with(book)])
    first = await engine.start("s1", shop_with(book), "o-1")
    await until(gate.entered.is_set)

    with monkeypatch.context() as patience:  # To connect may take longer on a busy machine.
        for module in places:
            patience.setattr(module, "WAIT_S", 0.05)
        second = await engine.start("s2", shop_with(book), "o-2")
        await until(lambda: stage.logged("all 1 connections"))
    gate.opened.set()

    assert await first.result() == "o-1 booked"
    assert await second.result() == "o-2 booked"
    assert shop.orders() == ["o-1", "o-2"]


# -------------------------------------------------------------------------- what is its own


async def test_a_constraint_that_is_checked_at_the_end_fails_the_function(
    shop: Shop, stage: Stage
) -> None:
    shop.run("ALTER TABLE orders ADD UNIQUE (name) DEFERRABLE INITIALLY DEFERRED")
    shop.run("INSERT INTO orders VALUES ('o-1')")
    book = shop.book(retry=Retry(max_attempts=2, first_delay=timedelta(0)))
    engine = await stage.engine([book, shop_with(book)])

    with pytest.raises(InstanceFailedError, match="UniqueViolation"):
        await (await engine.start("s", shop_with(book), "o-1")).result()

    assert shop.orders() == ["o-1"]


async def test_a_statement_that_failed_cannot_be_passed_over(shop: Shop, stage: Stage) -> None:
    def pass_over(connection: Any, order: str) -> Any:
        if shop.is_async:
            return asyncio.gather(connection.execute("SELECT 1 / 0"), return_exceptions=True)
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT 1 / 0")
        return None

    book = shop.book(pass_over)
    engine = await stage.engine([book, shop_with(book)])

    with pytest.raises(InstanceFailedError, match="a statement of book has failed"):
        await (await engine.start("s", shop_with(book), "o-1")).result()

    assert shop.orders() == []


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK", "COMMIT; BEGIN"])
async def test_a_function_that_ended_the_transaction_is_told(
    statement: str, shop: Shop, stage: Stage
) -> None:
    """What it committed itself cannot be undone. Its result is not recorded."""
    book = shop.book(say(shop, statement))
    engine = await stage.engine([book, shop_with(book)])

    with pytest.raises(InstanceFailedError, match="book has ended the transaction itself"):
        await (await engine.start("s", shop_with(book), "o-1")).result()


@pytest.fixture
def tenant(postgres: Server) -> Iterator[str]:
    """A role that may do nothing, and that ours can become."""
    name = "tenant"
    with psycopg.connect(postgres.url("postgres", role=SUPERUSER), autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name}; GRANT {name} TO {ROLE}".encode())
        yield name
        admin.execute(f"DROP ROLE {name}".encode())


async def test_another_role_and_other_settings_of_a_function_are_its_own(
    shop: Shop, stage: Stage, tenant: str
) -> None:
    settings = "SET LOCAL search_path = ''; SET LOCAL enable_indexscan = off"
    book = shop.book(say(shop, f"{settings}; SET LOCAL ROLE {tenant}"))
    engine = await stage.engine([book, shop_with(book)])

    assert await (await engine.start("s", shop_with(book), "o-1")).result() == "o-1 booked"
    assert await (await engine.start("s2", shop_with(book), "o-2")).result() == "o-2 booked"
    assert shop.orders() == ["o-1", "o-2"]


async def test_the_next_function_finds_nothing_that_the_last_one_has_set(
    shop: Shop, stage: Stage
) -> None:
    seen: list[Any] = []

    def set_once(connection: Any, order: str) -> Any:
        return look_async(connection) if shop.is_async else look(connection)

    def look(connection: Any) -> None:
        seen.append(connection.execute("SHOW work_mem").fetchone()[0])
        connection.execute("SET work_mem = '1234kB'")

    async def look_async(connection: Any) -> None:
        seen.append(await connection.fetchval("SHOW work_mem"))
        await connection.execute("SET work_mem = '1234kB'")

    book = shop.book(set_once)
    engine = await stage.engine([book, shop_with(book)])

    for number in (1, 2, 3):
        await (await engine.start(f"s{number}", shop_with(book), "o")).result()

    assert len(set(seen)) == 1


@pytest.mark.parametrize("left", ["SET ROLE {tenant}", "CREATE TEMP TABLE notes (note text)"])
async def test_the_next_function_finds_no_role_and_no_table_that_the_last_one_has_left(
    shop: Shop, stage: Stage, tenant: str, left: str
) -> None:
    book = shop.book(say(shop, left.format(tenant=tenant)))
    engine = await stage.engine([book, shop_with(book)])

    for number in (1, 2):
        handle = await engine.start(f"s{number}", shop_with(book), f"o-{number}")
        assert await handle.result() == f"o-{number} booked"


async def test_a_function_that_fails_and_has_closed_its_connection_has_failed(
    stage: Stage, url: str
) -> None:
    """As `with connection:` of psycopg does it."""
    shop = Shop("psycopg", url)
    shop.make_table()

    def refuse(connection: Any, order: str) -> None:
        with connection:
            raise ValueError("sold out")

    book = shop.book(refuse)
    engine = await stage.engine([book, shop_with(book)])

    with pytest.raises(InstanceFailedError, match="sold out"):
        await (await engine.start("s", shop_with(book), "o-1")).result()
    assert shop.orders() == []


async def test_a_function_that_leaves_a_statement_running_is_told(stage: Stage, url: str) -> None:
    """It would be in the way each time it is tried again."""
    shop = Shop("asyncpg", url)
    shop.make_table()
    left: list[asyncio.Future[Any]] = []

    async def forget_to_await(connection: Any, order: str) -> None:
        left.append(asyncio.ensure_future(connection.execute("SELECT pg_sleep(60)")))
        await asyncio.sleep(0)

    book = shop.book(forget_to_await)
    engine = await stage.engine([book, shop_with(book)])

    with pytest.raises(InstanceFailedError, match="book still uses its connection"):
        await (await engine.start("s", shop_with(book), "o-1")).result()
    await asyncio.wait(left)
    assert left[0].exception()
    assert shop.orders() == []


async def test_a_store_that_is_closed_begins_no_transaction(url: str) -> None:
    store = open_store(url)
    await store.open()
    await store.close()

    with pytest.raises(StoreError, match="the store is closed"):
        await store._async_transactions.run(cast("Any", None))  # type: ignore[attr-defined]


async def test_a_function_whose_server_is_gone_without_a_word_does_not_wait_for_ever(
    shop: Shop, stage: Stage
) -> None:
    """The system asks on its connection whether the server is still there."""
    seen: list[int] = []

    def look(connection: Any, order: str) -> None:
        line = connection._transport.get_extra_info("socket") if shop.is_async else connection
        with socket.socket(fileno=os.dup(line.fileno())) as copy:
            seen.append(copy.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
            seen.append(copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))

    book = shop.book(look)
    engine = await stage.engine([book, shop_with(book)])
    await (await engine.start("s", shop_with(book), "o-1")).result()

    assert seen == [1, 30]


def test_a_plain_function_needs_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "find_spec", lambda name: None)

    with pytest.raises(UsageError, match=r"'book' is a plain function.*pip install"):
        transactions.check_drivers("book", is_async=False)
    transactions.check_drivers("book", is_async=True)
