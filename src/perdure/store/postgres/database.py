"""Make sure that the server will do, and bring the tables up to date."""

from __future__ import annotations

import zlib

from perdure.errors import SchemaError, StoreError, StoreUnavailableError
from perdure.store.migrate import Applied, Migration, missing, no_store, read_migrations
from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import PACKAGE, PIN, PostgresConnection, in_schema

OLDEST_SERVER = 13

MAKE_SCHEMA = """\
DO $schema$
BEGIN
    IF to_regnamespace({text}) IS NULL THEN
        CREATE SCHEMA {name};
    END IF;
END
$schema$;
"""
"""CREATE SCHEMA IF NOT EXISTS needs the right to make schemas also where it has nothing to do, and
the owner of tables need not have that."""


def prepare(
    connection: PostgresConnection, address: Address, *, now_ms: int | None, creates: bool = True
) -> None:
    """Check the server, and apply the migrations that it has not seen.

    Args:
        connection: Where.
        address: Of the store; names the schema.
        now_ms: What time to record; None: the database's.
        creates: Whether to make the store if there is none yet.

    Raises:
        StoreError: The server is too old, or a pooler that the URL does not tell of, or the schema
            is missing and may not be made.
        StoreUnavailableError: It is a standby.
        SchemaError: There is no store yet and none is to be made, or its schema was written by a
            newer perdure.
    """
    version = connection.server_version()
    if version < OLDEST_SERVER:
        raise StoreError(
            f"{address.shown} is PostgreSQL {version}; perdure needs {OLDEST_SERVER} or newer"
        )
    [(is_standby, pid)] = connection.run("read_server")
    if pid != connection.server_pid() and address.pooler == "none":
        # Prepared statements would be missing after a while, or be those of another session.
        raise StoreError(
            f"{address.shown} is a pooler, not the server itself: add pooler=transaction to the "
            "store URL, or pooler=session if it keeps the same connection for a whole session"
        )
    if is_standby:
        raise StoreUnavailableError(
            f"{address.shown} only reads: it is a standby; give the address of the primary"
        )
    if behind := pending(connection, address):
        if not creates and behind[0].number == 1:
            raise no_store(address.shown)
        _apply_pending(connection, address, now_ms=now_ms)


def pending(connection: PostgresConnection, address: Address) -> list[Migration]:
    """Return the migrations that the schema has not seen, in order."""
    known = read_migrations(PACKAGE)
    return missing(known, read_applied(connection, address), where=address.shown)


def read_applied(connection: PostgresConnection, address: Address) -> list[Applied]:
    """Return the migrations that the schema has seen.

    Raises:
        SchemaError: The schema is not ours.
    """
    [(is_ours, tables)] = connection.run("count_tables", schema=address.schema)
    if is_ours:
        return [Applied(*row) for row in connection.run("read_migrations")]
    if tables:
        raise SchemaError(
            f"the schema {address.schema} of {address.shown} has tables, but not perdure's; give "
            "another one with ?schema=NAME"
        )
    return []


def _apply_pending(connection: PostgresConnection, address: Address, *, now_ms: int | None) -> None:
    """Apply what is missing, in one transaction, alone among all processes."""
    # Each statement must see what was committed before it: also the one that had to wait.
    connection.run_script(f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {PIN}")
    try:
        # Until the transaction ends. The second process finds nothing left to do.
        connection.run("lock_migrations", key=zlib.crc32(address.schema.encode()))
        for migration in pending(connection, address):
            connection.run_script(script(migration, address))
            [(database_ms,)] = connection.run("read_now")
            connection.run(
                "insert_migration",
                migration_no=migration.number,
                name=migration.name,
                checksum=migration.checksum,
                now_ms=database_ms if now_ms is None else now_ms,
            )
        connection.run_script("COMMIT")
    except BaseException:
        if connection.in_transaction():
            connection.run_script("ROLLBACK")
        raise


def script(migration: Migration, address: Address) -> str:
    """Return the statements of a migration for the chosen schema."""
    text = in_schema(migration.script, address.quoted_schema)
    if migration.number == 1:
        literal = "'" + address.quoted_schema.replace("'", "''") + "'"
        return MAKE_SCHEMA.format(name=address.quoted_schema, text=literal) + text
    return text
