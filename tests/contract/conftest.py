"""The contract runs on every store: in memory, in a file, on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.clock import ManualClock
from perdure.store.base import Store
from perdure.store.opening import open_store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "sqlite://:memory:"
        case "file":
            return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
async def store(url: str, clock: ManualClock) -> AsyncIterator[Store]:
    store = open_store(url, clock=clock)
    await store.open()
    yield store
    await store.close()
