"""`within` on PostgreSQL: who waits for whom, what is left alone, what is refused."""

from __future__ import annotations

import asyncio
import inspect
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import asyncpg
import psycopg
import pytest

from perdure import Accepted, BlockingClient, Engine
from perdure.errors import AlreadyExistsError, StoreError, StoreUnavailableError, UsageError
from tests.engine.shop import Note, Order, Place
from tests.engine.stage import Stage, is_waiting, options, until
from tests.postgres import Server
from tests.sizes import WITHIN_S
from tests.within.programs import ALL, double, listen, word


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
async def engine(stage: Stage) -> Engine:
    return await stage.engine(ALL)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def waiting_for_locks(connection: Any) -> int:
    count: int = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return count


async def arrivals(connection: Any) -> int:
    count: int = await connection.fetchval("SELECT count(*) FROM perdure.arrivals")
    return count


# ------------------------------------------------------------- who waits for whom


async def test_of_two_transactions_that_start_one_id_the_second_gets_what_the_first_made(
    engine: Engine, url: str
) -> None:
    async with connected(url) as one, connected(url) as two, connected(url) as looker:
        first = one.transaction()
        await first.start()
        await engine.within(one).start("a", double, 1)
        async with two.transaction():
            second = asyncio.ensure_future(engine.within(two).start("a", double, 1))
            other = None
            await until(lambda: waiting_for_locks(looker))
            assert not second.done()
            await first.commit()
            joined = await second
            with pytest.raises(AlreadyExistsError):
                other = await engine.within(two).start("a", double, 2)

    assert other is None
    assert joined.instance_id == "a"
    assert await joined.result() == 2


async def test_of_two_transactions_that_start_one_id_the_second_starts_it_if_the_first_gives_up(
    engine: Engine, url: str
) -> None:
    async with connected(url) as one, connected(url) as two, connected(url) as looker:
        first = one.transaction()
        await first.start()
        await engine.within(one).start("a", double, 1)
        async with two.transaction():
            second = asyncio.ensure_future(engine.within(two).start("a", double, 5))
            await until(lambda: waiting_for_locks(looker))
            await first.rollback()
            handle = await second

    assert await handle.result() == 10


async def test_of_two_transactions_with_inputs_for_one_instance_the_second_decides_after_the_first(
    engine: Engine, url: str
) -> None:
    async with connected(url) as one, connected(url) as two, connected(url) as looker:
        await engine.execute(Order, Place("o"))
        first = one.transaction()
        await first.start()
        await engine.within(one).execute(Order, Note("o", "first"))
        async with two.transaction():
            second = asyncio.ensure_future(engine.within(two).execute(Order, Note("o", "second")))
            await until(lambda: waiting_for_locks(looker))
            await first.commit()
            outcome = await second

    assert isinstance(outcome, Accepted)
    assert outcome.state.notes == ("first", "second")


async def test_an_open_transaction_that_has_sent_a_signal_keeps_the_instance_free(
    engine: Engine, url: str
) -> None:
    handle = await engine.start("a", listen, 3)
    await until(lambda: is_waiting(engine, "a"))
    async with connected(url) as connection, connected(url) as looker:
        transaction = connection.transaction()
        await transaction.start()
        await engine.within(connection).handle("a").send(word, "later")
        await engine.within(connection).start("a", listen, 3)

        for number, text in enumerate(("now", "and now"), start=1):
            await handle.send(word, text)

            async def has_taken(number: int = number) -> bool:
                live = await engine._core.store.read_live("a")
                return live is not None and live.stamp.next_seq > 1 + number

            await until(has_taken)
        assert await waiting_for_locks(looker) == 0
        await transaction.commit()

    assert await handle.result() == ["now", "and now", "later"]


async def test_an_open_transaction_does_not_hold_up_what_others_send_to_its_instance_and_to_others(
    engine: Engine, url: str
) -> None:
    """Moving messages must not wait for an instance that a decision has locked, or whose start is
    not committed yet."""
    await engine.execute(Order, Place("locked"))
    free = await engine.start("free", listen, 1)
    async with connected(url) as holder, connected(url) as sender:
        held = holder.transaction()
        await held.start()
        await engine.within(holder).execute(Order, Note("locked", "first"))
        await engine.within(holder).start("begun", listen, 1)
        async with sender.transaction():
            within = engine.within(sender)
            await within.send(Order, Note("locked", "second"))
            await within.handle("begun").send(word, "hello")
            await within.handle("free").send(word, "free")

        assert await free.result() == ["free"]
        assert await arrivals(sender) == 2
        await held.commit()
        assert await engine.handle("begun", listen).result() == ["hello"]

        async def is_noted() -> bool:
            return (await engine.state(Order, "locked")).notes == ("first", "second")

        await until(is_noted)


