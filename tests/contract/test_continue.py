"""What every store does with turns that go on as the next execution (S35)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from perdure.clock import ManualClock
from perdure.errors import RowError
from perdure.model.instances import DefinitionKey, Stamp, Status
from perdure.model.jobs import JobEnd, JobKey
from perdure.model.turns import ChildStart, TurnReceipt, TurnStatus
from perdure.store.base import ExecutionKey, JobLease, Store
from tests.contract.store_values import (
    CONTINUED,
    LEASE_MS,
    ORCHESTRATION,
    SCHEDULED,
    STARTED,
    accepted,
    begun,
    carried,
    claim,
    claim_jobs,
    continuation,
    failed,
    first_turn,
    job,
    latest,
    message,
    new_instance,
    next_turn,
    outcome,
    result_of,
    timer,
    turn_of,
)

REFUSED = TurnReceipt(TurnStatus.REFUSED)
NEWER = DefinitionKey("orchestration", "greet", "2.0.0", 1)
SECOND = timedelta(seconds=1)


class TestContinuations:
    """One commit ends an execution and begins the next."""

    async def test_an_execution_is_followed_by_the_next_in_one_commit(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store)
        clock.advance(SECOND)
        turn = next_turn(
            "i", stamp, events=(CONTINUED,), continued=continuation("second", definition=NEWER)
        )

        receipt = await accepted(store, turn)

        assert receipt == TurnReceipt(TurnStatus.ACCEPTED, 1, has_unseen=True)
        live = await store.read_live("i")
        assert live is not None
        assert live.stamp == Stamp(stamp.incarnation, 2, 1, turn.commit_id)
        assert (live.lease, live.attempts, live.home) == (0, 0, "w1")
        assert live.wake_at_ms == clock()
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.status, row.execution, row.version) == (Status.RUNNING, 2, "2.0.0")
        assert (row.input, row.updated_ms, row.ended_ms) == (b"second", clock(), None)
        histories = await store.read_histories(
            [ExecutionKey("i", stamp.incarnation, number) for number in (1, 2)]
        )
        assert [[event.kind for event in events] for events in histories] == [
            ["started", "continued_as_new"],
            [],
        ]

    async def test_the_next_execution_is_claimed_under_its_definition(self, store: Store) -> None:
        stamp = await begun(store)
        following = continuation("second", definition=NEWER)
        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=following))

        assert await claim(store, definitions=(ORCHESTRATION,)) == []
        [claimed] = await claim(store, definitions=(NEWER,))
        assert [(m.kind, m.body, m.execution) for m in claimed.messages] == [
            ("started", b"second", 2)
        ]
        await accepted(store, turn_of(claimed, events=(STARTED, SCHEDULED)))

        [events] = await store.read_histories([ExecutionKey("i", stamp.incarnation, 2)])
        assert [event.seq for event in events] == [1, 2]
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert row.execution == 2

    async def test_a_continuation_sent_again_gets_the_first_answer(self, store: Store) -> None:
        stamp = await begun(store)
        await store.deliver([message()])
        turn = next_turn(
            "i",
            stamp,
            events=(CONTINUED,),
            timers=(timer(9, 9),),
            continued=continuation("second", carried("unread")),
        )

        first = await store.commit([turn])
        second = await store.commit([turn])

        assert first == second
        assert first[0].status is TurnStatus.ACCEPTED
        assert len(await store.read_inbox("i")) == 3
        live = await store.read_live("i")
        assert live is not None
        assert live.stamp.execution == 2

    async def test_a_continuation_that_comes_again_late_was_accepted(self, store: Store) -> None:
        stamp = await begun(store)
        turn = next_turn("i", stamp, events=(CONTINUED,), continued=continuation())
        await accepted(store, turn)
        [claimed] = await claim(store)
        await accepted(store, turn_of(claimed))

        [receipt] = await store.commit([turn])

        assert receipt == TurnReceipt(TurnStatus.ACCEPTED, 1, has_unseen=True)
        assert await store.read_inbox("i") == []
        assert (await latest(store)).place == (stamp.incarnation, 2, 2)

    async def test_of_two_continuations_of_one_stamp_one_is_accepted(self, store: Store) -> None:
        stamp = await begun(store)

        receipts = await store.commit(
            [
                next_turn("i", stamp, events=(CONTINUED,), continued=continuation(text))
                for text in ("a", "b")
            ]
        )

        assert [receipt.status for receipt in receipts] == ["accepted", "refused"]
        assert [m.body for m in await store.read_inbox("i")] == [b"a"]

    async def test_a_turn_of_the_execution_before_is_refused(self, store: Store) -> None:
        stamp = await begun(store)
        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))

        late = [
            next_turn("i", stamp, events=(SCHEDULED,)),
            next_turn("i", stamp._replace(next_seq=3), events=(SCHEDULED,)),
            next_turn("i", Stamp(stamp.incarnation, 1, 1), events=(SCHEDULED,)),
        ]

        assert await store.commit(late) == [REFUSED] * 3

    async def test_an_instance_may_continue_in_its_first_turn(self, store: Store) -> None:
        await store.deliver([message(text="early", if_absent="buffer")])
        start = new_instance()

        await accepted(
            store, first_turn(start, events=(STARTED, CONTINUED), continued=continuation())
        )

        [claimed] = await claim(store)
        assert claimed.stamp.place == (start.incarnation, 2, 1)
        assert [m.body for m in claimed.messages] == [b"next", b"early"]
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.execution, row.input) == (2, b"next")

    async def test_an_instance_ends_in_a_later_execution(self, store: Store) -> None:
        stamp = await begun(store)
        for number in range(1, 5):
            turn = next_turn(
                "i", stamp, events=(CONTINUED,), continued=continuation(), now_ms=number
            )
            await accepted(store, turn)
            [claimed] = await claim(store)
            begin = turn_of(claimed)
            await accepted(store, begin)
            stamp = begin.next_stamp

        await accepted(store, next_turn("i", stamp, outcome=outcome()))

        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.execution, row.status) == (5, Status.COMPLETED)

    async def test_an_instance_cannot_both_end_and_continue(self, store: Store) -> None:
        stamp = await begun(store)

        turn = next_turn("i", stamp, continued=continuation(), outcome=outcome())
        assert isinstance(await failed(store, turn), RowError)

        live = await store.read_live("i")
        assert live is not None
        assert live.stamp == stamp


class TestWorkOfContinuedExecutions:
    """Open work of an execution goes with it, and never reaches the next one."""

    async def test_jobs_and_timers_of_the_execution_are_gone(
        self, store: Store, clock: ManualClock
    ) -> None:
        due = clock() + 5_000
        stamp = await begun(store, jobs=(job(2), job(3)), timers=(timer(4, due),), next_due_ms=due)

        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))

        assert await store.read_jobs("i") == []
        assert [m.kind for m in await store.read_inbox("i")] == ["started"]

    async def test_work_asked_for_in_the_last_turn_is_not_begun(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store)

        await accepted(
            store,
            next_turn(
                "i",
                stamp,
                jobs=(job(2),),
                timers=(timer(3, clock()),),
                next_due_ms=clock(),
                continued=continuation(),
            ),
        )

        assert await store.read_jobs("i") == []
        assert [m.kind for m in await store.read_inbox("i")] == ["started"]

    async def test_a_result_that_waits_for_the_execution_is_dropped(self, store: Store) -> None:
        stamp = await begun(store, jobs=(job(2),))
        [claimed] = await claim_jobs(store)
        await store.end_jobs([result_of(claimed.key, claimed.token)])

        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))

        assert [m.kind for m in await store.read_inbox("i")] == ["started"]

    async def test_a_late_result_of_an_execution_that_is_over_is_refused(
        self, store: Store
    ) -> None:
        stamp = await begun(store, jobs=(job(2), job(3)))
        first, second = await claim_jobs(store)
        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))
        retry = JobEnd(key=second.key, token=second.token, retry_at_ms=0)

        assert await store.end_jobs([result_of(first.key, first.token), retry]) == [False, False]

        leases = [JobLease(first.key, first.token)]
        assert await store.renew([], leases, lease_ms=LEASE_MS) == ([], leases)
        assert await store.lost_jobs(leases) == leases
        assert await store.read_jobs("i") == []
        assert [m.kind for m in await store.read_inbox("i")] == ["started"]

    async def test_the_results_of_a_refused_turn_of_an_execution_that_is_over_are_dropped(
        self, store: Store
    ) -> None:
        start = new_instance()
        turn = first_turn(start, jobs=(job(2, leased=True),), jobs_leased_until_ms=2**50)
        await accepted(store, turn)
        stamp = turn.next_stamp
        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))
        end = result_of(JobKey("i", start.incarnation, 1, 2), turn.commit_id)

        assert await store.commit([next_turn("i", stamp, job_ends=(end,))]) == [REFUSED]

        assert [m.kind for m in await store.read_inbox("i")] == ["started"]

    async def test_a_message_for_the_execution_that_is_over_is_not_delivered(
        self, store: Store
    ) -> None:
        stamp = await begun(store)
        addressed = message(incarnation=stamp.incarnation, execution=1)
        assert await store.deliver([addressed]) == ["delivered"]

        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))

        assert await store.deliver([addressed]) == ["absent"]
        assert [m.kind for m in await store.read_inbox("i")] == ["started"]

    async def test_a_message_that_outlives_its_execution_is_for_the_next_if_it_was_delivered(
        self, store: Store
    ) -> None:
        stamp = await begun(store)
        fields: dict[str, Any] = {"incarnation": stamp.incarnation, "execution": 1}
        fields["outlives"] = True
        assert await store.deliver([message(message_id="a", **fields)]) == ["delivered"]

        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))

        assert len(await store.read_inbox("i")) == 2  # With the start of the next one.
        # Of two with an id the first counts, whichever execution is there; others are too late.
        assert await store.deliver([message(message_id="a", **fields)]) == ["duplicate"]
        assert await store.deliver([message(message_id="b", **fields)]) == ["absent"]

    async def test_a_timer_key_is_used_again_by_the_next_execution(
        self, store: Store, clock: ManualClock
    ) -> None:
        due = clock() + 5_000
        stamp = await begun(store, timers=(timer(2, due),), next_due_ms=due)
        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))
        [claimed] = await claim(store)

        later = due + 5_000
        await accepted(store, turn_of(claimed, timers=(timer(2, later),), next_due_ms=later))

        [waiting] = await store.read_inbox("i")
        assert (waiting.timer_key, waiting.effective_at_ms, waiting.execution) == (
            "timer:2",
            later,
            2,
        )
        clock.advance(timedelta(milliseconds=5_000))
        assert await claim(store) == []

    async def test_a_job_number_is_used_again_by_the_next_execution(self, store: Store) -> None:
        stamp = await begun(store, jobs=(job(2),))
        [late] = await claim_jobs(store)
        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))
        [claimed] = await claim(store)
        await accepted(store, turn_of(claimed, jobs=(job(2, input=b"new"),)))

        assert await store.end_jobs([result_of(late.key, late.token)]) == [False]

        [again] = await claim_jobs(store)
        assert (again.key, again.input) == (JobKey("i", stamp.incarnation, 2, 2), b"new")
        assert again.key.idempotency_key != late.key.idempotency_key

    async def test_detached_starts_and_messages_of_the_last_turn_are_honoured(
        self, store: Store
    ) -> None:
        stamp = await begun(store)
        await begun(store, "other")
        answer = message(incarnation=stamp.incarnation, execution=1)
        children = (
            ChildStart(new_instance("fresh"), answer, answer),
            ChildStart(new_instance("other"), answer, answer),
        )

        await accepted(
            store,
            next_turn(
                "i",
                stamp,
                events=(CONTINUED,),
                children=children,
                deliveries=(message("other", "hi"),),
                continued=continuation(),
            ),
        )

        assert await store.read_live("fresh") is not None
        assert [m.body for m in await store.read_inbox("other")] == [b"hi"]
        assert [m.kind for m in await store.read_inbox("i")] == ["started"]
