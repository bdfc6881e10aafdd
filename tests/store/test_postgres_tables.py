"""On PostgreSQL too, a projection's statements can do no harm to those they share with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import psycopg
import pytest

from perdure.errors import RowError, StoreError, UsageError
from perdure.model.tables import Tables
from perdure.store.base import Store
from perdure.store.opening import open_store
from perdure.store.sql.commits.batch import Transaction
from perdure.store.sql.projection_sql import work_feed
from tests.contract.store_values import LEASE_MS, token
from tests.postgres import SUPERUSER, Server
from tests.sizes import WITHIN_S

LEASE = token()
Run = Callable[..., Awaitable[list[tuple[Any, ...]]]]


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
async def run(store: Store) -> Run:
    """Runs one statement as a projection that has the lease and a table `notes`."""
    await store.feed.claim_feed("p", lease=LEASE, lease_ms=LEASE_MS)

    async def run(sql: str, *values: Any, defining: bool = False) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []

        def work(tables: Tables) -> int:
            found.extend(tables.execute(sql, values))
            return 0

        assert await store.feed.work_feed(
            "p", lease=LEASE, from_pos=0, work=work, defining=defining
        )
        return found

    await run("CREATE TABLE notes (id SERIAL PRIMARY KEY, text TEXT UNIQUE)", defining=True)
    return run


async def position(store: Store) -> int:
    [found] = await store.feed.read_checkpoints()
    return found.pos


async def test_own_tables_can_be_read_and_changed(run: Run) -> None:
    await run("INSERT INTO notes (text) VALUES ($1), ('b')", "a")
    await run("UPDATE notes SET text = upper(text)")
    await run("DELETE FROM notes WHERE text = 'B'")

    assert await run("WITH n AS (SELECT * FROM notes) SELECT * FROM n") == [(1, "A")]
    assert await run("(SELECT text FROM notes) UNION ALL SELECT $1", "z") == [("A",), ("z",)]


async def test_many_rows_are_written_with_one_statement(store: Store, run: Run) -> None:
    def work(tables: Tables) -> int:
        tables.execute_many("INSERT INTO notes (text) VALUES ($1)", [("a",), ("b",)])
        return 5

    assert await store.feed.work_feed("p", lease=LEASE, from_pos=0, work=work)

    assert await position(store) == 5


async def test_values_are_written_as_on_sqlite(store: Store, run: Run) -> None:
    def work(tables: Tables) -> int:
        tables.execute("INSERT INTO notes (text) VALUES (?)", ("a",))
        tables.execute("INSERT INTO notes (text) VALUES (:text)", {"text": "b"})
        tables.execute_many("INSERT INTO notes (text) VALUES (?)", [("c",), ("d",)])
        tables.execute_many("INSERT INTO notes (text) VALUES (:text)", [{"text": "e"}])
        return 0

    assert await store.feed.work_feed("p", lease=LEASE, from_pos=0, work=work)

    assert await run("SELECT text FROM notes WHERE text <> ? ORDER BY id", "c") == [
        ("a",), ("b",), ("d",), ("e",)
    ]  # fmt: skip


async def test_the_operator_with_a_question_mark_is_written_twice_beside_values(run: Run) -> None:
    sql = """SELECT '{"a": 1}'::jsonb ?? ?"""

    assert await run(sql, "a") == [(True,)]
    assert await run("""SELECT '{"a": 1}'::jsonb ? 'b'""") == [(False,)]


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("INSERT OR REPLACE INTO notes (text) VALUES (?)", ("a",)),
        ("INSERT INTO notes (text) VALUES ('a')", ("b",)),
    ],
)
async def test_an_error_in_the_text_says_whose_sql_is_expected(
    run: Run, sql: str, values: tuple[Any, ...]
) -> None:
    with pytest.raises((StoreError, UsageError), match=r"this store is PostgreSQL: .* ON CONFLICT"):
        await run(sql, *values)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE UNIQUE INDEX notes_by_text ON notes (text)",
        "CREATE OR REPLACE VIEW short AS SELECT text FROM notes",
        "ALTER TABLE notes ADD COLUMN extra TEXT",
        "CREATE FUNCTION one() RETURNS int LANGUAGE sql AS $$ SELECT 1; SELECT 2 $$",
        "COMMENT ON COLUMN notes.text IS 'a; b'",
        "TRUNCATE notes",
        "SELECT id INTO other FROM notes",
        "DROP TABLE notes",
    ],
)
async def test_tables_are_made_only_where_that_is_meant(run: Run, sql: str) -> None:
    with pytest.raises(UsageError, match="handle may only read and change tables"):
        await run(sql)

    await run(sql, defining=True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM perdure.live",
        'DELETE FROM "perdure" . live',
        "INSERT INTO notes (text) SELECT instance_id FROM PERDURE.live",
        "WITH gone AS (DELETE FROM perdure.live RETURNING 1) SELECT * FROM gone",
        "SELECT perdure.number_feed(1)",
        "CREATE TABLE copies AS SELECT * FROM perdure.live",
        "CREATE INDEX mine ON perdure.live (lease)",
        "ALTER TABLE notes SET SCHEMA perdure",
        "TRUNCATE notes, perdure.live",
        "DROP SCHEMA perdure CASCADE",
    ],
)
async def test_perdures_schema_is_out_of_reach(run: Run, sql: str) -> None:
    with pytest.raises(UsageError, match="schema perdure is perdure's own"):
        await run(sql, defining=True)


async def test_a_view_is_no_way_to_perdures_tables(run: Run) -> None:
    """The text does not name them; the plan does."""
    function = "CREATE FUNCTION make() RETURNS void LANGUAGE plpgsql AS $$ BEGIN {} END $$"
    await run(function.format("CREATE VIEW sly AS SELECT * FROM perdure.live;"), defining=True)
    await run("SELECT make()", defining=True)

    with pytest.raises(UsageError, match=r"perdure\.live is perdure's own"):
        await run("SELECT count(*) FROM sly")


async def test_a_role_that_is_named_like_the_schema_does_not_get_there_by_its_path(
    run: Run,
) -> None:
    assert await run("SELECT current_user::text") == [("perdure",)]

    assert await run("SELECT schemaname::text FROM pg_tables WHERE tablename = 'notes'") == [
        ("public",)
    ]
    for sql in ("SELECT * FROM live", "DROP TABLE live"):
        with pytest.raises(StoreError, match='"live" does not exist'):
            await run(sql, defining=True)


async def test_the_connections_own_path_does_not_matter(store: Store, run: Run) -> None:
    """Where tables are must not depend on how the connection was made, nor on the role."""

    def wander(transaction: Transaction) -> None:
        transaction.connection.run_own("SET search_path = pg_catalog, pg_temp", ())

    await store.work(wander)  # type: ignore[attr-defined]

    await run("INSERT INTO notes (text) VALUES ('a')")
    assert await run("SELECT text FROM public.notes") == [("a",)]


async def test_what_else_is_in_the_transaction_has_its_path_back(store: Store, run: Run) -> None:
    """Others share it, and a projection's schema may have operators that are not PostgreSQL's."""
    paths: list[str] = []

    def look(transaction: Transaction) -> None:
        [(path,)] = transaction.connection.run_own("SHOW search_path", ())
        paths.append(path)
        work_feed(
            transaction,
            store.feed.approval,  # type: ignore[attr-defined]
            "p",
            lease=LEASE,
            from_pos=0,
            work=lambda tables: 0,
            within_s=None,
            defining=False,
        )
        [(path,)] = transaction.connection.run_own("SHOW search_path", ())
        paths.append(path)

    await store.work(look)  # type: ignore[attr-defined]

    assert paths[0] == paths[1]


# ------------------------------------------------------------------ where tables are


Opened = Callable[[str], Awaitable[Store]]


@pytest.fixture
async def opened(postgres_url: str) -> AsyncIterator[Opened]:
    """Opens stores in the same database, by what stands behind the question mark."""
    stores: list[Store] = []

    async def opened(options: str) -> Store:
        store = open_store(f"{postgres_url}?{options}")
        stores.append(store)
        await store.open()
        assert await store.feed.claim_feed("p", lease=LEASE, lease_ms=LEASE_MS)
        return store

    yield opened
    for store in stores:
        await store.close()


async def make_notes(store: Store, *, from_pos: int = 0) -> None:
    def setup(tables: Tables) -> int:
        tables.execute("CREATE TABLE IF NOT EXISTS notes (text TEXT PRIMARY KEY)")
        tables.execute("INSERT INTO notes VALUES (?)", ("same",))
        return from_pos

    await store.feed.work_feed("p", lease=LEASE, from_pos=from_pos, work=setup, defining=True)


async def schemas(url: str) -> list[str]:
    """Return the schemas that have a table `notes`."""
    raw = await asyncpg.connect(url)
    found = await raw.fetch(
        "SELECT schemaname FROM pg_tables WHERE tablename = 'notes' ORDER BY schemaname"
    )
    await raw.close()
    return [row["schemaname"] for row in found]


async def test_each_store_of_a_database_has_tables_of_its_own(
    opened: Opened, postgres_url: str
) -> None:
    for options in ("schema=a", "schema=b", "", "schema=c&tables=mine"):
        await make_notes(await opened(options))

    assert await schemas(postgres_url) == ["a_tables", "b_tables", "mine", "public"]


async def test_the_store_itself_is_no_place_for_them() -> None:
    with pytest.raises(UsageError, match=r"tables='a' .* is the schema of the store itself"):
        open_store("postgresql://localhost/x?schema=a&tables=a")


async def test_a_projection_that_goes_on_is_not_given_new_tables_in_silence(
    opened: Opened, postgres_url: str
) -> None:
    """They were made elsewhere, by an earlier perdure or with another URL."""
    store = await opened("schema=a")
    await store.feed.advance_feed("p", lease=LEASE, from_pos=0, to_pos=7)

    with pytest.raises(RowError, match=r"has handled events up to 7.*a_tables.*tables=NAME"):
        await make_notes(store, from_pos=7)

    assert await schemas(postgres_url) == []


async def test_a_role_that_may_not_make_the_schema_is_told_how(
    opened: Opened, postgres: Server, postgres_url: str
) -> None:
    store = await opened("schema=a")
    database = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres.url(database, role=SUPERUSER), autocommit=True) as admin:
        admin.execute(f"REVOKE CREATE ON DATABASE {database} FROM PUBLIC".encode())
        admin.execute(f"ALTER DATABASE {database} OWNER TO {SUPERUSER}".encode())

    with pytest.raises(RowError, match='CREATE SCHEMA "a_tables"; GRANT USAGE, CREATE ON SCHEMA'):
        await make_notes(store)


@pytest.mark.parametrize(
    "sql",
    [
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT mine",
        "RELEASE SAVEPOINT part",
        "ROLLBACK TO SAVEPOINT part",
        "SET search_path = perdure",
        "RESET ALL",
        "COPY notes TO STDOUT",
        "LISTEN perdure",
        "DO $$ BEGIN NULL; END $$",
        "CALL something()",
        "LOCK TABLE notes",
        "VACUUM notes",
        "CREATE TEMP TABLE t (x int)",
        "CREATE ROLE mine",
        "CREATE EXTENSION hstore",
        "ALTER SYSTEM SET fsync = off",
        "/* SELECT */ COMMIT -- SELECT",
        "",
    ],
)
@pytest.mark.parametrize("defining", [False, True])
async def test_nothing_else_can_be_done(run: Run, sql: str, defining: bool) -> None:
    with pytest.raises(UsageError, match=r"a projection may not run this statement \("):
        await run(sql, defining=defining)

    assert await run("SELECT * FROM notes") == []


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM notes; COMMIT",
        "SELECT ';'; DELETE FROM notes",
        "; DELETE FROM notes",
        "SELECT 1; /* ; /* */ */ COMMIT -- done",
        r"SELECT E'\''; COMMIT",
        "SELECT $a$ $b$ $a$; COMMIT",
        'SELECT 1 AS "a"";"; COMMIT',
    ],
)
async def test_only_one_statement_is_run_at_a_time(run: Run, sql: str) -> None:
    with pytest.raises(UsageError, match="run one statement at a time"):
        await run(sql)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT ';' ; -- that is all; really\n /* yes; /* no; */ */", ";"),
        (r"SELECT E'\'; COMMIT'", "'; COMMIT"),
        ("SELECT $a$; $b$ ;$a$", "; $b$ ;"),
        ("SELECT 'perdure.live' AS \"x;y\"", "perdure.live"),
    ],
)
async def test_what_only_looks_like_several_statements_is_fine(
    run: Run, sql: str, found: str
) -> None:
    assert await run(sql) == [(found,)]


async def test_a_key_that_is_there_twice_is_the_handlers_own_fault(store: Store, run: Run) -> None:
    """Among perdure's own tables it would mean another writer, and the batch be run again."""
    await run("INSERT INTO notes (text) VALUES ('a')")

    with pytest.raises(RowError, match="duplicate key"):
        await run("INSERT INTO notes (text) VALUES ('a')")

    assert await run("SELECT count(*) FROM notes") == [(1,)]


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
@pytest.mark.parametrize(
    "values", [(), ("a", "b"), (7,), (b"a",), ("a\0b",), ("\ud800",)], ids=repr
)
async def test_parameters_that_do_not_fit_are_the_handlers_own_fault(
    store: Store, run: Run, values: tuple[Any, ...], many: bool
) -> None:
    """Whether it is the driver or the server that finds it; nobody else has to do with it."""
    sql = "INSERT INTO notes (text) VALUES ($1)"
    await run(sql, "good")
    lane = store._lanes[0]  # type: ignore[attr-defined]
    before = lane._connection

    def work(tables: Tables) -> int:
        if many:
            tables.execute_many(sql, [values])
        else:
            tables.execute(sql, values)
        return 7

    with pytest.raises((RowError, UsageError)):
        await asyncio.wait_for(
            store.feed.work_feed("p", lease=LEASE, from_pos=0, work=work), WITHIN_S
        )

    assert lane._connection is before
    assert await run("SELECT text FROM notes") == [("good",)]
    assert await position(store) == 0


