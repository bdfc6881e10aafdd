"""A writer remembers the rows it wrote last, and is never wrong because of it: neither alone on its
file nor where it knows that others write too.

That it decides as one that remembers nothing is tried at random in `test_kept_rows_random`; its
bounds, and what errors do to it, are in `test_kept_trouble`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure.clock import ManualClock
from perdure.model.instances import Stamp, Status
from perdure.model.jobs import JobEnd, JobKey
from perdure.model.turns import NOBODY, ChildStart, Hold, TurnReceipt, TurnStatus
from perdure.store.base import TurnLease
from perdure.store.opening import open_store
from perdure.store.sql.commits.remembered_rows import RememberedRows
from perdure.store.sqlite.store import SqliteStore
from tests.beside import know_of_others
from tests.contract.store_values import (
    COMPLETED,
    CONTINUED,
    LEASE_MS,
    SCHEDULED,
    STARTED,
    accepted,
    begun,
    claim,
    claim_jobs,
    continuation,
    ended,
    first_turn,
    given,
    job,
    latest,
    message,
    new_instance,
    next_turn,
    outcome,
    result_of,
)

LEASE = timedelta(milliseconds=LEASE_MS)
ACCEPTED, REFUSED, TAKEN = TurnStatus.ACCEPTED, TurnStatus.REFUSED, TurnStatus.TAKEN

IN_BOTH_WAYS = pytest.mark.parametrize(
    "more", [(), (message("unknown", if_absent="buffer"),)], ids=["at once", "in steps"]
)
"""With nothing else in the transaction, and with something that has to be loaded."""


LIVE_COLUMNS = (
    *("definition_no", "incarnation", "execution", "next_seq", "wake_at_ms", "lease"),
    *("lease_until_ms", "home", "last_no", "last_at_ms", "last_commit", "attempts", "blocked_by"),
)


@pytest.fixture(params=[False, True], ids=["alone", "beside others"], autouse=True)
def knows_of_others(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    is_shared: bool = request.param
    if is_shared:
        know_of_others(monkeypatch)
    return is_shared


@pytest.fixture
async def other(store: SqliteStore, url: str) -> AsyncIterator[SqliteStore]:
    """A second store on the same file, as another process has one."""
    other = open_store(url, clock=store.clock)
    assert isinstance(other, SqliteStore)
    await other.open()
    yield other
    await other.close()


async def _together(store: SqliteStore, operations: Sequence[Any]) -> list[Any]:
    """Write operations of any kind as one transaction."""
    before = store.counters.transactions
    assert store._batcher is not None
    results = await store._batcher.submit(operations)
    assert store.counters.transactions == before + 1
    return results


async def _statements_of(store: SqliteStore, operations: Sequence[Any]) -> int:
    before = store.counters.statements
    await _together(store, operations)
    return store.counters.statements - before


async def _is_one_statement(store: SqliteStore, operations: Sequence[Any]) -> bool:
    return await _statements_of(store, operations) == 1


async def _worked(store: SqliteStore, instance_id: str = "i", **fields: Any) -> JobEnd:
    """Start an instance with a job that its worker runs at once, and return the job's end."""
    values: dict[str, Any] = {"events": (STARTED, SCHEDULED), "jobs": (job(2, leased=True),)}
    until_ms = store.clock() + LEASE_MS
    turn = first_turn(new_instance(instance_id), jobs_leased_until_ms=until_ms, **values, **fields)
    await accepted(store, turn)
    return result_of(JobKey(instance_id, turn.stamp.incarnation, 1, 2), turn.commit_id)


def _after(end: JobEnd, seq: int = 3) -> Stamp:
    return Stamp(end.key.incarnation, 1, seq, end.token)


# ------------------------------------------------------------- one statement


