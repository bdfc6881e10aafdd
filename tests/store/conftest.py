from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from perdure.clock import ManualClock
from perdure.store.base import Store
from perdure.store.opening import open_store

KINDS = ["memory", "sqlite3", "apsw"]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["sqlite3", "apsw"])
def driver(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def url(path: Path, driver: str) -> str:
    return f"sqlite:///{path}?driver={driver}"


@pytest.fixture
async def store(url: str, clock: ManualClock) -> AsyncIterator[Store]:
    store = open_store(url, clock=clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def raw(postgres_url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection that does what another process could be doing."""
    raw = await asyncpg.connect(postgres_url)
    yield raw
    await raw.close()


@pytest.fixture
async def other(postgres_url: str, clock: ManualClock) -> AsyncIterator[Store]:
    """The store of another process on PostgreSQL, with a line of its own."""
    other = open_store(postgres_url, clock=clock)
    await other.open()
    yield other
    await other.close()
