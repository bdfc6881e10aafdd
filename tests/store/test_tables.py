"""A projection's statements run in a transaction of the store, and can do no harm there."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from perdure.errors import RowError, StoreError, StoreUnavailableError, UsageError
from perdure.model.tables import Tables
from perdure.store.base import Store
from perdure.store.sqlite.allowed_statements import own_tables
from perdure.store.sqlite.connection import FileLockedError
from perdure.store.sqlite.store import SqliteStore
from tests.contract.store_values import (
    LEASE_MS,
    accepted,
    begun,
    first_turn,
    new_instance,
    next_turn,
    outcome,
    token,
)
from tests.each import each

LEASE = token()
Run = Callable[..., Awaitable[list[tuple[Any, ...]]]]


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

    await run("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)", defining=True)
    return run


async def position(store: Store) -> int:
    [found] = await store.feed.read_checkpoints()
    return found.pos


async def test_own_tables_can_be_read_and_changed(run: Run) -> None:
    await run("INSERT INTO notes (text) VALUES (?), ('b')", "a")
    await run("UPDATE notes SET text = upper(text)")
    await run("DELETE FROM notes WHERE text = 'B'")

    assert await run("WITH n AS (SELECT * FROM notes) SELECT * FROM n") == [(1, "A")]
    assert await run("INSERT INTO notes (text) VALUES ('c') RETURNING id") == [(2,)]


async def test_many_rows_are_written_with_one_statement(store: Store, run: Run) -> None:
    def work(tables: Tables) -> int:
        tables.execute_many("INSERT INTO notes (text) VALUES (?)", [("a",), ("b",)])
        tables.execute_many("INSERT INTO notes (text) VALUES (?)", [])
        return 5

    assert await store.feed.work_feed("p", lease=LEASE, from_pos=0, work=work)

    assert await position(store) == 5


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE INDEX notes_by_text ON notes (text)",
        "CREATE VIEW short AS SELECT text FROM notes",
        "ALTER TABLE notes ADD COLUMN extra TEXT",
        "CREATE TRIGGER copies AFTER INSERT ON notes BEGIN UPDATE notes SET text = ''; END",
        "DROP TABLE notes",
        "CREATE TABLE IF NOT EXISTS notes (x)",
    ],
)
async def test_tables_are_made_only_where_that_is_meant(run: Run, sql: str) -> None:
    if "IF NOT EXISTS" not in sql:
        with pytest.raises(UsageError, match="handle may only read and change tables"):
            await run(sql)

    await run(sql, defining=True)


@pytest.fixture
async def views(store: Store) -> str:
    """A view that the writer has made for itself."""
    assert isinstance(store, SqliteStore)
    stamp = await begun(store)
    before = store.counters.statements
    await accepted(store, next_turn("i", stamp))
    assert store.counters.statements - before == 1
    return "perdure_one_statement_0"


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE more (id INTEGER PRIMARY KEY)",
        "CREATE INDEX notes_by_text ON notes (text)",
        "CREATE VIEW short AS SELECT text FROM notes",
        "ALTER TABLE notes ADD COLUMN extra TEXT NOT NULL DEFAULT ''",
        "DROP TABLE notes",
    ],
)
async def test_tables_are_made_and_changed_beside_views_of_the_writer(
    store: Store, views: str, run: Run, sql: str
) -> None:
    await accepted(store, first_turn(new_instance("j")))

    await run(sql, defining=True)

    await accepted(store, first_turn(new_instance("k"), outcome=outcome()))
    stamp = await begun(store, "l")
    await accepted(store, next_turn("l", stamp))


@pytest.mark.parametrize("defining", [False, True])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM {}",
        "INSERT INTO {} VALUES (1)",
        "INSERT INTO temp.{} VALUES (1)",
        "DROP VIEW {}",
        "DROP TRIGGER {}_run",
        "CREATE TRIGGER mine INSTEAD OF INSERT ON {} BEGIN SELECT 1; END",
        "INSERT INTO notes (text) SELECT rows_0 FROM {}",
    ],
)
async def test_views_of_the_writer_are_out_of_reach(
    store: Store, views: str, run: Run, sql: str, defining: bool
) -> None:
    with pytest.raises(UsageError, match="may not run this statement"):
        await run(sql.format(views), defining=defining)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM {}",
        "DELETE FROM {}",
        "INSERT INTO notes (text) SELECT count(*) FROM {}",
        "CREATE TRIGGER mine AFTER INSERT ON {} BEGIN SELECT 1; END",
        "CREATE INDEX mine ON {} (rowid)",
        "ALTER TABLE {} ADD COLUMN mine TEXT",
        "DROP TABLE {}",
    ],
)
@each(sorted(own_tables() - {"demand"}))
async def test_tables_of_perdure_are_out_of_reach(table: str, run: Run, sql: str) -> None:
    with pytest.raises((UsageError, StoreError)) as refused:
        await run(sql.format(table), defining=True)

    assert f"table {table} is perdure's own" in str(refused.value) or "rowid" in str(refused.value)


@each(["SELECT * FROM demand", "DROP VIEW demand", "CREATE TABLE demand (id INTEGER)"])
async def test_the_view_of_perdure_is_out_of_reach(sql: str, run: Run) -> None:
    with pytest.raises(UsageError, match="is perdure's own"):
        await run(sql, defining=True)


@pytest.mark.parametrize(
    "sql",
    [
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT mine",
        "RELEASE part",
        "ROLLBACK TO part",
        "ATTACH ':memory:' AS other",
        "DETACH main",
        "PRAGMA synchronous = OFF",
        "PRAGMA writable_schema = ON",
        "CREATE TEMP TABLE t (x)",
        "UPDATE sqlite_sequence SET seq = 0",
        "CREATE TABLE perdure_more (x)",
        "ANALYZE",
    ],
)
@pytest.mark.parametrize("defining", [False, True])
async def test_nothing_else_can_be_done(store: Store, run: Run, sql: str, defining: bool) -> None:
    with pytest.raises(UsageError, match=r"a projection may not run this statement \("):
        await run(sql, defining=defining)

    assert await run("SELECT * FROM notes") == []


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM notes; COMMIT",
        "SELECT ';'; DELETE FROM notes",
        "; DELETE FROM history",
        "SELECT 1; /* ; */ COMMIT -- done",
    ],
)
async def test_only_one_statement_is_run_at_a_time(run: Run, sql: str) -> None:
    with pytest.raises(UsageError, match="run one statement at a time"):
        await run(sql)


async def test_a_semicolon_at_the_end_or_within_is_fine(run: Run) -> None:
    assert await run("SELECT ';' ; -- that is all; really\n /* yes; */") == [(";",)]


async def test_a_trigger_cannot_reach_what_a_statement_cannot(run: Run) -> None:
    body = "INSERT INTO notes (text) VALUES ('x'); DELETE FROM receipts;"
    await run("INSERT INTO notes (text) VALUES ('before')")
    await run(f"CREATE TRIGGER sly AFTER UPDATE ON notes BEGIN {body} END", defining=True)

    with pytest.raises(UsageError, match="table receipts is perdure's own"):
        await run("UPDATE notes SET text = 'y'")


async def test_what_a_function_raises_undoes_what_it_wrote(store: Store, run: Run) -> None:
    def work(tables: Tables) -> int:
        tables.execute("INSERT INTO notes (text) VALUES ('a')")
        raise ArithmeticError("no")

    with pytest.raises(ArithmeticError, match="no"):
        await store.feed.work_feed("p", lease=LEASE, from_pos=0, work=work)

    assert await run("SELECT * FROM notes") == []
    assert await position(store) == 0


async def test_not_even_an_exit_ends_the_thread_that_writes(store: Store, run: Run) -> None:
    def work(tables: Tables) -> int:
        sys.exit(1)

    with pytest.raises(UsageError, match="a projection raised SystemExit"):
        await store.feed.work_feed("p", lease=LEASE, from_pos=0, work=work)

    assert await run("SELECT 1") == [(1,)]


async def test_without_the_lease_or_from_elsewhere_the_function_is_not_called(
    store: Store, run: Run
) -> None:
    calls: list[str] = []

    def work(tables: Tables) -> int:
        calls.append("called")
        return 9

    assert not await store.feed.work_feed("p", lease=token(), from_pos=0, work=work)
    assert not await store.feed.work_feed("p", lease=LEASE, from_pos=3, work=work)
    assert not await store.feed.work_feed("q", lease=LEASE, from_pos=0, work=work)

    assert calls == []
    assert await position(store) == 0


async def test_a_position_never_goes_back(store: Store, run: Run) -> None:
    assert await store.feed.work_feed("p", lease=LEASE, from_pos=0, work=lambda _: 5)

    with pytest.raises(RowError, match="would move from 5 back to 4"):
        await store.feed.work_feed("p", lease=LEASE, from_pos=5, work=lambda _: 4)

    assert await position(store) == 5


async def test_tables_are_gone_when_the_function_has_returned(store: Store, run: Run) -> None:
    kept: list[Tables] = []

    def work(tables: Tables) -> int:
        kept.append(tables)
        return 0

    await store.feed.work_feed("p", lease=LEASE, from_pos=0, work=work)

    with pytest.raises(UsageError, match="only while its handler runs"):
        kept[0].execute("SELECT 1")


async def test_trouble_of_the_store_is_not_taken_for_the_functions_own(
    store: Store, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that catches everything would else commit half of what it wrote."""
    writer: Any = store
    connection = writer._writer._connection
    troubles = [FileLockedError("the disk is busy")]
    run_own = connection.run_own

    def failing(sql: str, values: Any) -> Any:
        if troubles and sql.startswith("INSERT"):
            raise troubles.pop()
        return run_own(sql, values)

    monkeypatch.setattr(connection, "run_own", failing)
    seen: list[str] = []

    def work(tables: Tables) -> int:
        for text in ("a", "b"):
            try:
                tables.execute("INSERT INTO notes (text) VALUES (?)", (text,))
            except StoreUnavailableError as error:
                seen.append(str(error))
        return 7

    assert await store.feed.work_feed("p", lease=LEASE, from_pos=0, work=work)

    assert seen == ["the disk is busy", "the disk is busy"]
    assert await run_rows(store, "SELECT text FROM notes") == [("a",), ("b",)]
    assert await position(store) == 7