@pytest.mark.parametrize("code", ["08001", "08006", "53400", "58P01"])
async def test_trouble_of_one_statement_is_not_taken_for_trouble_of_the_server(
    store: Store, run: Run, code: str
) -> None:
    """Such as of a foreign table whose server is away, or a limit for temporary files."""
    await run(
        "CREATE FUNCTION stumble() RETURNS text LANGUAGE plpgsql AS"
        f" 'BEGIN RAISE ''away'' USING ERRCODE = ''{code}''; END'",
        defining=True,
    )
    lane = store._lanes[0]  # type: ignore[attr-defined]
    before = lane._connection

    with pytest.raises(StoreError, match="away"):
        await asyncio.wait_for(run("INSERT INTO notes (text) SELECT stumble()"), WITHIN_S)

    assert lane._connection is before
    assert await run("SELECT text FROM notes") == []


async def test_a_handler_that_goes_on_after_an_error_fails_with_that_error(
    store: Store, run: Run
) -> None:
    """PostgreSQL runs nothing more, and the position must not move past what was not written."""
    seen: list[str] = []

    def work(tables: Tables) -> int:
        tables.execute("INSERT INTO notes (text) VALUES ('a')")
        for _ in range(2):
            try:
                tables.execute("SELECT nothing FROM nowhere")
            except StoreError as error:
                seen.append(str(error))
        return 7

    with pytest.raises(StoreError, match="nowhere"):
        await store.feed.work_feed("p", lease=LEASE, from_pos=0, work=work)

    assert len(seen) == 2
    assert "migrate" not in seen[0], "it is not perdure's table that is missing"
    assert await run("SELECT * FROM notes") == []
    assert await position(store) == 0


async def test_what_a_function_raises_undoes_what_it_wrote(store: Store, run: Run) -> None:
    def work(tables: Tables) -> int:
        tables.execute("INSERT INTO notes (text) VALUES ('a')")
        raise ArithmeticError("no")

    with pytest.raises(ArithmeticError, match="no"):
        await store.feed.work_feed("p", lease=LEASE, from_pos=0, work=work)

    assert await run("SELECT * FROM notes") == []
    assert await position(store) == 0