async def test_a_turn_that_follows_another_one_is_one_statement(store: SqliteStore) -> None:
    end = await _worked(store)
    turn = next_turn("i", _after(end), events=(SCHEDULED,), job_ends=(end,))
    again = next_turn("i", turn.next_stamp)
    last = next_turn("i", again.next_stamp, seen_no=1, events=(COMPLETED,), outcome=outcome())

    assert await _is_one_statement(store, [turn])
    assert await _is_one_statement(store, [again, message("i")])
    assert await _is_one_statement(store, [last])

    assert await store.read_jobs("i") == []
    assert await store.read_live("i") is None


async def test_starts_of_new_ids_are_one_statement(store: SqliteStore) -> None:
    await begun(store, "i")

    assert await _is_one_statement(store, [first_turn(new_instance("j")), new_instance("k")])
    begins_and_ends = first_turn(new_instance("l"), outcome=outcome())
    assert await _is_one_statement(store, [begins_and_ends])


async def test_a_store_in_memory_remembers_too(clock: ManualClock) -> None:
    store = SqliteStore(":memory:", clock=clock)
    await store.open()
    stamp = await begun(store)

    assert await _is_one_statement(store, [next_turn("i", stamp, events=(SCHEDULED,))])
    await claim(store)
    assert await store.deliver([message()]) == ["delivered"]
    [claimed] = await claim(store, "w2")
    assert await store.commit([next_turn("i", claimed.stamp)]) == [TurnReceipt(REFUSED)]

    await store.close()


# -------------------------------------------------------------------- others


async def test_what_another_process_has_written_is_loaded_and_written_in_one_statement(
    store: SqliteStore, other: SqliteStore, knows_of_others: bool
) -> None:
    first = next_turn("i", await begun(store))
    await accepted(other, first)
    turn = next_turn("i", first.next_stamp, receipts=(given("ok", "r"),))

    statements = await _statements_of(store, [turn])

    # Version, rows, receipts, and all that is written. Alone, where this is rare, in steps.
    assert (statements == 4) is knows_of_others
    assert (await store.deciders.read_receipts("i", ["r"]))["r"] is not None


@pytest.mark.parametrize("column", LIVE_COLUMNS)
async def test_any_column_that_another_has_changed_makes_a_row_unknown(
    store: SqliteStore, path: Path, column: str
) -> None:
    await begun(store, "j")
    turn = next_turn("i", await begun(store))
    await accepted(store, turn)
    with closing(sqlite3.connect(path)) as program:
        value = "'x'" if column in ("home", "blocked_by") else "1 + coalesce(" + column + ", 0)"
        program.execute(f"UPDATE live SET {column} = {value} WHERE instance_id = 'i'")  # noqa: S608
        program.commit()

    assert not await _is_one_statement(store, [next_turn("i", turn.next_stamp)])


async def test_a_message_of_another_process_is_heard_of(
    store: SqliteStore, other: SqliteStore
) -> None:
    first = next_turn("i", await begun(store))
    await accepted(store, first)

    await other.deliver([message()])

    turn = next_turn("i", first.next_stamp)
    assert await accepted(store, turn) == TurnReceipt(ACCEPTED, 1, has_unseen=True)
    assert await _is_one_statement(store, [next_turn("i", turn.next_stamp)])


async def test_a_lease_of_another_process_is_respected(
    store: SqliteStore, other: SqliteStore
) -> None:
    stamp = await begun(store, "i")
    await other.deliver([message()])
    await accepted(store, next_turn("i", stamp))
    stamp = await latest(store)
    [claimed] = await claim(other, "w2")

    assert await store.commit([next_turn("i", stamp, worker_id="w3")]) == [TurnReceipt(REFUSED)]
    await accepted(other, next_turn("i", stamp, lease=claimed.lease, worker_id="w2"))


async def test_the_end_by_another_process_is_the_end(
    store: SqliteStore, other: SqliteStore
) -> None:
    stamp = await begun(store)

    await accepted(other, next_turn("i", stamp, outcome=outcome()))

    assert await store.commit([next_turn("i", stamp)]) == [TurnReceipt(REFUSED)]
    assert await store.read_live("i") is None


