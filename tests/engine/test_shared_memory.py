"""A store in memory with a name: engines, workers and clients of one process share it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from perdure import BlockingClient, Client, Engine, Signal, Worker, activity, orchestration
from tests.engine.stage import OPTIONS, Stage, is_waiting, until

go = Signal("go", str)


@activity
async def render(name: str) -> str:
    return f"{name} rendered"


@activity
async def keep(name: str) -> str:
    return f"{name} kept"


@orchestration
async def picture(name: str) -> str:
    return f"{await render(name)}, {await go.receive()}, {await keep(name)}"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """The URL of a store that stays until the last look at it."""
    url = "sqlite://:memory:pictures"
    async with Client(url):
        yield url


async def test_an_engine_a_second_worker_and_a_client_share_it(stage: Stage, url: str) -> None:
    await stage.engine([picture, keep])
    client = await stage.client()
    async with Worker(url, [render], options=OPTIONS):
        handle = await client.start("p", picture, "cat")
        await handle.send(go, "go on")

        assert await handle.result() == "cat rendered, go on, cat kept"


async def test_an_instance_goes_on_with_the_next_engine_while_a_client_stays_open(
    stage: Stage, url: str
) -> None:
    client = await stage.client()
    async with Engine(url, [picture, render, keep], options=OPTIONS) as engine:
        await engine.start("p", picture, "cat")
        await until(lambda: is_waiting(client, "p"))
    handle = client.handle("p", picture)
    await handle.send(go, "go on")

    await stage.engine([picture, render, keep])

    assert await handle.result() == "cat rendered, go on, cat kept"


async def test_a_blocking_client_in_a_thread_shares_it(stage: Stage, url: str) -> None:
    await stage.engine([picture, render, keep])

    def ask() -> str:
        with BlockingClient(url) as client:
            handle = client.start("p", picture, "cat")
            handle.send(go, "go on")
            return handle.result()

    assert await asyncio.to_thread(ask) == "cat rendered, go on, cat kept"
