"""Transactions: what an activity writes and what is recorded of it are one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Never

import msgspec
import pytest
from psycopg.rows import dict_row

from perdure import (
    Activity,
    Decider,
    Decision,
    Retry,
    activity_context,
    orchestration,
    transaction,
)
from perdure.clock import ManualClock
from perdure.errors import InstanceFailedError, UsageError
from perdure.model.turns import JobClaim
from tests.engine.booking import Gate, Shop, shop_with
from tests.engine.stage import SELDOM, Stage, kinds, options, until

SOON = Retry(max_attempts=3, first_delay=timedelta(0), jitter=0)


@pytest.fixture(params=["sqlite3", "asyncpg", "psycopg"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    driver: str = request.param
    if driver == "sqlite3":
        yield Shop(driver, f"sqlite:///{tmp_path}/store.db")
    else:
        yield Shop(driver, request.getfixturevalue("postgres_url"))


@pytest.fixture
def url(shop: Shop) -> str:
    return shop.url


@pytest.fixture(autouse=True)
async def table(shop: Shop, stage: Stage) -> None:
    """The store is there before the table: SQLite's file must be perdure's first."""
    # What is committed others may know before the one who did it, who is told that it is too late.
    stage.allow_log("goes on after it was told to stop")
    await stage.client()
    shop.make_table()


async def test_rows_and_result_are_there_together(shop: Shop, stage: Stage) -> None:
    book = shop.book()
    engine = await stage.engine([book, shop_with(book)])

    handle = await engine.start("s", shop_with(book), "o-1")

    assert await handle.result() == "o-1 booked"
    assert shop.orders() == ["o-1"]
    assert kinds(await handle.history()) == [
        "started",
        "activity_scheduled",
        "activity_completed",
        "completed",
    ]
    assert await engine._core.store.read_jobs("s") == []


async def test_a_transaction_counts_like_any_other_activity(shop: Shop, stage: Stage) -> None:
    book = shop.book()
    engine = await stage.engine([book, shop_with(book)])

    await engine._serving._end_loops(["cancellations"])
    await (await engine.start("s", shop_with(book), "o-1")).result()
    await until(lambda: not engine._serving.jobs.started)

    counted = engine.telemetry.snapshot()
    assert counted.value("perdure_activity_executions_total", outcome="completed") == 1
    assert counted.value("perdure_activity_executions_total") == 1


async def test_what_a_function_wrote_that_raises_is_gone(shop: Shop, stage: Stage) -> None:
    def refuse(connection: Any, order: str) -> Never:
        raise LookupError("no such book")

    book = shop.book(refuse)
    engine = await stage.engine([book, shop_with(book)])

    with pytest.raises(InstanceFailedError, match="no such book"):
        await (await engine.start("s", shop_with(book), "o-1")).result()

    assert shop.orders() == []


async def test_each_attempt_begins_with_nothing_of_the_one_before(shop: Shop, stage: Stage) -> None:
    def hesitate(connection: Any, order: str) -> str:
        if (attempt := activity_context().attempt) < 3:
            raise LookupError("not yet")
        return f"attempt {attempt}"

    book = shop.book(hesitate, retry=SOON)
    engine = await stage.engine([book, shop_with(book)])

    assert await (await engine.start("s", shop_with(book), "o-1")).result() == "attempt 3"
    assert shop.orders() == ["o-1"]


async def test_what_a_function_wrote_whose_result_cannot_be_stored_is_gone(
    shop: Shop, stage: Stage
) -> None:
    def say_what_cannot_be_said(connection: Any, order: str) -> str:
        return "\ud800"

    book = shop.book(say_what_cannot_be_said)
    engine = await stage.engine([book, shop_with(book)])

    with pytest.raises(InstanceFailedError):
        await (await engine.start("s", shop_with(book), "o-1")).result()

    assert shop.orders() == []


async def test_a_timeout_rolls_back_and_nobody_waits_for_the_function(
    shop: Shop, stage: Stage
) -> None:
    """On SQLite it holds the lock of the whole store, so nothing else could be written."""
    if not shop.is_async:
        stage.expect_log("goes on after it was told to stop")
    gate = Gate(shop)
    book = shop.book(gate, timeout=timedelta(seconds=2))
    engine = await stage.engine([book, shop_with(book)])
    handle = await engine.start("s", shop_with(book), "o-1")

    with pytest.raises(InstanceFailedError, match="took longer than"):
        await handle.result()

    assert gate.entered.is_set()
    assert shop.orders() == []
    shop.run("INSERT INTO orders VALUES ('by hand')")
    if not shop.is_async:
        await until(lambda: stage.logged("goes on after it was told to stop"))
    gate.opened.set()
    await until(lambda: not engine._serving.jobs.started)
    assert shop.orders() == ["by hand"]


async def test_a_statement_that_goes_on_for_ever_is_broken_off(shop: Shop, stage: Stage) -> None:
    endless = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n
    """

    def count(connection: Any, order: str) -> Any:
        found = connection.execute(endless)
        return found if shop.is_async else str(found.fetchone())

    book = shop.book(count, timeout=timedelta(seconds=2))
    patient = options(cancel_grace=SELDOM)
    engine = await stage.engine([book, shop_with(book)], options=patient)

    with pytest.raises(InstanceFailedError, match="took longer than"):
        await (await engine.start("s", shop_with(book), "o-1")).result()

    await until(lambda: not engine._serving.jobs.started)
    assert shop.orders() == []


