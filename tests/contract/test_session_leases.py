"""What every store does with the leases of sessions."""

from __future__ import annotations

from datetime import timedelta

from perdure.clock import ManualClock
from perdure.model.admin import SessionRow
from perdure.model.jobs import JobEnd
from perdure.store.base import JobLease, Store
from tests.contract.store_values import (
    LEASE_MS,
    QUEUE,
    accepted,
    begun,
    claim_bound,
    job,
    next_turn,
    result_of,
)

LEASE = timedelta(milliseconds=LEASE_MS)
MS = timedelta(milliseconds=1)
LONG_MS = 10 * LEASE_MS


class TestSessionLeases:
    """Sessions are renewed while they are used, and run out when they are not."""

    async def _idle(self, store: Store) -> None:
        """Leave w1 with a session and no job of it."""
        await begun(store, jobs=(job(2, session="s"),))
        [claimed] = await claim_bound(store, "w1")
        await store.end_jobs([result_of(claimed.key, claimed.token)])

    async def test_a_session_that_was_used_lately_is_renewed(
        self, store: Store, clock: ManualClock
    ) -> None:
        await self._idle(store)
        used_ms = clock()
        clock.advance(LEASE - MS)

        assert await store.renew_sessions("w1", (), lease_ms=LEASE_MS, idle_ms=LONG_MS) == []

        assert await store.admin.read_sessions() == [
            SessionRow("s", "w1", clock() + LEASE_MS, used_ms)
        ]

    async def test_an_idle_session_runs_out(self, store: Store, clock: ManualClock) -> None:
        await self._idle(store)
        until_ms = clock() + LEASE_MS
        clock.advance(LEASE - MS)

        await store.renew_sessions("w1", (), lease_ms=LEASE_MS, idle_ms=1_000)

        [row] = await store.admin.read_sessions()
        assert row.until_ms == until_ms

    async def test_a_busy_session_is_renewed_however_long_its_job_takes(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2, session="s"),))
        await claim_bound(store, "w1")
        clock.advance(LEASE - MS)

        assert await store.renew_sessions("w1", ("s",), lease_ms=LEASE_MS, idle_ms=1) == []

        [row] = await store.admin.read_sessions()
        assert row.until_ms == clock() + LEASE_MS

    async def test_renewal_never_shortens_and_never_revives(
        self, store: Store, clock: ManualClock
    ) -> None:
        await self._idle(store)
        until_ms = clock() + LEASE_MS

        await store.renew_sessions("w1", ("s",), lease_ms=1, idle_ms=LONG_MS)
        clock.advance(LEASE)
        lost = await store.renew_sessions("w1", ("s",), lease_ms=LEASE_MS, idle_ms=LONG_MS)

        assert lost == ["s"]
        [row] = await store.admin.read_sessions()
        assert row.until_ms == until_ms

    async def test_a_busy_session_that_moved_on_is_told(
        self, store: Store, clock: ManualClock
    ) -> None:
        await self._idle(store)
        clock.advance(LEASE)
        await begun(store, "j", jobs=(job(2, session="s"),))
        await claim_bound(store, "w2")

        lost = await store.renew_sessions("w1", ("s", "never"), lease_ms=LEASE_MS, idle_ms=LONG_MS)

        assert lost == ["s", "never"]
        [row] = await store.admin.read_sessions()
        assert row.owner == "w2"

    async def test_sessions_of_others_are_not_renewed(
        self, store: Store, clock: ManualClock
    ) -> None:
        await self._idle(store)
        until_ms = clock() + LEASE_MS
        clock.advance(MS)

        await store.renew_sessions("w2", ("s",), lease_ms=LEASE_MS, idle_ms=LONG_MS)

        [row] = await store.admin.read_sessions()
        assert (row.owner, row.until_ms) == ("w1", until_ms)

    async def test_a_claim_never_shortens_the_lease_of_a_session(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2, session="s"), job(3, session="s")))
        await claim_bound(store, "w1", limit=1, lease_ms=LONG_MS)

        await claim_bound(store, "w1", lease_ms=1)

        [row] = await store.admin.read_sessions()
        assert row.until_ms == clock() + LONG_MS

    async def test_jobs_that_are_renewed_and_ended_use_their_session(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2, session="s"), job(3, session="s")))
        first, second = await claim_bound(store, "w1")
        lease = JobLease(first.key, first.token)
        used = []

        clock.advance(MS)
        await store.renew([], [lease], lease_ms=LEASE_MS)
        used.append((await store.admin.read_sessions())[0].used_ms)
        clock.advance(MS)
        await store.end_jobs([result_of(first.key, first.token)])
        used.append((await store.admin.read_sessions())[0].used_ms)
        clock.advance(MS)
        await store.end_jobs([JobEnd(key=second.key, token=second.token, retry_at_ms=0)])
        used.append((await store.admin.read_sessions())[0].used_ms)

        assert used == [clock() - 2, clock() - 1, clock()]

    async def test_a_turn_that_ends_a_job_uses_its_session(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store, jobs=(job(2, session="s"),))
        [claimed] = await claim_bound(store, "w1")
        clock.advance(MS)
        end = result_of(claimed.key, claimed.token)

        await accepted(store, next_turn("i", stamp, job_ends=(end,)))

        [row] = await store.admin.read_sessions()
        assert row.used_ms == clock()

    async def test_a_session_whose_lease_ran_out_is_not_used_by_late_jobs(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2, session="s"), job(3, session="s")))
        used_ms = clock()
        first, second = await claim_bound(store, "w1", lease_ms=1_000)
        clock.advance(timedelta(seconds=1))

        await store.renew([], [JobLease(first.key, first.token)], lease_ms=LEASE_MS)
        assert await store.end_jobs([result_of(second.key, second.token)]) == [True]

        [row] = await store.admin.read_sessions()
        assert row.used_ms == used_ms

    async def test_losing_a_session_does_not_lose_its_jobs(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2, session="s"),))
        [claimed] = await claim_bound(store, "w1", lease_ms=1)
        clock.advance(MS)
        await store.release_sessions("w1")

        assert await store.lost_jobs([JobLease(claimed.key, claimed.token)]) == []
        assert await store.end_jobs([result_of(claimed.key, claimed.token)]) == [True]

    async def test_the_next_wake_sees_jobs_of_sessions_whose_time_lies_ahead(
        self, store: Store, clock: ManualClock
    ) -> None:
        [queue] = await store.intern([QUEUE])
        await begun(store, jobs=(job(2, session="s"), job(3, session="t")))
        assert await store.next_wake_ms([], [queue]) is None

        first, second = await claim_bound(store, "w1")
        assert await store.next_wake_ms([], [queue]) == clock() + LEASE_MS
        at_ms = clock() + 700
        await store.end_jobs(
            [
                JobEnd(key=first.key, token=first.token, retry_at_ms=0),
                JobEnd(key=second.key, token=second.token, retry_at_ms=at_ms),
            ]
        )

        assert await store.next_wake_ms([], [queue]) == at_ms
