from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from perdure.errors import SchemaError, StoreCorruptError
from perdure.model.instances import DefinitionKey
from perdure.store.migrate import Applied, Migration, missing, read_migrations
from perdure.store.opening import open_store
from perdure.store.sqlite import database
from perdure.store.sqlite.connection import SqliteConnection, connect, split_script
from perdure.store.sqlite.database import PACKAGE, apply
from perdure.store.sqlite.memory import MEMORY

OPEN = """
import asyncio, sys
from perdure.store.opening import open_store
async def main():
    store = open_store(sys.argv[1])
    await store.open()
    await store.close()
asyncio.run(main())
"""


def _run(script: str, url: str, *, times: int = 1) -> list[int]:
    """Run a script in processes of their own, all at once, and return their exit codes."""
    processes = [subprocess.Popen([sys.executable, "-c", script, url]) for _ in range(times)]
    return [process.wait(30) for process in processes]


def _schema(connection: SqliteConnection) -> list[tuple[str, ...]]:
    rows = connection.run_text("SELECT type, name, tbl_name, sql FROM sqlite_schema")
    return sorted((*row[:3], " ".join(_bare(row[3] or ""))) for row in rows)


def _bare(text: str) -> list[str]:
    """Return the words of a statement without its comments."""
    return [word for line in text.splitlines() for word in line.partition("--")[0].split()]


def test_the_migrations_lead_to_the_schema() -> None:
    whole, stepwise = (connect(MEMORY, busy_ms=0) for _ in range(2))
    schema = (resources.files(PACKAGE) / "schema.sql").read_text(encoding="utf-8")

    for text in split_script(schema):
        whole.run_text(text)
    for migration in read_migrations(PACKAGE):
        apply(stepwise, migration, now_ms=0)

    assert _schema(whole) == _schema(stepwise)
    whole.close()
    stepwise.close()


async def test_a_store_that_is_opened_again_has_what_was_written(url: str) -> None:
    numbers = []
    for _ in range(2):
        store = open_store(url)
        await store.open()
        numbers.append(await store.intern([DefinitionKey("activity", "charge", "")]))
        await store.close()

    assert numbers[0] == numbers[1]


async def test_processes_that_open_at_once_migrate_once(url: str, path: Path) -> None:
    assert _run(OPEN, url, times=4) == [0] * 4

    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT migration_no FROM migrations").fetchall()
    connection.close()
    assert rows == [(migration.number,) for migration in read_migrations(PACKAGE)]


async def test_a_migration_that_was_killed_is_taken_up_again(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is one transaction with its record, so a whole number of them is left behind."""
    known = read_migrations(PACKAGE)
    second = Migration(len(known) + 1, "more", "CREATE TABLE more (x TEXT) STRICT;\n")
    dies = Migration(len(known) + 2, "dies", "CREATE TABLE most (x TEXT) STRICT;\nBOOM;\n")
    monkeypatch.setattr(database, "read_migrations", lambda package: [*known, second, dies])

    with pytest.raises(Exception, match="BOOM"):
        await open_store(url).open()
    lives = dies._replace(script="CREATE TABLE most (x TEXT) STRICT;\n")
    monkeypatch.setattr(database, "read_migrations", lambda package: [*known, second, lives])
    store = open_store(url)
    await store.open()
    await store.close()

    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT count(*) FROM migrations").fetchall()
    connection.close()
    assert rows == [(len(known) + 2,)]


async def test_a_process_killed_while_it_migrates_leaves_a_store_that_opens(
    url: str, path: Path
) -> None:
    die = OPEN.replace(
        "async def main",
        """
import os, signal
from perdure.store.sqlite.connection import SqliteConnection
run = SqliteConnection.run
def killing(self, name, /, **params):
    if name == "insert_migration":
        os.kill(os.getpid(), signal.SIGKILL)
    return run(self, name, **params)
SqliteConnection.run = killing
async def main""",
    )

    [code] = _run(die, url)
    store = open_store(url)
    await store.open()
    await store.close()

    assert code == -9


async def test_a_newer_schema_is_refused_with_what_to_do(url: str, path: Path) -> None:
    store = open_store(url)
    await store.open()
    await store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO migrations VALUES (99, 'later', '', 0)")
    connection.close()

    with pytest.raises(SchemaError, match=r"newer perdure .*99"):
        await open_store(url).open()


def test_a_changed_migration_is_noticed() -> None:
    known = [Migration(1, "start", "a")]

    assert missing(known, [], where="s") == known
    assert missing(known, [Applied(1, "start", known[0].checksum)], where="s") == []
    with pytest.raises(SchemaError, match=r"unreleased .*1, start.*make a new store"):
        missing(known, [Applied(1, "start", "other")], where="s")


def test_a_store_of_before_the_first_release_is_not_taken_for_a_newer_one() -> None:
    """There were more migrations then than there are now."""
    applied = [Applied(number, "what", "other") for number in range(1, 8)]

    with pytest.raises(SchemaError, match="unreleased"):
        missing([Migration(1, "start", "a")], applied, where="s")


async def test_a_store_of_before_the_first_release_is_refused_and_left_alone(
    url: str, path: Path
) -> None:
    store = open_store(url)
    await store.open()
    await store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE migrations SET checksum = 'of that time'")
    connection.close()

    with pytest.raises(SchemaError, match=r"unreleased version .* make a new store"):
        await open_store(url).open()


async def test_another_database_is_refused_and_left_alone(url: str, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
    connection.close()

    with pytest.raises(StoreCorruptError, match="not a perdure store"):
        await open_store(url).open()

    with closing(sqlite3.connect(path)) as connection, connection:
        tables = connection.execute("SELECT name FROM sqlite_schema").fetchall()
    connection.close()
    assert tables == [("customers",)]


@pytest.mark.parametrize("content", [b"hello, I am a letter" * 100, b"SQLite format 3\0" * 100])
def test_a_file_that_is_no_database_is_refused(url: str, path: Path, content: bytes) -> None:
    path.write_bytes(content)

    with pytest.raises(StoreCorruptError):
        asyncio.run(open_store(url).open())

    assert path.read_bytes() == content


def test_a_damaged_page_is_told(url: str, path: Path) -> None:
    assert _run(OPEN, url) == [0]
    content = bytearray(path.read_bytes())
    content[100:4096] = b"\xff" * 3996
    path.write_bytes(content)

    with pytest.raises(StoreCorruptError, match=r"damaged|not an SQLite database"):
        asyncio.run(open_store(url).open())