async def run_rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []

    def work(tables: Tables) -> int:
        found.extend(tables.execute(sql))
        return 7

    await store.feed.work_feed("p", lease=LEASE, from_pos=7, work=work)
    return found


# ------------------------------------------------------------------------- their time

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
LONG = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000000) "
    "SELECT count(*) FROM n"
)


async def test_a_statement_that_never_ends_is_ended_when_the_time_is_over(
    store: Store, run: Run
) -> None:
    def work(tables: Tables) -> int:
        tables.execute("INSERT INTO notes (text) VALUES ('gone')")
        tables.execute(ENDLESS)
        return 5

    with pytest.raises(TimeoutError, match=r"may use its tables for 0\.05 s"):
        await store.feed.work_feed("p", lease=LEASE, from_pos=0, work=work, within_s=0.05)

    assert await run("SELECT * FROM notes") == []
    assert await position(store) == 0


async def test_no_statement_begins_when_the_time_is_over(store: Store, run: Run) -> None:
    refused: list[TimeoutError] = []

    def work(tables: Tables) -> int:
        for _ in range(3):
            with pytest.raises(TimeoutError) as late:
                tables.execute("INSERT INTO notes (text) VALUES ('late')")
            refused.append(late.value)
        with pytest.raises(TimeoutError):
            tables.execute_many("INSERT INTO notes (text) VALUES (?)", [("late",)])
        return 0

    assert await store.feed.work_feed("p", lease=LEASE, from_pos=0, work=work, within_s=0)

    assert len(refused) == 3
    assert await run("SELECT * FROM notes") == []


