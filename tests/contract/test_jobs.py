"""What every store does with heartbeats, dead jobs and lost leases."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from perdure.clock import ManualClock
from perdure.model.admin import DeadJob
from perdure.model.histories.events import Failure
from perdure.model.instances import DefinitionKey, Stamp
from perdure.model.jobs import BuriedJob, ClaimedJob, JobBeat, JobEnd, JobFailures, JobKey
from perdure.model.turns import TurnStatus
from perdure.store.base import JobLease, Store
from tests.contract.store_values import (
    LEASE_MS,
    QUEUE,
    accepted,
    begun,
    claim_bound,
    claim_jobs,
    ended,
    first_turn,
    job,
    new_instance,
    next_turn,
    outcome,
    result_of,
    token,
)

LEASE = timedelta(milliseconds=LEASE_MS)
GPU = DefinitionKey("activity", "say_hello", "gpu")
LATE = Failure("DeadlineExceeded", "too late", at_ms=3)


def _death(claimed: ClaimedJob, **fields: Any) -> JobEnd:
    values: dict[str, Any] = {
        "key": claimed.key,
        "token": claimed.token,
        "kind": "activity_failed",
        "body": b"gave up",
        "is_dead": True,
    }
    return JobEnd(**{**values, **fields})


class TestDeadJobs:
    """A job that ran out of attempts is kept for a person; its owner hears of its end."""

    async def test_a_dead_job_is_kept_and_its_owner_is_told(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2, input=b"\0in", policy=b'{"max_attempts":2}'),))
        created_ms = clock()
        [first] = await claim_jobs(store)
        failures = Failure("E", "first"), Failure("E", "second")
        await store.end_jobs(
            [JobEnd(key=first.key, token=first.token, retry_at_ms=0, failure=failures[0])]
        )
        [second] = await claim_jobs(store)
        clock.advance(timedelta(seconds=1))

        assert await store.end_jobs([_death(second, failure=failures[1])]) == [True]

        assert await store.read_jobs("i") == []
        assert [m.body for m in await store.read_inbox("i")] == [b"gave up"]
        assert await store.admin.read_dead_jobs(limit=9) == [
            DeadJob(
                key=second.key,
                queue=QUEUE,
                input=b"\0in",
                policy=b'{"max_attempts":2}',
                attempts=2,
                lost=0,
                failures=JobFailures(2, failures),
                created_ms=created_ms,
                died_ms=clock(),
            )
        ]

    async def test_a_death_is_accepted_once(self, store: Store) -> None:
        await begun(store, jobs=(job(2),))
        [claimed] = await claim_jobs(store)

        ends = await store.end_jobs([_death(claimed), _death(claimed)])

        assert ends == [True, False]
        assert await store.end_jobs([_death(claimed)]) == [False]
        assert len(await store.read_inbox("i")) == 1

    async def test_a_job_whose_lease_was_lost_does_not_die(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2),))
        [late] = await claim_jobs(store)
        clock.advance(LEASE)
        await claim_jobs(store, "w2")

        assert await store.end_jobs([_death(late)]) == [False]

        assert await store.admin.read_dead_jobs(limit=9) == []

    async def test_a_job_that_dies_in_the_turn_of_its_owner_is_kept(self, store: Store) -> None:
        start = new_instance()
        turn = first_turn(start, jobs=(job(2, leased=True),), jobs_leased_until_ms=2**50)
        await accepted(store, turn)
        key = JobKey("i", start.incarnation, 1, 2)
        end = JobEnd(key=key, token=turn.commit_id, kind="x", is_dead=True)

        await accepted(
            store,
            next_turn("i", turn.next_stamp, job_ends=(end,), outcome=outcome()),
        )

        assert [dead.key for dead in await store.admin.read_dead_jobs(limit=9)] == [key]
        assert await store.read_jobs("i") == []

    async def test_a_refused_turn_that_brings_a_death_tells_of_it_once(self, store: Store) -> None:
        start = new_instance()
        turn = first_turn(start, jobs=(job(2, leased=True),), jobs_leased_until_ms=2**50)
        await accepted(store, turn)
        key = JobKey("i", start.incarnation, 1, 2)
        end = JobEnd(key=key, token=turn.commit_id, kind="activity_failed", is_dead=True)
        refused = next_turn("i", Stamp(start.incarnation, 1, 9), job_ends=(end,))

        await store.commit([refused])
        await store.commit([refused])

        assert len(await store.admin.read_dead_jobs(limit=9)) == 1
        assert len(await store.read_inbox("i")) == 1

    async def test_a_dead_job_that_is_tried_again_may_die_again(self, store: Store) -> None:
        await begun(store, jobs=(job(2, session="s"),))
        await store.end_jobs([_death((await claim_bound(store))[0])])
        [dead] = await store.admin.read_dead_jobs(limit=9)

        assert await store.admin.retry_dead_jobs([dead.key]) == [True]
        [again] = await claim_bound(store)
        await store.end_jobs([_death(again)])

        assert (again.attempt, again.session) == (1, "s")
        assert [one.key for one in await store.admin.read_dead_jobs(limit=9)] == [dead.key]

    async def test_a_job_that_a_turn_buries_is_kept_and_its_late_end_is_refused(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store, jobs=(job(2, input=b"\0in"),))
        [first] = await claim_jobs(store)
        once = Failure("OSError", "no")
        await store.end_jobs(
            [JobEnd(key=first.key, token=first.token, retry_at_ms=0, failure=once)]
        )
        [running] = await claim_jobs(store)

        buried = (BuriedJob(2, QUEUE, LATE),)
        await accepted(store, next_turn("i", stamp, jobs_gone=(2,), jobs_buried=buried))

        assert await store.end_jobs([result_of(running.key, running.token)]) == [False]
        assert await store.read_jobs("i") == []
        assert await store.read_inbox("i") == []
        [dead] = await store.admin.read_dead_jobs(limit=9)
        assert (dead.key, dead.input, dead.attempts) == (running.key, b"\0in", 2)
        assert dead.failures == JobFailures(2, (once, LATE))
        assert dead.died_ms == clock()

    async def test_a_job_that_was_never_queued_is_buried_all_the_same(self, store: Store) -> None:
        stamp = await begun(store)
        unqueued = job(2, input=b"\0in", policy=b'{"max_attempts":7}', session="s")

        buried = (BuriedJob(2, QUEUE, LATE, unqueued),)
        await accepted(store, next_turn("i", stamp, jobs_buried=buried))

        assert await store.read_jobs("i") == []
        [dead] = await store.admin.read_dead_jobs(limit=9)
        assert (dead.key.seq, dead.queue, dead.attempts) == (2, QUEUE, 0)
        assert (dead.input, dead.policy) == (b"\0in", b'{"max_attempts":7}')
        assert dead.failures == JobFailures(1, (LATE,))
        assert await store.admin.retry_dead_jobs([dead.key]) == [True]
        [again] = await claim_bound(store)
        assert (again.key, again.session, again.is_rerun) == (dead.key, "s", True)

    async def test_a_turn_that_buries_a_job_may_end_its_instance(self, store: Store) -> None:
        stamp = await begun(store, jobs=(job(2), job(3)))
        buried = (BuriedJob(2, QUEUE, LATE), BuriedJob(4, QUEUE, LATE, job(4)))

        turn = next_turn("i", stamp, jobs_gone=(2,), jobs_buried=buried, outcome=outcome())
        await accepted(store, turn)

        assert [dead.key.seq for dead in await store.admin.read_dead_jobs(limit=9)] == [2, 4]
        assert await store.read_jobs("i") == []

    async def test_a_job_that_has_ended_is_not_buried(self, store: Store) -> None:
        """Neither before the transaction nor in it."""
        stamp = await begun(store, jobs=(job(2), job(3)))
        first, second = await claim_jobs(store)
        await store.end_jobs([result_of(first.key, first.token)])
        buried = (BuriedJob(2, QUEUE, LATE), BuriedJob(3, QUEUE, LATE))

        end = result_of(second.key, second.token)
        turn = next_turn("i", stamp, job_ends=(end,), jobs_gone=(2, 3), jobs_buried=buried)
        await accepted(store, turn)

        assert await store.admin.read_dead_jobs(limit=9) == []
        assert await store.read_jobs("i") == []

    async def test_a_job_of_an_earlier_turn_of_its_transaction_is_buried(
        self, store: Store
    ) -> None:
        start = new_instance()
        first = first_turn(start, jobs=(job(2), job(3, leased=True)), jobs_leased_until_ms=2**50)
        buried = (BuriedJob(2, QUEUE, LATE), BuriedJob(3, QUEUE, LATE))
        second = next_turn("i", first.next_stamp, jobs_gone=(2, 3), jobs_buried=buried)

        receipts = await store.commit([first, second])

        assert [receipt.status for receipt in receipts] == [TurnStatus.ACCEPTED] * 2
        assert [dead.key.seq for dead in await store.admin.read_dead_jobs(limit=9)] == [2, 3]
        assert await store.read_jobs("i") == []

    async def test_a_refused_turn_buries_nothing(self, store: Store) -> None:
        stamp = await begun(store, jobs=(job(2),))
        buried = (BuriedJob(2, QUEUE, LATE), BuriedJob(3, QUEUE, LATE, job(3)))
        refused = next_turn("i", stamp._replace(next_seq=9), jobs_gone=(2,), jobs_buried=buried)

        await store.commit([refused])

        assert await store.admin.read_dead_jobs(limit=9) == []
        assert len(await store.read_jobs("i")) == 1

    async def test_a_turn_that_is_sent_again_buries_once(self, store: Store) -> None:
        stamp = await begun(store, jobs=(job(2),))
        turn = next_turn("i", stamp, jobs_gone=(2,), jobs_buried=(BuriedJob(2, QUEUE, LATE),))
        await accepted(store, turn)
        [dead] = await store.admin.read_dead_jobs(limit=9)
        await store.admin.retry_dead_jobs([dead.key])

        await accepted(store, turn)

        assert await store.admin.read_dead_jobs(limit=9) == []
        assert [one.is_rerun for one in await store.read_jobs("i")] == [True]

    async def test_dead_jobs_go_with_an_instance_that_is_replaced(self, store: Store) -> None:
        stamp = await begun(store, jobs=(job(2), job(3)))
        first, second = await claim_jobs(store)
        await store.end_jobs([_death(first), _death(second)])
        await store.admin.retry_dead_jobs([first.key])
        await accepted(store, next_turn("i", stamp, outcome=outcome()))
        await ended(store, "other")

        await store.start([new_instance(replaces=stamp.incarnation)])

        assert await store.admin.read_dead_jobs(limit=9) == []
        assert await store.read_jobs("i") == []


class TestHeartbeats:
    """What running jobs say of their progress."""

    async def test_details_reach_the_next_attempt(self, store: Store, clock: ManualClock) -> None:
        await begun(store, jobs=(job(2),))
        [first] = await claim_jobs(store)

        await store.beat_jobs(
            [
                JobBeat(first.key, first.token, details=b'{"row":5}', progress=b"0.5"),
                JobBeat(first.key, first.token),
            ]
        )

        [progress] = await store.admin.read_progress("i")
        assert (progress.progress, progress.beat_ms) == (b"0.5", clock())
        clock.advance(LEASE)
        [second] = await claim_jobs(store, "w2")
        assert (first.details, second.details) == (None, b'{"row":5}')

    async def test_an_attempt_that_goes_back_brings_its_details(self, store: Store) -> None:
        await begun(store, jobs=(job(2),))
        [first] = await claim_jobs(store)
        await store.beat_jobs([JobBeat(first.key, first.token, details=b"1")])

        await store.end_jobs(
            [JobEnd(key=first.key, token=first.token, retry_at_ms=0, details=b"2")]
        )
        [second] = await claim_jobs(store)
        await store.end_jobs([JobEnd(key=second.key, token=second.token, retry_at_ms=0)])
        [third] = await claim_jobs(store)

        assert (second.details, third.details) == (b"2", b"2")

    async def test_a_job_whose_lease_is_lost_says_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2), job(3)))
        mine, other = await claim_jobs(store)
        clock.advance(LEASE)

        await store.beat_jobs([JobBeat(mine.key, mine.token, details=b"late")])
        [again, _] = await claim_jobs(store, "w2")
        await store.beat_jobs(
            [
                JobBeat(mine.key, mine.token, details=b"stolen"),
                JobBeat(other.key, 0, details=b"no token"),
                JobBeat(other.key._replace(seq=9), other.token, details=b"unknown"),
            ]
        )

        assert again.details is None
        assert {job.progress for job in await store.admin.read_progress("i")} <= {None}
        await store.beat_jobs([])


class TestLostJobs:
    """A worker may ask at any time which of its jobs are still its own."""

    async def test_nothing_is_lost_while_nothing_happens(self, store: Store) -> None:
        await begun(store, jobs=(job(2),))
        [claimed] = await claim_jobs(store)

        assert await store.lost_jobs([JobLease(claimed.key, claimed.token)]) == []
        assert await store.lost_jobs([]) == []

    async def test_cancelled_ended_and_stolen_jobs_are_lost(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store, jobs=tuple(job(seq) for seq in range(2, 6)))
        leases = [JobLease(one.key, one.token) for one in await claim_jobs(store)]
        cancelled, done, stolen, kept = leases
        await accepted(store, next_turn("i", stamp, jobs_gone=(cancelled.key.seq,)))
        await store.end_jobs([result_of(done.key, done.token)])
        clock.advance(LEASE / 2)
        await store.renew([], [kept], lease_ms=LEASE_MS)
        clock.advance(LEASE / 2)
        assert [one.key for one in await claim_jobs(store, "w2")] == [stolen.key]

        lost = await store.lost_jobs([*leases, JobLease(kept.key, token())])

        assert lost[:3] == [cancelled, done, stolen]
        assert len(lost) == 4

    async def test_the_jobs_of_an_instance_that_ended_are_lost(self, store: Store) -> None:
        stamp = await begun(store, jobs=(job(2),))
        [claimed] = await claim_jobs(store)
        lease = JobLease(claimed.key, claimed.token)

        await accepted(store, next_turn("i", stamp, outcome=outcome()))

        assert await store.lost_jobs([lease]) == [lease]

    async def test_a_lease_that_ran_out_is_not_lost_before_somebody_takes_the_job(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Its result is still welcome then; once somebody else runs the job it is refused."""
        await begun(store, jobs=(job(2), job(3)))
        first, second = await claim_jobs(store)
        clock.advance(LEASE)

        assert await store.lost_jobs([JobLease(first.key, first.token)]) == []
        assert await store.end_jobs([result_of(first.key, first.token)]) == [True]
        await claim_jobs(store, "w2")
        assert await store.lost_jobs([JobLease(second.key, second.token)]) != []
        assert await store.end_jobs([result_of(second.key, second.token)]) == [False]

    async def test_a_job_keeps_its_queue_and_session_when_it_goes_back(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2, queue=GPU, session="s"),))
        for _ in range(2):
            [claimed] = await claim_bound(store, queues=(GPU,))
            assert (claimed.queue, claimed.session) == (GPU, "s")
            await store.end_jobs(
                [JobEnd(key=claimed.key, token=claimed.token, retry_at_ms=0, refund=True)]
            )

        [waiting] = await store.read_jobs("i")
        assert (waiting.queue, waiting.session, waiting.attempt) == (GPU, "s", 0)
        assert await claim_bound(store, queues=(QUEUE,)) == []
        assert await claim_jobs(store, queues=(GPU,)) == []


