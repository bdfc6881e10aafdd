"""What a database or role is set to by default changes nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from perdure.clock import ManualClock
from perdure.model.instances import Status
from perdure.store.migrate import read_migrations
from perdure.store.opening import open_store
from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import PACKAGE, connect
from tests.contract.store_values import new_instance
from tests.postgres import Server

LEVELS = ["repeatable read", "serializable"]


def set_level(url: str, level: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        text = f"ALTER DATABASE {connection.info.dbname} SET default_transaction_isolation = "
        connection.execute((text + f"'{level}'").encode())


@pytest.fixture
def bare_url(postgres: Server) -> Iterator[str]:
    """A database without our tables."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.mark.parametrize("level", LEVELS)
async def test_another_isolation_by_default_keeps_nobody_from_writing_and_reading(
    postgres_url: str, level: str
) -> None:
    set_level(postgres_url, level)
    store = open_store(postgres_url, clock=ManualClock())
    await store.open()

    started = await store.start([new_instance("i")], patience_s=5)
    [row] = await store.read_instances(["i"])
    await store.close()

    assert started == [None]
    assert row is not None
    assert row.status is Status.RUNNING


@pytest.mark.parametrize("level", LEVELS)
async def test_another_isolation_by_default_lets_many_migrate_at_once(
    bare_url: str, level: str
) -> None:
    """Who had to wait must see what the one before it has done."""
    set_level(bare_url, level)
    stores = [open_store(bare_url, clock=ManualClock()) for _ in range(6)]

    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(store.close() for store in stores))

    with psycopg.connect(bare_url) as connection:
        found = connection.execute("SELECT count(*) FROM perdure.migrations").fetchall()
    assert found == [(len(read_migrations(PACKAGE)),)]


async def test_a_connection_that_rests_is_asked_whether_the_server_is_still_there(
    postgres_url: str,
) -> None:
    """Or the one that listens would never find out that its server is gone without a word."""
    connection: Any = await connect(Address.parse(postgres_url))
    line = connection._transport.get_extra_info("socket")

    settings = [
        line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
        line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
        line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
        line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
    ]
    await connection.close()

    assert settings == [1, 30, 10, 3]
