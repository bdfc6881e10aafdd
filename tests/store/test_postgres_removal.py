"""On PostgreSQL others write at the same time; what is removed or repaired stays whole."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TypeAlias

import asyncpg
import pytest

from perdure.checking.invariants import check
from perdure.clock import ManualClock
from perdure.model.admin import Expiry
from perdure.model.turns import KvChange, TurnStatus
from perdure.store.base import Store
from tests.contract.store_values import (
    FED,
    PLACED,
    begun,
    claim,
    decided,
    ended,
    job,
    message,
    new_instance,
    next_turn,
    turn_of,
)
from tests.contract.test_admin import dead
from tests.engine.stage import until

ROUNDS = 20
FIRST = (FED._replace(index=1),)
"""The feed of a first turn, whose events are the start and `PLACED`."""

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


async def rows_of(raw: Connection, instance_id: str) -> dict[str, int]:
    """Return in which tables an instance has rows, and how many."""
    tables = await raw.fetch(
        "SELECT table_name FROM information_schema.columns"
        " WHERE table_schema = 'perdure' AND column_name = 'instance_id'"
    )
    counts = {}
    for (table,) in tables:
        counts[table] = await raw.fetchval(
            f"SELECT count(*) FROM perdure.{table} WHERE instance_id = $1",  # noqa: S608 (a name of the catalogue)
            instance_id,
        )
    return {table: count for table, count in counts.items() if count}


# --------------------------------------------------------------------- positions


async def test_an_event_that_is_committed_late_comes_behind_what_was_read(
    store: Store, other: Store, raw: Connection
) -> None:
    late = await decided(store, "order:late")
    transaction = raw.transaction()
    await transaction.start()
    await raw.execute(
        "INSERT INTO perdure.feed_new (part, instance_id, incarnation, execution, seq,"
        " definition_no, tag, version, cause, correlation)"
        " SELECT part, instance_id, incarnation, 1, 2, definition_no, 'Late', 0, '', ''"
        " FROM perdure.instances WHERE incarnation = $1",
        late.incarnation,
    )
    await decided(other, "order:early", feed=FIRST)
    early, upto = await store.feed.read_feed(after=0, limit=10)

    await transaction.commit()
    behind, _ = await store.feed.read_feed(after=upto, limit=10)

    assert [event.instance_id for event in early] == ["order:early"]
    assert [(event.instance_id, event.tag) for event in behind] == [("order:late", "Late")]
    assert [event.pos for event in (*early, *behind)] == [1, 2]


async def test_who_finds_another_giving_positions_goes_on_without_waiting(
    store: Store, raw: Connection
) -> None:
    await decided(store, feed=FIRST)
    async with raw.transaction():
        assert await raw.fetchval("SELECT perdure.number_feed(10)") == 1

        assert await store.feed.read_feed(after=0, limit=10) == ([], 0)

    [event] = (await store.feed.read_feed(after=0, limit=10))[0]
    assert event.pos == 1


async def test_at_most_so_many_events_get_positions_at_once(store: Store, raw: Connection) -> None:
    for number in range(5):
        await decided(store, f"order:{number}", feed=FIRST)

    moved = [await raw.fetchval("SELECT perdure.number_feed(2)") for _ in range(4)]

    assert moved == [2, 2, 1, 0]
    found, upto = await store.feed.read_feed(after=0, limit=10)
    assert [event.instance_id for event in found] == [f"order:{number}" for number in range(5)]
    assert [event.pos for event in found] == [1, 2, 3, 4, 5]
    assert upto == 5


async def test_an_event_that_gets_its_position_while_its_instance_is_deleted_goes_too(
    store: Store, raw: Connection, postgres_url: str
) -> None:
    stamp = await decided(store, feed=FIRST)
    watching = await asyncpg.connect(postgres_url)

    async def somebody_waits() -> int:
        waiting: int = await watching.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return waiting

    async with raw.transaction():
        await raw.fetchval("SELECT perdure.number_feed(10)")
        deletion = asyncio.ensure_future(
            store.admin.delete([("order:1", stamp.incarnation)], force=True)
        )
        await until(somebody_waits)
    await watching.close()

    assert await deletion is not None
    assert await rows_of(raw, "order:1") == {}


# ------------------------------------------------------------- removal and repair


async def test_commits_beside_a_deletion_are_refused_or_deleted(
    store: Store, other: Store, raw: Connection
) -> None:
    for _ in range(ROUNDS):
        stamp = await decided(store)
        turn = next_turn(
            "order:1",
            stamp,
            events=(PLACED,),
            feed=(FED,),
            jobs=(job(9),),
            kv=(KvChange("k", b"1"),),
        )

        deleted, _ = await asyncio.gather(
            other.admin.delete([("order:1", stamp.incarnation)], force=True), store.commit([turn])
        )

        assert deleted is not None
        assert await rows_of(raw, "order:1") == {}


async def test_a_dead_job_that_is_put_back_beside_a_deletion_does_not_stay(
    store: Store, other: Store, raw: Connection
) -> None:
    for _ in range(ROUNDS):
        key = await dead(store)

        deleted, _ = await asyncio.gather(
            other.admin.delete([("i", key.incarnation)], force=True),
            store.admin.retry_dead_jobs([key]),
        )

        assert deleted is not None
        assert await rows_of(raw, "i") == {}


async def test_a_dead_job_is_put_back_or_forgotten_and_not_both(store: Store, other: Store) -> None:
    for _ in range(ROUNDS):
        key = await dead(store)

        [back], [gone] = await asyncio.gather(
            store.admin.retry_dead_jobs([key]), other.admin.forget_dead_jobs([key])
        )

        assert back != gone
        assert len(await store.read_jobs("i")) == back
        await store.admin.delete([("i", key.incarnation)], force=True)


async def test_an_instance_that_is_replaced_beside_its_deletion_is_there_whole(
    store: Store, other: Store
) -> None:
    for _ in range(ROUNDS):
        old = await ended(store)
        new = new_instance(replaces=old)

        await asyncio.gather(store.start([new]), other.admin.delete([("i", old)]))

        [row] = await store.read_instances(["i"])
        assert row is not None
        assert row.incarnation == new.incarnation
        assert await check(store) == []
        assert await store.admin.delete([("i", new.incarnation)], force=True) is not None


async def test_a_message_that_comes_while_its_unborn_id_expires_is_kept(
    store: Store, other: Store, clock: ManualClock, raw: Connection
) -> None:
    for _ in range(ROUNDS):
        await store.deliver([message("unborn", message_id="old", if_absent="buffer")])
        clock.advance(timedelta(milliseconds=10))

        await asyncio.gather(
            other.admin.expire(Expiry(unborn_before_ms=clock()), limit=10),
            store.deliver([message("unborn", message_id="new", if_absent="buffer")]),
        )

        live = await store.read_live("unborn")
        assert live is not None
        # The id began anew, or the message came first and it was not too old any more.
        rows = {"live": 1, "inbox": live.last_no, "receipts": live.last_no}
        assert await rows_of(raw, "unborn") == rows
        clock.advance(timedelta(milliseconds=10))
        assert await store.admin.expire(Expiry(unborn_before_ms=clock()), limit=10) == 1


async def test_a_message_is_taken_by_a_turn_or_dropped_and_not_both(
    store: Store, other: Store
) -> None:
    for number in range(ROUNDS):
        await begun(store, f"i{number}")
        await store.deliver([message(f"i{number}")])
        [claimed] = await claim(store)

        was_dropped, [receipt] = await asyncio.gather(
            other.admin.drop_message(f"i{number}", 1), store.commit([turn_of(claimed)])
        )

        assert was_dropped == (receipt.status is TurnStatus.REFUSED)
        assert await store.read_inbox(f"i{number}") == []
        # Nobody is to be claimed in the next round.
        await store.admin.delete([(f"i{number}", claimed.stamp.incarnation)], force=True)
