"""Other transactions in the way of the store's on PostgreSQL: locks, deadlocks, changed tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import asyncpg
import pytest

from perdure.errors import StoreError, StoreUnavailableError
from perdure.model.instances import part_of
from perdure.model.turns import TurnStatus
from perdure.store.base import Store
from perdure.store.migrate import read_migrations
from perdure.store.opening import open_store
from perdure.store.postgres import database, lane
from perdure.store.postgres.connection import PACKAGE
from tests import rows
from tests.contract.store_values import begun, claim, message, new_instance, turn_of
from tests.engine.stage import until
from tests.postgres import SUPERUSER, Server

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
def empty_url(postgres: Server) -> str:
    """A database without our tables."""
    return postgres.create_database()


async def open_and_close(url: str) -> None:
    store = open_store(url)
    await store.open()
    await store.close()


# ----------------------------------------------------------------- others in the way


LOCK = "SELECT FROM perdure.live WHERE instance_id = $1 FOR UPDATE"
MAKE = """
INSERT INTO perdure.live (part, instance_id, incarnation, execution, next_seq, lease,
    lease_until_ms, last_no, last_at_ms, last_commit, attempts)
VALUES ($1, $2, 0, 0, 0, 0, 0, 0, 0, 0, 0)
"""


@pytest.fixture
def short_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    text = lane.BEGIN.replace(f"lock_timeout = '{lane.LOCK_WITHIN}'", "lock_timeout = '50ms'")
    monkeypatch.setattr(lane, "BEGIN", text)


async def somebody_waits(url: str) -> bool:
    # Not with the connection that is waited for: its transaction sees old statistics.
    look = await asyncpg.connect(url)
    try:
        return bool(await look.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))
    finally:
        await look.close()


async def test_an_instance_that_a_foreign_transaction_has_locked_is_waited_for(
    store: Store, raw: Connection
) -> None:
    await begun(store)
    async with raw.transaction():
        await raw.execute(LOCK, "i")
        delivering = asyncio.ensure_future(store.deliver([message(text="patient")]))
        with pytest.raises(StoreUnavailableError, match="another transaction has locked it"):
            await store.deliver([message(text="impatient")], patience_s=0.1)
        found = await store.read_inbox("i")

    assert found == []
    assert await delivering == ["delivered"]
    assert [one.body for one in await store.read_inbox("i")] == [b"patient"]


async def test_an_instance_that_a_foreign_transaction_has_locked_is_no_obstacle_for_others(
    store: Store, raw: Connection
) -> None:
    other = "other"
    await begun(store, "i")
    await begun(store, other)
    async with raw.transaction():
        await raw.execute(LOCK, "i")
        waiting = asyncio.ensure_future(store.deliver([message("i")]))

        for _ in range(3):
            assert await store.deliver([message(other)], patience_s=2) == ["delivered"]
        assert not waiting.done()

    assert await waiting == ["delivered"]


async def test_an_instance_that_a_foreign_transaction_is_about_to_make_is_no_obstacle_for_others(
    short_locks: None, store: Store, raw: Connection
) -> None:
    other = "other"
    await begun(store, other)
    transaction = raw.transaction()
    await transaction.start()
    await raw.execute(MAKE, part_of("i"), "i")
    waiting = asyncio.ensure_future(store.deliver([message("i", if_absent="buffer")]))

    for _ in range(3):
        assert await store.deliver([message(other)], patience_s=5) == ["delivered"]
    assert not waiting.done()
    await transaction.rollback()

    assert await waiting == ["buffered"]


async def test_instances_that_a_foreign_transaction_has_locked_are_not_claimed_and_not_waited_for(
    store: Store, raw: Connection
) -> None:
    await store.start([new_instance("i"), new_instance("j")])
    async with raw.transaction():
        await raw.execute(LOCK, "i")
        found = await claim(store)

    assert [one.instance_id for one in found] == ["j"]


@pytest.fixture
async def patient(postgres: Server, postgres_url: str) -> AsyncIterator[Connection]:
    """A connection that never looks for a deadlock itself: so it is the other one that is ended."""
    database = postgres_url.rpartition("/")[2]
    connection = await asyncpg.connect(postgres.url(database, role=SUPERUSER))
    await connection.execute("SET deadlock_timeout = '1h'")
    yield connection
    await connection.close()


async def test_a_deadlock_with_a_foreign_transaction_is_run_again(
    store: Store, patient: Connection, postgres_url: str
) -> None:
    other = "other"
    await begun(store, other)
    transaction = patient.transaction()
    await transaction.start()
    await patient.execute(MAKE, part_of("i"), "i")
    # It has locked the one, and wants to make the other.
    delivering = asyncio.ensure_future(
        store.deliver([message(other), message("i", if_absent="buffer")])
    )
    await until(lambda: somebody_waits(postgres_url))
    await patient.execute(LOCK, other)
    await transaction.rollback()

    assert await delivering == ["delivered", "buffered"]
    counted: Any = store
    assert counted.counters.retries >= 1


FAILING = """
CREATE SEQUENCE public.failures;
CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('public.failures') <= {times} THEN
        RAISE EXCEPTION 'not now' USING ERRCODE = '{code}';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER fail BEFORE INSERT ON perdure.inbox FOR EACH ROW EXECUTE FUNCTION public.fail();
"""


@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_a_transaction_that_does_not_fit_with_others_is_run_until_it_does(
    store: Store, raw: Connection, code: str
) -> None:
    """However often that happens, it is no fault of the value."""
    await begun(store)
    await raw.execute(FAILING.format(times=3 * lane.TRIES, code=code))

    assert await store.deliver([message()]) == ["delivered"]
    assert len(await store.read_inbox("i")) == 1


# --------------------------------------------------------------------------- migrations


async def test_processes_that_migrate_at_once_do_it_once(empty_url: str) -> None:
    stores = [open_store(empty_url) for _ in range(5)]

    await asyncio.gather(*(store.open() for store in stores))

    known = len(read_migrations(PACKAGE))
    assert rows.run(empty_url, "SELECT count(*) FROM migrations") == [(known,)]
    for store in stores:
        await store.close()


async def test_a_migration_that_fails_half_way_leaves_nothing(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = iter(["CREATE SCHEMA perdure; CREATE TABLE perdure.half (x INT)", "SELECT 1/0"])
    monkeypatch.setattr(database, "script", lambda *_: next(scripts))

    with pytest.raises(StoreError):
        await open_and_close(empty_url)
    monkeypatch.undo()

    await open_and_close(empty_url)


async def test_tables_that_another_process_has_changed_are_used_as_they_are_now(
    store: Store, raw: Connection
) -> None:
    """The server refuses to run what was prepared before, because its result has changed."""
    keys = [new_instance().definition._replace(name=name) for name in ("early", "late")]
    early, late = await store.intern(keys)
    known = open_store(store.address.dsn, clock=store.clock)  # type: ignore[attr-defined]  # PostgreSQL
    await known.open()
    assert await known.definition(early) == keys[0]
    await begun(known, "i")
    await raw.execute("DROP VIEW perdure.demand")
    await raw.execute("ALTER TABLE perdure.definitions ALTER COLUMN name TYPE varchar(1000)")
    await raw.execute("ALTER TABLE perdure.live ADD COLUMN later INT")

    assert await known.definition(late) == keys[1]
    assert await known.start([new_instance("j", definition=keys[1])]) == [None]
    [claimed] = await claim(known, definitions=(keys[1],))
    [receipt] = await known.commit([turn_of(claimed)])

    assert receipt.status is TurnStatus.ACCEPTED
    await known.close()
