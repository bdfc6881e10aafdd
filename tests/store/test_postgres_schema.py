"""What the catalogue of a PostgreSQL with all our tables says about them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib import resources
from typing import Any

import psycopg
import pytest

from perdure.store.postgres.connection import PACKAGE
from perdure.store.sql.statement_files import files_of, text_of
from perdure.store.sqlite.database import PACKAGE as SQLITE

STATEMENTS = {name: text_of(PACKAGE, name) for name in files_of(PACKAGE)}
SCHEMA = (resources.files(SQLITE) / "schema.sql").read_text(encoding="utf-8")
MIGRATIONS = "\n".join(
    file.read_text(encoding="utf-8")
    for file in sorted((resources.files(PACKAGE) / "migrations").iterdir(), key=str)
)

MORE_TABLES = {"arrivals", "feed_new", "feed_counter", "marks"}
"""Of PostgreSQL alone: several write at once, users have transactions, answers get lost."""
MORE_COLUMNS = {
    (table, "part")
    for table in ("migrations", "definitions", "checkpoints", "workers", "perdure_settings")
}
"""Rows that belong to no instance: their part is 0."""
AS_BYTES = {("instances", "reason"), ("checkpoints", "reason")}
"""Free text that may hold NUL."""
NOT_UNIQUE = {("unique_keys", ("instance_id", "scope"))}
"""Unique on SQLite; the migration says why not here."""

TYPES = {
    "INTEGER": {"smallint", "integer", "bigint"},
    "TEXT": {"text"},
    "BLOB": {"bytea"},
}
OWN_IDS = {
    "blocked_by",
    "home",
    "host",
    "instance_id",
    "key",
    "kind",
    "message_id",
    "name",
    "owner",
    "parent_id",
    "scope",
    "session",
    "status",
    "tag",
    "timer_key",
    "variant",
    "worker_id",
}
"""Texts that are compared or sorted."""

CHURNED = {"live", "jobs", "inbox", "feed_new", "arrivals"}
"""Tables whose rows come and go with every turn, activity, message or event."""
CHANGED_IN_PLACE = {
    "live",
    "jobs",
    "instances",
    "kv",
    "reports",
    "perdure_streams",
    "perdure_stream_heads",
    "sessions",
    "snapshots",
    "checkpoints",
    "workers",
    "feed_counter",
}
"""Tables whose rows are changed again and again while they are there."""
ONCE = {"receipts", "dead_jobs"}
"""Tables whose rows are changed once at most."""
APPENDED = {"history", "observations", "feed"}


@pytest.fixture
def catalogue(postgres_template: str) -> Iterator[psycopg.Cursor[Any]]:
    with psycopg.connect(postgres_template) as connection:
        yield connection.cursor()
    connection.close()


@pytest.fixture
def sqlite() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        yield connection


def tables_of(catalogue: psycopg.Cursor[Any]) -> set[str]:
    catalogue.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'perdure'::regnamespace"
        " AND relkind IN ('r', 'p')"
    )
    return {name for (name,) in catalogue}


def unique_keys_of(catalogue: psycopg.Cursor[Any]) -> dict[str, list[tuple[str, ...]]]:
    """Return the columns of every primary and unique key, in their order, by table."""
    catalogue.execute(
        """
        SELECT tables.relname, array_agg(columns.attname ORDER BY place.no)::text[]
        FROM pg_index AS keys
        JOIN pg_class AS tables ON tables.oid = keys.indrelid
        CROSS JOIN LATERAL unnest(keys.indkey::int2[]) WITH ORDINALITY AS place (attnum, no)
        LEFT JOIN pg_attribute AS columns
            ON columns.attrelid = keys.indrelid AND columns.attnum = place.attnum
        WHERE tables.relnamespace = 'perdure'::regnamespace
          AND keys.indisunique
          AND tables.relkind IN ('r', 'p')
        GROUP BY tables.relname, keys.indexrelid
        """
    )
    found: dict[str, list[tuple[str, ...]]] = {}
    for table, columns in catalogue:
        found.setdefault(table, []).append(tuple(columns))
    return found


def options_of(catalogue: psycopg.Cursor[Any]) -> dict[str, dict[str, float]]:
    catalogue.execute(
        "SELECT relname, reloptions FROM pg_class WHERE relnamespace = 'perdure'::regnamespace"
        " AND relkind = 'r'"
    )
    return {
        table: {name: float(value) for name, value in (one.split("=") for one in options or ())}
        for table, options in catalogue
    }


def test_part_leads_every_primary_and_unique_key(catalogue: psycopg.Cursor[Any]) -> None:
    """Or the tables could not be spread by it: no database can check a key that others share."""
    keys = unique_keys_of(catalogue)

    assert keys, "none found"
    for table, columns in keys.items():
        assert {key[0] for key in columns} == {"part"}, table


def test_every_function_finds_nothing_but_postgresqls_own(
    catalogue: psycopg.Cursor[Any],
) -> None:
    """Whoever calls it, and with whatever search path."""
    catalogue.execute(
        "SELECT proname, proconfig FROM pg_proc WHERE pronamespace = 'perdure'::regnamespace"
    )

    found = catalogue.fetchall()
    assert {name for name, _ in found} == {
        "claim_1",
        "load_1",
        "number_feed",
        "write_1",
        "write_known_1",
    }
    for name, settings in found:
        assert "search_path=pg_catalog, pg_temp" in (settings or []), name


def test_every_table_has_a_primary_key_and_a_part_that_is_never_missing(
    catalogue: psycopg.Cursor[Any],
) -> None:
    catalogue.execute(
        """
        SELECT tables.relname
        FROM pg_class AS tables
        JOIN pg_index AS keys ON keys.indrelid = tables.oid AND keys.indisprimary
        JOIN pg_attribute AS parts
            ON parts.attrelid = tables.oid AND parts.attname = 'part' AND parts.attnotnull
           AND parts.atttypid = 'smallint'::regtype
        WHERE tables.relnamespace = 'perdure'::regnamespace
        """
    )

    assert {name for (name,) in catalogue} == tables_of(catalogue)


def test_nothing_but_keys_binds_rows_together(catalogue: psycopg.Cursor[Any]) -> None:
    """A foreign key, an exclusion or a trigger would have to reach other parts."""
    catalogue.execute(
        """
        SELECT conname FROM pg_constraint
        WHERE connamespace = 'perdure'::regnamespace AND contype IN ('f', 'x', 't')
        UNION ALL
        SELECT tgname FROM pg_trigger
        JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relnamespace = 'perdure'::regnamespace
        """
    )

    assert catalogue.fetchall() == []


def test_both_databases_have_the_same_tables_and_columns(
    catalogue: psycopg.Cursor[Any], sqlite: sqlite3.Connection
) -> None:
    catalogue.execute(
        "SELECT table_name, column_name, data_type, is_nullable = 'NO'"
        " FROM information_schema.columns WHERE table_schema = 'perdure'"
        " AND table_name <> 'demand'"
    )
    found = {(table, column): (kind, fixed) for table, column, kind, fixed in catalogue}
    wanted = {
        (table, column): (kind, bool(fixed or key))
        for (table,) in sqlite.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        if not table.startswith("sqlite_")
        for _, column, kind, fixed, _, key in sqlite.execute(f"PRAGMA table_info({table})")
    }

    shared = {place for place in found if place[0] not in MORE_TABLES} - MORE_COLUMNS
    assert shared == set(wanted)
    for place, (kind, is_fixed) in wanted.items():
        kinds = {"bytea"} if place in AS_BYTES else TYPES[kind]
        assert found[place][0] in kinds, place
        assert found[place][1] == is_fixed, f"{place} may be NULL on one of them only"


def test_both_databases_have_the_same_view_for_autoscalers(
    catalogue: psycopg.Cursor[Any], sqlite: sqlite3.Connection
) -> None:
    catalogue.execute(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = 'perdure.demand'::regclass"
        " AND attnum > 0 ORDER BY attnum"
    )
    found = [name for (name,) in catalogue]

    assert found == [name for _, name, *_ in sqlite.execute("PRAGMA table_info(demand)")]
    assert found == ["kind", "name", "tag", "running", "waiting", "demand"]


def test_both_databases_have_the_same_keys_but_for_the_part(
    catalogue: psycopg.Cursor[Any], sqlite: sqlite3.Connection
) -> None:
    wanted = set()
    for (table,) in sqlite.execute("SELECT name FROM sqlite_schema WHERE type = 'table'"):
        if table.startswith("sqlite_"):
            continue
        columns = list(sqlite.execute(f"PRAGMA table_info({table})"))
        key = tuple(name for *_, name in sorted((one[5], one[1]) for one in columns if one[5]))
        keys = {key} if key else set()
        for _, index, is_unique, *_ in sqlite.execute(f"PRAGMA index_list({table})"):
            if is_unique:
                keys.add(tuple(name for *_, name in sqlite.execute(f"PRAGMA index_info({index})")))
        wanted |= {(table, one) for one in keys}

    found = {(table, key) for table, keys in unique_keys_of(catalogue).items() for key in keys}
    shared = {(table, key) for table, key in found if table not in MORE_TABLES}
    assert shared == {
        (table, key if key[0] == "part" else ("part", *key)) for table, key in wanted - NOT_UNIQUE
    }


def test_ids_and_names_are_compared_byte_by_byte(catalogue: psycopg.Cursor[Any]) -> None:
    """Whatever the language of the database: both stores must sort and compare alike."""
    catalogue.execute(
        "SELECT table_name, column_name, collation_name FROM information_schema.columns"
        " WHERE table_schema = 'perdure' AND data_type = 'text' AND column_name = ANY (%s)"
        " AND table_name <> 'migrations'",
        [sorted(OWN_IDS)],
    )
    found = catalogue.fetchall()

    assert {column for _, column, _ in found} == OWN_IDS
    assert [one for one in found if one[2] != "C"] == []


def test_every_index_says_which_statements_need_it(catalogue: psycopg.Cursor[Any]) -> None:
    catalogue.execute(
        """
        SELECT indexes.relname, tables.relname
        FROM pg_index
        JOIN pg_class AS indexes ON indexes.oid = indexrelid
        JOIN pg_class AS tables ON tables.oid = indrelid
        WHERE indexes.relnamespace = 'perdure'::regnamespace
          AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
        """
    )
    indexes = dict(catalogue.fetchall())
    said = {
        name: re.findall(r"[a-z_]+", re.split(r"[.;]", comment.removeprefix("-- "))[0])
        for comment, name in re.findall(
            r"((?:^-- .*\n)+)CREATE (?:UNIQUE )?INDEX (\w+)", MIGRATIONS, re.MULTILINE
        )
    }

    assert set(said) == set(indexes)
    for index, names in said.items():
        for name in names:
            assert name in STATEMENTS, f"{index} is for {name}, which is no statement"
            if name == "number_feed":
                continue  # The statement calls a function, and that has the table.
            assert re.search(rf"\bperdure\.{indexes[index]}\b", STATEMENTS[name]), (
                f"{name} has nothing to do with the table of {index}"
            )


def test_tables_whose_rows_come_and_go_are_cleaned_up_early(
    catalogue: psycopg.Cursor[Any],
) -> None:
    options = options_of(catalogue)

    for table in CHURNED:
        assert options[table]["autovacuum_vacuum_scale_factor"] <= 0.01, table
        assert options[table]["autovacuum_vacuum_threshold"] <= 1000, table
        assert options[table]["autovacuum_vacuum_cost_delay"] == 0, table


def test_tables_whose_rows_are_changed_leave_room_in_their_pages(
    catalogue: psycopg.Cursor[Any],
) -> None:
    """A row that is changed stays in its page then, and no index has to be told."""
    options = options_of(catalogue)

    for table in CHANGED_IN_PLACE:
        assert options[table]["fillfactor"] <= 85, table
    for table in APPENDED:
        assert "fillfactor" not in options[table], f"{table} is only appended to"


def test_no_other_table_is_changed_in_place() -> None:
    """Whoever adds a statement that does it gives the table some room."""
    changed = set()
    for text in STATEMENTS.values():
        changed |= set(re.findall(r"^\s*UPDATE perdure\.(\w+)", text, re.MULTILINE))
        for table, rest in re.findall(r"INSERT INTO perdure\.(\w+)(.*)", text, re.DOTALL):
            if "DO UPDATE" in rest:
                changed.add(table)

    assert changed - CHANGED_IN_PLACE == ONCE
