"""Leases by a clock that has just moved ahead, of whose moves the store knows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from perdure.clock import ManualClock, to_ms
from perdure.clock_watch import LASTS_MS, WatchedSystemClock
from perdure.model.turns import SessionClaim
from perdure.store.base import JobLease, Store, TurnLease
from perdure.store.opening import open_store
from tests.contract.store_values import LEASE_MS, begun, claim, claim_jobs, job, new_instance

HOUR = timedelta(hours=1)


class Moving:
    """A watched clock, and what a test moves it by."""

    def __init__(self) -> None:
        self.wall = ManualClock()
        self.passed = ManualClock(1)
        self.clock = WatchedSystemClock(self.wall, passed=self.passed)

    def advance(self, by_ms: int) -> None:
        self.wall.now_ms += by_ms
        self.passed.now_ms += by_ms
        self.clock()

    def move_ahead(self) -> None:
        """Jump by an hour, and stay there until it is believed."""
        self.wall.advance(HOUR)
        self.clock()
        self.advance(LASTS_MS)


@pytest.fixture
def moving() -> Moving:
    return Moving()


@pytest.fixture
async def store(store_url: str, moving: Moving) -> AsyncIterator[Store]:
    store = open_store(store_url, clock=moving.clock)
    await store.open()
    yield store
    await store.close()


async def test_when_the_clock_has_moved_whose_token_is_stored_renews(
    store: Store, moving: Moving
) -> None:
    await begun(store, "j", jobs=(job(),))
    await store.start([new_instance()])
    [turn] = await claim(store)
    [work] = await claim_jobs(store)
    turns, jobs = [TurnLease("i", turn.lease)], [JobLease(work.key, work.token)]

    moving.move_ahead()
    lost = await store.renew(turns, jobs, lease_ms=LEASE_MS)

    assert lost == ([], [])
    assert (await claim(store, "w2"), await claim_jobs(store, "w2")) == ([], [])


async def test_when_the_clock_has_moved_what_somebody_else_took_is_lost(
    store: Store, moving: Moving
) -> None:
    await store.start([new_instance()])
    [turn] = await claim(store)
    moving.move_ahead()
    [taken] = await claim(store, "w2")

    lost, _ = await store.renew([TurnLease("i", turn.lease)], [], lease_ms=LEASE_MS)

    assert lost == [TurnLease("i", turn.lease)]
    assert taken.attempts == 2


async def test_a_lease_later_a_lease_that_ran_out_is_lost_again(
    store: Store, moving: Moving
) -> None:
    await store.start([new_instance()])
    [turn] = await claim(store)
    moving.move_ahead()
    moving.advance(LEASE_MS)

    lost, _ = await store.renew([TurnLease("i", turn.lease)], [], lease_ms=LEASE_MS)

    assert lost == [TurnLease("i", turn.lease)]


async def test_when_the_clock_has_moved_a_session_stays_with_its_worker(
    store: Store, moving: Moving
) -> None:
    await begun(store, jobs=(job(session="s"),))
    mine = SessionClaim("w1", LEASE_MS, (), 1)
    [_] = await claim_jobs(store, sessions=mine)

    moving.move_ahead()
    idle_ms = to_ms(2 * HOUR)
    lost = await store.renew_sessions("w1", ["s"], lease_ms=LEASE_MS, idle_ms=idle_ms)

    assert lost == []
    [row] = await store.admin.read_sessions()
    assert (row.owner, row.until_ms) == ("w1", moving.clock() + LEASE_MS)
