"""What was opened before a fork is of no use in the child, which is told so; the parent goes on."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from perdure import (
    ActivityContext,
    BlockingClient,
    Client,
    Engine,
    Worker,
    activity,
    orchestration,
)
from tests.core.orders import Order, Place
from tests.sizes import WITHIN_S

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@activity
async def shout(text: str) -> str:
    return text.upper()


@orchestration
async def greet(name: str) -> str:
    return await shout(f"hello {name}")


def outcome_in_child(call: Callable[[], object]) -> str:
    """Fork, have something called in the child, and return how that ended."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = f"returned {call()!r}"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(theirs, said.encode())
        os._exit(0)
    os.close(theirs)
    ready, _, _ = select.select([ours], [], [], WITHIN_S)
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with open(ours, "rb") as pipe:
        return pipe.read().decode() or "hung"


@pytest.fixture
def blocking(store_url: str) -> Iterator[BlockingClient]:
    with BlockingClient(store_url, create=True) as client:
        client.start("g-1", greet, "Ada")
        yield client


BLOCKING_CALLS: dict[str, Callable[[BlockingClient], object]] = {
    "start": lambda client: client.start(greet, "Ada"),
    "read": lambda client: client.handle("g-1").info(),
    "wait": lambda client: client.handle("g-1").result(),
    "list": lambda client: client.instances(),
    "within": lambda client: client.within(sqlite3.connect(":memory:")),
    "open": lambda client: client.open(),
}


@pytest.mark.parametrize("call", BLOCKING_CALLS)
def test_a_blocking_client_of_the_parent_is_refused_in_a_child(
    blocking: BlockingClient, call: str
) -> None:
    said = outcome_in_child(lambda: BLOCKING_CALLS[call](blocking))

    assert said.startswith("UsageError: this ")
    assert "Client was opened by process" in said
    assert said.endswith("open it after the fork")
    assert blocking.handle("g-1").info().instance_id == "g-1"


def test_a_child_may_close_a_blocking_client_of_the_parent(blocking: BlockingClient) -> None:
    assert outcome_in_child(blocking.close) == "returned None"

    assert blocking.handle("g-1").info().instance_id == "g-1"


def test_a_client_that_is_opened_after_the_fork_works_in_a_child(
    blocking: BlockingClient, store_url: str
) -> None:
    fresh = BlockingClient(store_url, create=True)

    def use() -> str:
        with fresh:
            return fresh.handle("g-1").info().name

    assert outcome_in_child(use) == "returned 'greet'"


ASYNC_CALLS: dict[str, Callable[[Client], Coroutine[Any, Any, object]]] = {
    "start": lambda client: client.start(greet, "Ada"),
    "read": lambda client: client.handle("g-1").info(),
    "wait": lambda client: client.handle("g-1").result(),
    "decide": lambda client: client.execute(Order, Place("o-1")),
    "open": lambda client: client.open(),
}


@pytest.mark.parametrize("call", ASYNC_CALLS)
@pytest.mark.parametrize("kind", ["Client", "Engine"])
def test_a_client_or_engine_of_the_parent_is_refused_in_a_child(
    store_url: str, kind: str, call: str
) -> None:
    client = (
        Client(store_url, create=True) if kind == "Client" else Engine(store_url, [greet, shout])
    )
    with asyncio.Runner() as runner:
        runner.run(client.open())
        runner.run(client.start("g-1", greet, "Ada"))

        said = outcome_in_child(lambda: asyncio.run(_call(call, client)))

        assert said.startswith(f"UsageError: this {kind} was opened by process")
        assert said.endswith("open it after the fork")
        assert outcome_in_child(lambda: asyncio.run(client.close())) == "returned None"
        assert runner.run(client.handle("g-1").info()).instance_id == "g-1"
        runner.run(client.close())


async def _call(call: str, client: Client) -> object:
    return await ASYNC_CALLS[call](client)


def test_a_worker_of_the_parent_is_refused_in_a_child(store_url: str) -> None:
    worker = Worker(store_url, [greet, shout])
    with asyncio.Runner() as runner:
        runner.run(worker.__aenter__())

        said = outcome_in_child(lambda: asyncio.run(worker.run()))

        runner.run(worker.__aexit__(None, None, None))
    assert said.startswith("UsageError: this Worker was opened by process")


@orchestration
async def fork() -> str:
    return await fork_and_ask()


@activity
def fork_and_ask(ctx: ActivityContext) -> str:
    client: BlockingClient = ctx.client
    return outcome_in_child(lambda: client.handle("f-1").info())


async def test_the_client_of_an_activity_is_refused_in_a_child_that_it_forks(
    store_url: str,
) -> None:
    async with Engine(store_url, [fork, fork_and_ask]) as engine:
        said = await (await engine.start("f-1", fork)).result()

    assert said.startswith("UsageError: this client of the worker was opened by process")


LET_GO = """
import asyncio, gc, os, sys, weakref
from perdure import Client, orchestration
from perdure.store.forking import keep_for_ever

@orchestration
async def greet() -> None: ...

runner = asyncio.Runner()
client = Client(sys.argv[1], create=True)
runner.run(client.open())
runner.run(client.start("g-1", greet))
runner.run(client.handle("g-1").info())

child = os.fork()
if child == 0:
    if sys.argv[2] == "freed":
        store = weakref.ref(client._core.raw_store)
        del client
        gc.collect()
        assert store() is not None
    keep_for_ever(runner)  # Its loop is the parent's, and ours only in this program.
    sys.exit(0)  # Everything that is still there is freed now.

_, status = os.waitpid(child, 0)
runner.run(client.start("g-2", greet))
print(status, runner.run(client.handle("g-2").info()).status, runner.run(client.count()))
runner.run(client.close())
runner.close()
"""


@pytest.mark.parametrize("when", ["freed", "exits"])
def test_a_child_that_lets_go_of_a_client_leaves_the_parents_connections_alone(
    store_url: str, when: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", LET_GO, store_url, when],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )

    assert (ended.stdout, ended.stderr) == ("0 running 2\n", "")
