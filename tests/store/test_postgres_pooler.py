"""Behind a pooler in transaction mode: told of it the store works, otherwise it says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import asyncpg
import pytest

from perdure import Client
from perdure.clock import ManualClock
from perdure.errors import StoreError
from perdure.model.hints import KINDS, Hint
from perdure.model.turns import TurnClaim, TurnStatus, WorkerRow
from perdure.store.base import Store
from perdure.store.opening import open_store
from perdure.store.postgres.store import PostgresStore
from tests.chaos import workload
from tests.chaos.ledger import Ledger, Line
from tests.contract.store_values import (
    SCHEDULED,
    STARTED,
    accepted,
    begun,
    claim_jobs,
    job,
    message,
    new_instance,
    next_turn,
    outcome,
    result_of,
    timer,
)

# A good part of the contract, through the pooler.
from tests.contract.test_leases import TestJobs, TestTurnClaims  # noqa: F401
from tests.contract.test_messages import TestDeliveries, TestStarts  # noqa: F401
from tests.contract.test_turns import TestFencing, TestFirstTurns  # noqa: F401
from tests.contract.test_values import TestBadValues  # noqa: F401
from tests.engine.shop import Order, Pay, Place
from tests.engine.stage import Stage, until
from tests.wire import Pooler


@pytest.fixture
async def pooler(postgres_url: str) -> AsyncIterator[Pooler]:
    async with Pooler(postgres_url) as pooler:
        yield pooler


@pytest.fixture
async def store(pooler: Pooler, clock: ManualClock) -> AsyncIterator[Store]:
    store = open_store(f"{pooler.url}?pooler=transaction", clock=clock)
    await store.open()
    yield store
    await store.close()


async def test_a_turn_whose_rows_are_known_is_written_in_steps(store: Store) -> None:
    """Outside a transaction the connection that has prepared a statement is not the one to run
    it."""
    assert isinstance(store, PostgresStore)
    stamp = await begun(store)
    before = store.counters.statements

    await accepted(store, next_turn("i", stamp, events=(SCHEDULED,)))

    # Begin, load, write, commit.
    assert store.counters.statements - before == 4


async def test_every_transaction_may_have_another_connection(store: Store, pooler: Pooler) -> None:
    before = pooler.transactions
    stamp = await begun(store, events=(STARTED, SCHEDULED), jobs=(job(2),))
    [claimed] = await claim_jobs(store)

    assert await store.end_jobs([result_of(claimed.key, claimed.token)]) == [True]
    assert await store.deliver([message()]) == ["delivered"]
    [receipt] = await store.commit([next_turn("i", stamp, events=(SCHEDULED,), jobs=(job(3),))])

    assert receipt.status is TurnStatus.ACCEPTED
    assert pooler.transactions > before


async def test_no_statement_is_compiled_before_it_is_run(store: Store) -> None:
    """Plans that may not read a whole table look dear, and compiling them takes far longer than
    they do. A pooler hands on no settings of a session."""
    assert isinstance(store, PostgresStore)

    written = await store.work(lambda t: t.connection.run_own("SHOW jit", ()), is_quiet=True)
    read = await store.read(lambda connection: connection.run_own("SHOW jit", ()))

    assert written == read == [("off",)]


async def test_what_others_commit_is_noticed_without_listening(
    store: Store, pooler: Pooler, clock: ManualClock
) -> None:
    other = open_store(f"{pooler.url}?pooler=transaction", clock=clock)
    await other.open()
    before = store.change_count(Hint.WORK)

    await other.start([new_instance()])

    await until(lambda: store.change_count(Hint.WORK) != before)
    await other.close()


@pytest.mark.parametrize("is_pooled", [True, False])
async def test_whoever_listens_is_called_when_others_commit(
    is_pooled: bool, postgres_url: str, pooler: Pooler, clock: ManualClock
) -> None:
    url = f"{pooler.url}?pooler=transaction" if is_pooled else postgres_url
    store, other = (open_store(url, clock=clock) for _ in range(2))
    heard: list[int] = []
    stop = store.listen_changes(Hint.WORK, lambda: heard.append(store.change_count(Hint.WORK)))
    await store.open()
    await other.open()
    await until(lambda: heard)  # It hears.
    before = len(heard)

    await other.start([new_instance()])
    await until(lambda: len(heard) > before)
    stop()
    count = store.change_count(Hint.WORK)
    await other.deliver([message()])
    await until(lambda: store.change_count(Hint.WORK) > count)

    assert heard[-1] <= count
    await store.close()
    await other.close()


async def test_what_nobody_wants_to_know_wakes_nobody(
    store: Store, pooler: Pooler, clock: ManualClock
) -> None:
    """Or every sign of life of a worker would make all others look for work."""
    other = open_store(f"{pooler.url}?pooler=transaction", clock=clock)
    await other.open()
    stamp = await begun(other, timers=(timer(1, 1 << 50),))
    await until(lambda: store.change_count(Hint.WORK) > 1)
    await looked(store)
    before = [store.change_count(kind) for kind in KINDS]

    await other.beat(WorkerRow("w", "host", 1, 1, clock(), ()))
    await other.claim_turns(TurnClaim("w", (), 10, 1000, 1))
    step = next_turn("i", stamp, events=(SCHEDULED,), jobs=(job(2, leased=True),))
    await accepted(other, step)
    await looked(store)

    assert [store.change_count(kind) for kind in KINDS] == before
    await other.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"jobs": (job(2),)},
        {"jobs_gone": (2,)},
        {"timers": (timer(2, 1 << 50),)},
        {"deliveries": (message("other"),)},
        {"report": b"1"},
        {"outcome": outcome()},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_a_turn_that_concerns_others_is_told(
    fields: dict[str, Any], store: Store, pooler: Pooler, clock: ManualClock
) -> None:
    other = open_store(f"{pooler.url}?pooler=transaction", clock=clock)
    await other.open()
    stamp = await begun(other, timers=(timer(1, 1 << 50),))
    await until(lambda: store.change_count(Hint.WORK) > 1)
    await looked(store)
    before = store.change_count(Hint.WORK)

    await accepted(other, next_turn("i", stamp, **fields))

    # Behind a pooler all kinds are told as one.
    await until(lambda: store.change_count(Hint.WORK) > before)
    await other.close()


async def test_own_commits_are_no_news(store: Store) -> None:
    await looked(store)
    before = store.change_count(Hint.WORK)

    await store.start([new_instance()])
    await looked(store)

    assert store.change_count(Hint.WORK) == before


@pytest.mark.parametrize("is_teller_pooled", [True, False])
async def test_those_behind_a_pooler_and_those_who_are_not_hear_of_each_other(
    is_teller_pooled: bool, postgres_url: str, pooler: Pooler, clock: ManualClock
) -> None:
    urls = {True: f"{pooler.url}?pooler=transaction", False: postgres_url}
    teller = open_store(urls[is_teller_pooled], clock=clock)
    listener = open_store(urls[not is_teller_pooled], clock=clock)
    await teller.open()
    await listener.open()
    await until(lambda: listener.change_count(Hint.WORK))  # It listens.
    before = listener.change_count(Hint.WORK)

    await teller.start([new_instance()])

    await until(lambda: listener.change_count(Hint.WORK) != before)
    await teller.close()
    await listener.close()


async def test_what_a_transaction_of_a_user_has_written_is_noticed_after_its_commit(
    postgres_url: str, pooler: Pooler
) -> None:
    """However long that takes; and it is told before the client is closed."""
    url = f"{pooler.url}?pooler=transaction"
    store = open_store(url)
    await store.open()
    connection = await asyncpg.connect(postgres_url)
    async with Client(url, create=True) as client:
        async with connection.transaction():
            await client.within(connection).start("a", workload.nap, 1)
            await looked(store)
            await looked(client._core.store)
            before = store.change_count(Hint.WORK)
        await until(lambda: store.change_count(Hint.WORK) != before)
        async with connection.transaction():
            await client.within(connection).start("b", workload.nap, 1)
            before = store.change_count(Hint.WORK)

    await until(lambda: store.change_count(Hint.WORK) != before)
    await connection.close()
    await store.close()


async def test_a_worker_notices_what_a_user_of_its_own_process_has_written(
    postgres_url: str, pooler: Pooler
) -> None:
    connection = await asyncpg.connect(postgres_url)
    async with Client(f"{pooler.url}?pooler=transaction", create=True) as client:
        await looked(client._core.store)
        before = client._core.store.change_count(Hint.WORK)
        async with connection.transaction():
            await client.within(connection).start("a", workload.nap, 1)

        await until(lambda: client._core.store.change_count(Hint.WORK) != before)
    await connection.close()


async def looked(store: Store) -> None:
    """Wait until a store has looked twice whether others have told something."""
    assert isinstance(store, PostgresStore)
    hints = store._notifications
    before = hints.statements
    await until(lambda: hints.statements >= before + 2)


class ListLedger(Ledger):
    """Keeps lines in memory."""

    def __init__(self) -> None:
        self.pid = 0
        self.lines: list[Line] = []

    def append(self, line: Line) -> None:
        self.lines.append(line)


async def test_an_engine_works_through_the_pooler(pooler: Pooler) -> None:
    stage = Stage(f"{pooler.url}?pooler=transaction")
    engine = await stage.engine([*workload.DEFINITIONS, Order], resources=[ListLedger()])

    results = await asyncio.gather(
        (await engine.start("chain", workload.chain, 1, 4)).result(),
        (await engine.start("fan", workload.fan, 1, 5)).result(),
        (await engine.start("nap", workload.nap, 1)).result(),
        (await engine.start("family", workload.family, 1)).result(),
    )
    await engine.execute(Order, Place("o"), input_id="place")
    await engine.execute(Order, Pay("o", "r"), input_id="pay")

    assert [*results] == [5, 20, 2, ["2", "3", "ValueError: no 2"]]
    assert (await engine.state(Order, "o")).receipt == "r"
    await stage.close()
    await stage.look_over()


async def test_a_pooler_that_nobody_told_of_is_refused(pooler: Pooler) -> None:
    """One statement would be run for another, if two processes have given them the same name."""
    with pytest.raises(StoreError, match="add pooler=transaction to the store URL"):
        await open_store(pooler.url).open()


async def test_a_pooler_that_is_told_of_as_another_sort_is_named(
    pooler: Pooler, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """As soon as a statement is missing in the connection that comes next."""
    store = open_store(f"{pooler.url}?pooler=session", clock=clock)
    await store.open()

    async def is_told() -> bool:
        with suppress(StoreError):
            await store.deliver([message(if_absent="buffer")], patience_s=0.1)
        told = [getattr(record, "trouble", "") for record in caplog.records]
        return any("add pooler=transaction to the store URL" in text for text in told)

    await until(is_told)
    await store.close()
