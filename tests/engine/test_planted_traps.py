"""Whoever may create in a schema of the search path has nothing of theirs called by us, and users
still find there what is their own (CVE-2018-1058)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar, NamedTuple

import asyncpg
import psycopg
import pytest

from perdure import Accepted, orchestration, transaction
from perdure.authoring.deciders.decider_definition import AnyDecider
from perdure.projection import EventMeta, SqlProjection, Tables
from perdure.store.postgres.address import Address
from perdure.store.postgres.roles import read_roles
from perdure.store.postgres.upkeep import PostgresUpkeep
from tests.engine.shop import Note, Order, OrderEvent, Pay, Place
from tests.engine.stage import Stage, until
from tests.planted import calls, plant
from tests.postgres import SUPERUSER, Server
from tests.within.programs import double, listen, word


class Trapped(NamedTuple):
    """A database with a table of the user's own, and traps in a schema of the search path."""

    url: str
    schema: str
    table: str


@pytest.fixture(params=["public", "ahead"])
def trapped(request: pytest.FixtureRequest, postgres: Server) -> Any:
    """Where anybody may create, as it was usual until PostgreSQL 14; and where a role or database
    has a path that puts a stranger's schema before PostgreSQL's own."""
    url = postgres.create_database()
    schema: str = request.param
    path = '"$user", public' if schema == "public" else f"app, {schema}, pg_catalog"
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as owner:
        if schema != "public":
            owner.execute("CREATE SCHEMA app")
        owner.execute(f"ALTER DATABASE {name} SET search_path = {path}".encode())
    plant(url, schema)
    with psycopg.connect(url.replace("//perdure@", f"//{SUPERUSER}@"), autocommit=True) as dba:
        dba.execute("GRANT CREATE ON SCHEMA public TO perdure")
    table = "public" if schema == "public" else "app"
    yield Trapped(url, schema, table)
    postgres.drop_database(url)


@pytest.fixture(params=["none", "transaction"])
def url(request: pytest.FixtureRequest, trapped: Trapped) -> str:
    return f"{trapped.url}?pooler={request.param}&tables={trapped.table}"


@pytest.fixture
async def stage(url: str) -> AsyncIterator[Stage]:
    stage = Stage(url)
    try:
        yield stage
    finally:
        await stage.close()
    await stage.look_over()


class Amounts(SqlProjection[OrderEvent]):
    """One row for each event, in a table that only the search path of the user leads to."""

    name = "amounts"
    deciders: ClassVar[Sequence[type[AnyDecider]]] = (Order,)

    def setup(self, tables: Tables, /) -> None:
        tables.execute("CREATE TABLE IF NOT EXISTS amounts (position BIGINT PRIMARY KEY)")
        tables.execute("CREATE TABLE IF NOT EXISTS late (position BIGINT)")
        tables.execute(
            "CREATE OR REPLACE FUNCTION note_late() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN INSERT INTO late VALUES (NEW.position); RETURN NULL; END'"
        )
        tables.execute(
            "CREATE CONSTRAINT TRIGGER at_the_end AFTER INSERT ON amounts "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_late()"
        )

    def handle(self, event: OrderEvent, meta: EventMeta, tables: Tables, /) -> None:
        tables.execute("INSERT INTO amounts VALUES ($1)", (meta.position,))


@transaction(name="book_async")
async def book_async(connection: asyncpg.Connection[Any], order: str) -> str:
    await connection.execute("INSERT INTO orders VALUES ($1)", order)
    return order


@transaction(name="book")
def book(connection: psycopg.Connection[Any], order: str) -> str:
    connection.execute("INSERT INTO orders VALUES (%s)", [order])
    return order


@orchestration
async def both(order: str) -> list[str]:
    return [await book(order), await book_async(order)]


def of_users(trapped: Trapped, what: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(trapped.url, options="-csearch_path=pg_catalog") as connection:
        text = f"SELECT * FROM {trapped.table}.{what} ORDER BY 1"  # noqa: S608 - a test's own
        return connection.execute(text.encode()).fetchall()


async def test_nothing_that_a_stranger_has_planted_is_called_and_users_find_their_own(
    stage: Stage, trapped: Trapped
) -> None:
    with psycopg.connect(trapped.url, autocommit=True) as owner:
        owner.execute("CREATE TABLE orders (name TEXT)")
    engine = await stage.engine([double, listen, Order, Amounts(), book, book_async, both])

    assert await (await engine.start("a", double, 2)).result() == 4
    waiting = await engine.start("b", listen, 2)
    await waiting.send(word, "one")
    await waiting.send(word, "two")
    assert await waiting.result() == ["one", "two"]
    assert isinstance(await engine.execute(Order, Place("o")), Accepted)
    await engine.send(Order, Pay("o"))
    assert await (await engine.start("c", both, "shop")).result() == ["shop", "shop"]
    await _send_within(engine, trapped.url)
    await until(lambda: _has_handled(engine, 4))
    await asyncio.to_thread(_look_after, trapped.url)

    assert (await engine.state(Order, "o")).notes == ("within", "decided")
    assert of_users(trapped, "orders") == [("shop",), ("shop",), ("user",)]
    assert len(of_users(trapped, "amounts")) == 4
    assert of_users(trapped, "amounts") == of_users(trapped, "late")
    assert calls(trapped.url, trapped.schema) == 0


async def _send_within(engine: Any, url: str) -> None:
    connection = await asyncpg.connect(url)
    async with connection.transaction():
        await engine.within(connection).start("w", double, 3)
        await engine.within(connection).send(Order, Note("o", "within"))
        await engine.within(connection).execute(Order, Note("o", "decided"))
        await connection.execute("INSERT INTO orders VALUES ('user')")
    await connection.close()
    assert await engine.handle("w").result() == 6


async def _has_handled(engine: Any, count: int) -> bool:
    return any(one.position >= count for one in await engine.projections())


def _look_after(url: str) -> None:
    """What `perdure doctor`, `migrate --print` and `roles` do."""
    upkeep = PostgresUpkeep(Address.parse(url))
    assert upkeep.migrations().missing == []
    assert upkeep.size_bytes() > 0
    assert upkeep.examine(is_thorough=True)
    printed = PostgresUpkeep(Address.parse(f"{url}?schema=printed")).script()
    as_superuser = re.sub("//[^@]*@", f"//{SUPERUSER}@", url)
    with psycopg.connect(as_superuser, autocommit=True) as dba:
        dba.execute(printed.encode())
        dba.execute(read_roles("printed").encode())
        dba.execute("DROP SCHEMA printed CASCADE")
        for role in ("owner", "worker", "reader"):
            dba.execute(f"DROP OWNED BY printed_{role}; DROP ROLE printed_{role}".encode())