async def test_nothing_is_refused_because_of_what_another_process_has_changed(
    store: SqliteStore, other: SqliteStore
) -> None:
    """Where nothing is to be written, nothing is checked by writing."""
    stamp = await begun(store)

    await accepted(other, next_turn("i", stamp, events=(SCHEDULED,)))

    await accepted(store, next_turn("i", await latest(other)))
    assert await store.hold([Hold("i", stamp, 0, Status.PARKED, NOBODY, "")]) == [False]


async def test_processes_that_take_turns_see_each_other(
    store: SqliteStore, other: SqliteStore
) -> None:
    await begun(store)

    for number in range(1, 6):
        await other.deliver([message()])
        receipt = await accepted(store, next_turn("i", await latest(store), seen_no=2 * number - 2))
        assert receipt == TurnReceipt(ACCEPTED, 2 * number - 1, has_unseen=True)
        await store.deliver([message()])
        receipt = await accepted(other, next_turn("i", await latest(other), seen_no=2 * number - 1))
        assert receipt == TurnReceipt(ACCEPTED, 2 * number, has_unseen=True)

    assert [found.no for found in await store.read_inbox("i")] == list(range(1, 11))


async def test_what_another_program_changes_is_seen(store: SqliteStore, path: Path) -> None:
    stamp = await begun(store)

    with sqlite3.connect(path) as program:
        program.execute("UPDATE live SET next_seq = 7")
    program.close()

    moved = stamp._replace(next_seq=7)
    receipts = await store.commit([next_turn("i", stamp), next_turn("i", moved)])
    assert [receipt.status for receipt in receipts] == [REFUSED, ACCEPTED]


async def test_a_copied_wal_hides_nothing(store: SqliteStore, path: Path) -> None:
    """A checkpoint of another program lets the log begin anew."""
    stamp = await begun(store)

    with sqlite3.connect(path, isolation_level=None) as program:
        program.execute("UPDATE live SET next_seq = 7")
        program.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    program.close()

    assert await store.commit([next_turn("i", stamp)]) == [TurnReceipt(REFUSED)]


async def test_a_connection_that_was_lost_leaves_nothing_remembered(
    store: SqliteStore, path: Path
) -> None:
    stamp = await begun(store)
    assert store._writer is not None
    store._writer._disconnect()
    with sqlite3.connect(path) as program:
        program.execute("UPDATE live SET next_seq = 7")
    program.close()

    assert await store.commit([next_turn("i", stamp)]) == [TurnReceipt(REFUSED)]


# ------------------------------------------------- what the database decides


@IN_BOTH_WAYS
async def test_a_wake_up_that_the_database_has_corrected_is_not_remembered(
    store: SqliteStore, clock: ManualClock, more: tuple[Any, ...]
) -> None:
    """A claim of a job may remove a timer that the turn counts on."""
    stamp = await begun(store)
    await _together(store, [next_turn("i", stamp, next_due_ms=5), *more])
    live = await store.read_live("i")
    assert live is not None
    assert live.wake_at_ms is None

    await store.deliver([message()])

    live = await store.read_live("i")
    assert live is not None
    assert live.wake_at_ms == clock()


# ---------------------------------------------------------------------- jobs


@IN_BOTH_WAYS
async def test_a_job_that_was_cancelled_cannot_be_ended(
    store: SqliteStore, more: tuple[Any, ...]
) -> None:
    end = await _worked(store)

    await _together(store, [next_turn("i", _after(end), jobs_gone=(2,)), *more])

    assert await _together(store, [end, message()]) == [False, "delivered"]
    turn = next_turn("i", _after(end), job_ends=(end,))
    assert await store.commit([turn]) == [TurnReceipt(REFUSED)]


@IN_BOTH_WAYS
async def test_a_job_that_was_put_back_cannot_be_ended_with_its_old_token(
    store: SqliteStore, more: tuple[Any, ...]
) -> None:
    end = await _worked(store)

    await _together(store, [JobEnd(key=end.key, token=end.token, retry_at_ms=1), *more])

    assert await _together(store, [end, message()]) == [False, "delivered"]
    [claimed] = await claim_jobs(store)
    assert claimed.attempt == 2
    assert await store.end_jobs([end, result_of(end.key, claimed.token)]) == [False, True]


