"""What a writer remembers is bounded, and trouble does not make it wrong."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure.clock import ManualClock
from perdure.errors import RowError
from perdure.model.histories.events import Body
from perdure.model.jobs import JobKey
from perdure.model.turns import KvChange, Turn, TurnReceipt, TurnStatus
from perdure.store.sql.commits import remembered_rows
from perdure.store.sql.commits.remembered_check import SWITCH, RememberedRowsError, check_remembered
from perdure.store.sqlite import database, one_statement, writer
from perdure.store.sqlite.connection import SqliteConnection
from perdure.store.sqlite.store import SqliteStore
from tests.contract.store_values import (
    SCHEDULED,
    accepted,
    begun,
    job,
    latest,
    message,
    next_turn,
    outcome,
    result_of,
)
from tests.engine.stage import until

ACCEPTED, REFUSED = TurnStatus.ACCEPTED, TurnStatus.REFUSED


# --------------------------------------------------------------------- bounds


async def test_jobs_that_wait_in_a_queue_are_not_kept(store: SqliteStore) -> None:
    """There may be very many, and nobody can end them."""
    jobs = tuple(job(seq, leased=seq == 2) for seq in range(2, 100))

    await begun(store, jobs=jobs, jobs_leased_until_ms=1)

    [kept] = _remembered_of(store)._jobs.values()
    assert [key.seq for key in kept] == [2]


async def test_what_is_kept_is_bounded(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered_rows, "MAX_REMEMBERED", 3)
    stamps = {name: await begun(store, name) for name in "abcdef"}

    assert list(_remembered_of(store)._live) == ["d", "e", "f"]
    assert await _is_one_statement(store, next_turn("d", stamps["d"], events=(SCHEDULED,)))
    assert not await _is_one_statement(store, next_turn("a", stamps["a"], events=(SCHEDULED,)))

    assert list(_remembered_of(store)._live) == ["f", "d", "a"]
    for name in stamps:
        receipts = await store.commit(
            [next_turn(name, await latest(store, name), events=(SCHEDULED,))]
        )
        assert receipts == [TurnReceipt(ACCEPTED)]


# ------------------------------------------------------------------- trouble


async def test_a_batch_that_fails_leaves_nothing_and_is_not_remembered(store: SqliteStore) -> None:
    stamp = await begun(store, jobs=(job(2, leased=True),), jobs_leased_until_ms=2**45, commit_id=7)
    await begun(store, "j")
    bad = message("j", kind="\ud800")
    end = result_of(JobKey("i", stamp.incarnation, 1, 2), 7)
    turn = next_turn("i", stamp, job_ends=(end,), events=(SCHEDULED,))
    assert store._batcher is not None

    with pytest.raises(RowError):
        await store._batcher.submit([bad])
    with pytest.raises(RowError):
        await store._batcher.submit([turn, bad])

    assert await store.read_inbox("j") == []
    assert await store.read_jobs("i") == []
    again = next_turn("i", stamp, events=(SCHEDULED,))
    moved = next_turn("i", turn.next_stamp, events=(SCHEDULED,))
    receipts = await store.commit([turn, again, moved])
    assert [receipt.status for receipt in receipts] == [ACCEPTED, REFUSED, ACCEPTED]


async def test_a_full_disk_leaves_nothing_remembered(store: SqliteStore) -> None:
    stamp = await begun(store)
    [(pages,)] = _connection_of(store).run_text("PRAGMA page_count")
    _connection_of(store).run_text(f"PRAGMA max_page_count = {pages}")
    large = next_turn("i", stamp, events=(Body("signal_received", bytes(100_000)),))

    # After the error the connection is opened anew, without the limit.
    receipts = await store.commit([large, next_turn("i", stamp)])

    assert [receipt.status for receipt in receipts] == [ACCEPTED, REFUSED]
    assert store.counters.retries == 1


async def test_what_another_program_has_kept_from_being_written_is_written_once(
    store: SqliteStore, path: Path
) -> None:
    await begun(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        delivering = asyncio.ensure_future(store.deliver([message()]))
        await until(lambda: store.counters.retries)
        other.execute("ROLLBACK")

    assert await delivering == ["delivered"]

    assert [one.body for one in await store.read_inbox("i")] == [b"hello"]


class _MuchChanged(sqlite3.Connection):
    """A connection that is about to have changed more rows than 32 bits can count."""

    added = 0

    @property
    def total_changes(self) -> int:
        return (super().total_changes + self.added + 2**31) % 2**32 - 2**31


async def test_what_was_written_is_not_written_again_when_the_count_of_changes_overflows(
    path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        writer, "connect_writer", partial(database.connect_writer, factory=_MuchChanged)
    )
    store = SqliteStore(str(path), clock=clock)
    await store.open()
    await begun(store)
    bare = _connection_of(store).bare
    assert isinstance(bare, _MuchChanged)
    bare.added = 2**31 - 1 - bare.total_changes

    assert await store.deliver([message()]) == ["delivered"]

    assert len(await store.read_inbox("i")) == 1
    await store.close()


async def test_what_cannot_be_one_statement_is_written_in_steps(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Also later, when the view is there and its trigger is not."""
    stamp = await begun(store)
    connection = _connection_of(store)

    def authorize(action: int, *_: str | None) -> int:
        is_trigger = action == sqlite3.SQLITE_CREATE_TEMP_TRIGGER
        return sqlite3.SQLITE_DENY if is_trigger else sqlite3.SQLITE_OK

    connection.authorize_by(authorize)
    assert await store.deliver([message()]) == ["delivered"]
    connection.authorize_by(None)

    assert [record.getMessage() for record in caplog.records] == [
        "a transaction could not be run as one statement"
    ]
    assert await _is_one_statement(store, next_turn("i", stamp))
    assert await store.deliver([message()]) == ["delivered"]
    assert len(await store.read_inbox("i")) == 2


