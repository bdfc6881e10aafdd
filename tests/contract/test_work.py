"""What every store does with the jobs and timers of turns."""

from __future__ import annotations

from datetime import timedelta

from perdure.clock import ManualClock
from perdure.errors import RowError
from perdure.model.histories.events import Body
from perdure.model.instances import Stamp
from perdure.model.jobs import JobKey
from perdure.model.turns import TurnReceipt, TurnStatus
from perdure.store.base import Store
from tests.contract.store_values import (
    QUEUE,
    accepted,
    begun,
    claim,
    failed,
    first_turn,
    job,
    new_instance,
    next_turn,
    result_of,
    timer,
    token,
    turn_of,
)

REFUSED = TurnReceipt(TurnStatus.REFUSED)


class TestJobsOfTurns:
    """Jobs that turns add, cancel and end."""

    async def test_a_leased_job_belongs_to_the_committing_worker(
        self, store: Store, clock: ManualClock
    ) -> None:
        until = clock() + 5_000
        start = new_instance()
        turn = first_turn(
            start, jobs=(job(2, leased=True), job(3)), jobs_leased_until_ms=until, worker_id="w7"
        )

        await accepted(store, turn)

        mine, waiting = await store.read_jobs("i")
        assert mine.key == JobKey("i", start.incarnation, 1, 2)
        assert mine.queue == waiting.queue == QUEUE
        assert (mine.token, mine.worker_id, mine.attempt) == (turn.commit_id, "w7", 1)
        assert mine.visible_at_ms == until
        assert (waiting.token, waiting.worker_id, waiting.attempt) == (0, None, 0)
        assert waiting.visible_at_ms == waiting.created_ms == clock()

    async def test_a_turn_ends_its_jobs(self, store: Store) -> None:
        start = new_instance()
        turn = first_turn(start, jobs=(job(2, leased=True),), jobs_leased_until_ms=2**50)
        await accepted(store, turn)
        end = result_of(JobKey("i", start.incarnation, 1, 2), turn.commit_id)

        await accepted(store, next_turn("i", turn.next_stamp, job_ends=(end,)))

        assert await store.read_jobs("i") == []
        assert await store.read_inbox("i") == []

    async def test_a_lost_job_refuses_the_turn_and_saves_the_others(self, store: Store) -> None:
        start = new_instance()
        turn = first_turn(
            start, jobs=(job(2, leased=True), job(3, leased=True)), jobs_leased_until_ms=2**50
        )
        await accepted(store, turn)
        good = result_of(JobKey("i", start.incarnation, 1, 2), turn.commit_id, "good")
        lost = result_of(JobKey("i", start.incarnation, 1, 3), token())
        stamp = turn.next_stamp

        [receipt] = await store.commit([next_turn("i", stamp, job_ends=(good, lost))])

        assert receipt == REFUSED._replace(ends_kept=(True, False))
        assert [m.body for m in await store.read_inbox("i")] == [b"good"]
        assert [waiting.key.seq for waiting in await store.read_jobs("i")] == [3]
        assert len(await claim(store)) == 1

    async def test_the_job_results_of_a_refused_turn_are_not_lost(self, store: Store) -> None:
        start = new_instance()
        turn = first_turn(start, jobs=(job(2, leased=True),), jobs_leased_until_ms=2**50)
        await accepted(store, turn)
        end = result_of(JobKey("i", start.incarnation, 1, 2), turn.commit_id)
        stale = Stamp(start.incarnation, 1, 9)

        [receipt] = await store.commit([next_turn("i", stale, job_ends=(end,))])

        assert receipt == REFUSED._replace(ends_kept=(True,))
        [claimed] = await claim(store)
        assert [(m.kind, m.execution) for m in claimed.messages] == [("activity_completed", 1)]
        assert await store.read_jobs("i") == []

    async def test_a_cancelled_job_is_gone(self, store: Store) -> None:
        stamp = await begun(store, jobs=(job(2), job(3)))

        await accepted(store, next_turn("i", stamp, jobs_gone=(2,)))

        assert [waiting.key.seq for waiting in await store.read_jobs("i")] == [3]

    async def test_a_job_added_and_cancelled_in_one_turn_leaves_nothing(self, store: Store) -> None:
        await begun(store, jobs=(job(2),), jobs_gone=(2,))

        assert await store.read_jobs("i") == []


class TestTimers:
    """Timers are messages to oneself with a later time."""

    async def test_a_timer_is_invisible_until_it_is_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        due = clock() + 5_000
        receipt = await accepted(
            store, first_turn(new_instance(), timers=(timer(2, due),), next_due_ms=due)
        )

        assert (receipt.last_no, receipt.has_unseen) == (1, False)
        clock.advance(timedelta(milliseconds=4_999))
        assert await claim(store) == []
        clock.advance(timedelta(milliseconds=1))
        [claimed] = await claim(store)
        [fired] = claimed.messages
        assert (fired.timer_key, fired.effective_at_ms, fired.execution) == ("timer:2", due, 1)

    async def test_a_cancelled_timer_is_gone(self, store: Store, clock: ManualClock) -> None:
        stamp = await begun(store, timers=(timer(2, clock()), timer(3, clock())))

        await accepted(store, next_turn("i", stamp, timers_gone=("timer:2",)))

        assert [m.timer_key for m in await store.read_inbox("i")] == ["timer:3"]

    async def test_a_timer_of_a_key_that_is_cancelled_in_the_same_turn_replaces_the_old_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store, timers=(timer(2, clock() + 1),))

        later = next_turn("i", stamp, timers=(timer(2, clock() + 9),), timers_gone=("timer:2",))
        receipt = await accepted(store, later)

        [waiting] = await store.read_inbox("i")
        assert (waiting.timer_key, waiting.effective_at_ms) == ("timer:2", clock() + 9)
        assert waiting.no == receipt.last_no == 2

    async def test_a_timer_can_be_set_again_by_the_turn_that_takes_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        due = clock()
        await begun(store, timers=(timer(2, due),), next_due_ms=due)
        [claimed] = await claim(store)

        again = turn_of(claimed, timers=(timer(2, due + 9),), next_due_ms=due + 9)
        await accepted(store, again)

        [waiting] = await store.read_inbox("i")
        assert (waiting.timer_key, waiting.effective_at_ms) == ("timer:2", due + 9)
        assert await claim(store) == []

    async def test_two_timers_of_one_key_are_refused_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store)
        await begun(store, "j")
        bad = next_turn("i", stamp, timers=(timer(2, clock()), timer(2, clock())))

        assert isinstance(await failed(store, bad), RowError)

        assert await store.read_inbox("i") == []
        await accepted(store, next_turn("i", stamp, events=(Body("x", b""),)))
