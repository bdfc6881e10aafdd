from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from perdure import Client
from tests.engine.stage import Stage
from tests.within.users import POSTGRES_USERS, SQLITE_USERS, User, make_table

SLOW = "the store cannot be written now"
"""Said of SQLite when a user's transaction keeps the file for longer than a moment."""

Opener = Callable[[Client], Awaitable[User]]

EVERYBODY: dict[str, Callable[[str, Client], User]] = {**POSTGRES_USERS, **SQLITE_USERS}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for a driver with each of them, or with those that its module names."""
    if "driver" in metafunc.fixturenames:
        metafunc.parametrize("driver", getattr(metafunc.module, "DRIVERS", list(EVERYBODY)))


@pytest.fixture
def url(driver: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if driver in SQLITE_USERS:
        return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
async def stage(url: str) -> AsyncIterator[Stage]:
    """Opens engines and clients; looks over all they did when the test is done."""
    stage = Stage(url)
    stage.allow_log(SLOW)
    try:
        yield stage
    finally:
        await stage.close()
    await stage.look_over()


@pytest.fixture
async def open_user(stage: Stage, driver: str) -> AsyncIterator[Opener]:
    """Opens users of the driver with clients, which have a table of their own."""
    await stage.client()
    make_table(stage.url)
    async with AsyncExitStack() as stack:

        async def open_one(client: Client) -> User:
            user = EVERYBODY[driver](stage.url, client)
            await user.open()
            stack.push_async_callback(user.close)
            return user

        yield open_one
