from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from perdure.clock import ManualClock
from perdure.store.base import Store
from perdure.store.opening import open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


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
