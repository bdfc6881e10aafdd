"""What every store does with sessions: jobs that must all run on one worker (S27)."""

from __future__ import annotations

from datetime import timedelta

from perdure.clock import ManualClock
from perdure.model.admin import SessionRow
from perdure.model.instances import DefinitionKey
from perdure.model.jobs import ClaimedJob, JobEnd
from perdure.model.turns import WorkerRow
from perdure.store.base import JobLease, Store
from tests.contract.store_values import (
    CONTINUED,
    LEASE_MS,
    QUEUE,
    accepted,
    begun,
    claim,
    claim_bound,
    claim_jobs,
    continuation,
    job,
    next_turn,
    result_of,
    turn_of,
)

LEASE = timedelta(milliseconds=LEASE_MS)
MS = timedelta(milliseconds=1)
GPU = DefinitionKey("activity", "say_hello", "gpu")
LONG_MS = 10 * LEASE_MS


async def _owner(store: Store, session: str = "s") -> str | None:
    owners = {row.session: row.owner for row in await store.admin.read_sessions()}
    return owners.get(session)


def _seqs(jobs: list[ClaimedJob]) -> list[int]:
    return [one.key.seq for one in jobs]


async def _beat(store: Store, clock: ManualClock, worker_id: str, *queues: DefinitionKey) -> None:
    await store.beat(WorkerRow(worker_id, "host", 1, 1, clock(), queues))


class TestSessionClaims:
    """A session belongs to one worker, and its jobs go there."""

    async def test_a_session_becomes_the_claimer_s(self, store: Store, clock: ManualClock) -> None:
        await begun(store, jobs=(job(2, session="s"), job(3, session="s")))

        claimed = await claim_bound(store)

        assert [(one.key.seq, one.session) for one in claimed] == [(2, "s"), (3, "s")]
        assert await store.admin.read_sessions() == [
            SessionRow("s", "w1", clock() + LEASE_MS, clock())
        ]

    async def test_a_worker_without_sessions_takes_no_such_jobs(self, store: Store) -> None:
        await begun(store, jobs=(job(2, session="s"), job(3)))

        assert _seqs(await claim_jobs(store)) == [3]
        assert await claim_bound(store, more=0) == []

        assert await store.admin.read_sessions() == []

    async def test_more_jobs_of_a_session_go_to_its_owner_only(self, store: Store) -> None:
        await begun(store, jobs=(job(2, session="s"),))
        await claim_bound(store, "w1")
        await begun(store, "j", jobs=(job(2, session="s"), job(3, session="t")))

        others = await claim_bound(store, "w2")
        mine = await claim_bound(store, "w1")

        assert [one.session for one in others] == ["t"]
        assert [(one.key.instance_id, one.session) for one in mine] == [("j", "s")]

    async def test_a_session_spans_instances_and_queues(self, store: Store) -> None:
        await begun(store, "a", jobs=(job(2, session="s"),))
        await begun(store, "b", jobs=(job(2, session="s", queue=GPU),))

        claimed = await claim_bound(store, queues=(QUEUE, GPU))

        assert {one.key.instance_id for one in claimed} == {"a", "b"}
        assert len(await store.admin.read_sessions()) == 1

    async def test_a_session_survives_continue_as_new(self, store: Store) -> None:
        stamp = await begun(store, jobs=(job(2, session="s"),))
        await claim_bound(store, "w1")
        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))
        [turn] = await claim(store)
        await accepted(store, turn_of(turn, jobs=(job(2, session="s"),)))

        assert await claim_bound(store, "w2") == []
        assert len(await claim_bound(store, "w1")) == 1

    async def test_a_job_that_waits_for_its_time_does_not_take_a_session(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2, session="s"),))
        [first] = await claim_bound(store, "w1")
        await store.end_jobs(
            [JobEnd(key=first.key, token=first.token, retry_at_ms=clock() + 2 * LEASE_MS)]
        )
        clock.advance(LEASE)

        assert await claim_bound(store, "w2") == []
        assert await _owner(store) == "w1"
        clock.advance(LEASE)
        assert len(await claim_bound(store, "w2")) == 1
        assert await _owner(store) == "w2"

    async def test_a_claim_never_takes_more_sessions_than_there_is_room_for(
        self, store: Store
    ) -> None:
        jobs = [job(2 + number, session=f"s{number // 2}") for number in range(10)]
        await begun(store, jobs=tuple(jobs))

        first = await claim_bound(store, more=2)
        full = await claim_bound(store, busy=("s0", "s1"), more=0)
        second = await claim_bound(store, busy=("s0", "s1"), more=1)

        assert {one.session for one in first} == {"s0", "s1"}
        assert len(first) == 4
        assert full == []
        assert {one.session for one in second} == {"s2"}

    async def test_more_jobs_of_a_busy_session_always_come(self, store: Store) -> None:
        await begun(store, jobs=(job(2, session="s"),))
        await claim_bound(store, "w1")
        await begun(store, "j", jobs=(job(2, session="s"), job(3, session="t")))

        claimed = await claim_bound(store, "w1", busy=("s",), more=0)

        assert [one.session for one in claimed] == ["s"]

    async def test_a_session_is_not_taken_for_a_job_that_was_not_chosen(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2),))
        clock.advance(MS)
        await begun(store, "j", jobs=(job(2, session="s"),))

        assert _seqs(await claim_bound(store, limit=1)) == [2]

        assert await store.admin.read_sessions() == []

    async def test_an_idle_session_of_ones_own_counts_as_one_more(self, store: Store) -> None:
        await begun(store, jobs=(job(2, session="s"),))
        await claim_bound(store, "w1")
        await begun(store, "j", jobs=(job(2, session="s"),))

        assert await claim_bound(store, "w1", more=0) == []
        assert len(await claim_bound(store, "w1", more=1)) == 1


