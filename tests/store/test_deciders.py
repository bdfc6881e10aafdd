"""What the contract cannot show of deciders: how much is looked at, and lost answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from perdure.checking.invariants import check
from perdure.clock import ManualClock
from perdure.errors import RowError, StoreUnavailableError
from perdure.model.instances import Status
from perdure.model.turns import FedEvent, Snapshot, TurnReceipt, TurnStatus, UniqueKey
from perdure.store.base import ExecutionKey
from perdure.store.opening import open_store
from perdure.store.sql.connection import Connection
from perdure.store.sql.questions import feed
from perdure.store.sqlite.store import SqliteStore
from tests.contract.store_values import (
    LEASE_MS,
    ORDER,
    PLACED,
    STARTED,
    accepted,
    claim,
    decided,
    decider,
    first_turn,
    given,
    job,
    message,
    next_turn,
    observed,
    outcome,
    queued,
    timer,
    token,
    turn_of,
)
from tests.contract.test_feed import fed

ID = "order:1"


def _lose_one_answer(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next transaction take effect and its caller see an error (F4)."""
    assert store._batcher is not None
    execute = store._batcher._execute
    failures = iter([True])

    def fail_once_after_commit(operations: Sequence[Any]) -> list[Any]:
        results = execute(operations)
        if next(failures, False):
            raise StoreUnavailableError("the answer was lost")
        return results

    monkeypatch.setattr(store._batcher, "_execute", fail_once_after_commit)


# ------------------------------------------------------------------------- lost answers