class TestMisfits:
    """Jobs whose arguments do not fit the code of a worker."""

    async def test_why_a_job_does_not_fit_is_kept_and_counts_as_no_attempt(
        self, store: Store
    ) -> None:
        await begun(store, jobs=(job(),))
        [claimed] = await claim_jobs(store)
        back = JobEnd(
            key=claimed.key, token=claimed.token, retry_at_ms=0, refund=True, misfit="no such one"
        )

        await store.end_jobs([back])
        [waiting] = await store.read_jobs("i")
        [again] = await claim_jobs(store)

        assert (waiting.misfit, waiting.attempt) == ("no such one", 0)
        assert again.attempt == 1
        assert again.failures == JobFailures(0, (), "no such one")

    async def test_a_failure_shows_that_it_did_fit(self, store: Store) -> None:
        await begun(store, jobs=(job(),))
        fields: list[dict[str, Any]] = [
            {"misfit": "no such one"},
            {"failure": Failure("OSError", "no")},
        ]
        for each in fields:
            [claimed] = await claim_jobs(store)
            back = JobEnd(key=claimed.key, token=claimed.token, retry_at_ms=0, **each)
            await store.end_jobs([back])

        [again] = await claim_jobs(store)

        assert (again.failures.count, again.failures.misfit) == (1, "")