@IN_BOTH_WAYS
async def test_a_job_of_an_earlier_execution_cannot_be_ended(
    store: SqliteStore, more: tuple[Any, ...]
) -> None:
    end = await _worked(store)

    turn = next_turn("i", _after(end), events=(CONTINUED,), continued=continuation())
    await _together(store, [turn, *more])

    assert await _together(store, [end, message()]) == [False, "delivered"]


@IN_BOTH_WAYS
async def test_a_job_of_an_ended_instance_cannot_be_ended(
    store: SqliteStore, more: tuple[Any, ...]
) -> None:
    end = await _worked(store)
    await begun(store, "j")

    await _together(store, [next_turn("i", _after(end), outcome=outcome()), *more])

    assert await _together(store, [end, message("j")]) == [False, "delivered"]


@pytest.mark.parametrize("is_other", [False, True])
async def test_a_job_that_somebody_else_has_claimed_cannot_be_ended(
    store: SqliteStore, other: SqliteStore, clock: ManualClock, is_other: bool
) -> None:
    end = await _worked(store)
    clock.advance(LEASE)

    [claimed] = await claim_jobs(other if is_other else store, "w2")

    assert await store.end_jobs([end]) == [False]
    turn = next_turn("i", _after(end), job_ends=(end,))
    assert await store.commit([turn]) == [TurnReceipt(REFUSED)]
    assert await store.end_jobs([result_of(end.key, claimed.token)]) == [True]


# -------------------------------------------------------------------- starts


async def test_an_id_that_another_process_has_taken_is_taken(
    store: SqliteStore, other: SqliteStore
) -> None:
    stamp = await begun(store, "i")
    await begun(other, "j")
    turn = next_turn("i", stamp)
    await accepted(store, turn)

    turns = [first_turn(new_instance(name)) for name in ("j", "k")]
    receipts = await _together(store, [*turns, next_turn("i", turn.next_stamp)])

    assert [receipt.status for receipt in receipts] == [TAKEN, ACCEPTED, ACCEPTED]


async def test_an_id_that_has_ended_is_taken(store: SqliteStore) -> None:
    stamp = await begun(store, "i")
    await ended(store, "j")

    turn = first_turn(new_instance("j"), outcome=outcome())
    receipts = await _together(store, [first_turn(new_instance("j")), turn, next_turn("i", stamp)])

    assert [receipt.status for receipt in receipts] == [TAKEN, TAKEN, ACCEPTED]


async def test_a_start_that_is_sent_again_is_the_same(store: SqliteStore) -> None:
    stamp = await begun(store, "i")
    turn, start = first_turn(new_instance("j")), new_instance("k")
    first = await _together(store, [turn, start])
    await accepted(store, next_turn("i", stamp, outcome=outcome()))
    _kept_of(store)._forget("j")
    _kept_of(store)._forget("k")

    assert await _together(store, [turn, start]) == first


async def test_messages_that_came_before_a_start_stay(store: SqliteStore) -> None:
    stamp = await begun(store, "i")
    await store.deliver([message("j", if_absent="buffer")])
    await accepted(store, next_turn("i", stamp))

    [receipt] = await store.commit([first_turn(new_instance("j"))])

    assert receipt == TurnReceipt(ACCEPTED, 1, has_unseen=True)
    assert [found.no for found in await store.read_inbox("j")] == [1]


async def test_a_child_whose_id_is_taken_is_told_of(store: SqliteStore) -> None:
    stamp = await begun(store, "i")
    await ended(store, "gone")
    _kept_of(store)._forget("gone")
    await begun(store, "there")
    _kept_of(store)._forget("there")
    children = tuple(
        ChildStart(new_instance(name), message("i", f"no {name}"), message("i", f"yes {name}"))
        for name in ("gone", "there", "new")
    )

    await accepted(store, next_turn("i", stamp, children=children))

    told = [found.body for found in await store.read_inbox("i")]
    assert told == [b"no gone", b"no there", b"yes new"]