class TestFairnessOfSessions:
    """Who waits longest comes first, with a session or without."""

    async def test_jobs_come_in_the_order_they_waited(
        self, store: Store, clock: ManualClock
    ) -> None:
        sessions = [None, "b", None, "a", "b", None]
        for number, session in enumerate(sessions):
            await begun(store, f"i{number}", jobs=(job(2, session=session),))
            clock.advance(MS)

        claimed = [await claim_bound(store, limit=2) for _ in range(3)]

        assert [one.key.instance_id for some in claimed for one in some] == [
            f"i{number}" for number in range(6)
        ]

    async def test_neither_sort_keeps_the_other_waiting(
        self, store: Store, clock: ManualClock
    ) -> None:
        plain = tuple(job(2 + number) for number in range(50))
        await begun(store, jobs=plain)
        clock.advance(MS)
        bound = tuple(job(2 + number, session=f"s{number}") for number in range(50))
        await begun(store, "j", jobs=(*bound, job(60)))

        seen: list[ClaimedJob] = []
        while claimed := await claim_bound(store, limit=10, more=100):
            seen += claimed

        assert len(seen) == 101
        assert {one.key.instance_id for one in seen[:50]} == {"i"}

    async def test_the_oldest_sessions_are_taken_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        for number in (3, 1, 2):
            await begun(store, f"i{number}", jobs=(job(2, session=f"s{number}"),))
            clock.advance(MS)

        claimed = [(await claim_bound(store, more=1))[0].session for _ in range(3)]

        assert claimed == ["s3", "s1", "s2"]

    async def test_the_backlog_of_a_foreign_session_keeps_nobody_waiting(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, "a", jobs=(job(2, session="a"),))
        await claim_bound(store, "w1")
        await begun(store, "b", jobs=tuple(job(2 + n, session="a") for n in range(500)))
        clock.advance(MS)
        await begun(store, "c", jobs=(job(2, session="z"), job(3)))

        claimed = await claim_bound(store, "w2", limit=5)

        assert {one.key.instance_id for one in claimed} == {"c"}
        assert len(claimed) == 2


