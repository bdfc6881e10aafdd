"""`perdure migrate` and `perdure roles`: the tables, and who may do what with them."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from perdure.cli.interruptible import run_interruptibly
from perdure.errors import UsageError
from perdure.store.migrate import Migration
from perdure.store.opening import open_store
from perdure.store.upkeep import Migrations, upkeep_for


def url_with(url: str, schema: str | None) -> str:
    """Return the URL of a store in another schema.

    Raises:
        UsageError: The store has none.
    """
    if schema is None:
        return url
    if not url.startswith("postgres"):
        raise UsageError("--schema is for PostgreSQL: an SQLite file has no schemas")
    separator = "&" if "?" in url else "?"
    return f"{url}{separator}{urlencode({'schema': schema})}"


def read_script(url: str) -> str:
    """Return all migrations as a script for the database's own shell. Nothing is connected."""
    return upkeep_for(url).script()


def read_migrations(url: str) -> Migrations:
    """Return which migrations a database has not seen."""
    return upkeep_for(url).migrations()


def migrate(url: str) -> list[Migration]:
    """Bring the tables up to date; return what was missing."""
    missing = list(read_migrations(url).missing)
    if missing:
        run_interruptibly(_open_once(url))
    return missing


async def _open_once(url: str) -> None:
    # A process that opens a store brings its tables up to date, alone among all processes.
    store = open_store(url)
    await store.open()
    await store.close()


def read_roles(schema: str) -> str:
    """Return SQL that makes the roles of a schema."""
    from perdure.store.postgres.roles import read_roles as read  # late, as all of PostgreSQL

    return read(schema)


def described(migrations: Sequence[Migration]) -> str:
    """Return migrations for people."""
    return ", ".join(f"{one.number} {one.name}" for one in migrations)