async def test_two_open_transactions_start_what_was_never_started_before(
    engine: Engine, url: str
) -> None:
    async with (
        connected(url) as one,
        connected(url) as two,
        one.transaction(),
        two.transaction(),
    ):
        first = await engine.within(one).start("a", double, 1)
        second = await engine.within(two).start("b", double, 2)

    assert (await first.result(), await second.result()) == (2, 4)


# ------------------------------------------------------------ what is on its way


async def test_messages_of_which_nobody_was_told_are_found(engine: Engine, url: str) -> None:
    handle = await engine.start("a", listen, 2)
    async with connected(url) as connection:
        transaction = connection.transaction()
        await transaction.start()
        await engine.within(connection).handle("a").send(word, "told")
        [(part, body)] = await connection.fetch("SELECT part, body FROM perdure.arrivals")
        await transaction.commit()
        await until(lambda: _is_empty(connection))
        other = body.replace(b'"message_id":"', b'"message_id":"x')
        await connection.execute(
            "INSERT INTO perdure.arrivals (part, instance_id, made_ms, body)"
            " VALUES ($1, 'a', 0, $2)",
            part,
            other,
        )

    assert await handle.result() == ["told", "told"]


async def _is_empty(connection: Any) -> bool:
    return await arrivals(connection) == 0


async def test_messages_arrive_through_a_pooler(stage: Stage, url: str) -> None:
    client = await stage.client()
    handle = await client.start("a", listen, 1)
    async with Engine(f"{url}?pooler=transaction", ALL) as engine, connected(url) as connection:
        await until(lambda: is_waiting(client, "a"))
        async with connection.transaction():
            await engine.within(connection).handle("a").send(word, "hello")
        assert await handle.result() == ["hello"]


async def test_a_worker_hears_of_a_transaction_when_it_is_committed_and_not_when_it_looks_again(
    stage: Stage, url: str
) -> None:
    seldom = options(poll_max=timedelta(minutes=3), lease_for=timedelta(minutes=10))
    worker = await stage.engine(ALL, options=seldom)
    client = await stage.client()
    await until(lambda: worker._serving.claimer._quiet > 4)

    async with connected(url) as connection, asyncio.timeout(WITHIN_S):
        async with connection.transaction():
            handle = await client.within(connection).start("a", listen, 1)
            await client.within(connection).send(Order, Place("o"))
        async with connection.transaction():
            await client.within(connection).handle("a").send(word, "hello")

        assert await handle.result() == ["hello"]


async def test_a_transaction_can_be_prepared_for_a_two_phase_commit() -> None:
    """One that has notified others cannot be; and commits of such queue behind one another."""
    with Server(durable=False, settings={"max_prepared_transactions": "2"}) as server:
        url = server.create_database()
        async with Engine(url, ALL) as engine, connected(url) as connection:
            handle = await engine.start("a", listen, 1)
            await connection.execute("BEGIN")
            await engine.within(connection).start("b", double, 2)
            await engine.within(connection).handle("a").send(word, "hello")
            await connection.execute("PREPARE TRANSACTION 'ours'")
            await connection.execute("COMMIT PREPARED 'ours'")

            assert await handle.result() == ["hello"]
            assert await engine.handle("b").result() == 4


async def test_a_message_that_cannot_be_read_stays_and_those_to_other_instances_arrive(
    stage: Stage, engine: Engine, url: str
) -> None:
    stage.expect_log("sent inside a transaction cannot be read")
    handle = await engine.start("a", listen, 1)
    async with connected(url) as connection:
        async with connection.transaction():
            await connection.execute(
                "INSERT INTO perdure.arrivals (part, instance_id, made_ms, body)"
                " VALUES (0, 'b', 0, 'nonsense')"
            )
            await engine.within(connection).handle("a").send(word, "hello")

        assert await handle.result() == ["hello"]
        assert await arrivals(connection) == 1
        await connection.execute("DELETE FROM perdure.arrivals")


async def test_many_messages_of_one_transaction_arrive_in_order(engine: Engine, url: str) -> None:
    texts = [str(number) for number in range(50)]
    handle = await engine.start("a", listen, len(texts))
    async with connected(url) as connection, connection.transaction():
        within = engine.within(connection)
        for text in texts:
            await within.handle("a").send(word, text)

    assert await handle.result() == texts


async def test_what_is_sent_directly_does_not_overtake_the_first_of_two_open_transactions(
    stage: Stage, url: str
) -> None:
    client = await stage.client()
    handle = await client.start("a", listen, 4)
    async with connected(url) as one, connected(url) as two:
        first = one.transaction()
        await first.start()
        await client.within(one).handle("a").send(word, "first begun")
        async with two.transaction():
            await client.within(two).handle("a").send(word, "second begun")
        await handle.send(word, "while the first is open")
        await first.commit()
        await handle.send(word, "at last")

    await stage.engine(ALL)
    assert await handle.result() == [
        "second begun",
        "while the first is open",
        "first begun",
        "at last",
    ]