async def test_a_worker_that_stops_rolls_back_what_it_cannot_wait_for(
    shop: Shop, stage: Stage
) -> None:
    if not shop.is_async:
        stage.expect_log("goes on after it was told to stop")
    gate = Gate(shop)
    stuck = shop.book(gate)
    engine = await stage.engine([stuck, shop_with(stuck)])
    await engine.start("s", shop_with(stuck), "o-1")
    await until(gate.entered.is_set)

    await engine.close()

    assert shop.orders() == []
    gate.opened.set()
    book = shop.book()
    other = await stage.engine([book, shop_with(book)])
    assert await other.handle("s").result() == "o-1 booked"
    assert shop.orders() == ["o-1"]


async def test_a_job_that_is_not_ours_any_more_leaves_nothing(shop: Shop, stage: Stage) -> None:
    """This worker stood still between its claim and the function; another one has done the work.
    On SQLite that is known before the function is called."""
    stage.expect_log("no live worker serves activity 'book'")
    clock = ManualClock()
    lease = options().lease_for
    calls: list[str] = []
    book = shop.book(lambda connection, order: calls.append(order))
    first = await stage.engine([shop_with(book)], clock=clock)
    await first.start("s", shop_with(book), "o-1")
    numbers = {
        key.name: number for number, key in (await first._core.store.admin.definitions()).items()
    }
    [late] = await first._core.store.claim_jobs(
        JobClaim("sleeper", (numbers["book"],), 1, int(lease.total_seconds() * 1000), 7)
    )
    clock.advance(2 * lease)
    second = await stage.engine([book, shop_with(book)], clock=clock)
    assert await second.handle("s").result() == "o-1 booked"

    # Nothing tells it sooner: it is as if it had just been claimed, and it is not asked about.
    await second._serving._end_loops(["cancellations"])
    second._serving.jobs.run(msgspec.structs.replace(late, lease_until_ms=0))

    await until(lambda: not second._serving.jobs.started)
    assert shop.orders() == ["o-1"]
    assert len(calls) == (1 if shop.is_sqlite else 2)


async def test_a_function_may_use_all_of_the_rest_of_its_connection(
    shop: Shop, stage: Stage
) -> None:
    """What it sets for its own rows does not disturb ours."""

    def set_everything(connection: Any, order: str) -> None:
        if shop.driver == "sqlite3":
            connection.row_factory = lambda cursor, row: {"row": row}
            connection.text_factory = bytes
            connection.execute("SAVEPOINT a")
            connection.execute("RELEASE a")
        elif shop.driver == "psycopg":
            connection.row_factory = dict_row
            with connection.transaction():
                connection.execute("SET LOCAL search_path = pg_catalog")

    book = shop.book(set_everything)
    engine = await stage.engine([book, shop_with(book)])

    assert await (await engine.start("s", shop_with(book), "o-1")).result() == "o-1 booked"
    assert await (await engine.start("s2", shop_with(book), "o-2")).result() == "o-2 booked"
    assert shop.orders() == ["o-1", "o-2"]


