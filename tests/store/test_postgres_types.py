"""What the driver has to know of types is asked of a server once."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from perdure.store.postgres import connection as connection_module
from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import close, connect

ROUND = "SELECT $1::bytea[], $2::jsonb[]"
GIVEN = [b"\0one", b""], ['{"a": 1}', "[]"]


@pytest.mark.parametrize("pooler", ["none", "transaction"])
async def test_arrays_are_the_same_at_each_connection_and_asked_for_at_one(
    postgres_url: str, pooler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the server twice as long as to connect."""
    asked: list[object] = []
    driver: Any = asyncpg.Connection
    ask = driver._introspect_types

    async def listening(self: Any, types: Any, *rest: Any) -> Any:
        asked.append(types)
        return await ask(self, types, *rest)

    monkeypatch.setattr(driver, "_introspect_types", listening)
    address = Address.parse(f"{postgres_url}?pooler={pooler}")
    for _ in range(3):
        connection = await connect(address)
        try:
            found = await connection.fetchrow(ROUND, *GIVEN)
        finally:
            await close(connection)
        assert found is not None
        assert tuple(found) == GIVEN

    assert len(asked) <= 1


async def test_what_is_known_of_types_of_a_users_own_is_not_kept(postgres_url: str) -> None:
    """Another database has another type under the same number."""
    connection = await connect(Address.parse(postgres_url))
    try:
        await connection.execute("CREATE TYPE public.colour AS ENUM ('red', 'blue')")
        number = await connection.fetchval("SELECT 'public.colour[]'::regtype::oid")
        found = await connection.fetchval("SELECT ARRAY['red', NULL]::public.colour[]")
    finally:
        await close(connection)

    assert found == ["red", None]
    assert [types for types in connection_module._TYPES if number in types] == []
