"""What every store does with turns: fencing, idempotence, and all or nothing."""

from __future__ import annotations

from datetime import timedelta

from perdure.clock import ManualClock
from perdure.errors import RowError
from perdure.model.instances import Stamp, Status
from perdure.model.jobs import JobKey
from perdure.model.turns import NOBODY, ChildStart, Hold, KnownEnd, TurnReceipt, TurnStatus
from perdure.store.base import Store
from tests.contract.store_values import (
    COMPLETED,
    LEASE_MS,
    SCHEDULED,
    STARTED,
    accepted,
    begun,
    claim,
    ended,
    events_of,
    failed,
    first_turn,
    job,
    message,
    new_instance,
    next_turn,
    outcome,
    result_of,
    timer,
    turn_of,
)

REFUSED = TurnReceipt(TurnStatus.REFUSED)
TAKEN = TurnReceipt(TurnStatus.TAKEN)
LEASE = timedelta(milliseconds=LEASE_MS)


class TestFirstTurns:
    """A start and its first turn in one commit."""

    async def test_a_start_and_its_first_turn_are_one_commit(
        self, store: Store, clock: ManualClock
    ) -> None:
        start = new_instance(input=b'{"a":1}', parent_id="p", parent_incarnation=7)
        turn = first_turn(start, events=(STARTED, SCHEDULED), jobs=(job(),))

        receipt = await accepted(store, turn)

        assert receipt == TurnReceipt(TurnStatus.ACCEPTED, 0, has_unseen=False)
        live = await store.read_live("i")
        assert live is not None
        assert live.stamp == Stamp(start.incarnation, 1, 3, turn.commit_id)
        assert (live.wake_at_ms, live.lease, live.home) == (None, 0, "w1")
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.status, row.input, row.execution) == (Status.RUNNING, b'{"a":1}', 1)
        assert (row.kind, row.name, row.version) == ("orchestration", "greet", "1.0.0")
        assert (row.parent_id, row.parent_incarnation) == ("p", 7)
        assert (row.created_ms, row.ended_ms, row.output) == (1, None, None)
        assert await events_of(store, "i", start.incarnation) == [STARTED, SCHEDULED]
        assert len(await store.read_jobs("i")) == 1

    async def test_a_live_id_is_taken(self, store: Store) -> None:
        stamp = await begun(store)

        [receipt] = await store.commit([first_turn(new_instance())])

        assert receipt == TAKEN
        assert await events_of(store, "i", stamp.incarnation) == [STARTED]

    async def test_an_ended_id_is_taken(self, store: Store) -> None:
        await ended(store)

        assert await store.commit([first_turn(new_instance())]) == [TAKEN]

    async def test_an_ended_id_is_used_again_when_its_incarnation_is_named(
        self, store: Store
    ) -> None:
        old = await ended(store)
        await store.deliver([message("j", message_id="m", if_absent="buffer")])
        start = new_instance(replaces=old)

        await accepted(store, first_turn(start))

        assert await events_of(store, "i", old) == []
        assert await events_of(store, "i", start.incarnation) == [STARTED]
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.incarnation, row.status) == (start.incarnation, Status.RUNNING)

    async def test_a_start_sent_again_is_accepted_once(self, store: Store) -> None:
        turn = first_turn(new_instance())

        first = await store.commit([turn])
        second = await store.commit([turn])

        assert first == second
        assert await events_of(store, "i", turn.stamp.incarnation) == [STARTED]

    async def test_the_first_turn_of_an_unborn_id_hears_of_its_messages(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.deliver([message(if_absent="buffer")])

        receipt = await accepted(store, first_turn(new_instance(), next_due_ms=clock() + 5_000))

        assert receipt == TurnReceipt(TurnStatus.ACCEPTED, 1, has_unseen=True)
        [claimed] = await claim(store)
        assert [m.body for m in claimed.messages] == [b"hello"]

    async def test_a_first_turn_that_does_not_fit_its_start_is_an_error(self, store: Store) -> None:
        turn = first_turn(new_instance(), stamp=Stamp(5, 1, 1))

        assert isinstance(await failed(store, turn), RowError)

        assert await store.read_live("i") is None


class TestFencing:
    """S7: the stamp must be the stored one, and the lease its own or nobody's."""

    async def test_a_turn_with_another_stamp_writes_nothing(self, store: Store) -> None:
        stamp = await begun(store)
        others = [
            stamp._replace(incarnation=stamp.incarnation + 1),
            stamp._replace(execution=2),
            stamp._replace(next_seq=1),
            stamp._replace(next_seq=3),
        ]

        receipts = await store.commit(
            [next_turn("i", other, events=(SCHEDULED,), jobs=(job(),)) for other in others]
        )

        assert receipts == [REFUSED] * 4
        assert await events_of(store, "i", stamp.incarnation) == [STARTED]
        assert await store.read_jobs("i") == []

    async def test_a_turn_of_an_unknown_or_unborn_id_is_refused(self, store: Store) -> None:
        await store.deliver([message("unborn", if_absent="buffer")])

        receipts = await store.commit(
            [next_turn("unknown", Stamp(1, 1, 1)), next_turn("unborn", Stamp(0, 0, 0))]
        )

        assert receipts == [REFUSED, REFUSED]

    async def test_of_two_turns_with_one_stamp_one_is_accepted(self, store: Store) -> None:
        stamp = await begun(store)

        receipts = await store.commit(
            [next_turn("i", stamp, events=(SCHEDULED,)) for _ in range(2)]
        )

        assert [receipt.status for receipt in receipts] == ["accepted", "refused"]

    async def test_without_a_lease_a_turn_is_refused_while_somebody_holds_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.start([new_instance()])
        [claimed] = await claim(store, "w2")

        short_way = turn_of(claimed, lease=0, worker_id="w1")
        assert await store.commit([short_way]) == [REFUSED]

        clock.advance(LEASE)
        await accepted(store, short_way)

    async def test_a_turn_that_is_late_shows_that_its_worker_did_not_die_of_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """On a starved machine workers take a turn from each other time and again; an instance that
        was parked for that would be blamed for what it did not do."""
        await store.start([new_instance()])
        for _ in range(3):
            [late] = await claim(store, "w1")
            clock.advance(LEASE)
        [last] = await claim(store, "w2")
        assert last.attempts == 4

        assert await store.commit([turn_of(late, worker_id="w1")]) == [REFUSED]
        clock.advance(LEASE)

        [again] = await claim(store, "w3")
        assert again.attempts == 2

    async def test_the_worker_that_holds_the_lease_may_also_go_the_short_way(
        self, store: Store
    ) -> None:
        """Its claim and its commit were under way at the same time; the claim is void then."""
        await store.start([new_instance()])
        [claimed] = await claim(store, "w1")

        await accepted(store, turn_of(claimed, lease=0, worker_id="w1"))

        assert await store.commit([turn_of(claimed, worker_id="w1")]) == [REFUSED]

    async def test_a_late_commit_that_nobody_stole_is_accepted(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.start([new_instance()])
        [claimed] = await claim(store)

        clock.advance(2 * LEASE)

        await accepted(store, turn_of(claimed))

    async def test_a_late_commit_after_a_steal_is_refused(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.start([new_instance()])
        [late] = await claim(store)
        clock.advance(LEASE)
        [thief] = await claim(store, "w2")

        assert await store.commit([turn_of(late)]) == [REFUSED]
        await accepted(store, turn_of(thief))
        assert await store.commit([turn_of(late)]) == [REFUSED]

    async def test_a_seizing_turn_needs_no_lease(self, store: Store) -> None:
        await store.start([new_instance()])
        [claimed] = await claim(store)

        await accepted(
            store, turn_of(claimed, lease=0, seize=True, outcome=outcome(Status.TERMINATED))
        )

        assert await store.commit([turn_of(claimed)]) == [REFUSED]

    async def test_a_seizing_turn_is_refused_while_the_instance_is_parked(
        self, store: Store
    ) -> None:
        stamp = await begun(store)
        await store.hold([Hold("i", stamp, 0, Status.PARKED, NOBODY, "why")])

        assert await store.commit([next_turn("i", stamp, seize=True)]) == [REFUSED]
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.status, row.reason) == (Status.PARKED, "why")
        end = outcome(Status.COMPLETED)
        assert await store.commit([next_turn("i", stamp, seize=True, outcome=end)]) == [REFUSED]
        await accepted(store, next_turn("i", stamp, seize=True, outcome=outcome(Status.TERMINATED)))

    async def test_a_turn_without_a_lease_is_refused_while_the_instance_is_parked(
        self, store: Store
    ) -> None:
        """Another worker has parked it, while this one has it in memory."""
        start = new_instance()
        turn = first_turn(start, jobs=(job(2, leased=True),), jobs_leased_until_ms=2**50)
        await accepted(store, turn)
        stamp = turn.next_stamp
        await store.hold([Hold("i", stamp, 0, Status.PARKED, NOBODY, "why")])
        end = result_of(JobKey("i", start.incarnation, 1, 2), turn.commit_id)

        [receipt] = await store.commit([next_turn("i", stamp, job_ends=(end,))])

        assert receipt == REFUSED._replace(ends_kept=(True,))
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.status, row.reason) == (Status.PARKED, "why")

    async def test_a_seizing_turn_may_end_a_block(self, store: Store) -> None:
        """The code that seizes it may be the right one."""
        stamp = await begun(store)
        await store.hold([Hold("i", stamp, 0, Status.BLOCKED, "c1", "why")])

        await accepted(store, next_turn("i", stamp, seize=True))

        [row] = await store.read_instances(["i"])
        assert row is not None
        assert row.status is Status.RUNNING

    async def test_a_seizing_turn_needs_the_right_stamp(self, store: Store) -> None:
        stamp = await begun(store)

        turn = next_turn("i", stamp._replace(next_seq=9), seize=True)

        assert await store.commit([turn]) == [REFUSED]


class TestIdempotence:
    """S8: an ambiguous commit is sent again and accepted once."""

    async def test_a_turn_sent_again_gets_the_first_answer(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store)
        turn = next_turn("i", stamp, events=(SCHEDULED,), timers=(timer(2, clock() + 9),))

        first = await store.commit([turn])
        second = await store.commit([turn])

        assert first == second == [TurnReceipt(TurnStatus.ACCEPTED, 1, has_unseen=False)]
        assert await events_of(store, "i", stamp.incarnation) == [STARTED, SCHEDULED]
        assert len(await store.read_inbox("i")) == 1

    async def test_an_end_sent_again_is_accepted(self, store: Store) -> None:
        stamp = await begun(store)
        turn = next_turn("i", stamp, events=(COMPLETED,), outcome=outcome())

        await accepted(store, turn)
        await accepted(store, turn)

        assert await events_of(store, "i", stamp.incarnation) == [STARTED, COMPLETED]

    async def test_another_turn_after_the_end_is_refused(self, store: Store) -> None:
        stamp = await begun(store)
        end = next_turn("i", stamp, events=(COMPLETED,), outcome=outcome())
        await accepted(store, end)

        late = next_turn("i", stamp._replace(next_seq=3), events=(COMPLETED,), outcome=outcome())

        assert await store.commit([late]) == [REFUSED]
        assert await events_of(store, "i", stamp.incarnation) == [STARTED, COMPLETED]


class TestWaking:
    """`wake_at` after a commit: now for unseen messages, else the next timer."""

    async def test_an_instance_that_waits_is_not_claimable(self, store: Store) -> None:
        await begun(store)

        live = await store.read_live("i")

        assert live is not None
        assert live.wake_at_ms is None
        assert await claim(store) == []

    async def test_a_message_during_a_turn_wakes_the_instance_after_it(self, store: Store) -> None:
        await store.start([new_instance()])
        [claimed] = await claim(store)
        await store.deliver([message()])

        receipt = await accepted(store, turn_of(claimed))

        assert (receipt.last_no, receipt.has_unseen) == (2, True)
        [again] = await claim(store)
        assert [m.no for m in again.messages] == [2]

    async def test_a_seen_message_does_not_wake_it_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.start([new_instance()])
        [claimed] = await claim(store)

        receipt = await accepted(store, turn_of(claimed, next_due_ms=clock() + 7))

        assert not receipt.has_unseen
        live = await store.read_live("i")
        assert live is not None
        assert live.wake_at_ms == clock() + 7

    async def test_an_accepted_turn_ends_lease_and_attempts_and_makes_a_home(
        self, store: Store
    ) -> None:
        await store.start([new_instance()])
        [claimed] = await claim(store, "w2")

        await accepted(store, turn_of(claimed, worker_id="w2"))

        live = await store.read_live("i")
        assert live is not None
        assert (live.lease, live.lease_until_ms, live.attempts, live.home) == (0, 0, 0, "w2")

    async def test_a_message_to_oneself_is_unseen(self, store: Store) -> None:
        stamp = await begun(store)

        receipt = await accepted(store, next_turn("i", stamp, deliveries=(message(),)))

        assert receipt == TurnReceipt(TurnStatus.ACCEPTED, 1, has_unseen=True)
        assert len(await claim(store)) == 1


class TestEnds:
    """An outcome removes everything but the history and the wide row."""

    async def test_an_end_leaves_the_outcome_and_nothing_else(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store, jobs=(job(2),), timers=(timer(3, clock() + 1),))
        await store.deliver([message()])
        end = outcome(Status.FAILED, output=b'{"x":1}', reason="because \0", digest=b"d" * 16)
        clock.advance(timedelta(seconds=1))

        await accepted(store, next_turn("i", stamp, events=(COMPLETED,), outcome=end))

        assert await store.read_live("i") is None
        assert await store.read_jobs("i") == []
        assert await store.read_inbox("i") == []
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.status, row.output, row.reason) == (Status.FAILED, b'{"x":1}', "because \0")
        assert (row.digest, row.ended_ms, row.updated_ms) == (b"d" * 16, clock(), clock())

    async def test_what_an_end_sends_and_starts_is_done(self, store: Store) -> None:
        stamp = await begun(store)
        await begun(store, "other")
        child = new_instance("child")

        turn = next_turn(
            "i",
            stamp,
            outcome=outcome(),
            deliveries=(message("other"),),
            children=(ChildStart(child, message("i")),),
        )
        await accepted(store, turn)

        assert len(await store.read_inbox("other")) == 1
        assert await store.read_live("child") is not None

    async def test_an_instance_may_end_in_its_first_turn(self, store: Store) -> None:
        incarnation = await ended(store)

        assert await store.read_live("i") is None
        assert await events_of(store, "i", incarnation) == [STARTED, COMPLETED]
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert row.status is Status.COMPLETED

    async def test_an_unborn_id_that_ends_in_its_first_turn_leaves_no_inbox(
        self, store: Store
    ) -> None:
        await store.deliver([message(if_absent="buffer")])

        await ended(store)

        assert await store.read_inbox("i") == []

    async def test_an_outcome_must_be_an_end(self, store: Store) -> None:
        stamp = await begun(store)

        turn = next_turn("i", stamp, outcome=outcome(Status.RUNNING))
        assert isinstance(await failed(store, turn), RowError)

        assert await store.read_live("i") is not None

    async def test_only_what_has_ended_or_is_not_there_is_told_of_as_an_end(
        self, store: Store
    ) -> None:
        incarnation = await ended(store, "a")
        await begun(store, "b")

        found = await store.read_ends(["b", "a", "never"])

        assert found == {"a": KnownEnd(incarnation, outcome()), "never": None}
