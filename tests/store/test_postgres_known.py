"""Turns whose rows the writer knows on PostgreSQL: one call, and as sure as the steps before."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import psycopg
import pytest

from perdure.checking.invariants import check
from perdure.clock import ManualClock
from perdure.model.instances import Status
from perdure.model.jobs import JobKey
from perdure.model.turns import ChildStart, Turn, TurnClaim, TurnStatus
from perdure.store.base import Store, TurnLease
from perdure.store.epoch import Epoch
from perdure.store.locked_turns import KnownInstance
from perdure.store.opening import open_store
from perdure.store.postgres.address import Address
from perdure.store.postgres.lane import Lane
from perdure.store.postgres.store import PostgresStore
from perdure.store.sql.claims import TurnClaiming, ask_ready
from perdure.store.sql.commits.batch import Operation
from perdure.store.sql.definitions import number_of
from tests.contract.store_values import (
    COMPLETED,
    LEASE_MS,
    ORCHESTRATION,
    SCHEDULED,
    STARTED,
    accepted,
    begun,
    claim,
    claim_jobs,
    events_of,
    first_turn,
    job,
    latest,
    message,
    new_instance,
    next_turn,
    outcome,
    result_of,
    token,
)
from tests.engine.stage import until
from tests.postgres import Server
from tests.sizes import WITHIN_S
from tests.wire import Proxy


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
async def store(
    url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Store]:
    # Plans that are made anew take steps, however long a test may take.
    monkeypatch.setattr("perdure.store.postgres.lane.PLANS_LAST_S", 3600.0)
    store = open_store(url, clock=clock)
    await store.open()
    for n in range(4):
        # Every lane gives its definitions numbers, which takes steps.
        await begun(store, f"first-{n}", events=(STARTED, SCHEDULED), jobs=(job(2),))
    yield store
    await store.close()


async def statements_of(store: Store, *turns: Turn) -> int:
    """Return how many statements it takes to commit turns, each accepted, one after another."""
    assert isinstance(store, PostgresStore)
    before = store.counters.statements
    for turn in turns:
        await accepted(store, turn)
    return store.counters.statements - before


# ------------------------------------------------------------------------ one call


async def test_a_turn_that_follows_another_is_one_call(store: Store) -> None:
    stamp = await begun(store, events=(STARTED, SCHEDULED), jobs=(job(2, leased=True),))
    [waiting] = await store.read_jobs("i")
    end = result_of(JobKey("i", stamp.incarnation, 1, 2), waiting.token)
    again = next_turn("i", stamp, events=(SCHEDULED,), job_ends=(end,), jobs=(job(3),))
    last = next_turn("i", again.next_stamp, events=(COMPLETED,), outcome=outcome())

    assert await statements_of(store, again, last) == 2

    assert await store.read_jobs("i") == []
    [row] = await store.read_instances(["i"])
    assert row is not None
    assert row.status is Status.COMPLETED


async def test_a_new_instance_beside_one_that_is_known_is_in_the_same_call(store: Store) -> None:
    stamp = await begun(store)
    child = new_instance("child")
    turn = next_turn("i", stamp, events=(SCHEDULED,), children=(ChildStart(child, None),))

    assert await statements_of(store, turn, first_turn(new_instance("j"))) == 2

    assert [row is not None for row in await store.read_instances(["child", "j"])] == [True, True]


async def test_a_turn_on_what_was_read_of_another_process_is_one_call(
    store: Store, other: Store
) -> None:
    """Where several processes decide on one instance, each look brings the row along."""
    stamp = await begun(store)
    theirs = next_turn("i", stamp, events=(SCHEDULED,))
    await accepted(other, theirs)
    [news] = await store.read_news([KnownInstance("i", stamp)])

    assert news.live is not None
    ours = next_turn("i", news.live.stamp, events=(SCHEDULED,))
    assert await statements_of(store, ours) == 1

    assert await events_of(store, "i", stamp.incarnation) == [STARTED, SCHEDULED, SCHEDULED]


async def test_a_turn_after_its_claim_is_one_call(store: Store) -> None:
    """The claim has told what it left behind."""
    await store.start([new_instance("i")])
    claimed = next(one for one in await claim(store) if one.instance_id == "i")

    first = next_turn(
        "i",
        claimed.stamp,
        lease=claimed.lease,
        events=(STARTED,),
        consumed=tuple(one.no for one in claimed.messages),
        seen_no=claimed.last_no,
    )
    assert await statements_of(store, first) == 1

    assert await events_of(store, "i", claimed.stamp.incarnation) == [STARTED]
    assert await check(store) == []


async def test_a_claim_that_is_given_back_in_the_same_transaction_is_known_to_be_none(
    store: Store,
) -> None:
    """The row has the same number of a transaction, and is not as the claim has left it."""
    assert isinstance(store, PostgresStore)
    stamp = await begun(store)
    await store.deliver([message()])
    numbers, lease = await store.intern([ORCHESTRATION]), token()
    asked = TurnClaim("w2", tuple((number, "c1") for number in numbers), 9, LEASE_MS, lease)
    lane, queue = store._lanes[0], store._batchers[0]._queue
    batches = lane.counters.transactions
    has_begun, go_on = threading.Event(), threading.Event()

    def hold_up(_: object) -> bool:
        has_begun.set()
        return go_on.wait(WITHIN_S)

    before = asyncio.ensure_future(store.work(hold_up))
    await until(has_begun.is_set)
    claiming = asyncio.ensure_future(store.claim_turns(asked))
    await until(lambda: queue.qsize() == 1)
    releasing = asyncio.ensure_future(store.release_turns([TurnLease("i", lease)]))
    await until(lambda: queue.qsize() == 2)
    lane._plans_until_s = 0.0  # So that they are one transaction, and not claimed by themselves.
    go_on.set()
    await asyncio.gather(before, releasing)

    assert [one.instance_id for one in await claiming if one.instance_id == "i"] == ["i"]
    assert lane.counters.transactions == batches + 2
    late = next_turn("i", stamp, lease=lease, events=(SCHEDULED,), worker_id="w2")
    [receipt] = await store.commit([late])
    assert receipt.status is TurnStatus.REFUSED


async def test_what_was_read_and_has_changed_since_decides_nothing(
    store: Store, other: Store
) -> None:
    stamp = await begun(store)
    await store.read_news([KnownInstance("i", stamp)])
    await other.deliver([message()])
    receipt = await accepted(store, next_turn("i", stamp, events=(SCHEDULED,)))
    assert receipt.has_unseen

    await store.read_news([KnownInstance("i", stamp)])
    stamp = await latest(store, "i")
    await accepted(other, next_turn("i", stamp, events=(SCHEDULED,)))
    [late] = await store.commit([next_turn("i", stamp, events=(SCHEDULED,))])

    assert late.status is TurnStatus.REFUSED


async def test_what_was_read_in_another_life_of_the_database_is_not_remembered(
    store: Store, other: Store
) -> None:
    stamp = await begun(store)
    theirs = next_turn("i", stamp, events=(SCHEDULED,))
    await accepted(other, theirs)
    await store.read_news([KnownInstance("i", stamp)])
    store.epoch.meet("another life")

    assert await statements_of(store, next_turn("i", theirs.next_stamp, events=(SCHEDULED,))) > 1


# ------------------------------------------------------------ what others have changed


async def test_a_message_that_another_process_has_sent_is_heard_of(
    store: Store, other: Store
) -> None:
    stamp = await begun(store)
    await other.deliver([message()])

    receipt = await accepted(store, next_turn("i", stamp, events=(SCHEDULED,)))

    assert receipt.has_unseen
    assert receipt.last_no == 1


async def test_a_turn_of_an_instance_that_another_process_has_leased_is_refused(
    store: Store, other: Store
) -> None:
    stamp = await begun(store)
    await other.deliver([message()])
    [claimed] = await claim(other, "w2")

    [receipt] = await store.commit([next_turn("i", stamp, events=(SCHEDULED,), worker_id="w3")])

    assert claimed.instance_id == "i"
    assert receipt.status is TurnStatus.REFUSED


async def test_a_turn_of_an_instance_that_another_process_has_ended_is_refused(
    store: Store, other: Store
) -> None:
    stamp = await begun(store)
    await accepted(other, next_turn("i", stamp, events=(COMPLETED,), outcome=outcome()))

    [receipt] = await store.commit([next_turn("i", stamp, events=(SCHEDULED,))])

    assert receipt.status is TurnStatus.REFUSED
    assert await events_of(store, "i", stamp.incarnation) == [STARTED, COMPLETED]


async def test_a_job_that_another_process_has_taken_over_does_not_end_with_our_token(
    store: Store, other: Store, clock: ManualClock
) -> None:
    turn = first_turn(
        new_instance("i"),
        events=(STARTED, SCHEDULED),
        jobs=(job(2, leased=True),),
        jobs_leased_until_ms=clock() + LEASE_MS,
    )
    await accepted(store, turn)
    clock.advance(timedelta(milliseconds=LEASE_MS + 1))
    taken = next(one for one in await claim_jobs(other, "w2") if one.key.instance_id == "i")
    end = result_of(taken.key, turn.commit_id)

    stamp = turn.next_stamp
    [receipt] = await store.commit([next_turn("i", stamp, events=(SCHEDULED,), job_ends=(end,))])

    assert receipt.status is TurnStatus.REFUSED
    assert [row.token for row in await store.read_jobs("i")] == [taken.token]


async def test_a_job_that_was_cancelled_does_not_end(store: Store) -> None:
    turn = first_turn(new_instance("i"), events=(STARTED, SCHEDULED), jobs=(job(2, leased=True),))
    await accepted(store, turn)
    stamp = turn.next_stamp
    await accepted(store, next_turn("i", stamp, events=(SCHEDULED,), jobs_gone=(2,)))
    end = result_of(JobKey("i", stamp.incarnation, 1, 2), turn.commit_id)

    late = next_turn("i", await latest(store), events=(SCHEDULED,), job_ends=(end,))
    [receipt] = await store.commit([late])

    assert receipt.status is TurnStatus.REFUSED
    assert receipt.ends_kept == ()


async def test_a_start_of_an_id_that_another_process_has_taken_is_told_so(
    store: Store, other: Store
) -> None:
    stamp = await begun(store, "i")
    await begun(other, "taken")
    turns = [next_turn("i", stamp, events=(SCHEDULED,)), first_turn(new_instance("taken"))]

    receipts = await store.commit(turns)

    assert [one.status for one in receipts] == [TurnStatus.ACCEPTED, TurnStatus.TAKEN]


async def test_a_start_finds_the_messages_that_came_before_it(store: Store, other: Store) -> None:
    await begun(store, "i")
    await other.deliver([message("early", if_absent="buffer")])

    receipt = await accepted(store, first_turn(new_instance("early")))

    assert receipt.has_unseen
    assert len(await store.read_inbox("early")) == 1


async def test_what_was_not_started_was_not_known_to_be_new(store: Store, other: Store) -> None:
    """A refused turn would have started a child whose id another process has given away."""
    job_of = {"jobs": (job(2, leased=True),), "jobs_leased_until_ms": 2**45, "commit_id": 7}
    stamp = await begun(store, "i", events=(STARTED, SCHEDULED), **job_of)
    await begun(other, "child")
    refused = next_turn(
        "i",
        stamp,
        events=(SCHEDULED,),
        job_ends=(result_of(JobKey("i", stamp.incarnation, 1, 2), 8),),
        children=(ChildStart(new_instance("child"), None),),
    )
    asking = next_turn(
        "i", stamp, events=(SCHEDULED,), deliveries=(message("child", if_absent="drop"),)
    )

    receipts = await store.commit([refused, asking])

    assert [one.status for one in receipts] == [TurnStatus.REFUSED, TurnStatus.ACCEPTED]
    assert len(await store.read_inbox("child")) == 1


def test_a_claim_in_the_same_transaction_is_not_overlooked(url: str, clock: ManualClock) -> None:
    """It changes rows that the batch has written, under the same number of a transaction."""
    lane = Lane(Address.parse(url), clock=clock, epoch=Epoch(), stirred=lambda hints: None)
    first = first_turn(new_instance())
    lane.execute([first])
    asked = TurnClaim("w2", ((number_of(ORCHESTRATION), "c1"),), 1, LEASE_MS, token())
    claiming = TurnClaiming(asked, ask_ready)
    work = Operation(lambda t: claiming.run(t.connection, now_ms=t.now_ms, offset=0))

    _, claimed = lane.execute([message(), work])

    turn = next_turn("i", first.next_stamp, events=(SCHEDULED,), worker_id="w3")
    [receipt] = lane.execute([turn])
    lane.close()
    assert [one.instance_id for one in claimed] == ["i"]
    assert receipt.status is TurnStatus.REFUSED


async def test_a_row_that_a_user_has_locked_is_put_off_and_written_later(
    store: Store, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    stamp = await begun(store)
    async with raw.transaction():
        await raw.execute("SELECT 1 FROM perdure.live WHERE instance_id = 'i' FOR UPDATE")
        committing = asyncio.ensure_future(
            store.commit([next_turn("i", stamp, events=(SCHEDULED,))])
        )
        await begun(store, "free")
        assert not committing.done()

    [receipt] = await committing

    assert receipt.status is TurnStatus.ACCEPTED


async def test_a_row_of_the_same_number_that_another_turn_has_left_is_not_the_same(
    store: Store, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    """A standby that took over without some transactions gives their numbers again."""
    await begun(store)
    find = "SELECT part, instance_id, xmin::text, last_commit FROM perdure.live"
    row = list(await raw.fetchrow(f"{find} WHERE instance_id = 'i'") or ())
    call = "SELECT perdure.write_known_1($1, '[]', '{}', '{}', '{}', 0)"

    same = await raw.fetchval(call, json.dumps([row]))
    other = await raw.fetchval(call, json.dumps([[*row[:3], row[3] + 1]]))

    assert (same is None, other is None) == (False, True)


# ------------------------------------------------------------------ trouble on the way


def is_call(statement: str) -> bool:
    return "write_known" in statement


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_turn_whose_answer_was_lost_is_accepted_once(
    url: str, clock: ManualClock, when: str
) -> None:
    async with Proxy(url) as proxy:
        store = open_store(proxy.url, clock=clock)
        await store.open()
        stamp = await begun(store, events=(STARTED, SCHEDULED), jobs=(job(2),))
        cut = proxy.cut_before if when == "before" else proxy.cut_after
        cut(is_call)

        [receipt] = await store.commit([next_turn("i", stamp, events=(SCHEDULED,), jobs=(job(3),))])

        assert proxy.cuts == 1
        assert receipt.status is TurnStatus.ACCEPTED
        assert len(await store.read_jobs("i")) == 2
        assert await check(store) == []
        await store.close()


async def test_a_start_whose_answer_was_lost_and_that_others_went_on_from_is_known_as_ours(
    url: str, other: Store, clock: ManualClock
) -> None:
    async with Proxy(url) as proxy:
        store = open_store(proxy.url, clock=clock)
        await store.open()
        for n in range(4):
            await begun(store, f"known-{n}")  # On every lane.
        start = new_instance("i")
        proxy.cut_after(is_call)
        turn = first_turn(start)
        committing = asyncio.ensure_future(store.commit([turn]))
        await until(lambda: proxy.cuts)
        proxy.stall()
        await accepted(other, next_turn("i", turn.next_stamp, events=(SCHEDULED,)))
        proxy.flow()

        [receipt] = await committing

        assert receipt.status is TurnStatus.ACCEPTED
        assert await store.start([start]) == [None]
        await store.close()


async def test_a_turn_after_a_connection_was_lost_is_accepted_once(
    url: str, clock: ManualClock, postgres: Server
) -> None:
    store = open_store(url, clock=clock)
    await store.open()
    stamp = await begun(store)
    for pid in postgres.backends(url):
        postgres.kill_backend(pid)

    # Two tries: the first finds out that the connection is lost.
    await accepted(store, next_turn("i", stamp, events=(SCHEDULED,)))
    again = next_turn("i", await latest(store), events=(SCHEDULED,))

    assert await statements_of(store, again) == 1
    assert await events_of(store, "i", stamp.incarnation) == [STARTED, SCHEDULED, SCHEDULED]
    await store.close()


@pytest.mark.parametrize(
    "setting",
    [
        "default_transaction_isolation = 'repeatable read'",
        "default_transaction_isolation = 'serializable'",
        "default_transaction_read_only = on",
    ],
)
async def test_what_a_database_is_set_to_changes_nothing(
    url: str, clock: ManualClock, setting: str
) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET {setting}".encode())
    store = open_store(url, clock=clock)
    await store.open()
    stamp = await begun(store)

    await accepted(store, next_turn("i", stamp, events=(SCHEDULED,)))
    await accepted(store, next_turn("i", await latest(store), events=(SCHEDULED,)))

    assert await events_of(store, "i", stamp.incarnation) == [STARTED, SCHEDULED, SCHEDULED]
    await store.close()


async def test_where_rows_are_often_not_as_known_that_is_tried_less_often(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0
    run = Lane._run_as_one_statement

    def count(self: Lane, *args: object) -> object:
        nonlocal tries
        known = len(self._remembered)
        results = run(self, *args)  # type: ignore[arg-type]  # as they are
        tries += bool(known and not len(self._remembered))
        return results

    monkeypatch.setattr(Lane, "_run_as_one_statement", count)
    stamp = await begun(store)
    for _ in range(64):
        await other.deliver([message()])
        turn = next_turn("i", stamp, events=(SCHEDULED,))
        await accepted(store, turn)
        stamp = turn.next_stamp

    assert tries <= 7  # After 1, 2, 4, ... batches.
