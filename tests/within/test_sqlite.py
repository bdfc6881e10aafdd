"""`within` on SQLite: files, drivers, settings, and who hears of the commit."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perdure import Accepted, BlockingClient, Engine
from perdure.client.blocking.loop_thread import CallersThread, LoopThread
from perdure.errors import StoreError, StoreUnavailableError, UsageError
from perdure.model.hints import Hint
from perdure.store.opening import open_store
from tests.engine.shop import Order, Place
from tests.engine.stage import Stage, idle, until
from tests.within.programs import ALL, double, listen
from tests.within.users import path_of


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def connection(url: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path_of(url), isolation_level=None)
    yield connection
    connection.close()


async def test_a_commit_wakes_the_worker_of_this_process_and_of_others(
    stage: Stage, url: str, connection: sqlite3.Connection
) -> None:
    engine = await stage.engine(ALL)
    other = open_store(url)
    await other.open()
    await idle(engine)
    seen = other.change_count(Hint.WORK)

    connection.execute("BEGIN IMMEDIATE")
    handle = await engine.within(connection).start("a", double, 1)
    connection.execute("COMMIT")

    await until(lambda: other.change_count(Hint.WORK) != seen)
    assert await handle.result() == 2
    await other.close()


async def test_the_number_of_a_definition_that_was_rolled_back_is_not_used(
    stage: Stage, url: str, connection: sqlite3.Connection
) -> None:
    client = await stage.client()
    connection.execute("BEGIN IMMEDIATE")
    within = client.within(connection)
    await within.start("a", double, 1)
    connection.execute("ROLLBACK")

    connection.execute("BEGIN IMMEDIATE")
    await within.start("b", listen, 1)
    await within.start("c", double, 1)
    connection.execute("COMMIT")
    await client.start("d", double, 1)

    names = {info.instance_id: info.name for info in (await client.instances()).items}
    assert names == {"b": "listen", "c": "double", "d": "double"}


async def test_how_the_user_reads_rows_is_neither_needed_nor_changed(
    stage: Stage, connection: sqlite3.Connection
) -> None:
    client = await stage.engine(ALL)
    connection.row_factory, connection.text_factory = sqlite3.Row, bytes
    connection.execute("BEGIN IMMEDIATE")

    await client.within(connection).execute(Order, Place("o"))
    state = await client.within(connection).state(Order, "o")
    connection.execute("COMMIT")

    assert state.status == "placed"
    assert (connection.row_factory, connection.text_factory) == (sqlite3.Row, bytes)


async def test_a_connection_of_another_driver_is_refused(stage: Stage) -> None:
    """It would be a second SQLite in this process, and undo the locks of the first."""
    client = await stage.client()
    kind = type("Connection", (), {"__module__": "apsw"})

    with pytest.raises(UsageError, match=r"apsw\.Connection is no connection .* sqlite3"):
        client.within(kind())


async def test_a_connection_to_another_file_is_refused(stage: Stage, tmp_path: Path) -> None:
    client = await stage.client()
    other = sqlite3.connect(tmp_path / "other.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(UsageError, match=r"is to .*other\.db, but the store is in .*store\.db"):
        await client.within(other).start("a", double, 1)
    other.close()


async def test_a_connection_of_another_thread_and_a_closed_one_are_refused(
    stage: Stage, url: str
) -> None:
    client = await stage.client()
    closed = sqlite3.connect(path_of(url))
    closed.close()
    with ThreadPoolExecutor(1) as other:
        foreign = other.submit(sqlite3.connect, path_of(url)).result()
        with pytest.raises(UsageError, match=r"cannot be used here: .* thread"):
            await client.within(foreign).start("a", double, 1)
        other.submit(foreign.close).result()

    with pytest.raises(UsageError, match=r"cannot be used here: .* closed"):
        await client.within(closed).start("a", double, 1)


async def test_a_store_in_memory_cannot_be_shared() -> None:
    async with Engine("sqlite://:memory:", ALL) as engine:
        connection = sqlite3.connect(":memory:")
        with pytest.raises(UsageError, match="a store in memory"):
            engine.within(connection)
        connection.close()


async def test_something_that_is_no_connection_is_refused(stage: Stage) -> None:
    client = await stage.client()

    with pytest.raises(UsageError, match=r"builtins\.object is no connection that is known: give"):
        client.within(object())


async def test_a_client_that_is_not_open_is_refused(url: str) -> None:
    engine = Engine(url, ALL)
    connection = sqlite3.connect(":memory:")

    with pytest.raises(UsageError, match="not open"):
        engine.within(connection)
    connection.close()


async def test_a_transaction_that_has_read_and_cannot_write_says_how_to_begin_it(
    stage: Stage, connection: sqlite3.Connection
) -> None:
    client = await stage.client()
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM live").fetchall()
    await client.start("other", double, 1)

    with pytest.raises(StoreUnavailableError, match="BEGIN IMMEDIATE"):
        await client.within(connection).start("a", double, 1)
    connection.execute("ROLLBACK")


# ---------------------------------------------------------- the caller's thread


async def test_statements_run_on_the_thread_that_calls(stage: Stage, url: str) -> None:
    """A connection of sqlite3 refuses every other thread; the caller's own loop goes on."""
    await stage.engine(ALL)

    def work() -> object:
        connection = sqlite3.connect(path_of(url))
        with BlockingClient(url) as client:
            connection.execute("BEGIN IMMEDIATE")
            outcome = client.within(connection).execute(Order, Place("o"))
            connection.commit()
        connection.close()
        return outcome

    assert isinstance(await asyncio.to_thread(work), Accepted)
    # Also where a loop is running.
    with BlockingClient(url) as client:
        connection = sqlite3.connect(path_of(url))
        connection.execute("BEGIN IMMEDIATE")
        client.within(connection).start("a", double, 1)
        connection.commit()
        connection.close()
        assert client.handle("a").info().name == "double"


def test_an_interrupted_errand_ends_the_call() -> None:
    loop = LoopThread("test")
    loop.open(_nothing())
    thread = CallersThread(loop)
    ended: list[BaseException] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def call() -> None:
        try:
            await thread.do(interrupt)
        except BaseException as error:
            ended.append(error)
            raise

    with pytest.raises(KeyboardInterrupt):
        thread.run(call())
    loop.run(_nothing())

    assert len(ended) == 1
    assert thread.run(_nothing()) is None
    loop.close(_nothing())


def test_an_errand_for_which_nobody_waits_is_refused() -> None:
    loop = LoopThread("test")
    loop.open(_nothing())
    thread = CallersThread(loop)

    with pytest.raises(StoreError, match="nobody waits"):
        loop.run(thread.do(lambda: None))
    loop.close(_nothing())


async def _nothing() -> None: ...
