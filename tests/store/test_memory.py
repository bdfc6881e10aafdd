"""Stores in memory: each by itself, or one for all of this process that give its name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from perdure.clock import ManualClock
from perdure.model.hints import Hint
from perdure.store.opening import open_store
from perdure.store.sqlite.store import SqliteStore
from tests.contract.store_values import (
    COMPLETED,
    begun,
    message,
    new_instance,
    next_turn,
    outcome,
)

# A good part of the contract, in memory that other stores could share.
from tests.contract.test_leases import TestJobs, TestTurnClaims  # noqa: F401
from tests.contract.test_messages import TestDeliveries, TestStarts  # noqa: F401
from tests.contract.test_transactions import TestOwnTransactions  # noqa: F401
from tests.contract.test_turns import TestFencing, TestWaking  # noqa: F401
from tests.contract.test_values import TestBadValues, TestBodies  # noqa: F401

NAMED = "sqlite://:memory:shop"
Opener = Callable[[str], Awaitable[SqliteStore]]


@pytest.fixture
def url() -> str:
    """Where the contract runs here."""
    return NAMED


@pytest.fixture
async def opened(clock: ManualClock) -> AsyncIterator[Opener]:
    """Opens stores, and closes what is still open at the end."""
    stores: list[SqliteStore] = []

    async def opened(url: str) -> SqliteStore:
        store = open_store(url, clock=clock)
        assert isinstance(store, SqliteStore)
        await store.open()
        stores.append(store)
        return store

    yield opened
    for store in stores:
        await store.close()


async def test_stores_of_one_name_are_one_and_others_are_not(opened: Opener) -> None:
    urls = [NAMED, NAMED, "sqlite://:memory:other", "sqlite://:memory:", "sqlite://:memory:"]
    first, *others = [await opened(url) for url in urls]

    await begun(first)

    assert [await store.read_live("i") is not None for store in others] == [True, *[False] * 3]


async def test_a_name_may_have_any_characters(opened: Opener) -> None:
    await begun(await opened("sqlite://:memory:a%2Fb%3Fc%23 ü&vfs=unix"))

    again = await opened("sqlite://:memory:a%2Fb%3Fc%23 ü&vfs=unix")
    assert await again.read_live("i") is not None
    assert await (await opened("sqlite://:memory:a%2Fb")).read_live("i") is None


async def test_what_is_in_memory_stays_as_long_as_one_store_is_open(opened: Opener) -> None:
    first, second = await opened(NAMED), await opened(NAMED)
    await begun(first)

    await first.close()
    third = await opened(NAMED)
    await second.close()
    assert await third.read_live("i") is not None

    await third.close()
    assert await (await opened(NAMED)).read_live("i") is None


async def test_many_that_open_it_at_once_make_one_schema(opened: Opener) -> None:
    stores = await asyncio.gather(*(opened(NAMED) for _ in range(8)))

    await asyncio.gather(*(begun(store, f"i{number}") for number, store in enumerate(stores)))

    found = await stores[0].read_instances([f"i{number}" for number in range(8)])
    assert None not in found


async def test_the_change_count_tells_of_other_stores_of_the_name_only(opened: Opener) -> None:
    store, other, private = [await opened(url) for url in (NAMED, NAMED, "sqlite://:memory:")]
    before = store.change_count(Hint.WORK)

    await store.start([new_instance("a")])
    await private.start([new_instance("b")])
    assert store.change_count(Hint.WORK) == before
    await other.start([new_instance("c")])
    assert store.change_count(Hint.WORK) != before


async def test_what_a_store_remembers_is_not_used_after_another_has_written(
    opened: Opener,
) -> None:
    store, other = await opened(NAMED), await opened(NAMED)
    stamp = await begun(store)

    ended = next_turn("i", stamp, events=(COMPLETED,), outcome=outcome())
    [theirs] = await other.commit([ended])
    [ours] = await store.commit([next_turn("i", stamp)])

    assert [theirs.status, ours.status] == ["accepted", "refused"]


async def test_many_stores_write_at_once_and_each_message_gets_its_own_number(
    opened: Opener,
) -> None:
    stores = [await opened(NAMED) for _ in range(3)]
    await begun(stores[0])

    for _ in range(20):
        await asyncio.gather(*(store.deliver([message()]) for store in stores * 3))

    assert len(await stores[0].read_inbox("i")) == 180
    assert sum(store.counters.retries for store in stores) == 0
