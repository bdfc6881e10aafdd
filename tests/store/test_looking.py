"""Claims of one batch look together: each gets its own, by the database's time, in one call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import pytest

from perdure.clock import system_clock
from perdure.model.turns import ClaimedTurn, JobClaim, TurnClaim
from perdure.store.opening import open_store
from perdure.store.postgres import lane
from perdure.store.postgres.clock import DatabaseClock
from perdure.store.postgres.store import PostgresStore
from perdure.store.sql import claims
from perdure.store.sql.commits.batch import Operation
from perdure.store.sql.sessions import SessionMarks
from perdure.store.sqlite.store import SqliteStore
from tests.contract.store_values import LEASE_MS, ORCHESTRATION, QUEUE, begun, job, new_instance
from tests.contract.store_values import token as fresh_token

AnyStore: TypeAlias = SqliteStore | PostgresStore

ANOTHER = ORCHESTRATION._replace(name="another")


async def turn_claim(store: AnyStore, worker_id: str = "w1", *, limit: int = 100) -> TurnClaim:
    [number] = await store.intern([ORCHESTRATION])
    return TurnClaim(worker_id, ((number, "c1"),), limit, LEASE_MS, fresh_token())


async def job_claim(store: AnyStore, worker_id: str = "w1", *, limit: int = 100) -> JobClaim:
    [number] = await store.intern([QUEUE])
    return JobClaim(worker_id, (number,), limit, LEASE_MS, fresh_token())


def claiming(claim: TurnClaim | JobClaim) -> Operation:
    if isinstance(claim, TurnClaim):
        turns = claims.TurnClaiming(claim, claims.ask_ready)
        return Operation(
            lambda t: turns.run(t.connection, now_ms=t.now_ms, offset=0), is_quiet=True, look=turns
        )
    jobs = claims.JobClaiming(claim, SessionMarks())
    return Operation(
        lambda t: jobs.run(t.connection, t.definitions, now_ms=t.now_ms, offset=0),
        is_quiet=True,
        look=jobs,
    )


async def check_claims_of_one_batch(store: AnyStore) -> None:
    await begun(store, "owner", jobs=[job(seq) for seq in range(2, 6)])
    await store.start([new_instance(f"i{number}") for number in range(4)])
    wanted: list[TurnClaim | JobClaim] = [
        await turn_claim(store, "w1", limit=3),
        await job_claim(store, "w1", limit=3),
        await turn_claim(store, "w2", limit=3),
        await job_claim(store, "w2", limit=3),
    ]

    turns, jobs, other_turns, other_jobs = await store._submit(list(map(claiming, wanted)), None)

    found = [claimed.instance_id for claimed in [*turns, *other_turns]]
    assert sorted(found) == ["i0", "i1", "i2", "i3"]
    assert sorted(claimed.key.seq for claimed in [*jobs, *other_jobs]) == [2, 3, 4, 5]


async def test_claims_of_one_batch_never_get_the_same(store: AnyStore) -> None:
    await check_claims_of_one_batch(store)


async def test_nor_do_they_on_a_server(server: PostgresStore) -> None:
    await check_claims_of_one_batch(server)


@pytest.fixture
async def server(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresStore]:
    """A store that goes by the database's clock, and makes its plans once."""
    monkeypatch.setattr(lane, "PLANS_LAST_S", 3600.0)
    store = open_store(postgres_url, clock=system_clock)
    assert isinstance(store, PostgresStore)
    await store.open()
    yield store
    await store.close()


async def statements_of(server: PostgresStore, *claims: Any) -> tuple[int, list[Any]]:
    """Return how many calls claims take that are handed in together, and what they find."""
    await server._submit(list(map(claiming, claims)), None)  # The first one makes plans.
    before = server.counters.statements
    found = await server._submit(list(map(claiming, claims)), None)
    return server.counters.statements - before, found


async def test_a_claim_that_finds_nothing_is_one_call(server: PostgresStore) -> None:
    wanted = [await turn_claim(server), await job_claim(server)]

    count, found = await statements_of(server, *wanted)

    assert found == [[], []]
    assert count == 1


async def test_a_claim_of_turns_is_one_call(server: PostgresStore) -> None:
    await server.start([new_instance("i"), new_instance("j")])
    wanted = [await turn_claim(server, limit=1), await job_claim(server)]

    count, found = await statements_of(server, *wanted)

    assert [turn.instance_id for turn in found[0]] == ["j"]
    assert [len(turn.messages) for turn in found[0]] == [1]
    assert count == 1


async def test_turns_of_which_not_all_can_be_had_are_chosen_in_steps(server: PostgresStore) -> None:
    numbers = await server.intern([ORCHESTRATION, ANOTHER])
    await server.start([new_instance("i"), new_instance("j")])
    await server.start([new_instance("k", definition=ANOTHER)])
    served = tuple((number, "c1") for number in numbers)
    wanted = TurnClaim("w1", served, 2, LEASE_MS, fresh_token())
    before = server.counters.statements

    [found] = await server._submit([claiming(wanted)], None)

    assert sorted(turn.definition_no for turn in found) == sorted(numbers)
    steps = ["begin", "look", "lease", "messages", "commit"]
    assert server.counters.statements - before == len(["try", *steps])


async def test_jobs_are_claimed_in_steps_and_turns_beside_them_in_one_call(
    server: PostgresStore,
) -> None:
    await begun(server, "owner", jobs=[job(2)])
    await server.start([new_instance("i")])
    wanted = [claiming(await turn_claim(server)), claiming(await job_claim(server))]
    before = server.counters.statements

    turns, jobs = await server._submit(wanted, None)

    assert [turn.instance_id for turn in turns] == ["i"]
    assert [claimed.key.seq for claimed in jobs] == [2]
    steps = ["begin", "look", "lease", "read", "commit"]
    assert server.counters.statements - before == len(["turns", *steps])


@pytest.mark.parametrize("off_ms", [-60_000, 60_000], ids=["behind", "ahead"])
async def test_claims_go_by_the_databases_time_also_if_it_is_not_known(
    server: PostgresStore, off_ms: int
) -> None:
    """Such as after another server, with another clock, has taken its place."""
    await server.start([new_instance("i")])
    wanted = await turn_claim(server)
    assert isinstance(server.clock, DatabaseClock)
    now_ms = server.clock()
    server.clock.begin(now_ms + off_ms)

    found: list[ClaimedTurn]
    [found] = await server._submit([claiming(wanted)], None)

    assert [turn.instance_id for turn in found] == ["i"]
    live = await server.read_live("i")
    assert live is not None
    assert abs(live.lease_until_ms - (now_ms + LEASE_MS)) < 30_000
