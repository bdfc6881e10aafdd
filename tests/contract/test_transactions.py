"""What every store does with functions that run inside a transaction and end their job in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure.clock import ManualClock
from perdure.model.jobs import ClaimedJob
from perdure.store.base import JobLease, Store
from perdure.store.within.transactions import Done, OwnWork, Undone
from tests.contract.store_values import (
    LEASE_MS,
    accepted,
    begun,
    claim,
    claim_jobs,
    job,
    next_turn,
    result_of,
)

LEASE = timedelta(milliseconds=LEASE_MS)


def _work(claimed: ClaimedJob, run: Callable[[Any], Done], **fields: Any) -> OwnWork:
    """Return a plain function that ends a job."""
    values: dict[str, Any] = {
        "activity": "say_hello",
        "lease": JobLease(claimed.key, claimed.token),
        "is_async": False,
        "run": run,
        "in_thread": asyncio.to_thread,
        "stop_by": lambda give_up: None,
        "is_stopped": lambda: False,
        "be_alone": lambda: None,
    }
    return OwnWork(**{**values, **fields})


def _done(claimed: ClaimedJob) -> Done:
    return result_of(claimed.key, claimed.token)


class TestOwnTransactions:
    """What the function writes and the end of its job are one commit."""

    async def test_a_function_that_returns_ends_its_job(self, store: Store) -> None:
        await begun(store, jobs=(job(2),))
        [claimed] = await claim_jobs(store)

        assert await store.transact(_work(claimed, lambda connection: _done(claimed))) is True

        assert await store.read_jobs("i") == []
        [turn] = await claim(store)
        assert [message.body for message in turn.messages] == [b"done"]

    async def test_a_function_that_comes_to_nothing_leaves_its_job(self, store: Store) -> None:
        await begun(store, jobs=(job(2),))
        [claimed] = await claim_jobs(store)

        assert await store.transact(_work(claimed, lambda _: Undone(LookupError()))) is None

        assert [one.token for one in await store.read_jobs("i")] == [claimed.token]
        assert await store.read_inbox("i") == []
        assert await store.end_jobs([result_of(claimed.key, claimed.token)]) == [True]

    async def test_a_job_that_another_worker_has_is_not_ended(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2),))
        [late] = await claim_jobs(store)
        clock.advance(LEASE)
        [taken] = await claim_jobs(store, "w2")

        assert await store.transact(_work(late, lambda _: _done(late))) is False

        assert await store.read_inbox("i") == []
        assert [one.token for one in await store.read_jobs("i")] == [taken.token]

    async def test_a_job_whose_lease_ran_out_is_ended_if_nobody_took_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2),))
        [claimed] = await claim_jobs(store)
        clock.advance(2 * LEASE)

        assert await store.transact(_work(claimed, lambda _: _done(claimed))) is True

    async def test_a_cancelled_job_is_not_ended(self, store: Store) -> None:
        stamp = await begun(store, jobs=(job(2),))
        [claimed] = await claim_jobs(store)
        await accepted(store, next_turn("i", stamp, jobs_gone=(2,)))

        assert await store.transact(_work(claimed, lambda _: _done(claimed))) is False

        assert await store.read_inbox("i") == []

    async def test_a_job_is_ended_once(self, store: Store) -> None:
        await begun(store, jobs=(job(2),))
        [claimed] = await claim_jobs(store)
        work = _work(claimed, lambda _: _done(claimed))

        assert [await store.transact(work), await store.transact(work)] == [True, False]

        assert len(await store.read_inbox("i")) == 1

    async def test_a_function_that_was_stopped_before_is_not_ended(self, store: Store) -> None:
        await begun(store, jobs=(job(2),))
        [claimed] = await claim_jobs(store)
        work = _work(claimed, lambda _: _done(claimed), is_stopped=lambda: True)

        assert await store.transact(work) is None

        assert await store.read_inbox("i") == []

    async def test_what_the_code_around_it_raises_passes_and_nothing_is_written(
        self, store: Store
    ) -> None:
        await begun(store, jobs=(job(2),))
        [claimed] = await claim_jobs(store)

        def fail(connection: Any) -> Done:
            raise AssertionError("ours")

        with pytest.raises(AssertionError, match="ours"):
            await store.transact(_work(claimed, fail))

        assert [one.token for one in await store.read_jobs("i")] == [claimed.token]

    async def test_many_run_at_the_same_time(self, store: Store) -> None:
        count = 15
        await begun(store, jobs=tuple(job(seq) for seq in range(2, 2 + count)))
        claims = await claim_jobs(store)

        def end(claimed: ClaimedJob) -> Callable[[Any], Done]:
            return lambda _: _done(claimed)

        done = await asyncio.gather(
            *(store.transact(_work(claimed, end(claimed))) for claimed in claims)
        )

        assert done == [True] * count
        assert [one.no for one in await store.read_inbox("i")] == list(range(1, count + 1))
