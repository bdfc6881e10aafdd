"""What every store does for a worker whose process is known to be dead."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.clock import ManualClock
from perdure.model.instances import DefinitionKey
from perdure.model.turns import Departed, Neighbour, ProcessId, WorkerRow
from perdure.store.base import Store
from tests.contract.store_values import (
    FED,
    LEASE_MS,
    ORCHESTRATION,
    QUEUE,
    begun,
    claim,
    claim_bound,
    claim_jobs,
    decided,
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

    async def test_a_worker_that_lives_is_never_connected_no_more(
        self, store: Store, clock: ManualClock
    ) -> None:
        await _beat(store, clock, "lives", "w2")

        assert (await store.read_presences()).departed == []

    async def test_to_forget_a_lock_that_is_not_there_changes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        await _beat(store, clock, "lives")

        await store.forget_presence(7)

        assert (await store.read_presences()).departed == []
        assert [row.worker_id for row in await store.read_workers(seen_since_ms=0)] == ["lives"]

    async def test_a_worker_that_is_said_to_be_gone_and_is_not_keeps_what_it_holds(
        self, store: Store, clock: ManualClock
    ) -> None:
        await _beat(store, clock, "lives", "w2")
        await begun(store, jobs=(job(2),))
        await claim_jobs(store, "lives")
        clock.advance(MS)
        said = Departed("lives", "host", 1, 1, LEASE_MS, is_lasting=False, life=1, key=1)

        assert not await store.release_worker("lives", lease_ms=LEASE_MS, departed=said)

        assert await claim_jobs(store, "w2") == []

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
        assert [(row.session, row.owner) for row in await store.admin.read_sessions()] == [
            ("s", "w2")
        ]

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

    async def test_a_reader_of_a_dead_worker_goes_to_others_and_counts_as_lost(
        self, store: Store, clock: ManualClock
    ) -> None:
        await decided(store, feed=(FED._replace(index=1),))
        for name, worker_id in (("mail", "dead"), ("other", "w2")):
            await store.feed.claim_feed(name, lease=5, lease_ms=LEASE_MS, worker_id=worker_id)
        clock.advance(MS)

        await store.release_worker("dead", lease_ms=LEASE_MS)

        found = await store.feed.claim_feed("mail", lease=6, lease_ms=LEASE_MS, worker_id="w2")
        assert found is not None
        assert found.losses == 1
        assert await store.feed.claim_feed("other", lease=6, lease_ms=LEASE_MS) is None

    async def test_a_reader_that_was_given_back_is_not_lost(self, store: Store) -> None:
        await decided(store, feed=(FED._replace(index=1),))
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS, worker_id="dead")
        await store.feed.release_feed("mail", lease=5)

        await store.release_worker("dead", lease_ms=LEASE_MS)

        found = await store.feed.claim_feed("mail", lease=6, lease_ms=LEASE_MS)
        assert found is not None
        assert found.losses == 0


PROCESS = ProcessId("host boot", pid=7, born=70)


def _row(worker_id: str, **fields: Any) -> WorkerRow:
    row = WorkerRow(worker_id, "host", 7, 1, 1, (), "host boot", born=70, lease_ms=LEASE_MS)
    return row._replace(**fields)


class TestDeadProcesses:
    """What a worker holds is freed for the death of that very process, and for no other."""

    async def test_the_worker_of_that_very_process_is_released_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.beat(_row("dead"))
        await begun(store, jobs=(job(2),))
        await claim_jobs(store, "dead")

        released = [
            await store.release_worker("dead", lease_ms=LEASE_MS, process=PROCESS) for _ in range(2)
        ]

        assert released == [True, False]
        assert len(await claim_jobs(store, "w2")) == 1
        assert await store.read_workers(seen_since_ms=0) == []

    @pytest.mark.parametrize(
        "row",
        [
            _row("dead", born=71),
            _row("dead", pid=8),
            _row("dead", place="host another boot"),
            _row("another"),
        ],
        ids=["same pid, later", "another pid", "another place", "no such worker"],
    )
    async def test_a_worker_of_any_other_process_keeps_all(
        self, store: Store, row: WorkerRow
    ) -> None:
        await store.beat(row)
        await begun(store, jobs=(job(2, session="s"), job(3)))
        await claim_bound(store, "dead")
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS, worker_id="dead")
        await store.start([new_instance("busy")])
        await claim(store, "dead")

        assert not await store.release_worker("dead", lease_ms=LEASE_MS, process=PROCESS)

        assert await claim_bound(store, "w2") == []
        assert await claim(store, "w2") == []
        assert await store.feed.claim_feed("mail", lease=6, lease_ms=LEASE_MS) is None
        assert await store.read_workers(seen_since_ms=0) == [row]

    async def test_a_process_without_a_place_is_nobody(self, store: Store) -> None:
        nowhere = PROCESS._replace(place="")
        await store.beat(_row("dead", place=""))

        assert not await store.release_worker("dead", lease_ms=LEASE_MS, process=nowhere)
        assert await store.read_neighbours("w2", "") == []

    async def test_what_came_late_is_freed_too_as_long_as_the_worker_has_not_retired(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A server may commit for a process after its death what that had sent before."""
        await store.beat(_row("dead"))
        await store.release_worker("dead", lease_ms=LEASE_MS, process=PROCESS, retires=False)
        await begun(
            store,
            worker_id="dead",
            jobs=(job(2, leased=True),),
            jobs_leased_until_ms=clock() + LEASE_MS,
        )

        assert await store.release_worker("dead", lease_ms=LEASE_MS, process=PROCESS)

        assert len(await claim_jobs(store, "w2")) == 1

    async def test_a_sign_of_life_tells_of_the_others_of_its_place(self, store: Store) -> None:
        others = [_row("b", pid=8, is_lasting=True), _row("c", place="elsewhere"), _row("d")]
        for row in (*others, _row("nowhere", place="")):
            await store.beat(row)

        neighbours = await store.beat(_row("a"))

        assert sorted(neighbours) == [
            Neighbour("b", 8, 70, LEASE_MS, is_lasting=True),
            Neighbour("d", 7, 70, LEASE_MS, is_lasting=False),
        ]
        assert sorted(await store.read_neighbours("a", "host boot")) == sorted(neighbours)
        assert await store.beat(_row("z", place="")) == []
