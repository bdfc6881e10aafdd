"""Operations that share a transaction see each other's effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perdure.checking.invariants import check
from perdure.errors import StoreUnavailableError
from perdure.model.instances import Status
from perdure.model.jobs import JobEnd, JobKey
from perdure.model.messages import DeliveryStatus
from perdure.model.turns import ChildStart, TurnReceipt, TurnStatus
from perdure.store.sqlite.store import SqliteStore
from tests.contract.store_values import (
    COMPLETED,
    CONTINUED,
    ORCHESTRATION,
    SCHEDULED,
    STARTED,
    accepted,
    begun,
    carried,
    claim,
    claim_jobs,
    continuation,
    ended,
    events_of,
    first_turn,
    job,
    message,
    new_instance,
    next_turn,
    outcome,
    result_of,
    timer,
    token,
    turn_of,
)

ACCEPTED, REFUSED = TurnStatus.ACCEPTED, TurnStatus.REFUSED


async def _together(store: SqliteStore, operations: Sequence[Any]) -> list[Any]:
    """Write operations of any kind as one transaction."""
    before = store.counters.transactions
    assert store._batcher is not None
    results = await store._batcher.submit(operations)
    assert store.counters.transactions == before + 1
    return results


async def test_a_turn_after_a_message_hears_of_it(store: SqliteStore) -> None:
    stamp = await begun(store)

    status, receipt = await _together(store, [message(), next_turn("i", stamp)])

    assert (status, receipt) == ("delivered", TurnReceipt(ACCEPTED, 1, has_unseen=True))
    assert len(await claim(store)) == 1


async def test_a_message_after_a_turn_wakes_the_instance(store: SqliteStore) -> None:
    stamp = await begun(store)

    receipt, status = await _together(store, [next_turn("i", stamp), message()])

    assert (receipt, status) == (TurnReceipt(ACCEPTED, 0, has_unseen=False), "delivered")
    assert len(await claim(store)) == 1


async def test_a_message_after_an_end_is_too_late(store: SqliteStore) -> None:
    stamp = await begun(store)
    end = next_turn("i", stamp, events=(COMPLETED,), outcome=outcome())

    results = await _together(
        store, [message(), end, message(), message(if_absent="buffer"), end, new_instance()]
    )

    assert results[0] == "delivered"
    assert results[1].status is ACCEPTED
    assert results[2:4] == ["ended", "ended"]
    assert results[4].status is ACCEPTED
    assert results[5].status == "completed"
    assert await store.read_inbox("i") == []
    assert await store.read_live("i") is None


async def test_a_signal_reaches_a_child_that_starts_in_the_same_transaction(
    store: SqliteStore,
) -> None:
    stamp = await begun(store)
    child = new_instance("child")
    parent = next_turn("i", stamp, children=(ChildStart(child, message()),))

    results = await _together(
        store, [message("child", "early", if_absent="buffer"), parent, message("child", "late")]
    )

    assert [results[0], results[2]] == ["buffered", "delivered"]
    [claimed] = await claim(store)
    assert [m.body for m in claimed.messages] == [STARTED.body, b"early", b"late"]


async def test_of_two_starts_in_one_transaction_the_first_wins(store: SqliteStore) -> None:
    first, second = new_instance(input=b"1"), new_instance(input=b"2")

    results = await _together(store, [first, second, first_turn(new_instance())])

    assert results[0] is None
    assert results[1].input == b"1"
    assert results[2].status is TurnStatus.TAKEN


async def test_who_starts_an_instance_with_a_message_that_it_got_hears_of_it_as_live(
    store: SqliteStore,
) -> None:
    """It ends in the same transaction: not told, or the caller would think it has not got it."""
    stamp = await begun(store)
    start = new_instance(messages=(message(message_id="m"),))
    end = next_turn("i", stamp, events=(COMPLETED,), outcome=outcome())

    existing, receipt = await _together(store, [start, end])

    assert receipt.status is TurnStatus.ACCEPTED
    assert existing.status is Status.RUNNING
    assert await store.deliver([message(message_id="m")]) == [DeliveryStatus.DUPLICATE]


async def test_two_turns_of_one_instance_follow_each_other(store: SqliteStore) -> None:
    stamp = await begun(store)

    first = next_turn("i", stamp, events=(SCHEDULED,), jobs=(job(2),))
    receipts = await _together(
        store,
        [
            first,
            next_turn("i", stamp, events=(COMPLETED,)),
            next_turn("i", stamp._replace(next_seq=3), events=(COMPLETED,)),
            next_turn("i", first.next_stamp, events=(COMPLETED,), outcome=outcome()),
        ],
    )

    assert [receipt.status for receipt in receipts] == [ACCEPTED, REFUSED, REFUSED, ACCEPTED]
    assert await events_of(store, "i", stamp.incarnation) == [STARTED, SCHEDULED, COMPLETED]
    assert await store.read_jobs("i") == []


async def test_a_result_after_a_cancel_in_one_transaction_is_refused(store: SqliteStore) -> None:
    stamp = await begun(store, events=(STARTED, SCHEDULED), jobs=(job(2),))
    [claimed] = await claim_jobs(store)

    receipt, is_taken = await _together(
        store, [next_turn("i", stamp, jobs_gone=(2,)), result_of(claimed.key, claimed.token)]
    )

    assert receipt.status is ACCEPTED
    assert not is_taken
    assert await store.read_inbox("i") == []


async def test_an_instance_that_ends_is_not_replaced_in_the_same_transaction(
    store: SqliteStore,
) -> None:
    """Its events are still to be written, so the start finds the id taken and may come again."""
    stamp = await begun(store)
    start = new_instance(replaces=stamp.incarnation)

    _, taken = await _together(store, [next_turn("i", stamp, outcome=outcome()), start])

    assert taken.incarnation == stamp.incarnation
    assert await store.start([start]) == [None]


async def test_the_result_for_another_execution_is_dropped_with_its_job(
    store: SqliteStore,
) -> None:
    """A dead job that was put back may outlive its execution; here the row is changed by hand."""
    stamp = await begun(store, events=(STARTED, SCHEDULED), jobs=(job(2),))
    [claimed] = await claim_jobs(store)
    await store.work(
        lambda t: t.connection.run_own("UPDATE live SET execution = 2 WHERE instance_id = 'i'", ())
    )

    refused, is_taken = await _together(
        store,
        [
            next_turn("i", stamp, job_ends=(result_of(claimed.key, token()),)),
            result_of(claimed.key, claimed.token),
        ],
    )

    assert refused.status is REFUSED
    assert is_taken
    assert await store.read_jobs("i") == []
    assert await store.read_inbox("i") == []


async def test_work_of_one_turn_is_cancelled_by_the_next_of_the_same_transaction(
    store: SqliteStore,
) -> None:
    stamp = await begun(store)

    first = next_turn(
        "i", stamp, jobs=(job(2), job(3)), timers=(timer(4, 9), timer(5, 9)), seen_no=0
    )
    second = next_turn("i", first.next_stamp, jobs_gone=(2,), timers_gone=("timer:4",), seen_no=2)
    receipts = await _together(store, [first, second])

    assert [receipt.status for receipt in receipts] == [ACCEPTED, ACCEPTED]
    assert [waiting.key.seq for waiting in await store.read_jobs("i")] == [3]
    assert [m.timer_key for m in await store.read_inbox("i")] == ["timer:5"]


async def test_a_timer_is_replaced_by_a_later_turn_of_the_same_transaction(
    store: SqliteStore,
) -> None:
    stamp = await begun(store, timers=(timer(4, 9),))

    first = next_turn("i", stamp, timers=(timer(4, 19),), timers_gone=("timer:4",), seen_no=1)
    second = next_turn(
        "i", first.next_stamp, timers=(timer(4, 29),), timers_gone=("timer:4",), seen_no=2
    )
    receipts = await _together(store, [first, second])

    assert [receipt.status for receipt in receipts] == [ACCEPTED, ACCEPTED]
    [waiting] = await store.read_inbox("i")
    assert (waiting.timer_key, waiting.effective_at_ms, waiting.no) == ("timer:4", 29, 3)


async def test_a_turn_with_a_replaced_timer_sent_again_hears_of_the_same_messages(
    store: SqliteStore,
) -> None:
    stamp = await begun(store)
    turn = next_turn("i", stamp, timers=(timer(4, 9),), timers_gone=("timer:4",))

    _, first = await _together(store, [message(), turn])

    assert first.has_unseen
    assert await store.commit([turn]) == [first]


async def test_what_comes_with_and_after_a_continuation_in_one_transaction_is_sorted_out(
    store: SqliteStore,
) -> None:
    stamp = await begun(
        store, events=(STARTED, SCHEDULED), jobs=(job(2), job(3)), timers=(timer(4, 9),)
    )
    first, second = await claim_jobs(store)
    going_on = next_turn(
        "i", stamp, events=(CONTINUED,), continued=continuation("go", carried("unread"))
    )
    retry = JobEnd(key=second.key, token=second.token, retry_at_ms=0)

    results = await _together(
        store,
        [
            message(text="before"),
            message(text="for the first", execution=1),
            going_on,
            going_on,
            result_of(first.key, first.token),
            retry,
            message(text="too late", execution=1),
            message(text="after"),
            next_turn("i", stamp),
        ],
    )

    assert results[0:2] == ["delivered", "delivered"]
    assert results[2] == results[3]
    assert results[4:8] == [False, False, "absent", "delivered"]
    assert results[8].status is REFUSED
    assert await store.read_jobs("i") == []
    bodies = [m.body for m in await store.read_inbox("i")]
    assert bodies == [b"go", b"unread", b"before", b"after"]


async def test_an_instance_that_continues_and_goes_on_in_one_transaction_is_in_its_last_state(
    store: SqliteStore,
) -> None:
    stamp = await begun(store)
    newer = ORCHESTRATION._replace(variant="2.0.0")
    first = next_turn("i", stamp, events=(CONTINUED,), continued=continuation("two"))
    second = next_turn(
        "i", first.next_stamp, events=(STARTED,), consumed=(1,), definition=newer, seen_no=1
    )

    receipts = await _together(
        store,
        [
            first,
            second,
            next_turn("i", second.next_stamp, events=(COMPLETED,), outcome=outcome()),
        ],
    )

    assert [receipt.status for receipt in receipts] == [ACCEPTED] * 3
    [row] = await store.read_instances(["i"])
    assert row is not None
    assert (row.execution, row.version, row.input, row.status) == (2, "2.0.0", b"two", "completed")
    assert await store.read_live("i") is None
    assert await store.read_inbox("i") == []


async def test_an_ambiguous_continuation_is_sent_again_and_accepted_once(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = await begun(store)
    assert store._batcher is not None
    execute = store._batcher._execute
    failures = iter([True])

    def fail_once_after_commit(operations: Sequence[Any]) -> list[Any]:
        results = execute(operations)
        if next(failures, False):
            raise StoreUnavailableError("the answer was lost")
        return results

    monkeypatch.setattr(store._batcher, "_execute", fail_once_after_commit)

    [receipt] = await store.commit(
        [next_turn("i", stamp, events=(CONTINUED,), report=b"1", continued=continuation())]
    )

    assert receipt == TurnReceipt(ACCEPTED, 1, has_unseen=True)
    assert store.counters.retries == 1
    live = await store.read_live("i")
    assert live is not None
    assert live.stamp.place == (stamp.incarnation, 2, 1)
    [report] = await store.admin.read_reports(["i"])
    assert report is not None
    assert report.version == 1


async def test_an_ambiguous_commit_is_sent_again_and_accepted_once(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F4: the transaction takes effect and the caller sees an error."""
    stamp = await begun(store, events=(STARTED, SCHEDULED), jobs=(job(2),))
    [claimed] = await claim_jobs(store)
    assert store._batcher is not None
    execute = store._batcher._execute
    failures = iter([True])

    def fail_once_after_commit(operations: Sequence[Any]) -> list[Any]:
        results = execute(operations)
        if next(failures, False):
            raise StoreUnavailableError("the answer was lost")
        return results

    monkeypatch.setattr(store._batcher, "_execute", fail_once_after_commit)
    turn = next_turn(
        "i",
        stamp,
        events=(COMPLETED,),
        timers=(timer(2, 9),),
        job_ends=(result_of(claimed.key, claimed.token),),
    )

    receipts = await store.commit([turn, first_turn(new_instance("j"))])

    assert [receipt.status for receipt in receipts] == [ACCEPTED, ACCEPTED]
    assert store.counters.retries == 1
    assert await events_of(store, "i", stamp.incarnation) == [STARTED, SCHEDULED, COMPLETED]
    assert len(await store.read_inbox("i")) == 1


