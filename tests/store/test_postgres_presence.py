"""What the server knows of a worker's connections: who is gone, and who only was cut off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from perdure.clock import ManualClock
from perdure.model.turns import Departed, TurnStatus, WorkerRow
from perdure.store.base import Store
from perdure.store.opening import open_store
from perdure.store.postgres.presence import presence_key, presences_in
from perdure.store.postgres.store import PostgresStore
from perdure.worker.departures import (
    ALONE_EVERY_S,
    LOOK_AGAIN_S,
    LOOKS_BEFORE,
    SWEEPS,
    Departures,
)
from tests.contract.store_values import LEASE_MS, begun, claim_jobs, job, next_turn, result_of
from tests.engine.stage import until
from tests.wire import Pooler, Proxy

FAR = WorkerRow("far", "another host", 7, 1, 1, (), lease_ms=LEASE_MS)
NEAR = FAR._replace(worker_id="near", host="this host")


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
async def proxy(postgres_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(postgres_url) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy: Proxy, clock: ManualClock) -> AsyncIterator[Store]:
    """The store of a worker elsewhere, whose lines can be cut."""
    store = open_store(proxy.url, clock=clock)
    await store.open()
    await store.beat(FAR, is_first=True)
    yield store
    proxy.flow()
    await store.close()


class Watch:
    """A worker that looks who is gone."""

    def __init__(self, store: Store, worker_id: str = "near") -> None:
        self.freed = 0
        self.departures = Departures(store, worker_id=worker_id, freed=self._was_freed)

    async def look(self, times: int = 1) -> None:
        for _ in range(times):
            await self.departures.look()

    def _was_freed(self) -> None:
        self.freed += 1


async def holders(raw: asyncpg.Connection[asyncpg.Record]) -> int:
    """Return how many connections hold a lock that is marked."""
    found = await raw.fetchval(
        "SELECT count(*) FROM pg_locks JOIN perdure.marks"
        " ON mark = (classid::bigint << 32 | objid::bigint)"
        " WHERE part > 0 AND locktype = 'advisory' AND granted"
    )
    return int(found)


async def gone(store: Store) -> list[str]:
    return [one.worker_id for one in (await store.read_presences()).departed]


async def is_gone(store: Store) -> bool:
    return await gone(store) == ["far"]


async def marks(raw: asyncpg.Connection[asyncpg.Record]) -> list[int]:
    rows = await raw.fetch("SELECT mark FROM perdure.marks WHERE part > 0 ORDER BY part")
    return [row[0] for row in rows]


async def test_two_connections_of_a_worker_tell_that_it_is_there(
    far: Store, other: Store, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    async def are_two() -> bool:
        return await holders(raw) == 2

    await until(are_two)

    assert await gone(other) == []
    assert (await other.read_presences()).known == 1


async def test_what_a_worker_held_that_is_gone_is_claimed_at_once(
    far: Store, other: Store, proxy: Proxy
) -> None:
    await begun(other, jobs=(job(2),))
    await claim_jobs(far, "far")
    proxy.stall()
    proxy.hang_up()
    await until(lambda: is_gone(other))
    watch = Watch(other)

    await watch.look(LOOKS_BEFORE)

    [claimed] = await claim_jobs(other, "near")
    assert (claimed.attempt, claimed.lost, watch.freed) == (2, 1, 1)


async def test_it_is_freed_several_times_and_retires_at_the_last(
    far: Store, other: Store, proxy: Proxy, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    proxy.stall()
    proxy.hang_up()
    await until(lambda: is_gone(other))
    watch = Watch(other)
    await watch.look(LOOKS_BEFORE + SWEEPS - 2)
    assert [row.worker_id for row in await other.read_workers(seen_since_ms=0)] == ["far"]

    await watch.look()

    assert await other.read_workers(seen_since_ms=0) == []
    assert (await marks(raw), watch.freed) == ([], SWEEPS)


async def test_a_worker_that_was_cut_off_and_is_back_keeps_what_it_has(
    far: Store, other: Store, proxy: Proxy
) -> None:
    """Its process lives: the connection that listens comes back by itself."""
    await begun(other, jobs=(job(2),))
    [running] = await claim_jobs(far, "far")
    proxy.stall()
    proxy.hang_up()
    await until(lambda: is_gone(other))
    [seen] = (await other.read_presences()).departed
    watch = Watch(other)
    await watch.look(LOOKS_BEFORE - 1)
    proxy.flow()

    async def is_back() -> bool:
        return await gone(other) == []

    await until(is_back)
    await watch.look(LOOKS_BEFORE)

    assert not await other.release_worker("far", lease_ms=LEASE_MS, departed=seen)
    assert watch.freed == 0
    assert await claim_jobs(other, "near") == []
    assert await far.end_jobs([result_of(running.key, running.token)]) == [True]


async def test_a_live_worker_that_was_freed_is_refused_and_is_known_again(
    far: Store, other: Store, proxy: Proxy
) -> None:
    """Its network was gone for longer than it is waited for: as after a lease that ran out."""
    stamp = await begun(other, jobs=(job(2),))
    [running] = await claim_jobs(far, "far")
    proxy.stall()
    proxy.hang_up()
    await until(lambda: is_gone(other))
    watch = Watch(other)
    await watch.look(LOOKS_BEFORE + SWEEPS - 1)
    [claimed] = await claim_jobs(other, "near")
    proxy.flow()

    late = await far.end_jobs([result_of(running.key, running.token)])
    ended = await other.end_jobs([result_of(claimed.key, claimed.token)])
    await far.beat(FAR)

    assert (late, ended) == ([False], [True])
    assert ((await other.read_presences()).known, await gone(other)) == (1, [])
    assert [row.worker_id for row in await other.read_workers(seen_since_ms=0)] == ["far"]
    [receipt] = await far.commit([next_turn("i", stamp)])
    assert receipt.status is TurnStatus.ACCEPTED


async def test_who_comes_back_while_it_is_freed_waits_for_the_end_of_that(
    far: Store, other: Store, proxy: Proxy, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    proxy.stall()
    proxy.hang_up()
    await until(lambda: is_gone(other))
    [seen] = (await other.read_presences()).departed
    async with raw.transaction():
        await raw.execute("SELECT pg_advisory_xact_lock($1)", seen.key)
        proxy.flow()

        async def waits() -> bool:
            return bool(
                await raw.fetchval(
                    "SELECT EXISTS (SELECT FROM pg_locks"
                    " WHERE locktype = 'advisory' AND NOT granted)"
                )
            )

        await until(waits)
        assert not await other.release_worker("far", lease_ms=LEASE_MS, departed=seen)

    async def is_back() -> bool:
        return await holders(raw) >= 1

    await until(is_back)


@pytest.mark.parametrize(
    "change",
    [{"life": 1}, {"started_ms": 2}, {"pid": 8}, {"host": "a third"}, {"key": 1}],
    ids=["another life of the server", "restarted", "another process", "moved", "never held"],
)
async def test_who_is_not_that_very_one_is_not_freed(
    change: dict[str, Any], far: Store, other: Store, proxy: Proxy
) -> None:
    await begun(other, jobs=(job(2),))
    await claim_jobs(far, "far")
    proxy.stall()
    proxy.hang_up()
    await until(lambda: is_gone(other))
    [seen] = (await other.read_presences()).departed

    assert not await other.release_worker(
        "far", lease_ms=LEASE_MS, departed=seen._replace(**change)
    )

    assert await claim_jobs(other, "near") == []


async def test_after_a_crash_of_the_server_nobody_is_known_to_be_gone(
    far: Store, other: Store, proxy: Proxy, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    """All connections were lost, and the living had no time to come back. A crash empties the table
    of the marks."""
    proxy.stall()
    proxy.hang_up()
    await until(lambda: is_gone(other))
    [seen] = (await other.read_presences()).departed
    await raw.execute("TRUNCATE perdure.marks")

    assert await gone(other) == []
    assert not await other.release_worker("far", lease_ms=LEASE_MS, departed=seen)


def test_a_server_that_was_started_anew_knows_nobody() -> None:
    """Its table of marks is as it was, and all locks are free."""
    worker = ("far", "host", 7, 1, LEASE_MS, 0)
    mark = presence_key("perdure", 100, "far", "host", 7, 1)

    before = presences_in("perdure", [100, [worker], [mark], []])
    after = presences_in("perdure", [101, [worker], [mark], []])

    assert before.departed == [Departed(*worker[:5], False, 100, mark)]
    assert (after.departed, after.stale) == ([], [mark])


def test_a_worker_of_a_release_that_holds_no_lock_is_never_gone() -> None:
    assert presences_in("perdure", [100, [("old", "host", 7, 1, 1, 0)], [], []]).departed == []


def test_the_lock_of_a_store_is_not_that_of_another_in_the_same_database() -> None:
    assert len({presence_key(one, 1, "far", "host", 7, 1) for one in ("a", "b")}) == 2


async def test_marks_that_are_of_no_use_are_removed(
    far: Store, other: Store, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await raw.execute("INSERT INTO perdure.marks VALUES (77, 77)")

    await Watch(other).look()

    assert len(await marks(raw)) == 1


async def test_a_worker_that_stops_leaves_no_mark(
    far: Store, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await far.retire("far")

    assert await marks(raw) == []


async def test_workers_that_come_at_once_have_a_mark_each(
    other: Store, far: Store, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    await other.beat(NEAR)

    assert len({*await marks(raw)}) == 2


async def test_a_sign_of_life_costs_nothing_more_while_the_connection_lasts(other: Store) -> None:
    assert isinstance(other, PostgresStore)
    await other.beat(NEAR, is_first=True)
    before = other.counters.statements

    await other.beat(NEAR)

    # Beginning and end, the time, the row itself.
    assert other.counters.statements - before == 4


async def test_behind_a_pooler_nothing_is_known(
    postgres_url: str, clock: ManualClock, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with Pooler(postgres_url) as pooler:
        for kind in ("transaction", "session"):
            store = open_store(f"{pooler.url}?pooler={kind}", clock=clock)
            await store.open()
            try:
                await store.beat(FAR, is_first=True)

                assert await marks(raw) == []
                assert await holders(raw) == 0
                assert store.knows_connections == (kind == "session")
            finally:
                await store.close()


async def test_a_worker_does_not_free_itself(far: Store, other: Store, proxy: Proxy) -> None:
    proxy.stall()
    proxy.hang_up()
    await until(lambda: is_gone(other))
    watch = Watch(other, "far")

    await watch.look(LOOKS_BEFORE)

    assert watch.freed == 0


async def test_the_next_process_of_a_lasting_name_frees_what_the_last_one_held(
    far: Store, other: Store, proxy: Proxy
) -> None:
    await far.beat(FAR._replace(is_lasting=True))
    await begun(other, jobs=(job(2),))
    await claim_jobs(far, "far")
    proxy.stall()
    proxy.hang_up()
    await until(lambda: is_gone(other))

    await Watch(other, "far").departures.free_own()

    [claimed] = await claim_jobs(other, "far")
    assert (claimed.attempt, claimed.lost) == (2, 1)


async def test_a_fleet_looks_no_more_often_than_one(far: Store, other: Store, proxy: Proxy) -> None:
    watch = Watch(other)
    assert watch.departures.pause_s() == ALONE_EVERY_S
    await other.beat(NEAR)
    await watch.look()
    assert LOOK_AGAIN_S / 2 < watch.departures.pause_s() < LOOK_AGAIN_S * 2
    proxy.stall()
    proxy.hang_up()
    await until(lambda: is_gone(other))

    await watch.look()

    assert watch.departures.pause_s() == LOOK_AGAIN_S
