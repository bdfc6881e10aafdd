"""Every point of a transaction at which its process can be killed: the order is booked once."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from perdure import Client, Engine
from perdure.checking.invariants import check
from perdure.clock import system_clock
from tests.chaos.booking_process import INSTANCE, ORDER
from tests.engine.booking import Shop, shop_with
from tests.postgres import Server
from tests.sizes import WITHIN_S

ROOT = Path(__file__).parent.parent.parent
LATER_MS = 3_600_000
"""By so much later the next process comes: whatever was leased is not any more."""


class Street:
    """Makes empty shops, each with a store of its own."""

    def __init__(self, driver: str, folder: Path, server: Server | None, template: str) -> None:
        self._driver = driver
        self._folder = folder
        self._server = server
        self._template = template
        self._count = 0

    async def open_shop(self) -> Shop:
        """Return a shop that has sold nothing."""
        self._count += 1
        if self._server is None:
            url = f"sqlite:///{self._folder}/{self._count}.db"
            async with Client(url, create=True):
                pass
        else:
            url = self._server.create_database(template=self._template)
        shop = Shop(self._driver, url)
        shop.make_table()
        return shop


@pytest.fixture(params=["sqlite3", "asyncpg", "psycopg"])
def street(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Street]:
    driver: str = request.param
    if driver == "sqlite3":
        yield Street(driver, tmp_path, None, "")
    else:
        server = request.getfixturevalue("postgres")
        yield Street(driver, tmp_path, server, request.getfixturevalue("postgres_template"))


class Processes:
    """Runs processes that book an order, one after another."""

    def __init__(self, maker: asyncio.subprocess.Process) -> None:
        self._maker = maker

    async def run(self, shop: Shop, point: int) -> tuple[int, list[str]]:
        """Run one that dies at a point; return how it ended, and what it passed."""
        assert self._maker.stdin is not None
        assert self._maker.stdout is not None
        self._maker.stdin.write(f"{shop.driver} {shop.url} {point}\n".encode())
        async with asyncio.timeout(WITHIN_S):
            answer = await self._maker.stdout.readline()
        code, *names = answer.decode().split()
        return int(code), names


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    maker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos.booking_process"),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    yield Processes(maker)
    await maker.communicate(b"")


async def finish(shop: Shop) -> str:
    """Let another process, an hour later, do what is left."""
    book = shop.book()
    definitions = [book, shop_with(book)]
    async with (
        Engine(shop.url, definitions, clock=lambda: system_clock() + LATER_MS) as engine,
        asyncio.timeout(WITHIN_S),
    ):
        said: str = await engine.handle(INSTANCE).result()
        assert await check(engine._core.store) == []
    return said


async def test_a_process_may_be_killed_at_any_point_of_a_transaction(
    street: Street, processes: Processes
) -> None:
    code, names = await processes.run(await street.open_shop(), 0)
    assert code == 0
    assert {"written", "commit", "committed"} <= set(names)

    wrong = []
    for point, name in enumerate(names, start=1):
        shop = await street.open_shop()
        code, _ = await processes.run(shop, point)
        before = shop.orders()
        found = (code, before, await finish(shop), shop.orders())
        there = [ORDER] if name == "committed" else []
        if found != (-signal.SIGKILL, there, f"{ORDER} booked", [ORDER]):
            wrong.append((point, name, found))

    assert wrong == []
