"""What every store does with work that a wrong clock has put into a time to come."""

from __future__ import annotations

from datetime import timedelta

from perdure.clock import ManualClock, to_ms
from perdure.model.histories.failures import Failure
from perdure.model.jobs import JobEnd
from perdure.store.base import JobLease, Store, TurnLease
from tests.contract.store_values import (
    LEASE_MS,
    accepted,
    begun,
    claim,
    claim_bound,
    claim_jobs,
    job,
    message,
    new_instance,
    timer,
    turn_of,
)

YEARS = timedelta(days=3650)
MINUTE = timedelta(minutes=1)


class TestStranded:
    """A clock was years ahead for a while and is right again."""

    async def test_ready_turns_and_new_jobs_are_claimable_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, "told")
        clock.advance(YEARS)
        await store.start([new_instance("new")])
        await store.deliver([message("told")])
        await begun(store, "calls", jobs=(job(),))
        clock.now_ms -= to_ms(YEARS)
        before = (await claim(store), await claim_jobs(store))

        woken = await store.admin.wake_stranded(limit=10)

        assert (before, woken) == (([], []), 3)
        assert {turn.instance_id for turn in await claim(store)} == {"told", "new"}
        assert len(await claim_jobs(store)) == 1
        assert await store.admin.wake_stranded(limit=10) == 0

    async def test_retries_wait_for_the_rest_of_their_pause(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, "j", jobs=(job(),))
        clock.advance(YEARS)
        [work] = await claim_jobs(store)
        failure = Failure("E", "no", at_ms=clock())
        again_ms = clock() + to_ms(MINUTE)
        retried = JobEnd(key=work.key, token=work.token, retry_at_ms=again_ms, failure=failure)
        assert await store.end_jobs([retried]) == [True]
        clock.now_ms -= to_ms(YEARS)

        assert await store.admin.wake_stranded(limit=10) == 1
        at_once = await claim_jobs(store)
        clock.advance(MINUTE)

        assert (at_once, len(await claim_jobs(store))) == ([], 1)
        assert await store.admin.wake_stranded(limit=10) == 0

    async def test_what_was_given_back_is_claimable_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, "j", jobs=(job(),))
        clock.advance(YEARS)
        [work] = await claim_jobs(store)
        back = JobEnd(key=work.key, token=work.token, retry_at_ms=clock(), refund=True)
        assert await store.end_jobs([back]) == [True]
        clock.now_ms -= to_ms(YEARS)

        assert await store.admin.wake_stranded(limit=10) == 1
        assert len(await claim_jobs(store)) == 1

    async def test_a_pause_by_a_right_clock_is_left_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, "j", jobs=(job(),))
        [work] = await claim_jobs(store)
        failure = Failure("E", "no", at_ms=clock())
        later_ms = clock() + to_ms(YEARS)
        retried = JobEnd(key=work.key, token=work.token, retry_at_ms=later_ms, failure=failure)
        assert await store.end_jobs([retried]) == [True]

        assert await store.admin.wake_stranded(limit=10) == 0

    async def test_leases_of_the_dead_run_out(self, store: Store, clock: ManualClock) -> None:
        clock.advance(YEARS)
        await store.start([new_instance()])
        await begun(store, "j", jobs=(job(seq=2), job(seq=3, session="s")))
        assert len(await claim(store)) == 1
        assert len(await claim_jobs(store)) == len(await claim_bound(store)) == 1
        clock.now_ms -= to_ms(YEARS)

        assert await store.admin.wake_stranded(limit=10) == 3
        clock.advance(MINUTE)

        assert [turn.attempts for turn in await claim(store, "w2")] == [2]
        assert len(await claim_jobs(store, "w2")) == 1
        assert len(await claim_bound(store, "w2")) == 1

    async def test_the_living_renew_theirs(self, store: Store, clock: ManualClock) -> None:
        clock.advance(YEARS)
        await store.start([new_instance()])
        await begun(store, "j", jobs=(job(),))
        [turn] = await claim(store)
        [work] = await claim_jobs(store)
        clock.now_ms -= to_ms(YEARS)
        await store.admin.wake_stranded(limit=10)
        clock.advance(MINUTE / 2)

        leases = [TurnLease("i", turn.lease)], [JobLease(work.key, work.token)]
        lost = await store.renew(*leases, lease_ms=2 * LEASE_MS)
        clock.advance(MINUTE / 2)

        assert lost == ([], [])
        assert (await claim(store, "w2"), await claim_jobs(store, "w2")) == ([], [])
        await accepted(store, turn_of(turn))

    async def test_what_waits_for_its_time_is_left_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        due_ms = clock() + to_ms(YEARS)
        await begun(store, "sleeps", timers=(timer(2, due_ms),), next_due_ms=due_ms)
        await store.start([new_instance("later", visible_at_ms=due_ms)])
        await begun(store, "calls", jobs=(job(),))
        assert len(await claim_jobs(store)) == 1
        clock.now_ms -= to_ms(MINUTE)

        assert await store.admin.wake_stranded(limit=10) == 0
        assert await claim(store) == []
