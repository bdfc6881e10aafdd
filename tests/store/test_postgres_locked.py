"""Locked turns on PostgreSQL: who waits for whom, and commits whose answers are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from perdure.clock import ManualClock
from perdure.model.instances import Stamp
from perdure.model.turns import Turn, TurnReceipt, TurnStatus
from perdure.store.base import Store
from perdure.store.locked_turns import KnownInstance, LockedTurn, News
from perdure.store.opening import open_store
from perdure.store.postgres.store import PostgresStore
from tests.contract.store_values import (
    SCHEDULED,
    STARTED,
    accepted,
    begun,
    events_of,
    latest,
    message,
)
from tests.contract.store_values import next_turn as turn_on
from tests.engine.stage import until
from tests.sizes import WITHIN_S
from tests.wire import Proxy

LOCK = "SELECT 1 FROM perdure.live WHERE instance_id = $1 FOR UPDATE"
WAITING = """
SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
"""


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
async def user(url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A connection of a user's."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


@asynccontextmanager
async def held(user: asyncpg.Connection[Any], instance_id: str) -> AsyncIterator[None]:
    """Keep an instance for the length of a user's transaction."""
    async with user.transaction():
        await user.execute(LOCK, instance_id)
        yield


def locked(stamp: Stamp, instance_id: str = "i", **fields: Any) -> LockedTurn:
    """Return a turn of one event, to be thought on what is stored then."""

    def think(news: News) -> Turn:
        assert news.live is not None
        return turn_on(instance_id, news.live.stamp, **{"events": (SCHEDULED,), **fields})

    return LockedTurn(KnownInstance(instance_id, stamp), think, wants_inbox=lambda _: False)


async def test_a_locked_turn_loads_nothing_twice(store: Store, other: Store) -> None:
    """Begin, lock, write, commit; and if another process came between, what that has left."""
    assert isinstance(store, PostgresStore)
    stamp = await begun(store)
    await store.commit_locked([locked(stamp)])  # The lane connects, and learns its definitions.
    statements = []
    for is_overtaken in (False, True):
        stamp = await latest(store)
        if is_overtaken:
            await accepted(other, turn_on("i", stamp, events=(SCHEDULED,)))
        before = store.counters.statements
        [receipt] = await store.commit_locked([locked(stamp)])
        statements.append(store.counters.statements - before)
        assert receipt is not None
        assert receipt.status is TurnStatus.ACCEPTED

    assert statements == [4, 5]


async def test_a_locked_turn_waits_for_whoever_has_the_instance(
    store: Store, user: asyncpg.Connection[Any]
) -> None:
    """And is thought on what that one has left."""
    stamp = await begun(store)
    async with held(user, "i"):
        answer = asyncio.ensure_future(store.commit_locked([locked(stamp)]))

        async def waits() -> bool:
            return bool(await user.fetch(WAITING))

        await until(waits)
        await user.execute("UPDATE perdure.live SET last_no = 7 WHERE instance_id = 'i'")

    async with asyncio.timeout(WITHIN_S):
        [receipt] = await answer
    assert receipt is not None
    assert (receipt.status, receipt.last_no) == (TurnStatus.ACCEPTED, 7)


async def test_only_the_first_of_several_is_waited_for(
    store: Store, user: asyncpg.Connection[Any]
) -> None:
    """Nobody waits for one instance while it has another: two could wait for each other."""
    stamps = {name: await begun(store, name) for name in "ij"}
    busy = locked(stamps["j"], "j")
    async with held(user, "j"):
        async with asyncio.timeout(WITHIN_S):
            free, put_off = await store.commit_locked([locked(stamps["i"]), busy])

    assert free is not None
    assert free.status is TurnStatus.ACCEPTED
    assert put_off is None
    assert busy.is_waiting
    assert await latest(store, "j") == stamps["j"]


async def test_a_turn_that_touches_what_others_have_is_refused(
    store: Store, user: asyncpg.Connection[Any]
) -> None:
    """To keep its own instance until the other one is free would be to wait with a lock."""
    stamp = await begun(store)
    await begun(store, "j")
    async with held(user, "j"):
        async with asyncio.timeout(WITHIN_S):
            answer = await store.commit_locked([locked(stamp, deliveries=(message("j"),))])

    assert answer == [TurnReceipt(TurnStatus.REFUSED)]
    assert await latest(store) == stamp
    assert await store.read_inbox("j") == []


async def test_others_are_written_while_a_locked_turn_waits(
    store: Store, user: asyncpg.Connection[Any]
) -> None:
    stamp = await begun(store)
    async with held(user, "i"):
        answer = asyncio.ensure_future(store.commit_locked([locked(stamp)]))
        async with asyncio.timeout(WITHIN_S):
            for number in range(4):
                await begun(store, f"other-{number}")
        assert not answer.done()

    async with asyncio.timeout(WITHIN_S):
        [receipt] = await answer
    assert receipt is not None
    assert receipt.status is TurnStatus.ACCEPTED


@pytest.mark.parametrize("is_heard", ["before", "after"])
async def test_a_locked_turn_whose_commit_is_cut_counts_once(
    postgres_url: str, clock: ManualClock, is_heard: str
) -> None:
    """Whether it was committed is told by its commit id, and it is thought once."""
    async with Proxy(postgres_url) as proxy:
        store = open_store(proxy.url, clock=clock)
        await store.open()
        try:
            stamp = await begun(store)
            await store.commit_locked([locked(stamp)])  # Its lane is connected now.
            stamp = await latest(store)
            thought: list[News] = []

            def think(news: News) -> Turn:
                thought.append(news)
                cut = proxy.cut_before if is_heard == "before" else proxy.cut_after
                cut(lambda statement: statement == "COMMIT")
                assert news.live is not None
                return turn_on("i", news.live.stamp, events=(SCHEDULED,))

            turn = LockedTurn(KnownInstance("i", stamp), think, wants_inbox=lambda _: False)
            async with asyncio.timeout(WITHIN_S):
                [receipt] = await store.commit_locked([turn])

            assert proxy.cuts == 1
            assert receipt is not None
            assert receipt.status is TurnStatus.ACCEPTED
            assert len(thought) == 1
            events = await events_of(store, "i", stamp.incarnation)
            assert events == [STARTED, SCHEDULED, SCHEDULED]
        finally:
            await store.close()
