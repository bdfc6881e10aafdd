"""PostgreSQL hangs up in the midst of a commit: what was committed is known, and not done again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest

from perdure import Client
from perdure.checking.invariants import check
from perdure.clock import ManualClock
from perdure.errors import StoreUnavailableError
from perdure.model.instances import part_of
from perdure.model.jobs import JobKey, StreamAppend
from perdure.model.streams import SentItems
from perdure.model.turns import ClaimedTurn, TurnClaim, TurnStatus
from perdure.store.base import Store
from perdure.store.contents import Inspectable
from perdure.store.opening import open_store
from perdure.store.postgres import lane
from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import PostgresConnection, statement
from perdure.store.postgres.lost_answers import NOTHING, LostAnswers
from perdure.store.sql.claims import TurnClaiming, ask_ready
from tests.contract.store_values import (
    LEASE_MS,
    ORCHESTRATION,
    SCHEDULED,
    STARTED,
    begun,
    claim,
    claim_jobs,
    job,
    message,
    new_instance,
    next_turn,
    result_of,
    token,
    turn_of,
)
from tests.engine.stage import until
from tests.postgres import Server
from tests.wire import Proxy


def is_commit(statement: str) -> bool:
    """In steps, or in the call that does it all at once."""
    return statement == "COMMIT" or "write_known" in statement


@pytest.fixture(autouse=True)
def lasting_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that makes plans anew claims in steps, however long a test takes to come to it."""
    monkeypatch.setattr(lane, "PLANS_LAST_S", 3600.0)