async def test_a_decision_whose_answer_is_lost_is_written_once(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = await decided(store)
    _lose_one_answer(store, monkeypatch)

    await accepted(
        store,
        next_turn(
            ID,
            stamp,
            events=(PLACED,),
            receipts=(given(),),
            unique=UniqueKey("order", "k"),
            snapshot=Snapshot(1, 2, b"{}"),
            feed=(FedEvent(0, "Placed"),),
            observations=(observed(),),
        ),
    )

    assert store.counters.retries == 1
    assert len(await store.deciders.read_observations(ID)) == 1
    assert len((await store.feed.read_feed(after=0, limit=9))[0]) == 1


async def test_inputs_that_are_settled_while_the_answer_is_lost_are_observed_once(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.deciders.settle_inputs(ID, [], [observed("0")])
    _lose_one_answer(store, monkeypatch)

    seen = [observed("1", "rejected", rejection=b"0"), observed("2", "rejected", input_id="x")]
    outcomes = await store.deciders.settle_inputs(ID, [given("no")], seen)

    assert (outcomes, store.counters.retries) == ([b"no"], 1)
    assert [one.input for one in await store.deciders.read_observations(ID)] == [b"0", b"1", b"2"]


async def test_inputs_of_a_transaction_that_failed_are_observed_when_it_is_tried_again(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try wrote and was rolled back; another took its numbers meanwhile."""
    assert store._writer is not None
    assert store._batcher is not None
    execute = store._writer.execute
    failures = iter([True])

    def fail_once_before_commit(operations: Sequence[Any]) -> list[Any]:
        if not next(failures, False):
            return execute(operations)
        connection = store._writer._connected()  # type: ignore[union-attr]  # open, see above
        run = connection.run

        def refuse_commit(name: str, /, **params: Any) -> list[tuple[Any, ...]]:
            if name == "commit":
                raise StoreUnavailableError("the disk is full")
            return run(name, **params)

        monkeypatch.setattr(connection, "run", refuse_commit)
        try:
            return execute(operations)
        finally:
            monkeypatch.setattr(connection, "run", run)

    monkeypatch.setattr(store._batcher, "_execute", fail_once_before_commit)

    await store.deciders.settle_inputs(
        ID, [given("no")], [observed("1", input_id="x"), observed("2")]
    )

    assert store.counters.retries == 1
    assert [one.input for one in await store.deciders.read_observations(ID)] == [b"1", b"2"]
    assert await store.deciders.read_receipts(ID, ["x"]) == {"x": b"no"}


async def test_an_instance_whose_vanishing_has_no_answer_vanishes_once(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.start([decider(messages=(queued(),))])
    [claimed] = await claim(store, definitions=(ORDER,))
    turn = turn_of(claimed, events=(), receipts=(given("no"),), vanishes=True)
    _lose_one_answer(store, monkeypatch)

    assert await store.commit([turn]) == [TurnReceipt(TurnStatus.ACCEPTED)]

    assert store.counters.retries == 1
    assert await store.read_live(ID) is None
    assert await check(store) == []


# ----------------------------------------------------------------------------- the feed


async def test_one_call_looks_at_so_many_positions_and_goes_on_behind_them(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MAX_LOOK", 3)
    await fed(store, ID, "a", "o", "o", "o", "o", "o", "o", "b", "o")

    looked = []
    found = []
    after = 0
    while after < await store.feed.feed_end():
        events, after = await store.feed.read_feed(after=after, limit=2, tags=["a", "b"])
        looked.append(after)
        found += [event.tag for event in events]

    assert looked == [3, 6, 9]
    assert found == ["a", "b"]


async def test_a_gap_in_the_feed_is_stepped_over(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MAX_LOOK", 2)
    gone = await fed(store, "order:gone", *"abcdefgh")
    await fed(store, ID, "x")
    await store.admin.delete([("order:gone", gone)], force=True)

    found: list[str] = []
    after = 0
    for _ in range(5):
        events, after = await store.feed.read_feed(after=after, limit=9)
        found += [event.tag for event in events]

    assert (found, after) == (["x"], await store.feed.feed_end())


async def test_a_page_holds_so_many_bytes(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MAX_FEED_BYTES", 5)
    await fed(store, ID, "aaa", "bbb", "ccc", "d", "eeeeeeeee", "f")

    pages = []
    after = 0
    while after < await store.feed.feed_end():
        events, after = await store.feed.read_feed(after=after, limit=9)
        pages.append([event.tag for event in events])

    assert pages == [["aaa", "bbb"], ["ccc", "d", "eeeeeeeee"], ["f"]]


async def test_an_event_that_is_lost_does_not_hide_those_behind_it(store: SqliteStore) -> None:
    await fed(store, ID, "a", "b", "c", "d")

    def lose(connection: Connection) -> None:
        connection.run_own("DELETE FROM history WHERE seq = 2", ())

    await store.work(lambda t: lose(t.connection))

    events, upto = await store.feed.read_feed(after=0, limit=2)
    rest, _ = await store.feed.read_feed(after=upto, limit=9)

    assert [event.tag for event in (*events, *rest)] == ["b", "c", "d"]


async def test_numbers_go_on_though_events_were_removed(store: SqliteStore) -> None:
    """By hand, or by somebody who archives them: nothing is counted."""
    stamp = await decided(store, events=(STARTED, PLACED, PLACED), feed=(FedEvent(1, "a"),))

    def archive(connection: Connection) -> None:
        connection.run_own("DELETE FROM history WHERE seq < 3", ())

    await store.work(lambda t: archive(t.connection))
    await accepted(store, next_turn(ID, stamp, events=(PLACED,), feed=(FedEvent(0, "b"),)))
    [history] = await store.read_histories([ExecutionKey(ID, stamp.incarnation, stamp.execution)])

    assert [event.seq for event in history] == [3, 4]
    events, _ = await store.feed.read_feed(after=0, limit=9)
    assert [(event.tag, event.stored.seq) for event in events] == [("b", 4)]


async def test_readers_see_every_event_of_stores_that_write_at_once(
    url: str, store: SqliteStore, clock: ManualClock
) -> None:
    """S33: what was read up to a position is never followed by something before it."""
    other = open_store(url, clock=clock)
    await other.open()
    found: list[str] = []
    after = 0
    try:

        async def write(into: Any, name: str) -> None:
            for number in range(20):
                await fed(into, f"order:{name}{number}", f"{name}{number}")

        writers = asyncio.gather(write(store, "a"), write(other, "b"))
        while True:
            is_done = writers.done()
            events, after = await store.feed.read_feed(after=after, limit=7)
            found += [event.tag for event in events]
            if is_done and not events:
                break
        await writers
    finally:
        await other.close()

    assert sorted(found) == sorted(f"{name}{number}" for name in "ab" for number in range(20))
    assert [tag for tag in found if tag[0] == "a"] == [f"a{number}" for number in range(20)]


async def test_of_readers_that_race_in_several_stores_one_wins(
    url: str, store: SqliteStore, clock: ManualClock
) -> None:
    other = open_store(url, clock=clock)
    await other.open()
    try:
        for number in range(10):
            claims = await asyncio.gather(
                *(
                    one.feed.claim_feed(f"mail{number}", lease=token(), lease_ms=LEASE_MS)
                    for one in (store, other, store, other)
                )
            )
            assert sum(claim is not None for claim in claims) == 1
    finally:
        await other.close()


# ----------------------------------------------------------------------------- the rest


async def test_of_decisions_in_several_stores_one_gets_a_key(
    url: str, store: SqliteStore, clock: ManualClock
) -> None:
    other = open_store(url, clock=clock)
    await other.open()
    try:
        turns = [
            first_turn(decider(f"order:{number}"), unique=UniqueKey("order", "k"))
            for number in range(6)
        ]
        answers = await asyncio.gather(
            *(one.commit([turn]) for one, turn in zip([store, other] * 3, turns, strict=True))
        )
    finally:
        await other.close()

    receipts = [receipt for [receipt] in answers]
    winner = await store.deciders.read_unique_key("order", "k")
    assert [receipt.status for receipt in receipts].count(TurnStatus.ACCEPTED) == 1
    assert {receipt.holder for receipt in receipts} == {None, winner}
    assert await check(store) == []


async def test_a_termination_by_a_store_that_has_not_seen_the_decider_frees_its_key(
    url: str, store: SqliteStore, clock: ManualClock
) -> None:
    stamp = await decided(store, unique=UniqueKey("order", "k"))
    other = open_store(url, clock=clock)
    await other.open()
    try:
        end = next_turn(ID, stamp, seize=True, outcome=outcome(Status.TERMINATED))
        await accepted(other, end)
    finally:
        await other.close()

    assert await store.deciders.read_unique_key("order", "k") is None


async def test_a_message_that_is_decided_directly_in_the_same_transaction_goes(
    store: SqliteStore,
) -> None:
    stamp = await decided(store)
    assert store._batcher is not None

    results = await store._batcher.submit(
        [
            queued(),
            message(ID, "stays"),
            next_turn(ID, stamp, events=(PLACED,), receipts=(given(),)),
            queued(),
        ]
    )

    assert [results[0], results[1], results[3]] == ["delivered", "delivered", "duplicate"]
    assert results[2].status is TurnStatus.ACCEPTED
    assert [one.body for one in await store.read_inbox(ID)] == [b"stays"]
    assert await store.deciders.read_receipts(ID, ["x"]) == {"x": b"ok"}


async def test_a_start_and_its_vanishing_in_one_transaction_leave_nothing(
    store: SqliteStore,
) -> None:
    start = decider(messages=(queued(),))
    vanishing = next_turn(
        ID,
        first_turn(start).stamp,
        consumed=(1, 2),
        seen_no=2,
        receipts=(given("no"),),
        vanishes=True,
    )
    assert store._batcher is not None

    results = await store._batcher.submit([start, vanishing])

    assert results == [None, TurnReceipt(TurnStatus.ACCEPTED)]
    assert await store.read_instances([ID]) == [None]
    assert await store.deciders.read_receipts(ID, ["x"]) == {"x": b"no"}
    assert await check(store) == []


async def test_a_decider_that_is_new_and_ends_beside_a_turn_that_cannot_be_written_is_kept(
    store: SqliteStore,
) -> None:
    """The number it was given goes with the transaction that failed."""
    stamp = await decided(store)
    new = decider("cart:1", definition=ORDER._replace(name="cart"))
    bad = next_turn(ID, stamp, events=(PLACED,), feed=(FedEvent(9, "a"),))
    assert store._batcher is not None

    with pytest.raises(RowError):
        await store._batcher.submit([first_turn(new, outcome=outcome()), bad])

    [row] = await store.read_instances(["cart:1"])
    assert row is not None
    assert (row.kind, row.name) == ("decider", "cart")


async def test_a_decision_is_few_statements(store: SqliteStore) -> None:
    """A decision with an effect, an event to feed, a receipt and a timer, and its end."""
    await store.intern([ORDER, job().queue])
    before = store.counters.statements

    stamp = await decided(
        store,
        events=(STARTED, PLACED, PLACED),
        feed=(FedEvent(1, "Placed"), FedEvent(2, "Placed")),
        receipts=(given(),),
        jobs=(job(3),),
        timers=(timer(2, 9),),
    )
    first = store.counters.statements - before
    await accepted(store, next_turn(ID, stamp, outcome=outcome()))

    # Begin, load (live, wide, receipts), put (live, inbox, jobs, history, instance), outcomes,
    # feed, version, commit.
    assert first == 13
    # The rows are known, so nothing has to be loaded.
    assert store.counters.statements - before - first == 1
