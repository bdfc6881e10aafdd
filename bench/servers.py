"""What a benchmark asks a PostgreSQL server, beside the store.

Imported where it is needed: what is measured on SQLite is measured without the drivers of
PostgreSQL in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

import asyncpg
import psycopg

from bench.machine import cpu_s_of, parent_of
from perdure.store.base import Store
from perdure.store.counters import StoreCounters
from perdure.store.postgres.store import PostgresStore
from perdure.store.sql.commits.batch import Transaction

SETTINGS = ("fsync", "full_page_writes", "synchronous_commit", "shared_buffers", "max_connections")
"""What a reader must know before comparing numbers."""


class ServerProcess:
    """The server behind a URL, which is on this machine."""

    def __init__(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            self._pid = parent_of(connection.info.backend_pid)

    def cpu_s(self) -> float:
        """Return how long all its processes have computed so far."""
        return cpu_s_of(self._pid)


def process_behind(store: Store) -> ServerProcess:
    """Return the server that a store is on."""
    return ServerProcess(_postgres(store).address.dsn)


def counts_of(store: Store) -> StoreCounters:
    """Return what a store has done so far, with what its readers and its hints have asked."""
    found = _postgres(store)
    counts = found.counters
    # Not part of the contract: nobody but a benchmark counts questions.
    counts.statements += found._readers.statements + found._notifications.statements
    return counts


async def read_settings(store: Store) -> tuple[str, dict[str, str]]:
    """Return which server and driver it is, and how durable the commits of the store are."""
    found = _postgres(store)

    def read(name: str) -> Callable[[Transaction], str]:
        return lambda t: str(t.connection.run_own("SELECT current_setting($1)", (name,))[0][0])

    settings = {name: await found.work(read(name)) for name in ("server_version", *SETTINGS)}
    version = settings.pop("server_version")
    return f"PostgreSQL {version} through asyncpg {asyncpg.__version__}", settings


def ask(url: str, text: LiteralString, parameters: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Run a statement on a connection of its own, and return the one row."""
    with psycopg.connect(url, autocommit=True) as connection:
        [row] = connection.execute(text, parameters)
        return tuple(row)


@contextmanager
def old_snapshot(url: str) -> Iterator[None]:
    """Keep a transaction open that sees the database as it was at its beginning."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT FROM pg_class LIMIT 1")
        yield


def _postgres(store: Store) -> PostgresStore:
    assert isinstance(store, PostgresStore), f"not measured yet: {type(store).__name__}"
    return store