@pytest.mark.parametrize("if_absent", ["buffer", "drop"])
async def test_a_message_finds_one_that_a_refused_turn_would_have_started(
    store: SqliteStore, if_absent: str
) -> None:
    end = await _worked(store, "i")
    await begun(store, "there")
    _kept_of(store)._forget("there")
    refused = next_turn(
        "i",
        _after(end),
        job_ends=(result_of(end.key, end.token + 1),),
        children=(ChildStart(new_instance("there"), None),),
    )

    receipt, *statuses = await _together(
        store, [refused, message("there", if_absent=if_absent), message("i")]
    )

    assert receipt == TurnReceipt(REFUSED)
    assert statuses == ["delivered", "delivered"]


async def test_an_instance_that_begins_and_ends_at_once_takes_earlier_messages_along(
    store: SqliteStore,
) -> None:
    stamp = await begun(store, "other")
    await store.deliver([message("i", if_absent="buffer")])
    await accepted(store, next_turn("other", stamp, events=(SCHEDULED,)))

    await ended(store, "i")

    assert await store.read_live("i") is None
    assert await store.read_inbox("i") == []


# --------------------------------------------------------------- other work


async def test_a_turn_sees_a_lease_its_renewal_and_its_release(
    store: SqliteStore, clock: ManualClock
) -> None:
    stamp = await begun(store)
    await store.deliver([message()])
    await accepted(store, next_turn("i", stamp, worker_id="w3"))
    turn = partial(next_turn, "i", await latest(store), worker_id="w3")
    [claimed] = await claim(store, "w2")
    assert await store.commit([turn()]) == [TurnReceipt(REFUSED)]

    lease = TurnLease("i", claimed.lease)
    clock.advance(LEASE - timedelta(milliseconds=1))
    assert await store.renew([lease], [], lease_ms=LEASE_MS) == ([], [])
    clock.advance(LEASE - timedelta(milliseconds=1))
    assert await store.commit([turn()]) == [TurnReceipt(REFUSED)]

    await store.release_turns([lease])
    await accepted(store, turn())


async def test_a_turn_sees_that_its_instance_is_parked_or_not(store: SqliteStore) -> None:
    stamp = await begun(store)
    hold = Hold("i", stamp, 0, Status.PARKED, NOBODY, "it does not fit")
    assert await store.hold([hold]) == [True]
    assert await store.commit([next_turn("i", stamp)]) == [TurnReceipt(REFUSED)]

    assert await store.unpark("i")

    await accepted(store, next_turn("i", stamp))


async def test_a_turn_sees_that_its_instance_was_deleted(store: SqliteStore) -> None:
    stamp = await begun(store)
    await accepted(store, next_turn("i", stamp))

    await store.admin.delete([("i", stamp.incarnation)], force=True)

    assert await store.commit([next_turn("i", stamp)]) == [TurnReceipt(REFUSED)]
    assert await store.commit([first_turn(new_instance("i"))]) == [TurnReceipt(ACCEPTED)]


async def test_a_turn_sees_a_job_that_was_ended_by_hand(store: SqliteStore) -> None:
    end = await _worked(store)

    assert await store.admin.end_job_by_hand(end.key, "activity_completed", b"null")

    assert await store.end_jobs([end]) == [False]
    receipt = await accepted(store, next_turn("i", _after(end)))
    assert receipt == TurnReceipt(ACCEPTED, 1, has_unseen=True)


async def test_work_that_changes_nothing_forgets_nothing(store: SqliteStore) -> None:
    assert await claim_jobs(store) == []
    stamp = await begun(store)

    assert await claim_jobs(store) == []

    assert await _is_one_statement(store, [next_turn("i", stamp)])


def _kept_of(store: SqliteStore) -> RememberedRows:
    assert store._writer is not None
    return store._writer._remembered
