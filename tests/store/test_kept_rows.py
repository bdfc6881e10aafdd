"""A writer remembers the rows it wrote last, and is never wrong because of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure.clock import ManualClock
from perdure.errors import StoreError
from perdure.model.turns import KvChange, TurnReceipt, TurnStatus
from perdure.store.sql.kept import KeptRows
from perdure.store.sqlite import at_once, database, writer
from perdure.store.sqlite.connection import SqliteConnection
from perdure.store.sqlite.store import SqliteStore
from perdure.testing.store_values import (
    SCHEDULED,
    accepted,
    begun,
    ended,
    given,
    job,
    message,
    next_turn,
    outcome,
)

ACCEPTED, REFUSED, TAKEN = TurnStatus.ACCEPTED, TurnStatus.REFUSED, TurnStatus.TAKEN


async def _together(store: SqliteStore, operations: Sequence[Any]) -> list[Any]:
    """Write operations of any kind as one transaction."""
    before = store.counters.transactions
    assert store._batcher is not None
    results = await store._batcher.submit(operations)
    assert store.counters.transactions == before + 1
    return results


# ------------------------------------------------------------------- starts


async def test_an_instance_that_begins_and_ends_at_once_takes_earlier_messages_along(
    store: SqliteStore,
) -> None:
    stamp = await begun(store, "other")
    await store.deliver([message("i", if_absent="buffer")])
    await accepted(store, next_turn("other", stamp, events=(SCHEDULED,)))

    await ended(store, "i")

    assert await store.read_live("i") is None
    assert await store.read_inbox("i") == []


# --------------------------------------------------------------------- bounds


async def test_jobs_that_wait_in_a_queue_are_not_kept(store: SqliteStore) -> None:
    """There may be very many, and nobody can end them."""
    jobs = tuple(job(seq, leased=seq == 2) for seq in range(2, 100))

    await begun(store, jobs=jobs, jobs_leased_until_ms=1)

    [kept] = _kept_of(store)._jobs.values()
    assert [key.seq for key in kept] == [2]


# ------------------------------------------------------------------- trouble


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
    store = SqliteStore(str(path), driver="sqlite3", clock=clock)
    await store.open()
    await begun(store)
    bare = _connection_of(store).bare
    bare.added = 2**31 - 1 - bare.total_changes

    assert await store.deliver([message()]) == ["delivered"]

    assert len(await store.read_inbox("i")) == 1
    await store.close()


async def test_writing_goes_on_after_a_statement_could_not_be_made(store: SqliteStore) -> None:
    """The view is there then, and its trigger is not."""
    stamp = await begun(store)
    connection = _connection_of(store)
    denied: list[str | None] = []

    def authorize(action: int, name: str | None, *_: str | None) -> int:
        if action != sqlite3.SQLITE_CREATE_TEMP_TRIGGER:
            return sqlite3.SQLITE_OK
        denied.append(name)
        return sqlite3.SQLITE_DENY

    connection.authorize_by(authorize)
    with pytest.raises(StoreError, match="not authorized"):
        await store.deliver([message()])
    connection.authorize_by(None)

    assert denied
    assert (await accepted(store, next_turn("i", stamp))).has_unseen is False
    assert await store.deliver([message()]) == ["delivered"]
    assert len(await store.read_inbox("i")) == 1


@pytest.mark.parametrize("fields", [{}, {"receipts": (given(),)}], ids=["at once", "in steps"])
async def test_an_ended_instance_stays_so_when_nobody_could_be_told_of_it(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    stamp = await begun(store)

    def fail() -> None:
        raise OSError("the lock file cannot be read")

    with monkeypatch.context() as patched:
        patched.setattr(store._lock, "note_change", fail)
        with pytest.raises(OSError, match="lock file"):
            await store.commit([next_turn("i", stamp, outcome=outcome(), **fields)])

    # Without events, nothing but its live row would stand in the way.
    assert await store.commit([next_turn("i", stamp)]) == [TurnReceipt(REFUSED)]
    assert await store.read_live("i") is None


async def test_only_so_many_combinations_of_statements_are_ready(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "MAX_COMBINATIONS", 2)
    stamp = await begun(store)
    changes: list[dict[str, Any]] = [{"report": b"1"}, {"kv": (KvChange("k", b"1"),)}, {}]

    for fields in changes * 2:
        before = store.counters.statements
        await accepted(store, next_turn("i", stamp, **fields))
        assert store.counters.statements - before == 1

    views = _connection_of(store).run_text("SELECT name FROM temp.sqlite_schema")
    assert len(views) == 2 * 2


def _connection_of(store: SqliteStore) -> SqliteConnection:
    assert store._writer is not None
    assert store._writer._connection is not None
    return store._writer._connection


def _kept_of(store: SqliteStore) -> KeptRows:
    assert store._writer is not None
    return store._writer._kept
