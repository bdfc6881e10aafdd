"""Look after a PostgreSQL database: its migrations, its settings, its health.

The statements are in `examination/`. They read what the server tells everybody; only the sessions
of other roles are hidden from those who are not members of `pg_read_all_stats`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from perdure.errors import UsageError
from perdure.store.findings import Finding
from perdure.store.migrate import Migration, read_migrations
from perdure.store.postgres import read_only_query
from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import PACKAGE, PIN, PostgresConnection, in_schema
from perdure.store.postgres.database import pending, script
from perdure.store.postgres.examining import (
    look_at_autovacuum,
    look_at_clock,
    look_at_connections,
    look_at_dead_rows,
    look_at_durability,
    look_at_prepared,
    look_at_role,
    look_at_slots,
    look_at_tls,
    look_at_transactions,
    look_at_version,
)
from perdure.store.read_only_query import QueryAnswer
from perdure.store.sql.statement_files import text_of
from perdure.store.upkeep import Migrations

T = TypeVar("T")


class PostgresUpkeep:
    """See `perdure.store.upkeep.Upkeep`."""

    def __init__(self, address: Address) -> None:
        self.shown = address.shown
        self._address = address

    def migrations(self) -> Migrations:
        """Return which migrations the schema has not seen; all if it is not there."""
        known = read_migrations(PACKAGE)
        return Migrations(known, self._read(lambda one: pending(one, self._address)))

    def script(self) -> str:
        """Return all migrations as a script for `psql`."""
        return "\n".join(self._step(migration) for migration in read_migrations(PACKAGE))

    def size_bytes(self) -> int:
        """Return how much room the tables and indexes take."""
        [(size,)] = self._read(lambda one: self._ask(one, "size"))
        return int(size)

    def backup(self, target: str) -> int:
        """Refused: PostgreSQL comes with programs for that."""
        raise UsageError(
            f"PostgreSQL is backed up by its own programs: pg_dump --schema={self._address.schema} "
            f"--file={target} DATABASE writes all that perdure has there, pg_basebackup the "
            "whole server"
        )

    def query(self, text: str, *, within_s: float, limit: int) -> QueryAnswer:
        """Run one statement of a person's own, read-only."""
        return read_only_query.query(self._address, text, within_s=within_s, limit=limit)

    def examine(self, *, is_thorough: bool) -> list[Finding]:
        """Look at the server, the connection to it, and who keeps rows from being cleaned up."""
        return self._read(self._examine)

    def _examine(self, connection: PostgresConnection) -> list[Finding]:
        settings = dict(self._ask(connection, "settings"))
        before_ms = time.time_ns() // 1_000_000
        [(is_standby, database_ms)] = self._ask(connection, "server")
        after_ms = time.time_ns() // 1_000_000
        [(sees_others,)] = self._ask(connection, "may_see_others")
        [(used,)] = self._ask(connection, "connections")
        return [
            look_at_version(settings["server_version"]),
            look_at_role(is_standby, settings["default_transaction_read_only"]),
            *look_at_durability(settings),
            look_at_clock(database_ms, between=(before_ms, after_ms)),
            *look_at_autovacuum(settings),
            look_at_transactions(self._ask(connection, "old_transactions"), sees_others),
            look_at_prepared(self._ask(connection, "prepared_transactions")),
            look_at_slots(self._ask(connection, "slots")),
            look_at_tls(
                self._address.dsn,
                self._ask(connection, "tls"),
                default_mode=os.environ.get("PGSSLMODE", "prefer"),
            ),
            look_at_connections(settings, used),
            look_at_dead_rows(self._ask(connection, "dead_rows"), self._address.schema),
        ]

    def _ask(self, connection: PostgresConnection, name: str) -> list[tuple[Any, ...]]:
        text, takes_schema = _question(name)
        return connection.run_own(text, [self._address.schema] if takes_schema else [])

    def _read(self, work: Callable[[PostgresConnection], T]) -> T:
        connection = PostgresConnection(self._address)
        try:
            connection.run_script(f"BEGIN READ ONLY; {PIN}")
            return work(connection)
        finally:
            connection.close()

    def _step(self, migration: Migration) -> str:
        """Return a migration and the row that records it, as one transaction."""
        record = in_schema(text_of(PACKAGE, "insert_migration"), self._address.quoted_schema)
        values = {
            "migration_no": str(migration.number),
            "name": _literal(migration.name),
            "checksum": _literal(migration.checksum),
            "now_ms": "(extract(EPOCH FROM clock_timestamp())::numeric * 1000::numeric)",
        }
        for param, value in values.items():
            record = record.replace(f":{param}::", f"{value}::")
        return f"BEGIN;\n{PIN}\n{script(migration, self._address)}\n{record}COMMIT;\n"


@cache
def _question(name: str) -> tuple[str, bool]:
    """Return the text of `examination/<name>.sql`, and whether it takes the schema's name."""
    file = resources.files(PACKAGE) / "examination" / f"{name}.sql"
    text = file.read_text(encoding="utf-8").strip().removesuffix(";")
    return text.replace(":schema::", "$1::"), ":schema::" in text


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