async def test_what_several_send_in_every_way_arrives_once_and_in_the_order_of_each(
    stage: Stage, url: str
) -> None:
    """Two workers move messages at the same time, some of which come directly."""
    engines = [await stage.engine(ALL), await stage.engine(ALL)]
    await engines[0].execute(Order, Place("o"))
    chance = Random(5)
    expected: dict[int, list[str]] = {}

    async def send(sender: int) -> None:
        client, sent = engines[sender % 2], expected.setdefault(sender, [])
        async with connected(url) as connection:
            for number in range(12):
                note = Note("o", f"{sender}:{number}")
                way, is_committed = chance.choice(["directly", "within", "decided"]), True
                if way == "directly":
                    await client.send(Order, note)
                else:
                    transaction = connection.transaction()
                    await transaction.start()
                    within = client.within(connection)
                    await (within.send if way == "within" else within.execute)(Order, note)
                    is_committed = chance.random() < 0.75
                    await (transaction.commit if is_committed else transaction.rollback)()
                if is_committed:
                    sent.append(note.text)

    await asyncio.gather(*(send(sender) for sender in range(4)))

    async def have_all_come() -> bool:
        notes = (await engines[0].state(Order, "o")).notes
        return len(notes) == sum(map(len, expected.values()))

    await until(have_all_come)
    notes = (await engines[0].state(Order, "o")).notes
    for sender, sent in expected.items():
        assert [text for text in notes if text.startswith(f"{sender}:")] == sent


# ------------------------------------------------------- what is the user's own


async def test_what_the_user_has_set_on_the_connection_is_neither_needed_nor_changed(
    engine: Engine, url: str
) -> None:
    async with connected(url) as connection:
        for kind in ("json", "jsonb"):
            await connection.set_type_codec(
                kind, schema="pg_catalog", encoder=json.dumps, decoder=json.loads
            )
        await connection.execute("SET search_path = pg_temp; SET lock_timeout = '7s'")
        settings = "SELECT current_setting('search_path'), current_setting('lock_timeout')"
        async with connection.transaction():
            await engine.within(connection).start("a", double, 1)
            await engine.within(connection).send(Order, Place("o"))
            await engine.within(connection).execute(Order, Note("o", "x"))

            assert tuple(await connection.fetchrow(settings)) == ("pg_temp", "7s")
            assert await connection.fetchval("SELECT '[1]'::jsonb") == [1]

    assert (await engine.state(Order, "o")).notes == ("x",)


async def test_another_schema_is_found(postgres: Server) -> None:
    url = postgres.create_database()
    async with Engine(f"{url}?schema=Other%20one", ALL) as engine, connected(url) as connection:
        async with connection.transaction():
            handle = await engine.within(connection).start("a", double, 1)
            await engine.within(connection).send(Order, Place("o"))
            await engine.within(connection).execute(Order, Note("o", "x"))

        assert await handle.result() == 2
    postgres.drop_database(url)


async def test_a_transaction_of_one_snapshot_starts_what_nobody_else_has(
    engine: Engine, url: str
) -> None:
    async with connected(url) as connection, connection.transaction(isolation="repeatable_read"):
        await connection.fetchval("SELECT count(*) FROM perdure.live")
        await engine.start("taken", double, 1)
        handle = await engine.within(connection).start("a", double, 3)

        with pytest.raises(StoreUnavailableError, match="at the same moment"):
            await engine.within(connection).start("taken", double, 1)

    assert await handle.result() == 6


async def test_a_call_that_is_cancelled_leaves_the_connection_to_the_user(
    engine: Engine, url: str
) -> None:
    await engine.execute(Order, Place("o"))
    async with connected(url) as holder, connected(url) as connection, connected(url) as looker:
        held = holder.transaction()
        await held.start()
        await engine.within(holder).execute(Order, Note("o", "held"))
        await engine.within(holder).start("taken", double, 2)
        async with connection.transaction():
            within = engine.within(connection)
            for call in (
                within.execute(Order, Note("o", "cancelled")),
                within.start("taken", double, 2),
            ):
                waiting = asyncio.ensure_future(call)
                await until(lambda: waiting_for_locks(looker))
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                # At once: the driver refuses a statement while another one runs.
                assert await connection.fetchval("SELECT 1") == 1
            await connection.execute("CREATE TABLE mine (x int)")
            handle = await within.start("a", double, 2)
        await held.commit()
        assert await connection.fetchval("SELECT count(*) FROM mine") == 0

    assert await handle.result() == 4
    assert (await engine.state(Order, "o")).notes == ("held",)


