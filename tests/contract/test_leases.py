"""What every store does with claims, leases, jobs and workers."""

from __future__ import annotations

from datetime import timedelta

from perdure.clock import ManualClock
from perdure.model.histories.events import Failure
from perdure.model.instances import DefinitionKey
from perdure.model.jobs import ClaimedJob, JobEnd, JobFailures, JobKey
from perdure.model.turns import JobClaim, TurnClaim, TurnReceipt, TurnStatus, WorkerRow
from perdure.store.base import JobLease, Store, TurnLease
from tests.contract.store_values import (
    LEASE_MS,
    ORCHESTRATION,
    QUEUE,
    accepted,
    begun,
    claim,
    claim_jobs,
    first_turn,
    job,
    message,
    new_instance,
    next_turn,
    outcome,
    result_of,
    timer,
    token,
    turn_of,
)

LEASE = timedelta(milliseconds=LEASE_MS)
MS = timedelta(milliseconds=1)
OTHER = DefinitionKey("orchestration", "other", "1.0.0", 1)
OTHER_QUEUE = DefinitionKey("activity", "say_hello", "gpu")


def _worker(worker_id: str, seen_ms: int) -> WorkerRow:
    return WorkerRow(worker_id, "host", 1, 1, seen_ms, (ORCHESTRATION, QUEUE))


