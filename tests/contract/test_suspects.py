"""What every store does with work that was lost with its worker time and again."""

from __future__ import annotations

from datetime import timedelta

from perdure.clock import ManualClock
from perdure.model.instances import Status
from perdure.model.turns import SUSPECT_AFTER, Hold
from perdure.store.base import Store
from tests.contract.store_values import (
    LEASE_MS,
    begun,
    claim,
    claim_blocked,
    claim_bound,
    claim_jobs,
    job,
    new_instance,
)

LEASE = timedelta(milliseconds=LEASE_MS)


class TestSuspects:
    """A killer takes nobody with it."""

    async def test_what_was_lost_once_is_claimed_with_everything_else(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A machine that fails takes thousands along: all of them go on at once."""
        await store.start([new_instance(f"i{number}") for number in range(5)])
        await begun(store, "j", jobs=tuple(job(seq) for seq in range(2, 7)))
        await claim(store)
        await claim_jobs(store)
        clock.advance(LEASE)

        turns, jobs = await claim(store, "w2"), await claim_jobs(store, "w2")

        assert [turn.attempts for turn in turns] == [2] * 5
        assert [job.lost for job in jobs] == [1] * 5

    async def test_instances_that_were_lost_more_often_are_claimed_one_at_a_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.start([new_instance(f"i{number}") for number in range(3)])
        for _ in range(SUSPECT_AFTER):
            await claim(store)
            clock.advance(LEASE)
        await store.start([new_instance("fresh")])

        suspects = [await claim(store, f"w{number}") for number in range(3)]
        rest = await claim(store)

        assert [len(claimed) for claimed in suspects] == [1, 1, 1]
        assert {one.instance_id for [one] in suspects} == {"i0", "i1", "i2"}
        assert [one.instance_id for one in rest] == ["fresh"]

    async def test_jobs_that_were_lost_more_often_are_claimed_one_at_a_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, "j", jobs=tuple(job(seq) for seq in range(2, 5)))
        for _ in range(SUSPECT_AFTER):
            await claim_jobs(store)
            clock.advance(LEASE)
        await begun(store, "fresh", jobs=(job(2),))

        suspects = [await claim_jobs(store, f"w{number}") for number in range(3)]
        rest = await claim_jobs(store)

        assert [len(claimed) for claimed in suspects] == [1, 1, 1]
        assert {one.key.seq for [one] in suspects} == {2, 3, 4}
        assert {one.lost for [one] in suspects} == {SUSPECT_AFTER}
        assert [one.key.instance_id for one in rest] == ["fresh"]

    async def test_jobs_of_sessions_are_suspects_too(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, "j", jobs=tuple(job(seq, session="s") for seq in range(2, 5)))
        for _ in range(SUSPECT_AFTER):
            assert len(await claim_bound(store)) == 3
            clock.advance(LEASE)

        assert await claim_bound(store, takes_suspect=False) == []
        assert len(await claim_bound(store)) == 1

    async def test_who_has_a_suspect_under_way_gets_the_others_from_behind_them(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.start([new_instance(f"i{number}") for number in range(20)])
        await begun(store, "j", jobs=tuple(job(seq) for seq in range(2, 22)))
        for _ in range(SUSPECT_AFTER):
            await claim(store, limit=20)
            await claim_jobs(store, limit=20)
            clock.advance(LEASE)
        await store.start([new_instance("fresh")])
        await begun(store, "k", jobs=(job(2),))

        turns = await claim(store, limit=10, takes_suspect=False)
        jobs = await claim_jobs(store, limit=10, takes_suspect=False)

        assert [one.instance_id for one in turns] == ["fresh"]
        assert [one.key.instance_id for one in jobs] == ["k"]

    async def test_jobs_of_harmless_queues_are_never_suspects(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Our own wait for as long as other instances take, and outlive many workers."""
        await begun(store, "j", jobs=tuple(job(seq) for seq in range(2, 5)))
        for _ in range(SUSPECT_AFTER + 1):
            claimed = await claim_jobs(store, is_harmless=True, takes_suspect=False)
            assert len(claimed) == 3
            clock.advance(LEASE)

    async def test_an_instance_that_was_blocked_time_and_again_is_no_suspect(
        self, store: Store
    ) -> None:
        """A worker that finds that its code does not fit has not died of it."""
        await store.start([new_instance(f"i{number}") for number in range(3)])
        claimed = await claim(store, code="c0")
        for n in range(SUSPECT_AFTER + 1):
            assert [one.attempts for one in claimed] == [1] * 3
            await store.hold(
                [
                    Hold(one.instance_id, one.stamp, one.lease, Status.BLOCKED, f"c{n}", "why")
                    for one in claimed
                ]
            )
            claimed = await claim_blocked(store, code=f"c{n + 1}")

    async def test_the_claimer_says_how_many_losses_make_a_suspect(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.start([new_instance(f"i{number}") for number in range(3)])
        await begun(store, "j", jobs=tuple(job(seq) for seq in range(2, 5)))
        await claim(store)
        await claim_jobs(store)
        clock.advance(LEASE)

        assert len(await claim(store, suspect_after=1)) == 1
        assert len(await claim_jobs(store, suspect_after=1)) == 1
