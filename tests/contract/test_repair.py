"""What every store does when people repair things by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from perdure.clock import ManualClock
from perdure.model.histories.events import ActivityFailed, Failure, SignalReceived, write_event
from perdure.model.instances import Status
from perdure.model.jobs import JobEnd, JobFailures, JobKey
from perdure.model.messages import CarriedMessage, DeliveryStatus
from perdure.model.turns import Hold, TurnReceipt, TurnStatus, with_more
from perdure.model.updates import request_message
from perdure.store.base import Store
from tests.contract.store_values import (
    CONTINUED,
    LEASE_MS,
    ORDER,
    accepted,
    begun,
    claim,
    claim_jobs,
    continuation,
    decided,
    given,
    job,
    latest,
    message,
    new_instance,
    next_turn,
    outcome,
    queued,
    result_of,
    start_timer,
    timer,
    turn_of,
)
from tests.contract.test_admin import dead

LEASE = timedelta(milliseconds=LEASE_MS)
MS = timedelta(milliseconds=1)
REFUSED = TurnReceipt(TurnStatus.REFUSED)


def failure_of(key: JobKey) -> bytes:
    """Return what tells the owner of a job that it failed."""
    failed = ActivityFailed(schedule=key.seq, failures=(Failure("OSError", "no"),))
    _, body = write_event(failed)
    return body


async def begun_with_two_jobs(store: Store, **fields: Any) -> int:
    """Start an instance that waits for two jobs, and return how many there are."""
    await begun(store, jobs=(job(2), job(3)), **fields)
    return 2


async def failed(store: Store, count: int) -> list[JobKey]:
    """Let all jobs die, and return their keys."""
    claimed = sorted(await claim_jobs(store), key=lambda one: one.key.seq)
    assert len(claimed) == count
    ends = [
        JobEnd(
            key=one.key,
            token=one.token,
            kind=ActivityFailed.kind,
            body=failure_of(one.key),
            failure=Failure("OSError", "no"),
            is_dead=True,
        )
        for one in claimed
    ]
    assert await store.end_jobs(ends) == [True] * count
    return [one.key for one in claimed]


class TestRepair:
    """What an operator does by hand to jobs and messages."""

    async def test_a_dead_job_is_tried_again_from_the_beginning(
        self, store: Store, clock: ManualClock
    ) -> None:
        key = await dead(store)
        clock.advance(MS)

        assert await store.admin.retry_dead_jobs([key, key._replace(seq=9), key]) == [
            True,
            False,
            False,
        ]

        assert await store.admin.read_dead_jobs(limit=9) == []
        [waiting] = await store.read_jobs("i")
        assert (waiting.key, waiting.token, waiting.attempt) == (key, 0, 0)
        assert waiting.visible_at_ms == clock()
        [claimed] = await claim_jobs(store)
        assert (claimed.attempt, claimed.lost, claimed.failures) == (1, 0, JobFailures())
        assert (claimed.input, claimed.policy) == (b"in", b'{"max_attempts":1}')
        assert await store.end_jobs([result_of(claimed.key, claimed.token)]) == [True]

    async def test_a_job_that_was_put_back_is_known_as_such_until_it_ends(
        self, store: Store, clock: ManualClock
    ) -> None:
        key = await dead(store)
        await store.admin.retry_dead_jobs([key])

        [claimed] = await claim_jobs(store)
        later = JobEnd(key=key, token=claimed.token, retry_at_ms=clock())
        assert await store.end_jobs([later]) == [True]
        [again] = await claim_jobs(store)
        clock.advance(LEASE)
        [after_a_loss] = await claim_jobs(store)

        assert [one.is_rerun for one in (claimed, again, after_a_loss)] == [True] * 3
        assert (after_a_loss.attempt, after_a_loss.lost) == (3, 1)
        keys = {one.key.idempotency_key for one in (claimed, again, after_a_loss)}
        assert keys == {key.idempotency_key}

    async def test_a_job_that_never_died_is_no_rerun(self, store: Store) -> None:
        await begun(store, jobs=(job(),))

        [claimed] = await claim_jobs(store)

        assert not claimed.is_rerun

    async def test_the_end_of_a_job_that_was_put_back_reaches_its_owner_once(
        self, store: Store
    ) -> None:
        key = await dead(store)
        await store.admin.retry_dead_jobs([key])
        [claimed] = await claim_jobs(store)
        end = result_of(key, claimed.token, "late")

        assert await store.end_jobs([end]) == [True]
        assert await store.end_jobs([end]) == [False]

        assert await store.read_jobs("i") == []
        [turn] = await claim(store)
        assert [m.body for m in turn.messages] == [b"{}", b"late"]

    async def test_a_failure_that_no_code_has_heard_of_is_taken_back_with_its_job(
        self, store: Store
    ) -> None:
        keys = await failed(store, await begun_with_two_jobs(store))
        [claimed] = await claim(store)

        assert await store.admin.retry_dead_jobs(keys[:1]) == [True]

        assert await store.commit([turn_of(claimed)]) == [REFUSED]
        [left] = await store.read_inbox("i")
        assert left.body == failure_of(keys[1])
        [job] = await claim_jobs(store)
        assert await store.end_jobs([result_of(keys[0], job.token, "late")]) == [True]
        [turn] = await claim(store)
        assert [m.body for m in turn.messages] == [failure_of(keys[1]), b"late"]

    async def test_a_failure_of_an_effect_that_is_put_back_is_heard_of(self, store: Store) -> None:
        await decided(store, jobs=(job(),))
        [key] = await failed(store, 1)

        assert await store.admin.retry_dead_jobs([key]) == [True]

        [left] = await store.read_inbox(key.instance_id)
        assert left.body == failure_of(key)

    async def test_a_timer_that_fails_a_call_stays_when_its_job_is_put_back(
        self, store: Store, clock: ManualClock
    ) -> None:
        count = await begun_with_two_jobs(store, timers=(start_timer(2, clock() + 60_000),))
        key, _ = await failed(store, count)

        assert await store.admin.retry_dead_jobs([key]) == [True]

        assert [m.timer_key for m in await store.read_inbox("i")] == [None, "start:2"]

    async def test_a_turn_takes_the_end_of_a_job_that_was_put_back_the_short_way(
        self, store: Store
    ) -> None:
        key = await dead(store)
        [claimed] = await claim(store)
        await accepted(store, turn_of(claimed))
        stamp = await latest(store)
        await store.admin.retry_dead_jobs([key])
        [job] = await claim_jobs(store)
        turn = next_turn("i", stamp, job_ends=(result_of(key, job.token),))

        first = await accepted(store, turn)

        assert await store.commit([turn]) == [first]
        assert await store.read_jobs("i") == []
        assert await store.read_inbox("i") == []

    async def test_a_job_that_dies_again_is_dead_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        key = await dead(store)
        await store.admin.retry_dead_jobs([key])
        [claimed] = await claim_jobs(store)
        clock.advance(MS)
        failure = Failure("OSError", "still")
        end = msgspec.structs.replace(result_of(key, claimed.token), failure=failure, is_dead=True)

        assert await store.end_jobs([end]) == [True]

        [again] = await store.admin.read_dead_jobs(limit=9)
        assert (again.key, again.attempts, again.died_ms) == (key, 1, clock())
        assert again.failures == JobFailures(1, (failure,))
        assert await store.admin.retry_dead_jobs([key]) == [True]

    @pytest.mark.parametrize("meanwhile", ["ended", "replaced"])
    async def test_the_end_of_a_job_whose_owner_is_gone_reaches_nobody(
        self, store: Store, meanwhile: str
    ) -> None:
        key = await dead(store)
        [claimed] = await claim(store)
        await accepted(store, turn_of(claimed, outcome=outcome()))
        await store.admin.retry_dead_jobs([key])
        [job] = await claim_jobs(store)
        if meanwhile == "replaced":
            assert await store.start([new_instance(replaces=key.incarnation)]) == [None]

        was_ours = await store.end_jobs([result_of(key, job.token)])

        assert was_ours == [meanwhile == "ended"]
        assert await store.read_jobs("i") == []
        assert all(m.kind == "started" for m in await store.read_inbox("i"))

    async def test_the_end_of_an_instance_takes_a_job_along_that_was_put_back(
        self, store: Store
    ) -> None:
        key = await dead(store)
        await store.admin.retry_dead_jobs([key])
        [job] = await claim_jobs(store)
        [claimed] = await claim(store)

        await accepted(store, turn_of(claimed, outcome=outcome()))

        assert await store.read_jobs("i") == []
        assert await store.end_jobs([result_of(key, job.token)]) == [False]

    async def test_a_dead_job_is_forgotten(self, store: Store) -> None:
        key = await dead(store)

        assert await store.admin.forget_dead_jobs([key, key]) == [True, False]
        assert await store.admin.forget_dead_jobs([]) == []
        assert await store.admin.retry_dead_jobs([key]) == [False]
        assert await store.admin.retry_dead_jobs([]) == []

        assert await store.admin.read_dead_jobs(limit=9) == []

    @pytest.mark.parametrize("is_running", [True, False], ids=["running", "waiting"])
    async def test_a_job_is_ended_by_hand_whoever_runs_it(
        self, store: Store, is_running: bool
    ) -> None:
        stamp = await begun(store, jobs=(job(),))
        held = await claim_jobs(store) if is_running else []
        key = JobKey("i", stamp.incarnation, 1, 2)

        assert await store.admin.end_job_by_hand(key, "activity_completed", b"by hand")

        assert await store.read_jobs("i") == []
        [claimed] = await claim(store)
        assert [(m.kind, m.body, m.execution, m.no) for m in claimed.messages] == [
            ("activity_completed", b"by hand", 1, 1)
        ]
        for one in held:
            assert await store.end_jobs([result_of(one.key, one.token)]) == [False]
        assert not await store.admin.end_job_by_hand(key, "activity_completed", b"by hand")
        assert not await store.admin.end_job_by_hand(key._replace(instance_id="never"), "x", b"")

    async def test_the_end_of_a_job_reaches_a_leased_owner_after_its_turn(
        self, store: Store
    ) -> None:
        stamp = await begun(store, jobs=(job(),))
        await store.deliver([message()])
        [claimed] = await claim(store)

        await store.admin.end_job_by_hand(
            JobKey("i", stamp.incarnation, 1, 2), "activity_failed", b"x"
        )

        assert await claim(store, "w2") == []
        receipt = await accepted(store, turn_of(claimed))
        assert receipt.has_unseen
        [after] = await claim(store)
        assert [(m.no, m.body) for m in after.messages] == [(2, b"x")]

    async def test_a_dropped_message_is_gone_and_its_turn_refused(self, store: Store) -> None:
        await begun(store)
        await store.deliver([message(text="poison"), message(text="good")])
        [claimed] = await claim(store)

        assert await store.admin.drop_message("i", 1)

        assert await store.commit([turn_of(claimed)]) == [REFUSED]
        [again] = await claim(store, "w2")
        assert [m.body for m in again.messages] == [b"good"]
        assert again.attempts == 2
        await accepted(store, turn_of(again))
        assert not await store.admin.drop_message("i", 1)
        assert not await store.admin.drop_message("never", 1)

    async def test_a_dropped_message_may_be_sent_again_under_its_id(self, store: Store) -> None:
        stamp = await decided(store)
        one, other = queued(), queued(input_id="y")
        assert await store.deliver([one, other]) == [DeliveryStatus.DELIVERED] * 2

        assert await store.admin.drop_message("order:1", 1)

        assert await store.deciders.read_receipts("order:1", ["x", "y"]) == {"y": None}
        statuses = await store.deliver([one, other])
        assert statuses == [DeliveryStatus.DELIVERED, DeliveryStatus.DUPLICATE]
        [claimed] = await claim(store, definitions=(ORDER,))
        assert [m.no for m in claimed.messages] == [2, 3]
        assert claimed.stamp.place == stamp.place
        await accepted(store, turn_of(claimed, receipts=(given("ok"), given("ok", "y"))))
        assert await store.deciders.read_receipts("order:1", ["x", "y"]) == {"x": b"ok", "y": b"ok"}

    async def test_a_message_that_was_taken_is_not_forgotten_with_another(
        self, store: Store
    ) -> None:
        await begun(store)
        taken = message(message_id="taken")
        await store.deliver([taken])
        [claimed] = await claim(store)
        await accepted(store, turn_of(claimed))
        await store.deliver([message(message_id="waits")])

        assert await store.admin.drop_message("i", 2)

        assert await store.deliver([taken]) == [DeliveryStatus.DUPLICATE]

    @pytest.mark.parametrize("name", ["update", "promise"])
    async def test_one_that_was_handed_on_may_be_sent_again_too(
        self, store: Store, name: str
    ) -> None:
        """It has another number in the inbox than its receipt knows."""
        if name == "update":
            message_id, body = "update:once", request_message("add", "once", b"1")
        else:
            kept = SignalReceived(name="promise:paid#1.1", value=msgspec.Raw(b"1"))
            message_id, body = "promise:1.1", write_event(kept)
        stamp = await begun(store)
        sent = message(message_id=message_id, kind=body.kind, body=body.body)
        assert await store.deliver([sent]) == ["delivered"]
        unread = CarriedMessage(1, *body)
        turn = next_turn("i", stamp, events=(CONTINUED,), consumed=(1,))
        await accepted(store, with_more(turn, continued=continuation("next", unread)))
        [_, waiting] = await store.read_inbox("i")
        assert await store.deliver([sent]) == [DeliveryStatus.DUPLICATE]

        assert await store.admin.drop_message("i", waiting.no)

        assert await store.deciders.read_receipts("i", [message_id]) == {}
        assert await store.deliver([sent]) == [DeliveryStatus.DELIVERED]

    async def test_a_timer_can_be_dropped(self, store: Store, clock: ManualClock) -> None:
        due = clock() + 10
        await begun(store, timers=(timer(2, due),), next_due_ms=due)

        assert await store.admin.drop_message("i", 1)

        assert await store.read_inbox("i") == []
        [claimed] = await claim(store)
        assert claimed.messages == ()

    async def test_a_held_instance_stays_held_when_a_message_is_dropped(self, store: Store) -> None:
        stamp = await begun(store)
        await store.hold([Hold("i", stamp, 0, Status.PARKED, "*", "why")])
        await store.deliver([message()])

        assert await store.admin.drop_message("i", 1)

        assert await claim(store) == []
        live = await store.read_live("i")
        assert live is not None
        assert (live.wake_at_ms, live.blocked_by) == (None, "*")
        assert await store.unpark("i")

    async def test_a_start_is_not_dropped_and_its_time_is_kept(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.start([new_instance(visible_at_ms=clock() + 1_000)])
        await store.deliver([message()])

        assert not await store.admin.drop_message("i", 1)
        assert await store.admin.drop_message("i", 2)

        assert await claim(store) == []
        clock.advance(timedelta(seconds=1))
        [claimed] = await claim(store)
        assert [m.kind for m in claimed.messages] == ["started"]

    async def test_an_unborn_id_is_not_woken(self, store: Store) -> None:
        await store.deliver([message("unborn", if_absent="buffer")])

        assert await store.admin.drop_message("unborn", 1)

        live = await store.read_live("unborn")
        assert live is not None
        assert live.wake_at_ms is None