@pytest.fixture
async def proxy(postgres_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(postgres_url) as proxy:
        yield proxy


@pytest.fixture
async def store(proxy: Proxy, clock: ManualClock) -> AsyncIterator[Store]:
    """A store whose line to the database can be cut."""
    store = open_store(proxy.url, clock=clock)
    await store.open()
    yield store
    await store.close()


async def bodies_of(store: Store, instance_id: str = "i") -> list[bytes]:
    return [message.body for message in await store.read_inbox(instance_id)]


# -------------------------------------------------- the answer to COMMIT does not arrive


async def test_a_start_that_was_committed_unheard_is_known_as_started(
    store: Store, proxy: Proxy
) -> None:
    proxy.cut_after(is_commit)

    [taken] = await store.start([new_instance("i")])

    assert proxy.cuts == 1
    assert taken is None
    assert await bodies_of(store) == [STARTED.body]


@pytest.mark.parametrize("message_id", [None, "m"])
async def test_a_message_that_was_committed_unheard_is_delivered_once(
    store: Store, proxy: Proxy, message_id: str | None
) -> None:
    await begun(store)
    proxy.cut_after(is_commit)

    [status] = await store.deliver([message(message_id=message_id)])

    assert proxy.cuts == 1
    assert status == "delivered"
    assert await bodies_of(store) == [b"hello"]


async def test_who_was_first_with_a_message_hears_so_although_the_server_has_crashed(
    store: Store, other: Store, proxy: Proxy, postgres_url: str
) -> None:
    """Then it cannot be asked what became of the commit, and the message is given again."""
    await begun(store)
    proxy.cut_after(is_commit)
    first = message(message_id="m", call_id="call:1")
    delivering = asyncio.ensure_future(store.deliver([first]))
    await until(lambda: proxy.cuts)
    proxy.stall()

    await forget_marks(postgres_url)
    theirs = await other.deliver([message(message_id="m", call_id="call:2")])
    proxy.flow()

    assert (await delivering, theirs) == (["delivered"], ["duplicate"])
    assert await bodies_of(store) == [b"hello"]


async def test_what_a_job_has_sent_is_stored_once_although_the_server_has_crashed(
    store: Store, proxy: Proxy, postgres_url: str
) -> None:
    await begun(store, events=(STARTED, SCHEDULED), jobs=(job(2),))
    [work] = await claim_jobs(store)
    words = [SentItems("words", (b"1", b"2")), SentItems("words", (b"3",))]
    first, second = [StreamAppend(work.key, work.token, 1, (one,), False) for one in words]
    await store.streams.append_streams([first])
    proxy.cut_after(is_commit)
    appending = asyncio.ensure_future(store.streams.append_streams([second._replace(stored=2)]))
    await until(lambda: proxy.cuts)
    proxy.stall()
    await forget_marks(postgres_url)
    proxy.flow()

    assert await appending == [True]
    page = await store.streams.read_stream("i", "words", after=0, limit=10)
    assert page is not None
    assert [item.body for item in page.items] == [b"1", b"2", b"3"]


async def test_what_a_job_has_sent_is_stored_although_a_neighbour_has_sent_more(
    store: Store, proxy: Proxy, postgres_url: str
) -> None:
    """Jobs that were claimed together have one token."""
    await begun(store, events=(STARTED, SCHEDULED), jobs=(job(2), job(3)))
    one, other = await claim_jobs(store)
    await store.streams.append_streams(
        [StreamAppend(other.key, other.token, 1, (SentItems("words", (b"1", b"2")),), False)]
    )
    proxy.cut_before(is_commit)
    appending = asyncio.ensure_future(
        store.streams.append_streams(
            [StreamAppend(one.key, one.token, 1, (SentItems("words", (b"3",)),), False)]
        )
    )
    await until(lambda: proxy.cuts)
    proxy.stall()
    await forget_marks(postgres_url)
    proxy.flow()

    assert one.token == other.token
    assert await appending == [True]
    page = await store.streams.read_stream("i", "words", after=0, limit=10)
    assert page is not None
    assert [item.body for item in page.items] == [b"1", b"2", b"3"]


async def forget_marks(url: str) -> None:
    """Let the database seem to have crashed."""
    raw = await asyncpg.connect(url)
    await raw.execute("DELETE FROM perdure.marks")
    await raw.close()


async def test_a_turn_that_was_committed_unheard_is_accepted_once(
    store: Store, proxy: Proxy
) -> None:
    stamp = await begun(store)
    turn = next_turn("i", stamp, events=(SCHEDULED,), jobs=(job(2),))
    proxy.cut_after(is_commit)

    [receipt] = await store.commit([turn])

    assert proxy.cuts == 1
    assert receipt.status is TurnStatus.ACCEPTED
    assert len(await store.read_jobs("i")) == 1
    assert await check(store) == []


async def test_the_end_of_a_job_that_was_committed_unheard_is_not_taken_for_a_lost_lease(
    store: Store, proxy: Proxy
) -> None:
    stamp = await begun(store, events=(STARTED, SCHEDULED), jobs=(job(2),))
    [claimed] = await claim_jobs(store)
    proxy.cut_after(is_commit)

    [is_ours] = await store.end_jobs(
        [result_of(JobKey("i", stamp.incarnation, 1, 2), claimed.token)]
    )

    assert proxy.cuts == 1
    assert is_ours
    assert await bodies_of(store) == [b"done"]
    assert await store.read_jobs("i") == []


def commit_after(part: str) -> Callable[[str], bool]:
    """Return what finds the commit of the transaction that has run a statement with that text, and
    no other's: each line is handed on by a task of its own."""
    seen: set[object] = set()

    def applies(statement: str) -> bool:
        line = asyncio.current_task()
        if part in statement:
            seen.add(line)
        return line in seen and statement == "COMMIT"

    return applies


@pytest.fixture
async def stepping(proxy: Proxy, clock: ManualClock) -> AsyncIterator[Store]:
    """A store that claims in steps, as behind a pooler."""
    store = open_store(f"{proxy.url}?pooler=transaction", clock=clock)
    await store.open()
    yield store
    await store.close()


def is_claim(statement: str) -> bool:
    return "claim_1" in statement


@pytest.mark.parametrize("way", ["in one call", "in steps"])
async def test_a_claim_of_turns_that_was_committed_unheard_is_found_and_counted_once(
    store: Store, stepping: Store, proxy: Proxy, way: str
) -> None:
    if way == "in steps":
        store = stepping
    await store.start([new_instance("i"), new_instance("j")])
    await claim(store, limit=0)  # The first batch of a lane makes plans.
    proxy.cut_after(is_claim if way == "in one call" else commit_after("SET home = "))

    claimed = await claim(store)

    assert proxy.cuts == 1
    assert sorted(one.instance_id for one in claimed) == ["i", "j"]
    assert {one.attempts for one in claimed} == {1}
    assert {len(one.messages) for one in claimed} == {1}
    lives = [await store.read_live(instance_id) for instance_id in ("i", "j")]
    assert {live.lease for live in lives if live is not None} == {claimed[0].lease}
    assert [live.attempts for live in lives if live is not None] == [1, 1]


async def test_a_claim_that_was_committed_unheard_brings_nothing_that_came_after_it(
    stepping: Store, other: Store, proxy: Proxy
) -> None:
    """A store that goes back to the claim has the lease and not the message: what its turn made of
    that would stay, and the message come again from whoever sent it."""
    store = stepping
    await begun(store)
    await store.deliver([message(text="before")])
    proxy.cut_after(commit_after("SET home = "))
    claiming = asyncio.ensure_future(claim(store))
    await until(lambda: proxy.cuts)
    proxy.stall()

    await other.deliver([message(text="after")])
    proxy.flow()
    [claimed] = await claiming

    assert [one.body for one in claimed.messages] == [b"before"]
    [receipt] = await store.commit([turn_of(claimed)])
    assert (receipt.status, receipt.has_unseen) == (TurnStatus.ACCEPTED, True)
    [again] = await claim(store)
    assert [one.body for one in again.messages] == [b"after"]


async def test_a_claim_of_jobs_that_was_committed_unheard_is_found_and_counted_once(
    store: Store, proxy: Proxy, clock: ManualClock
) -> None:
    for instance_id in ("i", "j"):
        await begun(store, instance_id, events=(STARTED, SCHEDULED), jobs=(job(),))
    proxy.cut_after(commit_after("lost = jobs.lost"))

    claimed = await claim_jobs(store)

    assert proxy.cuts == 1
    assert sorted(one.key.instance_id for one in claimed) == ["i", "j"]
    assert {(one.attempt, one.lost, one.lease_until_ms) for one in claimed} == {
        (1, 0, clock() + LEASE_MS)
    }


@pytest.mark.parametrize("way", ["in one call", "in steps"])
async def test_a_claim_that_never_arrived_is_made_again(
    store: Store, stepping: Store, proxy: Proxy, way: str
) -> None:
    if way == "in steps":
        store = stepping
    await store.start([new_instance("i")])
    await claim(store, limit=0)  # The first batch of a lane makes plans.
    proxy.cut_before(is_claim if way == "in one call" else commit_after("SET home = "))

    [claimed] = await claim(store)

    assert proxy.cuts == 1
    assert claimed.attempts == 1


async def cut_claim(store: Store, proxy: Proxy, lease: int) -> asyncio.Future[list[ClaimedTurn]]:
    """Begin a claim whose answer is lost, of a store that cannot connect anew yet."""
    await claim(store, limit=0)  # The first batch of a lane makes plans.
    proxy.cut_after(is_claim)
    claiming = asyncio.ensure_future(claim(store, lease=lease))
    await until(lambda: proxy.cuts)
    proxy.stall()
    return claiming


async def test_what_came_after_a_claim_in_one_call_that_was_unheard_has_another_lease(
    store: Store, other: Store, proxy: Proxy
) -> None:
    """For the same reason: what was leased is not known, so what has come since cannot be left
    out."""
    await begun(store)
    await store.deliver([message(text="before")])
    claiming = await cut_claim(store, proxy, lease := token())
    await other.deliver([message(text="after")])
    lost = await other.read_live("i")
    proxy.flow()

    [claimed] = await claiming

    assert lost is not None
    assert (lost.lease, lost.attempts) == (lease, 1)
    assert claimed.lease != lease
    assert claimed.attempts == 1
    assert [one.body for one in claimed.messages] == [b"before", b"after"]
    [receipt] = await store.commit([turn_of(claimed)])
    assert receipt.status is TurnStatus.ACCEPTED


async def test_a_claim_in_one_call_that_is_not_over_is_waited_for(
    store: Store, proxy: Proxy, postgres_url: str
) -> None:
    """The server may not know yet that the client is gone, and lease what it has found."""
    await store.start([new_instance("i")])
    claiming = await cut_claim(store, proxy, lease := token())
    raw = await asyncpg.connect(postgres_url)
    await raw.execute("SELECT pg_advisory_lock($1)", lease)
    proxy.flow()

    async def is_waited_for() -> bool:
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        return bool(await raw.fetchval(waiting))

    while not await is_waited_for():
        assert not claiming.done()
    await raw.execute("SELECT pg_advisory_unlock($1)", lease)

    [claimed] = await claiming
    assert claimed.attempts == 1
    await raw.close()


async def test_a_claim_in_one_call_can_be_waited_for(store: Store, postgres_url: str) -> None:
    await store.start([new_instance("i")])
    [number] = await store.intern([ORCHESTRATION])
    _, params = found = TurnClaiming(
        TurnClaim("w1", ((number, "c1"),), 9, LEASE_MS, lease := token()), ask_ready
    ).at_once(store.clock(), may_differ_ms=None) or ("", {})
    assert found[0] == "claim_turns"
    text, names = statement("claim_turns", "perdure")
    raw, other = await asyncpg.connect(postgres_url), await asyncpg.connect(postgres_url)
    transaction = raw.transaction()
    await transaction.start()

    await raw.fetchval(text, *(params[name] for name in names))
    is_over = await other.fetchval("SELECT pg_try_advisory_lock($1)", lease)
    await transaction.rollback()

    assert not is_over
    assert await other.fetchval("SELECT pg_try_advisory_lock($1)", lease)
    await raw.close()
    await other.close()


async def test_a_turn_that_was_committed_unheard_and_overtaken_is_accepted_all_the_same(
    store: Store, other: Store, proxy: Proxy
) -> None:
    """While nobody can ask, another process goes on from it."""
    stamp = await begun(store)
    turn = next_turn("i", stamp, events=(SCHEDULED,), jobs=(job(2),))
    proxy.cut_after(is_commit)
    committing = asyncio.ensure_future(store.commit([turn]))
    await until(lambda: proxy.cuts)
    proxy.stall()

    overtaking = next_turn("i", turn.next_stamp, events=(SCHEDULED,))
    [theirs] = await other.commit([overtaking])
    proxy.flow()
    [ours] = await committing

    assert (ours.status, theirs.status) == (TurnStatus.ACCEPTED, TurnStatus.ACCEPTED)


async def test_what_comes_while_a_commit_is_unsure_is_written_beside_it(
    store: Store, proxy: Proxy
) -> None:
    """The next batch has what was committed unheard, and more."""
    await begun(store)
    proxy.cut_after(is_commit)
    first = asyncio.ensure_future(store.deliver([message(text="first")]))
    await until(lambda: proxy.cuts)
    proxy.stall()
    others = [asyncio.ensure_future(store.deliver([message(text=f"{n}")])) for n in range(3)]
    await asyncio.sleep(0)
    proxy.flow()

    answers = await asyncio.gather(first, *others)

    assert answers == [["delivered"]] * 4
    assert sorted(await bodies_of(store)) == [b"0", b"1", b"2", b"first"]


@pytest.mark.parametrize("has_crashed", [False, True])
def test_what_became_of_a_commit_is_asked_only_of_a_server_that_has_not_crashed_since(
    postgres_url: str, has_crashed: bool
) -> None:
    """After a crash the number of the transaction may be that of another, which is committed."""
    connection = PostgresConnection(Address.parse(postgres_url))
    [(xid,)] = connection.run("read_xid")
    delivery = message()
    unheard = LostAnswers()
    unheard.keep(xid, "mark", [delivery], ["delivered"])

    unheard.find_out(connection, "another mark" if has_crashed else "mark")

    connection.close()
    assert unheard.answer(delivery) == (NOTHING if has_crashed else "delivered")


async def test_a_commit_that_a_crash_has_swallowed_is_done_again(clock: ManualClock) -> None:
    """After a crash the server gives the ids of lost transactions to others, which it commits."""
    with await asyncio.to_thread(Server, durable=True) as server:
        url = server.create_database()
        async with Proxy(url) as proxy:
            store = open_store(proxy.url, clock=clock)
            await store.open()
            await begun(store)
            proxy.stall_at(is_commit)
            delivering = asyncio.ensure_future(store.deliver([message()]))
            await proxy.stalled.wait()
            await asyncio.to_thread(server.stop, "immediate")
            await asyncio.to_thread(server.start)
            raw = await asyncpg.connect(url)
            for _ in range(50):
                await raw.execute("SELECT pg_current_xact_id()")
            await raw.close()
            proxy.flow()

            assert await delivering == ["delivered"]
            assert await bodies_of(store) == [b"hello"]
            await store.close()


async def test_a_request_to_stop_that_was_committed_before_a_crash_is_there_once() -> None:
    """Nobody can tell then whether it was committed, and it is sent again."""
    with await asyncio.to_thread(Server, durable=True) as server:
        url = server.create_database()
        async with Proxy(url) as proxy, Client(proxy.url, create=True) as client:
            await begun(client._core.store)
            proxy.cut_after(is_commit)
            cancelling = asyncio.ensure_future(client.handle("i").cancel("enough"))
            await until(lambda: proxy.cuts)
            proxy.stall()
            await asyncio.to_thread(server.stop, "immediate")
            await asyncio.to_thread(server.start)
            proxy.flow()
            await cancelling

            kinds = [one.kind for one in await client._core.store.read_inbox("i")]
            assert kinds == ["cancel_requested"]


# --------------------------------------------------------- COMMIT itself does not arrive


async def test_a_commit_that_never_arrived_is_done_again(store: Store, proxy: Proxy) -> None:
    await begun(store)
    proxy.cut_before(is_commit)

    [status] = await store.deliver([message()])

    assert proxy.cuts == 1
    assert status == "delivered"
    assert await bodies_of(store) == [b"hello"]


@pytest.mark.parametrize("where", ["load_1", "write_1", "SET LOCAL"])
async def test_a_connection_that_is_lost_between_statements_is_made_again(
    store: Store, proxy: Proxy, where: str
) -> None:
    stamp = await begun(store)
    proxy.cut_before(lambda statement: where in statement)
    # So that statements are prepared again, and seen by the proxy.
    proxy.hang_up()

    [receipt] = await store.commit([next_turn("i", stamp, events=(SCHEDULED,), jobs=(job(2),))])

    assert proxy.cuts == 1
    assert receipt.status is TurnStatus.ACCEPTED
    assert await check(store) == []


async def test_backends_that_are_ended_by_an_operator_are_replaced(
    store: Store, proxy: Proxy, postgres: Server, postgres_url: str
) -> None:
    stamp = await begun(store)
    for pid in postgres.backends(postgres_url):
        postgres.kill_backend(pid)

    [receipt] = await store.commit([next_turn("i", stamp, events=(SCHEDULED,), jobs=(job(2),))])
    found = await store.read_live("i")

    assert receipt.status is TurnStatus.ACCEPTED
    assert found is not None


async def test_a_backend_that_is_ended_while_it_waits_for_a_lock_is_replaced(
    store: Store, postgres: Server, postgres_url: str
) -> None:
    raw = await asyncpg.connect(postgres_url)
    transaction = raw.transaction()
    await transaction.start()
    await raw.execute(
        "INSERT INTO perdure.live (part, instance_id, incarnation, execution, next_seq, lease,"
        " lease_until_ms, last_no, last_at_ms, last_commit, attempts)"
        " VALUES ($1, 'i', 0, 0, 0, 0, 0, 0, 0, 0, 0)",
        part_of("i"),
    )
    delivering = asyncio.ensure_future(store.deliver([message(if_absent="buffer")]))
    [waiting] = await lock_waiters(postgres_url)
    postgres.kill_backend(waiting)
    await transaction.rollback()
    await raw.close()

    assert await delivering == ["buffered"]
    assert await bodies_of(store) == [b"hello"]


async def lock_waiters(url: str) -> list[int]:
    """Wait until somebody waits for a lock, and return who."""
    found: list[int] = []

    async def look() -> list[int]:
        raw = await asyncpg.connect(url)
        try:
            rows = await raw.fetch("SELECT pid FROM pg_locks WHERE NOT granted")
        finally:
            await raw.close()
        found.extend(pid for (pid,) in rows)
        return found

    await until(look)
    return found


# ------------------------------------------------------------------- nobody answers at all


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever does not answer at once counts as lost."""
    monkeypatch.setattr("perdure.store.postgres.connection.ANSWER_WITHIN_S", 1.5)
    monkeypatch.setattr("perdure.store.postgres.connection.CONNECT_WITHIN_S", 1.5)


async def test_a_server_that_says_nothing_any_more_is_given_up_and_called_again(
    impatient: None, store: Store, proxy: Proxy
) -> None:
    await begun(store)
    proxy.stall()
    delivering = asyncio.ensure_future(store.deliver([message(text="patient")]))

    with pytest.raises(StoreUnavailableError, match="did not answer in time"):
        await store.deliver([message(text="impatient")], patience_s=3)
    with pytest.raises(StoreUnavailableError, match="did not answer in time"):
        await store.read_inbox("i")
    proxy.flow()

    assert await delivering == ["delivered"]
    assert await bodies_of(store) == [b"patient"]


async def test_a_commit_that_is_not_answered_in_time_is_done_once(
    impatient: None, store: Store, proxy: Proxy
) -> None:
    await begun(store)
    proxy.stall_at(is_commit)
    delivering = asyncio.ensure_future(store.deliver([message()]))
    await proxy.stalled.wait()
    before = proxy.lines

    # It was given up, and another line was tried.
    await until(lambda: proxy.lines > before)
    proxy.flow()

    assert await delivering == ["delivered"]
    assert await bodies_of(store) == [b"hello"]


async def test_a_process_that_stands_still_in_a_transaction_keeps_nobody_waiting_for_long(
    store: Store, other: Store, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends its transaction; when it goes on, it begins again."""
    monkeypatch.setattr(lane, "BEGIN", lane.BEGIN.replace("'15s'", "'300ms'"))
    stamp = await begun(store)
    proxy.stall_at(is_commit)
    turn = next_turn("i", stamp, events=(SCHEDULED,), jobs=(job(2),))
    frozen = asyncio.ensure_future(store.commit([turn]))
    await proxy.stalled.wait()

    [theirs] = await other.commit([next_turn("i", stamp, events=(SCHEDULED,), jobs=(job(2),))])
    proxy.flow()
    [ours] = await frozen

    assert (ours.status, theirs.status) == (TurnStatus.REFUSED, TurnStatus.ACCEPTED)
    assert isinstance(store, Inspectable)
    contents: Any = await store.read_contents()
    assert len(contents.jobs["i"]) == 1
    assert await check(store) == []
