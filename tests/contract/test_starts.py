"""What every store does with starts that bring messages, detached starts and late starts."""

from __future__ import annotations

from datetime import timedelta

from perdure.clock import ManualClock
from perdure.model.jobs import JobEnd
from perdure.model.turns import ChildStart, TurnStatus
from perdure.store.base import Store
from tests.contract.store_values import (
    STARTED,
    accepted,
    begun,
    claim,
    claim_jobs,
    ended,
    first_turn,
    job,
    message,
    new_instance,
    next_turn,
    outcome,
    start_timer,
    timer,
    token,
    turn_of,
)

SECOND = timedelta(seconds=1)


class TestStartsWithMessages:
    """Messages that come with a start are delivered in the same commit."""

    async def test_messages_come_after_the_start(self, store: Store) -> None:
        start = new_instance(messages=(message(text="a"), message(text="b")))

        assert await store.start([start]) == [None]

        [claimed] = await claim(store)
        assert [m.body for m in claimed.messages] == [STARTED.body, b"a", b"b"]

    async def test_messages_are_delivered_to_an_instance_that_lives_already(
        self, store: Store
    ) -> None:
        stamp = await begun(store)

        [row] = await store.start([new_instance(messages=(message(text="a"),))])

        assert row is not None
        assert row.incarnation == stamp.incarnation
        [claimed] = await claim(store)
        assert [m.body for m in claimed.messages] == [b"a"]

    async def test_nothing_is_delivered_when_the_id_has_ended(self, store: Store) -> None:
        await ended(store)

        [row] = await store.start([new_instance(messages=(message(message_id="m"),))])

        assert row is not None
        assert await store.read_inbox("i") == []
        assert await store.read_live("i") is None

    async def test_messages_reach_the_instance_that_replaces_an_ended_one(
        self, store: Store
    ) -> None:
        old = await ended(store)

        await store.start([new_instance(replaces=old, messages=(message(text="a"),))])

        [claimed] = await claim(store)
        assert [m.body for m in claimed.messages] == [STARTED.body, b"a"]

    async def test_a_start_sent_again_delivers_its_messages_once(self, store: Store) -> None:
        start = new_instance(commit_id=token(), messages=(message(text="a"),))

        assert await store.start([start]) == [None]
        assert await store.start([start]) == [None]

        assert [m.body for m in await store.read_inbox("i")] == [STARTED.body, b"a"]

    async def test_a_message_with_an_id_is_delivered_once_however_often_it_comes(
        self, store: Store
    ) -> None:
        hello = message(text="a", message_id="m")

        for _ in range(3):
            await store.start([new_instance(messages=(hello,))])

        assert await store.deliver([hello]) == ["duplicate"]
        assert [m.body for m in await store.read_inbox("i")] == [STARTED.body, b"a"]

    async def test_a_first_turn_hears_of_messages_that_came_with_its_start(
        self, store: Store
    ) -> None:
        start = new_instance(messages=(message(text="a"),))

        receipt = await accepted(store, first_turn(start))

        assert receipt.has_unseen
        [claimed] = await claim(store)
        assert [m.body for m in claimed.messages] == [b"a"]

    async def test_a_first_turn_of_a_taken_id_still_delivers(self, store: Store) -> None:
        await begun(store)
        await ended(store, "old")

        receipts = await store.commit(
            [
                first_turn(new_instance(messages=(message(text="a"),))),
                first_turn(new_instance("old", messages=(message("old"),))),
            ]
        )

        assert [receipt.status for receipt in receipts] == [TurnStatus.TAKEN] * 2
        assert [m.body for m in await store.read_inbox("i")] == [b"a"]
        assert await store.read_inbox("old") == []

    async def test_a_delayed_start_waits_with_its_messages(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.start(
            [new_instance(visible_at_ms=clock() + 1_000, messages=(message(text="a"),))]
        )

        assert await claim(store) == []
        clock.advance(SECOND)
        [claimed] = await claim(store)
        assert [m.body for m in claimed.messages] == [STARTED.body, b"a"]


class TestHurriedStarts:
    """A request to stop does not wait for a start that is delayed."""

    async def test_a_message_that_hurries_begins_a_delayed_start(
        self, store: Store, clock: ManualClock
    ) -> None:
        later_ms = clock() + 3_600_000
        await store.start([new_instance(visible_at_ms=later_ms)])
        await store.deliver([message(text="patient")])
        assert await claim(store) == []

        await store.deliver([message(text="stop", hurries=True)])

        [claimed] = await claim(store)
        assert [m.body for m in claimed.messages] == [STARTED.body, b"patient", b"stop"]

    async def test_a_message_that_hurries_wakes_nothing_that_is_leased(self, store: Store) -> None:
        await store.start([new_instance()])
        [held] = await claim(store)

        await store.deliver([message(text="stop", hurries=True)])

        assert await claim(store) == []
        live = await store.read_live("i")
        assert live is not None
        assert live.lease == held.lease


class TestDetachedStarts:
    """The owner hears at once what became of an instance that it started."""

    async def test_an_owner_hears_that_an_instance_was_started(self, store: Store) -> None:
        child = ChildStart(new_instance("new"), message(text="taken"), message(text="started"))

        receipt = await accepted(store, first_turn(new_instance(), children=(child,)))

        assert receipt.has_unseen
        assert [m.body for m in await store.read_inbox("i")] == [b"started"]
        assert await store.read_live("new") is not None

    async def test_an_owner_hears_that_the_id_is_taken(self, store: Store) -> None:
        await ended(store, "old")
        child = ChildStart(new_instance("old"), message(text="taken"), message(text="started"))

        await begun(store, children=(child,))

        assert [m.body for m in await store.read_inbox("i")] == [b"taken"]

    async def test_a_turn_sent_again_starts_and_answers_once(self, store: Store) -> None:
        child = ChildStart(new_instance("new"), message(text="taken"), message(text="started"))
        turn = first_turn(new_instance(), children=(child,))

        first = await store.commit([turn])
        second = await store.commit([turn])

        assert first == second
        assert [m.body for m in await store.read_inbox("i")] == [b"started"]
        assert len(await store.read_inbox("new")) == 1

    async def test_a_start_is_honoured_when_its_owner_ends(self, store: Store) -> None:
        stamp = await begun(store)
        child = ChildStart(new_instance("new"), message(text="taken"), message(text="started"))

        await accepted(store, next_turn("i", stamp, children=(child,), outcome=outcome()))

        assert await store.read_live("new") is not None
        assert await store.read_inbox("i") == []

    async def test_a_child_may_start_later(self, store: Store, clock: ManualClock) -> None:
        later = new_instance("child", visible_at_ms=clock() + 1_000)

        await begun(store, children=(ChildStart(later, message()),))

        assert await claim(store) == []
        clock.advance(SECOND)
        assert [claimed.instance_id for claimed in await claim(store)] == ["child"]


class TestLateStarts:
    """A job that must start in time has a timer until somebody claims it."""

    async def test_the_claim_of_a_job_removes_its_timer(
        self, store: Store, clock: ManualClock
    ) -> None:
        due = clock() + 1_000
        await begun(
            store,
            jobs=(job(2, start_by_ms=due), job(3, start_by_ms=due)),
            timers=(start_timer(2, due), start_timer(3, due), timer(4, due)),
            next_due_ms=due,
        )

        [claimed] = await claim_jobs(store, limit=1)

        assert claimed.key.seq == 2
        assert [m.timer_key for m in await store.read_inbox("i")] == ["start:3", "timer:4"]
        [_, waiting] = await store.read_jobs("i")
        assert waiting.start_by_ms == due

    async def test_a_job_that_nobody_claims_in_time_wakes_its_owner(
        self, store: Store, clock: ManualClock
    ) -> None:
        due = clock() + 1_000
        await begun(
            store,
            jobs=(job(2, start_by_ms=due),),
            timers=(start_timer(2, due),),
            next_due_ms=due,
        )

        clock.advance(SECOND)

        [claimed] = await claim(store)
        assert [m.timer_key for m in claimed.messages] == ["start:2"]
        await accepted(store, turn_of(claimed, jobs_gone=(2,)))
        assert await claim_jobs(store) == []

    async def test_a_job_that_starts_with_its_commit_needs_no_timer(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(
            store,
            jobs=(job(2, leased=True, start_by_ms=clock() + 1),),
            jobs_leased_until_ms=clock() + 10,
        )

        [running] = await store.read_jobs("i")

        assert running.start_by_ms is None

    async def test_a_retry_starts_whenever_it_may(self, store: Store, clock: ManualClock) -> None:
        due = clock() + 1_000
        stamp = await begun(
            store, jobs=(job(2, start_by_ms=due),), timers=(start_timer(2, due),), next_due_ms=due
        )
        [first] = await claim_jobs(store)
        # A timer of that name set later is somebody else's.
        await accepted(store, next_turn("i", stamp, timers=(start_timer(2, due),)))
        await store.end_jobs([JobEnd(key=first.key, token=first.token, retry_at_ms=0)])

        [second] = await claim_jobs(store)

        assert second.attempt == 2
        assert len(await store.read_inbox("i")) == 1

    async def test_a_timer_that_a_claim_removed_does_not_wake_its_owner_for_ever(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The owner is not told that the timer is gone, and counts on it still."""
        due = clock() + 1_000
        later = clock() + 9_000
        await begun(
            store,
            jobs=(job(2, start_by_ms=due),),
            timers=(start_timer(2, due), timer(3, later)),
            next_due_ms=due,
        )
        await claim_jobs(store)
        clock.advance(SECOND)

        [in_vain] = await claim(store)
        assert in_vain.messages == ()
        await accepted(store, turn_of(in_vain, next_due_ms=due))

        live = await store.read_live("i")
        assert live is not None
        assert live.wake_at_ms == later
        assert await claim(store) == []

    async def test_a_timer_that_is_due_and_there_wakes_its_owner_at_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        due = clock() + 1_000
        stamp = await begun(store, timers=(timer(3, due),), next_due_ms=due)
        clock.advance(2 * SECOND)

        await accepted(store, next_turn("i", stamp, next_due_ms=due))

        [claimed] = await claim(store)
        assert [m.timer_key for m in claimed.messages] == ["timer:3"]