async def test_many_book_at_the_same_time(shop: Shop, stage: Stage) -> None:
    book = shop.book()

    @orchestration
    async def rush() -> int:
        return len(await asyncio.gather(*(book(f"o-{number:02}") for number in range(40))))

    # What a thread has committed is heard before it returns, and ends the instance.
    patient = options(cancel_grace=SELDOM)
    engine = await stage.engine([book, rush], options=patient)

    assert await (await engine.start("s", rush)).result() == 40
    assert shop.orders() == [f"o-{number:02}" for number in range(40)]


@orchestration
async def deliver(order: str) -> str:
    return f"{order} delivered"


@pytest.mark.parametrize("fails", [False, True])
async def test_what_the_client_does_within_it_is_part_of_it(
    fails: bool, shop: Shop, stage: Stage
) -> None:
    def start_delivery(connection: Any, order: str) -> Any:
        started = activity_context().client.within(connection).start(order, deliver, order)
        return follow_up(started) if shop.is_async else end()

    def end() -> None:
        if fails:
            raise LookupError("no such book")

    async def follow_up(started: Any) -> None:
        await started
        end()

    book = shop.book(start_delivery)
    engine = await stage.engine([book, shop_with(book), deliver])
    handle = await engine.start("s", shop_with(book), "o-1")

    if fails:
        with pytest.raises(InstanceFailedError, match="no such book"):
            await handle.result()
        assert shop.orders() == []
        assert await engine._core.store.read_instances(["o-1"]) == [None]
    else:
        await handle.result()
        assert await engine.handle("o-1").result() == "o-1 delivered"
        assert shop.orders() == ["o-1"]


# ------------------------------------------------------------------- what it must not do


async def test_a_function_that_closes_its_connection_is_told(shop: Shop, stage: Stage) -> None:
    book = shop.book(lambda connection, _: connection.close())
    engine = await stage.engine([book, shop_with(book)])

    with pytest.raises(InstanceFailedError, match="book has closed its connection"):
        await (await engine.start("s", shop_with(book), "o-1")).result()

    assert shop.orders() == []


async def test_without_a_worker_there_is_no_connection(shop: Shop) -> None:
    with pytest.raises(UsageError, match=r"book\.fn\(connection, \.\.\.\)"):
        await shop.book()("o-1")


# ----------------------------------------------------------------------------- deciders


@dataclass(frozen=True)
class Wish:
    order: str


@dataclass(frozen=True)
class Booked:
    order: str
    said: str


@dataclass(frozen=True)
class Noted:
    said: str


def wishes_with(book: Activity[[str], Any]) -> type[Decider[str, Wish | Booked, Noted, str]]:
    class Wishes(Decider[str, Wish | Booked, Noted, str]):
        name = "wishes"

        def initial(self) -> str:
            return ""

        def instance_id(self, input: Wish | Booked, /) -> str:
            return input.order

        def decide(
            self, state: str, input: Wish | Booked, now: datetime, /
        ) -> Decision[Wish | Booked, Noted, str]:
            match input:
                case Wish(order):
                    return Decision.accept(Noted("wished")).effect(book, order)
                case Booked(_, said):
                    return Decision.accept(Noted(said))

        def evolve(self, state: str, event: Noted, /) -> str:
            return event.said

    return Wishes


async def test_an_effect_of_a_decider_is_a_transaction_too(shop: Shop, stage: Stage) -> None:
    plain = shop.book()
    if shop.is_async:

        @transaction(name="book")
        async def book_async(connection: Any, order: str) -> Booked:
            return Booked(order, await plain.fn(connection, order))

        wishes = wishes_with(book_async)
        definitions: list[Any] = [book_async, wishes]
    else:

        @transaction(name="book")
        def book(connection: Any, order: str) -> Booked:
            return Booked(order, plain.fn(connection, order))

        wishes = wishes_with(book)
        definitions = [book, wishes]
    engine = await stage.engine(definitions)

    await engine.execute(wishes, Wish("o-1"))

    async def is_booked() -> bool:
        return await engine.state(wishes, "o-1") == "o-1 booked"

    await until(is_booked)
    assert shop.orders() == ["o-1"]
