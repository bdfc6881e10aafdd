"""A person's own SQL on PostgreSQL, in a transaction that is READ ONLY and is rolled back.

Names are looked for in the store's schema first. The rights are those of the role in the URL: a
function that acts outside the database (a superuser's `pg_terminate_backend`) is not held back by a
read-only transaction; a role as `perdure roles` makes for readers is. The secret of the store is
not shown to the owner either: a statement whose plan reads its table is refused. That guards
against an answer that ends up in a log or on a screen; who owns a table can read it with psql.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import msgspec

from perdure.errors import StoreError, UsageError
from perdure.store.postgres.address import Address, quoted
from perdure.store.postgres.connection import close, connect
from perdure.store.postgres.faults import TROUBLE, ours
from perdure.store.read_only_query import QueryAnswer

_TIMED_OUT = "57014"
_OF_STATEMENT = ("0A", "21", "22", "25", "2F", "34", "42", "54")
"""How codes begin of what is wrong with the statement itself: syntax, names, values, writing."""
ANSWER_GRACE_S = 5.0
"""How much longer than the statement may take the answer is waited for."""


def query(address: Address, text: str, *, within_s: float, limit: int) -> QueryAnswer:
    """See `perdure.store.upkeep.Upkeep.query`."""
    return asyncio.run(_query(address, text, within_s=within_s, limit=limit))


async def _query(address: Address, text: str, *, within_s: float, limit: int) -> QueryAnswer:
    try:
        connection = await connect(address)
    except TROUBLE as error:
        raise ours(address.shown, error) from error
    try:
        async with asyncio.timeout(within_s + ANSWER_GRACE_S):
            return await _read(connection, address, text, within_s=within_s, limit=limit)
    except TROUBLE as error:
        raise _problem(address, error, within_s) from error
    finally:
        await close(connection)


async def _read(
    connection: asyncpg.Connection[asyncpg.Record],
    address: Address,
    text: str,
    *,
    within_s: float,
    limit: int,
) -> QueryAnswer:
    transaction = connection.transaction(readonly=True)
    await transaction.start()
    path = f"{quoted(address.schema)}, {quoted(address.tables)}"
    await connection.execute(
        f"SET LOCAL statement_timeout = {max(1, int(within_s * 1000))}; "
        f"SET LOCAL search_path = {path}"
    )
    await _refuse_secret(connection, address, text)
    statement = await connection.prepare(text)
    columns = [one.name for one in statement.get_attributes()]
    cursor = await statement.cursor()
    rows = await cursor.fetch(limit + 1)
    await transaction.rollback()
    return QueryAnswer(columns, [tuple(row) for row in rows[:limit]], len(rows) > limit)


async def _refuse_secret(
    connection: asyncpg.Connection[asyncpg.Record], address: Address, text: str
) -> None:
    """Refuse a statement that reads the secret, by whatever name or view.

    Raises:
        UsageError: It does.
    """
    try:
        async with connection.transaction():
            plan = await connection.fetchval(f"EXPLAIN (VERBOSE, FORMAT JSON) {text}")
    except asyncpg.PostgresError:
        return  # It has no plan: it reads no table, or is refused when it is run.
    secret = (address.schema, "perdure_settings")
    if secret in _tables_in(msgspec.json.decode(plan)):
        raise UsageError(
            "the database refuses the statement: access to perdure_settings is prohibited, since "
            "the secret in it is the right to keep any promise"
        )


def _tables_in(plan: Any) -> Iterator[tuple[str, str]]:
    """Yield the tables that a plan reads, each with its schema."""
    if isinstance(plan, list):
        for part in plan:
            yield from _tables_in(part)
    elif isinstance(plan, dict):
        if "Relation Name" in plan:
            yield plan["Schema"], plan["Relation Name"]
        for part in plan.values():
            yield from _tables_in(part)


def _problem(address: Address, error: BaseException, within_s: float) -> StoreError | UsageError:
    if isinstance(error, asyncpg.PostgresError):
        if error.sqlstate == _TIMED_OUT:
            return UsageError(
                f"the statement took longer than {within_s:g} s and was stopped: ask for less, or "
                "give it more time"
            )
        if (error.sqlstate or "").startswith(_OF_STATEMENT):
            return UsageError(f"the database refuses the statement: {error}")
    return ours(address.shown, error)