class TestTurnClaims:
    """Who gets which instance."""

    async def test_two_claimers_never_get_the_same_instance(self, store: Store) -> None:
        await store.start([new_instance(f"i{number}") for number in range(10)])

        first = await claim(store, "w1", limit=6)
        second = await claim(store, "w2", limit=6)

        assert (len(first), len(second)) == (6, 4)
        assert len({claimed.instance_id for claimed in [*first, *second]}) == 10
        assert await claim(store, "w3") == []

    async def test_what_waits_longest_comes_first(self, store: Store, clock: ManualClock) -> None:
        for name in ("c", "a", "b"):
            await store.start([new_instance(name)])
            clock.advance(MS)

        claimed = await claim(store, limit=2)

        assert [one.instance_id for one in claimed] == ["c", "a"]

    async def test_only_what_is_served_is_claimed(self, store: Store) -> None:
        await store.start([new_instance("a"), new_instance("b", definition=OTHER)])

        claimed = await claim(store, definitions=(OTHER,))

        assert [one.instance_id for one in claimed] == ["b"]
        assert await store.definition(claimed[0].definition_no) == OTHER
        assert await store.claim_turns(TurnClaim("w1", (), 10, LEASE_MS, token())) == []

    async def test_a_backlog_of_one_definition_does_not_keep_others_waiting(
        self, store: Store
    ) -> None:
        await store.start([new_instance(f"a{number}") for number in range(50)])
        await store.start([new_instance("b", definition=OTHER)])

        claimed = await claim(store, limit=4, definitions=(ORCHESTRATION, OTHER))

        assert len(claimed) == 4
        assert "b" in {one.instance_id for one in claimed}

    async def test_an_abandoned_instance_is_claimed_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.start([new_instance()])
        [first] = await claim(store)

        clock.advance(LEASE - MS)
        assert await claim(store, "w2") == []
        clock.advance(MS)
        [second] = await claim(store, "w2")

        assert (first.attempts, second.attempts) == (1, 2)
        assert first.messages == second.messages
        assert first.lease != second.lease

    async def test_a_message_takes_no_instance_from_who_has_leased_it(self, store: Store) -> None:
        await begun(store)
        await store.deliver([message()])
        await claim(store)

        await store.deliver([message()])

        assert await claim(store, "w2") == []

    async def test_a_home_has_the_first_200_ms(self, store: Store, clock: ManualClock) -> None:
        await store.beat(_worker("w1", clock()))
        await begun(store)
        await store.deliver([message()])

        assert await claim(store, "w2") == []
        clock.advance(timedelta(milliseconds=199))
        assert await claim(store, "w2") == []
        clock.advance(MS)
        assert len(await claim(store, "w2")) == 1

    async def test_a_home_gets_its_own_at_once(self, store: Store, clock: ManualClock) -> None:
        await store.beat(_worker("w1", clock()))
        await begun(store)
        await store.deliver([message()])

        assert len(await claim(store, "w1")) == 1

    async def test_a_retired_worker_is_nobody_s_home(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.beat(_worker("w1", clock()))
        await begun(store)
        await store.deliver([message()])

        await store.retire("w1")

        assert len(await claim(store, "w2")) == 1

    async def test_a_released_turn_is_claimable_at_once_and_does_not_count(
        self, store: Store
    ) -> None:
        await store.start([new_instance()])
        [first] = await claim(store)

        await store.release_turns([TurnLease("i", token()), TurnLease("i", first.lease)])

        [second] = await claim(store, "w2")
        assert second.attempts == 1

    async def test_a_worker_of_the_same_name_has_not_the_lease(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Two processes of one name, or one that was started again: the token counts."""
        await store.start([new_instance()])
        [first] = await claim(store, "w1")
        clock.advance(LEASE)
        [second] = await claim(store, "w1")

        assert await store.commit([turn_of(first)]) == [TurnReceipt(TurnStatus.REFUSED)]
        await store.release_turns([TurnLease("i", first.lease)])
        lost, _ = await store.renew([TurnLease("i", first.lease)], [], lease_ms=LEASE_MS)

        assert lost == [TurnLease("i", first.lease)]
        await accepted(store, turn_of(second))

    async def test_a_lease_that_was_stolen_cannot_be_released(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.start([new_instance()])
        [first] = await claim(store)
        clock.advance(LEASE)
        await claim(store, "w2")

        await store.release_turns([TurnLease("i", first.lease)])

        assert await claim(store, "w3") == []


class TestRenewals:
    """Renewal extends what is held, and nothing else."""

    async def test_a_renewed_lease_lasts_longer(self, store: Store, clock: ManualClock) -> None:
        await begun(store, "j", jobs=(job(),))
        await store.start([new_instance()])
        [turn] = await claim(store)
        [work] = await claim_jobs(store)
        clock.advance(LEASE - MS)

        lost = await store.renew(
            [TurnLease("i", turn.lease)], [JobLease(work.key, work.token)], lease_ms=LEASE_MS
        )

        assert lost == ([], [])
        clock.advance(LEASE - MS)
        assert await claim(store, "w2") == []
        assert await claim_jobs(store, "w2") == []
        clock.advance(MS)
        assert len(await claim(store, "w2")) == 1
        assert len(await claim_jobs(store, "w2")) == 1

    async def test_renewal_never_shortens(self, store: Store, clock: ManualClock) -> None:
        await store.start([new_instance()])
        [turn] = await claim(store)

        assert await store.renew([TurnLease("i", turn.lease)], [], lease_ms=1) == ([], [])

        live = await store.read_live("i")
        assert live is not None
        assert live.lease_until_ms == live.wake_at_ms == clock() + LEASE_MS

    async def test_renewal_never_revives(self, store: Store, clock: ManualClock) -> None:
        await begun(store, "j", jobs=(job(),))
        await store.start([new_instance()])
        [turn] = await claim(store)
        [work] = await claim_jobs(store)
        turns, jobs = [TurnLease("i", turn.lease)], [JobLease(work.key, work.token)]
        clock.advance(LEASE)

        assert await store.renew(turns, jobs, lease_ms=LEASE_MS) == (turns, jobs)

        assert len(await claim(store, "w2")) == 1
        assert len(await claim_jobs(store, "w2")) == 1

    async def test_renewal_of_what_is_held_does_not_revive_what_is_not(
        self, store: Store, clock: ManualClock
    ) -> None:
        turns, jobs = [], []
        for name in ("late", "held"):
            await begun(store, f"{name}-job", jobs=(job(),))
            await store.start([new_instance(name)])
            turns += [TurnLease(name, turn.lease) for turn in await claim(store)]
            jobs += [JobLease(work.key, work.token) for work in await claim_jobs(store)]
            clock.advance(LEASE / 2)

        assert await store.renew(turns, jobs, lease_ms=LEASE_MS) == (turns[:1], jobs[:1])

        assert [one.instance_id for one in await claim(store, "w2")] == ["late"]
        assert [one.key for one in await claim_jobs(store, "w2")] == [jobs[0].key]

    async def test_lost_leases_come_back_by_name(self, store: Store, clock: ManualClock) -> None:
        await begun(store, "j", jobs=(job(),))
        await store.start([new_instance()])
        [turn] = await claim(store)
        [work] = await claim_jobs(store)
        stolen = TurnLease("i", token())
        unknown = TurnLease("never", turn.lease)
        lost_job = JobLease(work.key, token())
        gone = JobLease(work.key._replace(seq=9), work.token)

        lost = await store.renew(
            [stolen, TurnLease("i", turn.lease), unknown, TurnLease("i", 0)],
            [lost_job, JobLease(work.key, work.token), gone, JobLease(work.key, 0)],
            lease_ms=LEASE_MS,
        )

        assert lost == (
            [stolen, unknown, TurnLease("i", 0)],
            [lost_job, gone, JobLease(work.key, 0)],
        )

    async def test_nothing_to_renew_is_nothing_lost(self, store: Store) -> None:
        assert await store.renew([], [], lease_ms=LEASE_MS) == ([], [])


class TestJobs:
    """Jobs between queue and result."""

    async def test_a_claimed_job_has_everything_to_run_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store, jobs=(job(2, input=b"\0in", policy=b'{"max_attempts":3}'),))

        [claimed] = await claim_jobs(store)

        assert claimed == ClaimedJob(
            key=JobKey("i", stamp.incarnation, 1, 2),
            token=claimed.token,
            queue=QUEUE,
            input=b"\0in",
            policy=b'{"max_attempts":3}',
            attempt=1,
            created_ms=clock(),
            owner_name="greet",
            owner_version="1.0.0",
            lease_until_ms=clock() + LEASE_MS,
        )
        assert await claim_jobs(store, "w2") == []

    async def test_only_served_queues_are_claimed(self, store: Store) -> None:
        await begun(store, jobs=(job(2), job(3, queue=OTHER_QUEUE)))

        claimed = await claim_jobs(store, queues=(OTHER_QUEUE,))

        assert [one.key.seq for one in claimed] == [3]
        assert await store.claim_jobs(JobClaim("w", (), 9, LEASE_MS, token())) == []

    async def test_a_limit_is_shared_among_queues(self, store: Store) -> None:
        many = tuple(job(seq) for seq in range(2, 30))
        await begun(store, jobs=(*many, job(30, queue=OTHER_QUEUE)))

        claimed = await claim_jobs(store, limit=3, queues=(QUEUE, OTHER_QUEUE))

        assert len(claimed) == 3
        assert 30 in {one.key.seq for one in claimed}

    async def test_a_result_wakes_its_owner(self, store: Store) -> None:
        await begun(store, jobs=(job(),))
        [claimed] = await claim_jobs(store)

        assert await store.end_jobs([result_of(claimed.key, claimed.token)]) == [True]

        assert await store.read_jobs("i") == []
        [turn] = await claim(store)
        assert [(m.kind, m.body, m.execution) for m in turn.messages] == [
            ("activity_completed", b"done", 1)
        ]

    async def test_a_result_is_taken_once(self, store: Store) -> None:
        await begun(store, jobs=(job(),))
        [claimed] = await claim_jobs(store)
        end = result_of(claimed.key, claimed.token)

        assert await store.end_jobs([end, end]) == [True, False]
        assert await store.end_jobs([end]) == [False]

        assert len(await store.read_inbox("i")) == 1

    async def test_a_result_from_a_lost_lease_is_refused(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(),))
        [late] = await claim_jobs(store)
        clock.advance(LEASE)
        [thief] = await claim_jobs(store, "w2")

        answers = await store.end_jobs(
            [
                result_of(late.key, late.token),
                result_of(late.key, 0),
                result_of(late.key._replace(seq=9), late.token),
            ]
        )

        assert answers == [False, False, False]
        assert thief.attempt == 2
        assert await store.read_inbox("i") == []

    async def test_a_result_after_a_cancel_is_refused(self, store: Store) -> None:
        stamp = await begun(store, jobs=(job(),))
        [claimed] = await claim_jobs(store)
        await accepted(store, next_turn("i", stamp, jobs_gone=(2,)))

        assert await store.end_jobs([result_of(claimed.key, claimed.token)]) == [False]

        assert await store.read_inbox("i") == []

    async def test_a_failed_attempt_goes_back_with_its_failure(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(),))
        [first] = await claim_jobs(store)
        failure = Failure("ValueError", "no \0 \N{PILE OF POO}", at_ms=clock())
        retry_at = clock() + 1_000

        ended = await store.end_jobs(
            [JobEnd(key=first.key, token=first.token, retry_at_ms=retry_at, failure=failure)]
        )

        assert ended == [True]
        [waiting] = await store.read_jobs("i")
        assert (waiting.token, waiting.worker_id, waiting.visible_at_ms) == (0, None, retry_at)
        assert await claim_jobs(store) == []
        clock.advance(timedelta(seconds=1))
        [second] = await claim_jobs(store)
        assert (second.attempt, second.failures) == (2, JobFailures(1, (failure,)))
        await store.end_jobs(
            [JobEnd(key=second.key, token=second.token, retry_at_ms=0, failure=failure)]
        )
        [third] = await claim_jobs(store)
        assert third.failures == JobFailures(2, (failure, failure))

    async def test_a_job_given_back_unstarted_does_not_count(self, store: Store) -> None:
        await begun(store, jobs=(job(),))
        [first] = await claim_jobs(store)

        await store.end_jobs([JobEnd(key=first.key, token=first.token, retry_at_ms=0, refund=True)])

        [second] = await claim_jobs(store)
        assert second.attempt == 1

    async def test_the_result_for_an_owner_that_went_on_is_dropped(self, store: Store) -> None:
        start = new_instance()
        turn = first_turn(start, jobs=(job(),))
        await accepted(store, turn)
        [claimed] = await claim_jobs(store)
        await accepted(store, next_turn("i", turn.next_stamp, outcome=outcome()))
        await store.start([new_instance(replaces=start.incarnation)])

        assert await store.end_jobs([result_of(claimed.key, claimed.token)]) == [False]

        assert [m.kind for m in await store.read_inbox("i")] == ["started"]

    async def test_failures_of_a_job_are_bounded(self, store: Store) -> None:
        await begun(store, jobs=(job(),))
        for number in range(30):
            [claimed] = await claim_jobs(store)
            failure = Failure("E", str(number))
            await store.end_jobs(
                [JobEnd(key=claimed.key, token=claimed.token, retry_at_ms=0, failure=failure)]
            )

        [claimed] = await claim_jobs(store)

        assert claimed.attempt == 31
        assert claimed.failures.count == 30
        assert [failure.message for failure in claimed.failures.kept] == [
            "0",
            *(str(number) for number in range(11, 30)),
        ]

    async def test_a_lease_that_ran_out_counts_as_lost(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(),))
        [first] = await claim_jobs(store)
        clock.advance(timedelta(milliseconds=LEASE_MS))
        [second] = await claim_jobs(store)
        await store.end_jobs([JobEnd(key=second.key, token=second.token, retry_at_ms=0)])
        [third] = await claim_jobs(store)

        assert [job.lost for job in (first, second, third)] == [0, 1, 1]
        assert [job.attempt for job in (first, second, third)] == [1, 2, 3]


class TestWorkersAndTimes:
    """Signs of life, numbers of definitions, and when there is something to do."""

    async def test_a_worker_that_was_killed_is_forgotten_after_an_hour(self, store: Store) -> None:
        await store.beat(_worker("killed", 1))

        await store.beat(_worker("w1", 3_600_001))
        assert len(await store.read_workers(seen_since_ms=0)) == 2
        await store.beat(_worker("w1", 3_600_002))

        assert await store.read_workers(seen_since_ms=0) == [_worker("w1", 3_600_002)]

    async def test_a_worker_is_known_by_its_last_beat(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.beat(_worker("w1", 1))
        await store.beat(_worker("w1", 100))
        await store.beat(_worker("w2", 50))

        assert await store.read_workers(seen_since_ms=60) == [_worker("w1", 100)]
        await store.retire("w1")
        assert await store.read_workers(seen_since_ms=0) == [_worker("w2", 50)]

    async def test_the_next_wake_is_the_earliest_of_what_is_served(
        self, store: Store, clock: ManualClock
    ) -> None:
        now = clock()
        orchestration, queue, other = await store.intern([ORCHESTRATION, QUEUE, OTHER])
        assert await store.next_wake_ms([orchestration], [queue]) is None

        await begun(store, timers=(timer(2, now + 900),), next_due_ms=now + 900)
        assert await store.next_wake_ms([orchestration], [queue]) == now + 900
        assert await store.next_wake_ms([other], []) is None
        await begun(store, "j", jobs=(job(2, leased=True),), jobs_leased_until_ms=now + 500)
        assert await store.next_wake_ms([orchestration], [queue]) == now + 500

    async def test_a_turn_claimed_for_a_timer_takes_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        due = clock() + 10
        await begun(store, timers=(timer(2, due),), next_due_ms=due)
        clock.advance(10 * MS)
        [claimed] = await claim(store)

        await accepted(store, turn_of(claimed))

        assert await store.read_inbox("i") == []
        assert await claim(store) == []