class TestSessionOwners:
    """When a session moves on, and when it does not."""

    async def test_a_session_moves_when_its_lease_has_run_out(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2, session="s"),))
        [first] = await claim_bound(store, "w1")
        await store.end_jobs([result_of(first.key, first.token)])
        await begun(store, "j", jobs=(job(2, session="s"),))

        clock.advance(LEASE - MS)
        assert await claim_bound(store, "w2") == []
        clock.advance(MS)
        assert len(await claim_bound(store, "w2")) == 1

        assert await _owner(store) == "w2"

    async def test_a_session_never_moves_while_its_owner_runs_a_job_of_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """S27: the lease of the session ran out, the lease of the job did not."""
        await begun(store, jobs=(job(2, session="s"), job(3, session="s")))
        [running] = await claim_bound(store, "w1", limit=1)
        clock.advance(LEASE - MS)
        await store.renew([], [JobLease(running.key, running.token)], lease_ms=LEASE_MS)
        clock.advance(MS)

        assert await claim_bound(store, "w2") == []
        assert _seqs(await claim_bound(store, "w1")) == [3]
        clock.advance(LEASE)
        assert _seqs(await claim_bound(store, "w2")) == [2, 3]

    async def test_an_owner_that_gives_no_sign_of_life_loses_its_sessions(
        self, store: Store, clock: ManualClock
    ) -> None:
        await _beat(store, clock, "w1", QUEUE)
        await begun(store, jobs=(job(2, session="s"),))
        await claim_bound(store, "w1", lease_ms=LONG_MS)
        clock.advance(LEASE)

        assert await claim_bound(store, "w2", lease_ms=LONG_MS) == []
        clock.advance(10 * LEASE - LEASE + MS)
        assert len(await claim_bound(store, "w2", lease_ms=LONG_MS)) == 1

    async def test_an_owner_of_shorter_leases_is_known_to_be_dead_by_its_silence(
        self, store: Store, clock: ManualClock
    ) -> None:
        await _beat(store, clock, "w1", QUEUE)
        await begun(store, jobs=(job(2, session="s"),))
        await claim_bound(store, "w1", lease_ms=LONG_MS)
        clock.advance(LEASE)
        assert await claim_bound(store, "w2") == []

        clock.advance(MS)

        assert len(await claim_bound(store, "w2")) == 1
        assert await _owner(store) == "w2"

    async def test_a_session_moves_to_a_worker_that_serves_its_queue(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A rolling deploy: the owner does not know the activity."""
        await _beat(store, clock, "w1", QUEUE)
        await begun(store, jobs=(job(2, session="s"),))
        await claim_bound(store, "w1")
        await begun(store, "j", jobs=(job(2, session="s", queue=GPU), job(3, session="s")))

        claimed = await claim_bound(store, "w2", queues=(QUEUE, GPU))

        assert [(one.key.instance_id, one.key.seq) for one in claimed] == [("j", 2)]
        assert await _owner(store) == "w2"
        assert await claim_bound(store, "w1", busy=("s",)) == []

    async def test_an_owner_that_serves_the_queue_keeps_its_session(
        self, store: Store, clock: ManualClock
    ) -> None:
        await _beat(store, clock, "w1", QUEUE, GPU)
        await begun(store, jobs=(job(2, session="s"),))
        await claim_bound(store, "w1")
        await begun(store, "j", jobs=(job(2, session="s", queue=GPU),))

        assert await claim_bound(store, "w2", queues=(GPU,)) == []
        assert len(await claim_bound(store, "w1", queues=(GPU,))) == 1

    async def test_an_owner_with_a_lasting_name_keeps_its_sessions_over_a_restart(
        self, store: Store, clock: ManualClock
    ) -> None:
        await _beat(store, clock, "w1", QUEUE)
        await begun(store, jobs=(job(2, session="s"),))
        [first] = await claim_bound(store, "w1")
        await store.end_jobs([JobEnd(key=first.key, token=first.token, retry_at_ms=0)])

        await store.retire("w1")

        assert await claim_bound(store, "w2") == []
        assert len(await claim_bound(store, "w1")) == 1

    async def test_a_released_session_is_free_at_once(self, store: Store) -> None:
        await begun(store, jobs=(job(2, session="s"), job(3, session="t")))
        first, second = await claim_bound(store, "w1")
        ends = [JobEnd(key=one.key, token=one.token, retry_at_ms=0) for one in (first, second)]
        await store.end_jobs(ends)
        await begun(store, "j", jobs=(job(2, session="u"),))
        await claim_bound(store, "w3", limit=1, more=0, busy=("u",))

        await store.release_sessions("w1")

        assert await _owner(store, "s") is await _owner(store, "t") is None
        assert _seqs(await claim_bound(store, "w2")) == [2, 3]

    async def test_of_two_claims_at_once_one_gets_the_session(self, store: Store) -> None:
        await begun(store, jobs=tuple(job(2 + number, session="s") for number in range(6)))

        first = await claim_bound(store, "w1", limit=3)
        second = await claim_bound(store, "w2", limit=3)
        rest = await claim_bound(store, "w1", busy=("s",), more=0)

        assert (len(first), len(second), len(rest)) == (3, 0, 3)
