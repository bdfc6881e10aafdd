"""On PostgreSQL all that touches a stream's rows locks its head first, so that two of them wait for
each other in one order, and never in a circle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import asyncpg
import pytest

from perdure.model.instances import Stamp
from perdure.model.jobs import ClaimedJob
from perdure.model.turns import TurnStatus
from perdure.store.base import Store
from tests.contract.store_values import (
    begun,
    claim_jobs,
    first_turn,
    job,
    latest,
    new_instance,
    next_turn,
    outcome,
)
from tests.contract.test_rewinds import resetting
from tests.contract.test_streams import append, sent, succeeded
from tests.engine.stage import until

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Act = Callable[[Store, ClaimedJob, Stamp], Awaitable[Any]]


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
async def somebody_waits(postgres_url: str) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
    """Tells whether a transaction of the store waits for a lock."""
    watching = await asyncpg.connect(postgres_url)

    async def look() -> bool:
        count: int = await watching.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return count > 0

    yield look
    await watching.close()


async def end_job(store: Store, work: ClaimedJob, stamp: Stamp) -> None:
    assert await store.end_jobs([succeeded(work, "last")])


async def end_job_that_sent_all(store: Store, work: ClaimedJob, stamp: Stamp) -> None:
    assert await store.end_jobs([succeeded(work)])


async def end_in_a_turn(store: Store, work: ClaimedJob, stamp: Stamp) -> None:
    turn = next_turn("i", stamp, job_ends=(succeeded(work),), sent=sent("turn"))
    [receipt] = await store.commit([turn])
    assert receipt.status is TurnStatus.ACCEPTED


async def reset(store: Store, work: ClaimedJob, stamp: Stamp) -> None:
    [receipt] = await store.commit([resetting(stamp)])
    assert receipt.status is TurnStatus.ACCEPTED


async def delete(store: Store, work: ClaimedJob, stamp: Stamp) -> None:
    assert await store.admin.delete([("i", stamp.incarnation)], force=True)


async def replace(store: Store, work: ClaimedJob, stamp: Stamp) -> None:
    anew = new_instance("i", replaces=stamp.incarnation)
    [receipt] = await store.commit([first_turn(anew)])
    assert receipt.status is TurnStatus.ACCEPTED


async def send_first(store: Store, work: ClaimedJob, stamp: Stamp) -> None:
    assert await store.streams.append_streams([append(work, "again", is_first=True)]) == [True]


@pytest.mark.parametrize(
    "act",
    [end_job, end_job_that_sent_all, end_in_a_turn, reset, delete, replace, send_first],
)
async def test_it_waits_for_the_head_and_holds_no_row_meanwhile(
    store: Store, raw: Connection, somebody_waits: Callable[[], Awaitable[bool]], act: Act
) -> None:
    await begun(store, jobs=(job(2),), sent=sent("a"))
    [work] = await claim_jobs(store)
    await store.streams.append_streams([append(work, "b"), append(work, "c", to="t")])
    if act is replace:
        await store.commit([next_turn("i", await latest(store), outcome=outcome())])
    stamp = await latest(store) if act is not replace else Stamp(work.key.incarnation, 1, 3)
    async with raw.transaction():
        # What a take-back does first.
        await raw.execute("SELECT FROM perdure.perdure_stream_heads FOR UPDATE")
        doing = asyncio.ensure_future(act(store, work, stamp))
        await until(somebody_waits)
        # And then: it would wait here for who waits for it.
        await raw.execute("SELECT FROM perdure.perdure_streams FOR UPDATE NOWAIT")

    await doing


async def test_attempts_of_several_instances_lock_all_heads_in_one_order(
    store: Store, raw: Connection, somebody_waits: Callable[[], Awaitable[bool]]
) -> None:
    works = []
    for instance_id in ("a", "b"):
        await begun(store, instance_id, jobs=(job(2),), sent=sent("first"))
        works += await claim_jobs(store)
    first, second = sorted(works, key=lambda work: work.key.instance_id)
    await store.streams.append_streams([append(first, "x"), append(second, "y")])
    parts = await raw.fetch("SELECT DISTINCT part, instance_id FROM perdure.perdure_stream_heads")
    [(_, lowest), (_, highest)] = sorted((row["part"], row["instance_id"]) for row in parts)
    appends = {
        work.key.instance_id: append(work, "z", is_first=work.key.instance_id == highest)
        for work in works
    }
    head = "SELECT FROM perdure.perdure_stream_heads WHERE instance_id = $1 FOR UPDATE"
    async with raw.transaction():
        await raw.execute(head, lowest)
        sending = asyncio.ensure_future(store.streams.append_streams(list(appends.values())))
        await until(somebody_waits)
        await raw.execute(f"{head} NOWAIT", highest)

    assert await sending == [True, True]