async def test_a_one_activity_orchestration_is_ten_row_operations(store: SqliteStore) -> None:
    start = new_instance()
    first = first_turn(
        start,
        events=(STARTED, SCHEDULED),
        jobs=(job(2, leased=True),),
        jobs_leased_until_ms=2**50,
    )
    end = result_of(JobKey("i", start.incarnation, 1, 2), first.commit_id)
    last = next_turn(
        "i",
        first.next_stamp,
        job_ends=(end,),
        events=(SCHEDULED, COMPLETED),
        outcome=outcome(),
    )
    await store.intern([start.definition, job().queue])
    rows, statements = store.counters.rows, store.counters.statements

    await accepted(store, first)
    await accepted(store, last)

    assert store.counters.rows - rows == 10
    # Begin, load (live, wide), put (live, job, history, instance), version, commit; then one.
    assert store.counters.statements - statements == 10


async def test_bodies_beyond_one_transaction_are_spread_over_several(store: SqliteStore) -> None:
    large = "x" * 9 * 1024 * 1024
    await begun(store)
    before = store.counters.transactions

    assert await store.deliver([message(text=large) for _ in range(10)]) == ["delivered"] * 10

    assert store.counters.transactions == before + 2


async def test_a_replaced_instance_leaves_no_row_behind(store: SqliteStore) -> None:
    old = await ended(store)
    await store.start([new_instance(replaces=old)])
    [claimed] = await claim(store)
    await accepted(store, turn_of(claimed))

    assert {v.invariant for v in await check(store)} <= set()