async def test_a_change_that_is_ended_takes_nobody_elses_writes_with_it(
    store: Store, run: Run
) -> None:
    """SQLite rolls the whole transaction back with it; the others are written again."""

    def grow(tables: Tables) -> int:
        tables.execute(
            "INSERT INTO notes WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
            "SELECT i, 'x' FROM n"
        )
        return 5

    def note(tables: Tables) -> int:
        tables.execute("INSERT INTO notes (text) VALUES ('kept')")
        return 7

    await store.feed.claim_feed("q", lease=LEASE, lease_ms=LEASE_MS)
    grown, noted = await asyncio.gather(
        store.feed.work_feed("p", lease=LEASE, from_pos=0, work=grow, within_s=0.05),
        store.feed.work_feed("q", lease=LEASE, from_pos=0, work=note, within_s=20),
        return_exceptions=True,
    )

    assert isinstance(grown, RowError)
    assert "ended because its time was over" in str(grown)
    assert noted is True
    assert await run("SELECT text FROM notes") == [("kept",)]


async def test_the_stores_own_statements_have_no_deadline(store: Store, run: Run) -> None:
    """What a projection was given ends with it."""
    with pytest.raises(TimeoutError):
        await store.feed.work_feed(
            "p", lease=LEASE, from_pos=0, work=lambda t: len(t.execute(ENDLESS)), within_s=0.05
        )

    counted = await store.work(  # type: ignore[attr-defined]  # of this store
        lambda transaction: transaction.connection.run_own(LONG, ())
    )

    assert counted == [(3_000_000,)]
