from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.engine.stage import Stage


@pytest.fixture(params=["sqlite3", "asyncpg"])
def driver_url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The URL of an empty store: once for each driver, for what is about processes."""
    if request.param == "asyncpg":
        url: str = request.getfixturevalue("postgres_url")
        return url
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
async def stage(url: str) -> AsyncIterator[Stage]:
    """Opens engines and clients on one store; looks over all they did when the test is done."""
    stage = Stage(url)
    try:
        yield stage
    finally:
        await stage.close()
    await stage.look_over()
