"""What claims of jobs with a session cost, and that very many sessions starve nobody."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perdure.model.turns import SessionClaim
from perdure.store.sql import sessions
from perdure.store.sql.packing import pack
from perdure.store.sqlite.connection import statement
from perdure.store.sqlite.store import SqliteStore
from tests.contract.store_values import LEASE_MS, QUEUE, begun, claim_jobs, job

TERMS = SessionClaim("w1", LEASE_MS, (), 100)


async def _statements(store: SqliteStore, terms: SessionClaim | None) -> int:
    await store.intern([QUEUE])
    before = store.counters.statements
    await claim_jobs(store, sessions=terms)
    # The interning inside `claim_jobs` is a transaction of its own, without a statement.
    return store.counters.statements - before - 2 * 2


async def test_a_claim_without_sessions_runs_the_statements_it_always_ran(
    store: SqliteStore,
) -> None:
    assert await _statements(store, None) == 1
    await begun(store, jobs=(job(2), job(3, session="s")))

    assert await _statements(store, None) == 3


async def test_a_claim_with_sessions_runs_one_more_statement_when_there_are_none(
    store: SqliteStore,
) -> None:
    await begun(store, jobs=(job(2),))

    assert await _statements(store, TERMS) == 4


async def test_a_claim_that_has_no_room_for_sessions_does_not_look_for_them(
    store: SqliteStore,
) -> None:
    await begun(store, jobs=(job(2, session="s"),))

    assert await _statements(store, TERMS._replace(more=0)) == 1


async def test_the_backlog_of_a_session_costs_as_much_as_a_single_job(
    store: SqliteStore, path: Path
) -> None:
    [queue] = await store.intern([QUEUE])

    async def steps() -> int:
        counted = 0

        def count() -> int:
            nonlocal counted
            counted += 1
            return 0

        with closing(sqlite3.connect(path)) as connection:
            connection.set_progress_handler(count, 1)
            connection.execute(
                statement("find_sessions"),
                {
                    "queues": pack([queue]),
                    "after": "",
                    "max_sessions": 100,
                    "now_ms": store.clock(),
                },
            ).fetchall()
        return counted

    await begun(store, "a", jobs=(job(2, session="s"), job(3, session="t")))
    few = await steps()
    await begun(store, "b", jobs=tuple(job(2 + number, session="s") for number in range(3_000)))
    many = await steps()

    assert many < 1.2 * few


async def test_very_many_sessions_are_looked_at_in_turn(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 4)
    names = [f"s{number:02}" for number in range(10)]
    await begun(store, jobs=tuple(job(2 + no, session=name) for no, name in enumerate(names)))

    claims = [await claim_jobs(store, sessions=TERMS) for _ in range(4)]

    assert sorted(one.session or "" for some in claims for one in some) == names
    assert max(map(len, claims)) <= 4
