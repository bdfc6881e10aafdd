"""`perdure migrate`: by itself, by hand, and whether it is needed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest
from click.testing import Result

from perdure.store.migrate import read_migrations
from perdure.store.postgres.connection import PACKAGE as POSTGRES
from perdure.store.sqlite.database import PACKAGE as SQLITE
from tests.cli.commands import typed
from tests.postgres import Server


def migrate(*args: str) -> Result:
    return typed("migrate", *args)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, folder: Path) -> str:
    """The URL of a database without tables."""
    if request.param == "postgres":
        server: Server = request.getfixturevalue("postgres")
        return server.create_database()
    return f"sqlite:///{folder}/shop.db"


def test_tables_are_made_once_and_then_up_to_date(url: str) -> None:
    before = migrate("--store", url, "--check")
    made = migrate("--store", url)
    again = migrate("--store", url)
    after = migrate("--store", url, "--check")

    assert before.exit_code == 1
    missing = read_migrations(SQLITE if url.startswith("sqlite") else POSTGRES)
    assert before.stdout == f"missing: {', '.join(f'{one.number} {one.name}' for one in missing)}\n"
    assert made.exit_code == 0
    assert made.stdout == before.stdout.replace("missing", "applied")
    assert (again.exit_code, again.stdout) == (0, "up to date\n")
    assert (after.exit_code, after.stdout) == (0, "up to date\n")


def test_a_look_at_a_file_that_is_missing_does_not_make_it(folder: Path) -> None:
    assert migrate("--store", f"sqlite:///{folder}/shop.db", "--check").exit_code == 1

    assert list(folder.iterdir()) == []


def test_the_printed_sql_makes_the_same_file(folder: Path) -> None:
    by_itself, by_hand = f"{folder}/itself.db", f"{folder}/hand.db"
    assert migrate("--store", f"sqlite:///{by_itself}").exit_code == 0

    with sqlite3.connect(by_hand) as connection:
        connection.executescript(migrate("--store", f"sqlite:///{by_hand}", "--print").stdout)
    connection.close()

    assert dump(by_hand) == dump(by_itself)
    checked = migrate("--store", f"sqlite:///{by_hand}", "--check")
    assert (checked.exit_code, checked.stdout) == (0, "up to date\n")


def dump(path: str) -> list[list[tuple[object, ...]]]:
    connection = sqlite3.connect(path)
    found = [
        connection.execute("PRAGMA application_id").fetchall(),
        connection.execute("PRAGMA journal_mode").fetchall(),
        connection.execute("SELECT sql FROM sqlite_schema ORDER BY name").fetchall(),
        connection.execute("SELECT migration_no, name, checksum FROM migrations").fetchall(),
    ]
    connection.close()
    return found


@pytest.mark.parametrize("schema", ["perdure", "shop", 'the "Shop\'s"'])
def test_the_printed_sql_makes_the_same_schema(postgres: Server, schema: str) -> None:
    by_itself, by_hand = postgres.create_database(), postgres.create_database()
    assert migrate("--store", by_itself, "--schema", schema).exit_code == 0

    printed = migrate("--store", "postgresql://", "--schema", schema, "--print")
    with psycopg.connect(by_hand, autocommit=True) as connection:
        connection.execute(printed.stdout.encode())

    assert catalogue(by_hand, schema) == catalogue(by_itself, schema)
    assert migrate("--store", by_hand, "--schema", schema, "--check").stdout == "up to date\n"


def catalogue(url: str, schema: str) -> list[list[tuple[object, ...]]]:
    """Return what a schema holds: columns, indexes, functions, table options, migrations."""
    questions: list[tuple[str, tuple[str, ...]]] = [
        (
            "SELECT table_name, column_name, data_type, is_nullable, column_default"
            " FROM information_schema.columns WHERE table_schema = %s ORDER BY 1, ordinal_position",
            (schema,),
        ),
        ("SELECT indexdef FROM pg_indexes WHERE schemaname = %s ORDER BY 1", (schema,)),
        (
            "SELECT proname, md5(prosrc) FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace"
            " WHERE nspname = %s ORDER BY 1, 2",
            (schema,),
        ),
        (
            "SELECT relname, reloptions FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE nspname = %s ORDER BY 1",
            (schema,),
        ),
    ]
    with psycopg.connect(url) as connection:
        found = [connection.execute(text, values).fetchall() for text, values in questions]
        table = psycopg.sql.Identifier(schema, "migrations")
        migrations = psycopg.sql.SQL("SELECT migration_no, name, checksum FROM {} ORDER BY 1")
        return [*found, connection.execute(migrations.format(table)).fetchall()]


def test_a_schema_of_an_sqlite_file_is_refused(folder: Path) -> None:
    done = migrate("--store", f"sqlite:///{folder}/shop.db", "--schema", "shop")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "Error: --schema is for PostgreSQL: an SQLite file has no schemas\n"


def test_printing_and_checking_are_not_done_at_once() -> None:
    done = migrate("--print", "--check")

    assert done.exit_code == 2
    assert "--print and --check are two things" in done.stderr
