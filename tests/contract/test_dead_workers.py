"""What every store does for a worker whose process is known to be dead."""

from __future__ import annotations

from datetime import timedelta

from perdure.clock import ManualClock
from perdure.model.instances import DefinitionKey
from perdure.model.turns import WorkerRow
from perdure.store.base import Store
from tests.contract.store_values import (
    LEASE_MS,
    ORCHESTRATION,
    QUEUE,
    begun,
    claim,
    claim_bound,
    claim_jobs,
    job,
    message,
    new_instance,
    result_of,
    timer,
)

MS = timedelta(milliseconds=1)
GPU = DefinitionKey("activity", "say_hello", "gpu")


async def _beat(store: Store, clock: ManualClock, *worker_ids: str) -> None:
    for worker_id in worker_ids:
        await store.beat(WorkerRow(worker_id, "host", 1, 1, clock(), (ORCHESTRATION, QUEUE)))


class TestDeadWorkers:
    """What it held goes to others at once, as if its leases had run out."""

    async def test_turns_of_a_dead_worker_are_claimed_at_once_and_their_attempts_count(
        self, store: Store, clock: ManualClock
    ) -> None:
        await _beat(store, clock, "dead", "w2")
        await store.start([new_instance()])
        [before] = await claim(store, "dead")
        clock.advance(MS)

        await store.release_worker("dead", lease_ms=LEASE_MS)

        [after] = await claim(store, "w2")
        assert (before.attempts, after.attempts) == (1, 2)
        assert after.lease != before.lease

    async def test_jobs_of_a_dead_worker_are_claimed_at_once_and_count_as_lost(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2), job(3, queue=GPU)))
        await claim_jobs(store, "dead", queues=(QUEUE, GPU))
        clock.advance(MS)

        await store.release_worker("dead", lease_ms=LEASE_MS)

        claimed = await claim_jobs(store, "w2", queues=(QUEUE, GPU))
        assert sorted((one.key.seq, one.attempt, one.lost) for one in claimed) == [
            (2, 2, 1),
            (3, 2, 1),
        ]

    async def test_a_job_that_was_leased_by_the_turn_that_made_it_is_freed_too(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(
            store,
            worker_id="dead",
            jobs=(job(2, leased=True),),
            jobs_leased_until_ms=clock() + LEASE_MS,
        )

        await store.release_worker("dead", lease_ms=LEASE_MS)

        [claimed] = await claim_jobs(store, "w2")
        assert (claimed.attempt, claimed.lost) == (2, 1)

    async def test_the_end_that_a_dead_worker_sent_late_is_refused_once_others_have_the_job(
        self, store: Store
    ) -> None:
        await begun(store, jobs=(job(2),))
        [lost] = await claim_jobs(store, "dead")
        await store.release_worker("dead", lease_ms=LEASE_MS)
        [taken] = await claim_jobs(store, "w2")

        assert await store.end_jobs([result_of(lost.key, lost.token)]) == [False]
        assert await store.end_jobs([result_of(taken.key, taken.token)]) == [True]

    async def test_sessions_of_a_dead_worker_go_to_the_next_claimer(
        self, store: Store, clock: ManualClock
    ) -> None:
        await _beat(store, clock, "dead", "w2")
        await begun(store, jobs=(job(2, session="s"), job(3, session="s")))
        assert len(await claim_bound(store, "dead", limit=1)) == 1

        await store.release_worker("dead", lease_ms=LEASE_MS)

        claimed = await claim_bound(store, "w2")
        assert {(one.key.seq, one.lost) for one in claimed} == {(2, 1), (3, 0)}
        assert [(row.session, row.owner) for row in await store.read_sessions()] == [("s", "w2")]

    async def test_sessions_stay_for_the_next_process_of_a_lasting_name(
        self, store: Store, clock: ManualClock
    ) -> None:
        await _beat(store, clock, "packer", "w2")
        await begun(store, jobs=(job(2, session="s"), job(3)))
        await claim_bound(store, "packer")

        await store.release_worker("packer", lease_ms=LEASE_MS, keeps_sessions=True)

        assert [one.key.seq for one in await claim_bound(store, "w2")] == [3]
        assert [one.key.seq for one in await claim_bound(store, "packer")] == [2]

    async def test_a_dead_worker_is_nobody_s_home(self, store: Store, clock: ManualClock) -> None:
        await _beat(store, clock, "w1", "w2")
        await begun(store)
        await store.deliver([message()])

        await store.release_worker("w1", lease_ms=LEASE_MS)

        assert len(await claim(store, "w2")) == 1
        assert [row.worker_id for row in await store.read_workers(seen_since_ms=0)] == ["w2"]

    async def test_what_others_hold_and_what_waits_for_its_time_stays(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, "held", worker_id="dead", jobs=(job(2),))
        await claim_jobs(store, "w2")
        due_ms = clock() + LEASE_MS // 2
        await begun(
            store, "asleep", worker_id="dead", timers=(timer(2, due_ms),), next_due_ms=due_ms
        )
        await store.start([new_instance("busy")])
        await claim(store, "w2")

        await store.release_worker("dead", lease_ms=LEASE_MS)

        assert await claim_jobs(store, "w3") == []
        assert await claim(store, "w3") == []
        live = await store.read_live("asleep")
        assert live is not None
        assert live.wake_at_ms == due_ms
