"""Rows of a store, read and changed behind everybody's back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any


def run(url: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Run a statement with `?` for its values in a transaction of its own; return the rows."""
    if url.startswith("sqlite:"):
        path = url.removeprefix("sqlite:///").partition("?")[0]
        with closing(sqlite3.connect(path)) as database, database:
            return database.execute(statement, values).fetchall()
    import psycopg  # Processes on SQLite that import this module are started by the dozen.

    with psycopg.connect(url, options="-csearch_path=perdure,public") as connection:
        cursor = connection.execute(statement.replace("?", "%s").encode(), values)
        return cursor.fetchall() if cursor.description else []
