"""Looking after a database without working on it: its migrations, its settings, its health.

None of this opens the store, and none of it writes to it: a store that cannot be opened, or must
not be changed yet, can be looked at all the same. All of it blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from perdure.errors import UsageError
from perdure.store.findings import Finding, fail, ok
from perdure.store.migrate import Migration
from perdure.store.opening import open_store
from perdure.store.read_only_query import QueryAnswer


class Migrations(NamedTuple):
    """How far a database's tables are."""

    known: Sequence[Migration]
    """All that this version of perdure has."""
    missing: Sequence[Migration]
    """Those that the database has not seen, in order."""

    @property
    def is_new(self) -> bool:
        """Whether there are no tables at all yet."""
        return len(self.missing) == len(self.known)


class Upkeep(Protocol):
    """What can be done for a database."""

    shown: str
    """Where it is, for people."""

    def migrations(self) -> Migrations:
        """Return which migrations the database has not seen.

        Raises:
            SchemaError: A newer perdure has written it.
            StoreCorruptError: It is another program's.
            StoreUnavailableError: It cannot be reached.
        """
        ...

    def script(self) -> str:
        """Return all migrations as a script for the database's own shell."""
        ...

    def examine(self, *, is_thorough: bool) -> list[Finding]:
        """Look at everything that matters and that the store itself does not tell.

        Args:
            is_thorough: Also look at what takes long on a large database.
        """
        ...

    def size_bytes(self) -> int:
        """Return how large it is, roughly."""
        ...

    def backup(self, target: str) -> int:
        """Write a copy of the database as it is at one moment to a new file, while others work on
        it; return its size in bytes.

        Raises:
            UsageError: There is such a file already, or the database has a tool of its own for it.
            StoreError: The database cannot be read, or the file not be written.
        """
        ...

    def query(self, text: str, *, within_s: float, limit: int) -> QueryAnswer:
        """Run one statement of a person's own. The database itself lets it do nothing but read.

        Args:
            text: The statement.
            within_s: How long it may take.
            limit: How many rows at most.

        Raises:
            UsageError: The database refuses it, or it takes too long.
            StoreError: The database cannot be reached.
        """
        ...


def upkeep_for(url: str) -> Upkeep:
    """Return who looks after the database behind a URL.

    Raises:
        UsageError: It is not the URL of a store, or of one that does not last.
    """
    store = open_store(url)
    # Late: a program that only imports perdure loads no driver.
    if url.startswith("postgres"):
        from perdure.store.postgres.address import Address
        from perdure.store.postgres.upkeep import PostgresUpkeep

        return PostgresUpkeep(Address.parse(url))
    from perdure.store.sqlite.memory import is_in_memory
    from perdure.store.sqlite.store import SqliteStore
    from perdure.store.sqlite.upkeep import SqliteUpkeep

    assert isinstance(store, SqliteStore)
    if is_in_memory(store.path):
        raise UsageError("a store in memory is gone with its process; name a file or a server")
    return SqliteUpkeep(store.path)


def look_at_schema(migrations: Migrations) -> Finding:
    """Look at how far the tables are."""
    known = len(migrations.known)
    if not migrations.missing:
        return ok("schema", f"up to date, migration {known}")
    names = ", ".join(f"{one.number} {one.name}" for one in migrations.missing)
    missing = f"{len(migrations.missing)} of {known} migrations are missing: {names}"
    return fail("schema", missing, "run: perdure migrate")


def library_versions() -> list[tuple[str, str]]:
    """Return the versions of the databases that come with this Python."""
    import sqlite3  # late: a program that only imports perdure loads no driver

    return [("SQLite", sqlite3.sqlite_version)]