async def test_only_so_many_combinations_of_statements_are_ready(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_statement, "MAX_COMBINATIONS", 2)
    stamp = await begun(store)
    changes: list[dict[str, Any]] = [{"report": b"1"}, {"kv": (KvChange("k", b"1"),)}, {}]

    for fields in changes * 2:
        before = store.counters.statements
        turn = next_turn("i", stamp, **fields)
        await accepted(store, turn)
        stamp = turn.next_stamp
        assert store.counters.statements - before == 1

    views = _connection_of(store).run_text("SELECT name FROM temp.sqlite_schema")
    assert len(views) == 2 * 2


async def test_tables_of_the_user_can_be_changed_beside_what_the_writer_has_made(
    store: SqliteStore,
) -> None:
    """In memory, transactions of the user's run on the connection that writes."""
    stamp = await begun(store)
    connection = _connection_of(store)
    connection.run_text("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, extra TEXT)")
    await accepted(store, next_turn("i", stamp))
    assert connection.run_text("SELECT count(*) FROM temp.sqlite_schema") == [(2,)]

    connection.run_text("ALTER TABLE notes RENAME COLUMN text TO body")
    connection.run_text("ALTER TABLE notes DROP COLUMN extra")
    connection.run_text("ALTER TABLE notes RENAME TO remarks")
    connection.run_text("INSERT INTO remarks (body) VALUES ('a')")
    connection.run_text("DROP TABLE remarks")

    assert await _is_one_statement(store, next_turn("i", await latest(store)))


def _connection_of(store: SqliteStore) -> SqliteConnection:
    assert store._writer is not None
    assert store._writer._connection is not None
    return store._writer._connection


def _remembered_of(store: SqliteStore) -> remembered_rows.RememberedRows:
    assert store._writer is not None
    return store._writer._remembered


async def _is_one_statement(store: SqliteStore, turn: Turn) -> bool:
    before = store.counters.statements
    await accepted(store, turn)
    return store.counters.statements - before == 1


async def test_what_has_ended_in_vain_is_not_remembered(store: SqliteStore) -> None:
    """It was decided on rows that turned out to be wrong, and nothing of it was written."""
    stamp = await begun(store)
    rows = _remembered_of(store).find([next_turn("i", stamp, outcome=outcome())])
    assert rows is not None

    del rows.live["i"]  # As a turn does that ends its instance.
    _remembered_of(store).was_wrong(rows)

    assert len(_remembered_of(store)) == 0


# ---------------------------------------------------- looking for defects


async def test_who_looks_finds_a_row_that_is_remembered_wrongly(store: SqliteStore) -> None:
    await begun(store)
    check_remembered(_remembered_of(store), _connection_of(store), by="load_live")

    _remembered_of(store)._live["i"].last_no += 1

    with pytest.raises(RememberedRowsError, match="last_no is 0, remembered as 1"):
        check_remembered(_remembered_of(store), _connection_of(store), by="load_live")


async def test_a_writer_looks_after_every_commit_if_it_is_told_to(
    tmp_path: Path,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(SWITCH, "1")
    store = SqliteStore(str(tmp_path / "looked-at.db"), clock=clock)
    await store.open()
    await begun(store, "i")
    await begun(store, "j")
    assert not caplog.records

    _remembered_of(store)._live["i"].attempts = 7
    await begun(store, "k")

    assert "attempts is 0, remembered as 7" in caplog.text
    await store.close()