@pytest.mark.parametrize("call", ["info", "start"])
@pytest.mark.parametrize("kind", ["asyncpg", "psycopg"])
async def test_a_call_that_is_cancelled_while_it_reads_does_not_spoil_the_transaction(
    engine: Engine, url: str, kind: str, call: str
) -> None:
    await (await engine.start("a", double, 1)).result()
    async with AsyncExitStack() as stack:
        connection: Any
        if kind == "asyncpg":
            connection = await stack.enter_async_context(connected(url))
            await stack.enter_async_context(connection.transaction())
        else:
            connection = await psycopg.AsyncConnection.connect(url)
            await stack.enter_async_context(connection)
        holder, looker = [await stack.enter_async_context(connected(url)) for _ in range(2)]
        within = engine.within(connection)
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "info": within.handle("a").info,
            "start": partial(within.start, "b", double, 2),
        }

        async with holder.transaction():
            await holder.execute("LOCK TABLE perdure.instances IN ACCESS EXCLUSIVE MODE")
            waiting: asyncio.Future[Any] = asyncio.ensure_future(calls[call]())
            await until(lambda: waiting_for_locks(looker))
            waiting.cancel()
            for _ in range(100):  # Time enough for the server to be told.
                await waiting_for_locks(looker)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await connection.execute("SELECT 1")
        handle = await within.start("c", double, 3)

    assert await handle.result() == 6
    assert [one.instance_id for one in (await engine.instances(name="double")).items] == ["c", "a"]


# -------------------------------------------------------------- what is refused


@pytest.fixture
def other_url(postgres: Server, postgres_template: str) -> Iterator[str]:
    url = postgres.create_database(template=postgres_template)
    yield url
    postgres.drop_database(url)


async def test_a_connection_to_another_database_is_refused(engine: Engine, other_url: str) -> None:
    async with connected(other_url) as connection, connection.transaction():
        with pytest.raises(UsageError, match="another database"):
            await engine.within(connection).start("a", double, 1)

    assert (await engine.instances()).items == []


async def test_a_connection_to_a_database_without_perdure_is_refused(
    engine: Engine, postgres: Server
) -> None:
    url = postgres.create_database()
    with psycopg.connect(url) as connection:
        with pytest.raises(UsageError, match="perdure has no tables"):
            await engine.within(connection).start("a", double, 1)
        # The transaction can go on.
        connection.execute("SELECT 1")
    connection.close()
    postgres.drop_database(url)


async def test_a_transaction_that_has_failed_is_not_used(engine: Engine, url: str) -> None:
    async with connected(url) as connection:
        transaction = connection.transaction()
        await transaction.start()
        with pytest.raises(asyncpg.PostgresError):
            await connection.execute("SELECT 1 / 0")

        with pytest.raises(StoreError, match="roll it back"):
            await engine.within(connection).start("a", double, 1)
        await transaction.rollback()


@pytest.mark.parametrize("kind", ["asyncpg", "pool", "psycopg", "async psycopg"])
async def test_a_connection_that_was_lost_is_told_as_a_server_that_is_gone(
    engine: Engine, url: str, kind: str
) -> None:
    """Whoever begins again on that error finds another server."""
    async with AsyncExitStack() as stack:
        connection: Any
        if kind == "asyncpg":
            connection = await stack.enter_async_context(connected(url))
            await connection.transaction().start()
        elif kind == "pool":
            pool = await stack.enter_async_context(asyncpg.create_pool(url, min_size=0))
            connection = await pool.acquire()
            await connection.transaction().start()
        elif kind == "psycopg":
            connection = stack.enter_context(psycopg.connect(url))
        else:
            connection = await psycopg.AsyncConnection.connect(url)
            stack.push_async_callback(connection.close)
        await engine.within(connection).start("a", double, 1)

        with pytest.raises((asyncpg.PostgresError, psycopg.Error)):
            await said(connection.execute("SELECT pg_terminate_backend(pg_backend_pid())"))
        await until(lambda: is_lost(connection))

        with pytest.raises(StoreUnavailableError, match="begin again"):
            await engine.within(connection).start("a", double, 1)


async def said(answer: Any) -> None:
    """Await what a driver says, if it is to be awaited."""
    if inspect.isawaitable(answer):
        await answer


def is_lost(connection: Any) -> bool:
    try:
        return bool(getattr(connection, "closed", False) or connection.is_closed())
    except asyncpg.InterfaceError:
        return True  # Its pool has taken it away.


async def test_a_blocking_client_refuses_a_connection_of_an_event_loop(url: str) -> None:
    async with connected(url) as connection, connection.transaction():
        with BlockingClient(url) as client, pytest.raises(UsageError, match="event loop"):
            client.within(connection)


async def test_an_sqlite_connection_is_refused(engine: Engine) -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(UsageError, match=r"sqlite3\.Connection is no connection to postgresql"):
        await engine.within(connection).start("a", double, 1)
    connection.close()
