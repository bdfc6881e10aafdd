"""A person's own SQL on SQLite, read-only.

The connection is `query_only`, and the database is asked about every statement before it runs: one
that would attach another file, change a setting or begin a transaction is refused too.
"""

from __future__ import annotations

import sqlite3
from time import monotonic

from perdure.errors import UsageError
from perdure.store.read_only_query import QueryAnswer
from perdure.store.sqlite.connection import SqliteConnection, connect, raise_ours
from perdure.store.sqlite.database import READER_BUSY_MS

_READS = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_READING_PRAGMAS = {
    "application_id",
    "data_version",
    "database_list",
    "foreign_key_list",
    "freelist_count",
    "index_info",
    "index_list",
    "index_xinfo",
    "journal_mode",
    "page_count",
    "page_size",
    "table_info",
    "table_list",
    "table_xinfo",
    "user_version",
}
_TAKES_A_NAME = ("table_", "index_", "foreign_key_list")
"""Pragmas whose argument is a table or an index, and no new value."""
_OF_STATEMENT = {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_SCHEMA,  # what was not authorized to make a table
}


def query(path: str, text: str, *, within_s: float, limit: int) -> QueryAnswer:
    """See `perdure.store.upkeep.Upkeep.query`."""
    connection = connect(path, busy_ms=READER_BUSY_MS, read_only=True)
    try:
        connection.authorize_by(_only_reads)
        connection.set_deadline(monotonic() + within_s)
        return _read(connection, path, text, within_s=within_s, limit=limit)
    finally:
        connection.close()


def _read(
    connection: SqliteConnection, path: str, text: str, *, within_s: float, limit: int
) -> QueryAnswer:
    try:
        cursor = connection.bare.execute(text)
        columns = [name for name, *_ in cursor.description or ()]
        rows = cursor.fetchmany(limit + 1)
    except sqlite3.Error as error:
        primary = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if primary == sqlite3.SQLITE_INTERRUPT:
            raise UsageError(
                f"the statement took longer than {within_s:g} s and was stopped: ask for less, or "
                "give it more time"
            ) from error
        if primary in _OF_STATEMENT:
            hint = "; only reading is allowed here" if primary != sqlite3.SQLITE_ERROR else ""
            raise UsageError(f"the database refuses the statement: {error}{hint}") from error
        raise_ours(path, error)
    return QueryAnswer(columns, rows[:limit], len(rows) > limit)


def _only_reads(
    action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
) -> int:
    if action == sqlite3.SQLITE_READ and (first or "").lower() == "perdure_settings":
        return sqlite3.SQLITE_DENY  # The secret is the right to keep any promise.
    if action in _READS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and first in _READING_PRAGMAS:
        is_name = first.startswith(_TAKES_A_NAME)
        return sqlite3.SQLITE_OK if second is None or is_name else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_DENY
