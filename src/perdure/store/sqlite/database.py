"""Open a database: check the file, set the connection up, and bring its tables up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from importlib import resources

from perdure.errors import StoreCorruptError, StoreError
from perdure.store.migrate import Applied, Migration, missing, read_migrations
from perdure.store.sqlite.connection import (
    OLDEST_SQLITE,
    SqliteConnection,
    connect,
    split_script,
)
from perdure.store.sqlite.memory import is_in_memory

PACKAGE = "perdure.store.sqlite"
APPLICATION_ID = 0x70657264
"""Marks a file as a perdure store: "perd" in ASCII. The first migration writes it."""
WRITER_BUSY_MS = 50
"""Short: the batcher tries again, and tells its callers meanwhile what they wait for."""
READER_BUSY_MS = 2_000
LOCK_WITHIN_S = 30.0
"""How long opening waits for another process that migrates."""


def check_version() -> None:
    """Refuse an SQLite that is too old for our statements."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(
            f"SQLite {sqlite3.sqlite_version} is too old; perdure needs "
            f"{'.'.join(map(str, OLDEST_SQLITE))}: take a Python that is linked to a newer one"
        )


def connect_writer(
    path: str, *, factory: Callable[..., sqlite3.Connection] = sqlite3.Connection
) -> SqliteConnection:
    """Open a connection that writes, and make sure that its commits last.

    Args:
        path: The file.
        factory: A subclass of the driver's own class, to be used instead of that.
    """
    connection = connect(path, busy_ms=WRITER_BUSY_MS, factory=factory)
    try:
        settings = (resources.files(PACKAGE) / "settings.sql").read_text(encoding="utf-8")
        for pragma in split_script(settings):
            connection.run_text(pragma)
        if not is_in_memory(path):
            _check_durability(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_durability(connection: SqliteConnection, path: str) -> None:
    [(mode,)] = connection.run("read_journal_mode")
    [(synchronous,)] = connection.run("read_synchronous")
    if mode != "wal" or synchronous != 2:
        raise StoreError(
            f"{path} does not allow durable commits (journal_mode {mode}, synchronous "
            f"{synchronous}); is it on a network file system? Give a path on a local disk"
        )


def migrate(connection: SqliteConnection, *, where: str, now_ms: int) -> None:
    """Bring the tables up to date. The caller keeps other processes out."""
    applied = read_applied(connection, where=where)
    for migration in missing(read_migrations(PACKAGE), applied, where=where):
        apply(connection, migration, now_ms=now_ms)


def read_applied(connection: SqliteConnection, *, where: str) -> list[Applied]:
    """Return the migrations a database has seen.

    Raises:
        StoreCorruptError: It is a database of something else.
    """
    [(tables, ours)] = connection.run("count_tables")
    if tables == 0:
        return []
    [(application_id,)] = connection.run("read_application_id")
    if not ours or application_id != APPLICATION_ID:
        raise StoreCorruptError(
            f"{where} is an SQLite database, but not a perdure store; give another path"
        )
    return [Applied(*row) for row in connection.run("read_migrations")]


def apply(connection: SqliteConnection, migration: Migration, *, now_ms: int) -> None:
    """Apply one migration and record it, in one transaction."""
    connection.run("begin")
    try:
        for text in split_script(migration.script):
            connection.run_text(text)
        connection.run(
            "insert_migration",
            migration_no=migration.number,
            name=migration.name,
            checksum=migration.checksum,
            now_ms=now_ms,
        )
        connection.run("commit")
    except BaseException:
        if connection.in_transaction():
            connection.run("rollback")
        raise
