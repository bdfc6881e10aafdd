"""From what users call their connection to the connection of the driver.

Libraries are recognised by the names of their classes, so that none is imported that the user has
not imported already.

SQLAlchemy begins a transaction with the first statement that it runs itself, and knows nothing of
those that others run on the driver's connection. So it is made to run one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from perdure.errors import UsageError

SQLITE3 = "sqlite3"
ASYNCPG, PSYCOPG, ASYNC_PSYCOPG = "asyncpg", "psycopg", "async psycopg"
SQLALCHEMY, SESSION = "sqlalchemy", "session of sqlalchemy"
ASYNC_SQLALCHEMY, ASYNC_SESSION = "async sqlalchemy", "async session of sqlalchemy"

_KNOWN = {
    ("sqlite3", "Connection"): SQLITE3,
    ("asyncpg", "Connection"): ASYNCPG,
    ("asyncpg", "PoolConnectionProxy"): ASYNCPG,
    ("psycopg", "Connection"): PSYCOPG,
    ("psycopg", "AsyncConnection"): ASYNC_PSYCOPG,
    ("sqlalchemy", "Connection"): SQLALCHEMY,
    ("sqlalchemy", "Session"): SESSION,
    ("sqlalchemy", "AsyncConnection"): ASYNC_SQLALCHEMY,
    ("sqlalchemy", "AsyncSession"): ASYNC_SESSION,
}
"""By the package and the name of the class."""

_OF_LOOP = (ASYNCPG, ASYNC_PSYCOPG, ASYNC_SQLALCHEMY, ASYNC_SESSION)

TAKEN = (
    "give a connection of asyncpg, psycopg 3 or sqlite3, or a Connection, Session, AsyncConnection "
    "or AsyncSession of SQLAlchemy"
)
_ANYTHING = "VALUES (1)"
"""A statement that every database knows."""


class Unwrapped(NamedTuple):
    """A connection of a driver."""

    kind: str
    connection: Any
    by_sqlalchemy: bool = False


def is_of_loop(connection: object) -> bool:
    """Return whether a connection belongs to an event loop.

    Raises:
        UsageError: It is none that is known.
    """
    kind = _kind_of(connection)
    if kind is None:
        raise UsageError(f"{describe(connection)} is no connection that is known: {TAKEN}")
    return kind in _OF_LOOP


def unwrap(connection: Any) -> Unwrapped:
    """Return the driver's connection of a blocking one. SQLAlchemy's has begun a transaction."""
    kind = _kind_of(connection)
    if kind == SESSION:
        connection, kind = connection.connection(), SQLALCHEMY
    if kind == SQLALCHEMY:
        connection.exec_driver_sql(_ANYTHING)
        return _from_sqlalchemy(connection.connection.driver_connection)
    return Unwrapped(kind or "", connection)


async def unwrap_of_loop(connection: Any) -> Unwrapped:
    """Return the same of one that belongs to the running loop."""
    kind = _kind_of(connection)
    if kind == ASYNC_SESSION:
        connection, kind = await connection.connection(), ASYNC_SQLALCHEMY
    if kind == ASYNC_SQLALCHEMY:
        await connection.exec_driver_sql(_ANYTHING)
        raw = await connection.get_raw_connection()
        return _from_sqlalchemy(raw.driver_connection)
    return Unwrapped(kind or "", connection)


def describe(connection: object) -> str:
    """Return what a connection is, for messages."""
    return f"{type(connection).__module__}.{type(connection).__qualname__}"


def _kind_of(connection: object) -> str | None:
    for base in type(connection).__mro__:
        kind = _KNOWN.get((base.__module__.partition(".")[0], base.__name__))
        if kind is not None:
            return kind
    return None


def _from_sqlalchemy(connection: object) -> Unwrapped:
    kind = _kind_of(connection)
    if kind is None:
        raise UsageError(
            f"SQLAlchemy uses {describe(connection)} here, which is no connection that is known: "
            f"{TAKEN}"
        )
    return Unwrapped(kind, connection, by_sqlalchemy=True)
