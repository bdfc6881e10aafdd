"""What every store does with starts, messages, children and holds."""

from __future__ import annotations

from datetime import timedelta

from perdure.clock import ManualClock
from perdure.model.blocked import MAX_TRIES
from perdure.model.instances import Stamp, Status
from perdure.model.messages import DeliveryStatus
from perdure.model.turns import ChildStart, Hold
from perdure.store.base import Store
from tests.contract.store_values import (
    LEASE_MS,
    STARTED,
    accepted,
    begun,
    claim,
    claim_blocked,
    continuation,
    ended,
    events_of,
    first_turn,
    message,
    new_instance,
    next_turn,
    outcome,
    timer,
    token,
    turn_of,
)

SECOND = timedelta(seconds=1)


class TestStarts:
    """Starts whose first turn is somebody's claim."""

    async def test_a_started_instance_is_claimable_with_its_start(self, store: Store) -> None:
        start = new_instance()

        assert await store.start([start]) == [None]

        [claimed] = await claim(store)
        assert claimed.stamp == Stamp(start.incarnation, 1, 1, start.commit_id)
        assert [(m.no, m.kind, m.body) for m in claimed.messages] == [(1, *STARTED)]
        assert (claimed.attempts, claimed.last_no) == (1, 1)

    async def test_a_taken_id_is_left_alone_and_returned(self, store: Store) -> None:
        first = new_instance(input=b"1")
        old = await ended(store, "old")

        rows = await store.start(
            [first, new_instance(input=b"2"), new_instance("old"), new_instance("fresh")]
        )

        assert rows[0] is rows[3] is None
        assert rows[1] is not None
        assert (rows[1].incarnation, rows[1].input) == (first.incarnation, b"1")
        assert rows[2] is not None
        assert (rows[2].incarnation, rows[2].status) == (old, Status.COMPLETED)

    async def test_a_start_sent_again_is_accepted_once(self, store: Store) -> None:
        start = new_instance(commit_id=token())

        assert await store.start([start]) == [None]
        assert await store.start([start]) == [None]

        assert len(await store.read_inbox("i")) == 1

    async def test_an_ended_id_is_replaced_only_by_name(self, store: Store) -> None:
        old = await ended(store)

        [wrong] = await store.start([new_instance(replaces=old + 1)])
        [right] = await store.start([new_instance(replaces=old)])

        assert wrong is not None
        assert right is None
        assert await events_of(store, "i", old) == []

    async def test_a_live_id_is_never_replaced(self, store: Store) -> None:
        stamp = await begun(store)

        [row] = await store.start([new_instance(replaces=stamp.incarnation)])

        assert row is not None
        assert row.incarnation == stamp.incarnation

    async def test_a_replaced_instance_forgets_its_receipts(self, store: Store) -> None:
        await begun(store)
        await store.deliver([message(message_id="m")])
        live = await store.read_live("i")
        assert live is not None
        await accepted(store, next_turn("i", live.stamp, outcome=outcome()))
        await store.start([new_instance(replaces=live.stamp.incarnation)])

        assert await store.deliver([message(message_id="m")]) == [DeliveryStatus.DELIVERED]

    async def test_a_delayed_start_waits_whatever_is_sent_to_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.start([new_instance(visible_at_ms=clock() + 1_000)])
        await store.deliver([message()])

        assert await claim(store) == []
        clock.advance(SECOND)
        [claimed] = await claim(store)
        assert [m.kind for m in claimed.messages] == ["started", "signal_received"]

    async def test_messages_sent_before_the_start_come_after_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        texts = ["a", "b"]
        statuses = await store.deliver([message(text=t, if_absent="buffer") for t in texts])
        assert statuses == [DeliveryStatus.BUFFERED] * 2
        assert await claim(store) == []
        clock.advance(SECOND)

        await store.start([new_instance()])

        [claimed] = await claim(store)
        assert [m.body for m in claimed.messages] == [STARTED.body, b"a", b"b"]
        assert [m.no for m in claimed.messages] == [3, 1, 2]


class TestDeliveries:
    """Messages are numbered, ordered, deduplicated, and reach only whom they are meant for."""

    async def test_a_message_wakes_a_waiting_instance(self, store: Store) -> None:
        await begun(store)

        assert await store.deliver([message()]) == [DeliveryStatus.DELIVERED]

        [claimed] = await claim(store)
        assert [(m.no, m.body) for m in claimed.messages] == [(1, b"hello")]

    async def test_nobody_gets_what_is_meant_for_somebody_else(self, store: Store) -> None:
        stamp = await begun(store)
        await ended(store, "old")

        statuses = await store.deliver(
            [
                message(incarnation=stamp.incarnation, execution=1),
                message(incarnation=stamp.incarnation + 1),
                message(execution=2),
                message("old"),
                message("old", incarnation=5),
                message("old", if_absent="buffer"),
                message("never"),
                message("never", if_absent="refuse"),
                message("never", if_absent="buffer", incarnation=5),
            ]
        )

        assert statuses == [
            "delivered",
            "absent",
            "absent",
            "ended",
            "absent",
            "ended",
            "absent",
            "absent",
            "absent",
        ]
        assert await store.read_live("never") is None

    async def test_a_message_is_delivered_once_for_its_id(self, store: Store) -> None:
        stamp = await begun(store)

        first = await store.deliver([message(message_id="m"), message(message_id="m")])
        [claimed] = await claim(store)
        await accepted(store, turn_of(claimed))
        consumed = await store.deliver([message(message_id="m")])
        other = await store.deliver([message(message_id="n"), message("j", message_id="m")])

        assert first == ["delivered", "duplicate"]
        assert consumed == ["duplicate"]
        assert other == ["delivered", "absent"]
        assert claimed.stamp == stamp

    async def test_of_calls_that_give_one_message_the_first_hears_again_that_it_was(
        self, store: Store
    ) -> None:
        """Its answer was lost, and it is run again where that cannot be found out otherwise."""
        await begun(store)
        ours, theirs = [message(message_id="m", call_id=one) for one in ("call:1", "call:2")]

        first = [*(await store.deliver([ours])), *(await store.deliver([ours]))]
        others = [*(await store.deliver([theirs])), *(await store.deliver([theirs]))]
        [claimed] = await claim(store)
        await accepted(store, turn_of(claimed))
        after = [*(await store.deliver([ours, theirs])), *(await store.deliver([theirs]))]

        assert len(claimed.messages) == 1
        assert first == ["delivered", "delivered"]
        assert others == ["duplicate", "duplicate"]
        assert after == ["delivered", "duplicate", "duplicate"]

    async def test_a_buffered_message_is_kept_once_for_its_id(self, store: Store) -> None:
        early = message(message_id="m", if_absent="buffer")

        statuses = [*(await store.deliver([early])), *(await store.deliver([early]))]
        await store.start([new_instance()])
        statuses += await store.deliver([early])

        assert statuses == ["buffered", "duplicate", "duplicate"]

    async def test_arrival_times_never_decrease(self, store: Store, clock: ManualClock) -> None:
        await begun(store)
        at_ms = clock()
        await store.deliver([message(text="a")])

        clock.now_ms -= 5_000
        await store.deliver([message(text="b")])
        [claimed] = await claim(store)

        assert [(m.body, m.effective_at_ms) for m in claimed.messages] == [
            (b"a", at_ms),
            (b"b", at_ms),
        ]

    async def test_an_arrival_by_a_wrong_clock_counts_only_while_it_waits(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store)
        right_ms = clock()
        clock.advance(timedelta(days=3650))
        await store.deliver([message(text="a")])
        clock.now_ms = right_ms

        await store.deliver([message(text="b")])
        [claimed] = await claim(store)
        await accepted(store, turn_of(claimed))
        await store.deliver([message(text="c")])
        [later] = await claim(store)

        assert [m.body for m in claimed.messages] == [b"a", b"b"]
        assert [(m.body, m.effective_at_ms) for m in later.messages] == [(b"c", right_ms)]

    async def test_messages_are_applied_by_effective_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        """After an outage a result that came in time beats the timeout."""
        now = clock()
        timers = (timer(3, now + 3_000), timer(2, now + 1_000), timer(4, now + 2_000))
        await begun(store, timers=timers, next_due_ms=now + 1_000)
        clock.advance(2 * SECOND)
        await store.deliver([message(text="same time as timer 4")])
        clock.advance(2 * SECOND)
        await store.deliver([message(text="late")])

        [claimed] = await claim(store)

        assert [m.timer_key or m.body.decode() for m in claimed.messages] == [
            "timer:2",
            "same time as timer 4",
            "timer:4",
            "timer:3",
            "late",
        ]
        assert list(claimed.messages) == await store.read_inbox("i")

    async def test_an_inbox_of_ten_thousand_is_taken_in_order_and_whole(self, store: Store) -> None:
        await begun(store)
        texts = [f"{number:05}" for number in range(10_000)]
        await store.deliver([message(text=text) for text in texts])

        taken: list[str] = []
        for _ in range(10):
            [claimed] = await claim(store)
            assert len(claimed.messages) == 1_000
            taken += [m.body.decode() for m in claimed.messages]
            receipt = await accepted(store, turn_of(claimed))
            assert receipt.has_unseen == (len(taken) < 10_000)

        assert taken == texts
        assert await claim(store) == []

    async def test_messages_of_many_bytes_are_taken_in_several_claims(self, store: Store) -> None:
        await begun(store)
        large = "x" * 2 * 1024 * 1024
        await store.deliver([message(text=f"{number}{large}") for number in range(12)])

        taken: list[bytes] = []
        claims = 0
        while claimed := await claim(store):
            claims += 1
            taken += [m.body[:1] for m in claimed[0].messages]
            await accepted(store, turn_of(claimed[0], events=()))

        assert claims == 2
        assert len(taken) == 12


class TestChildren:
    """Instances started by turns."""

    async def test_a_child_is_started_with_its_parent_s_turn(self, store: Store) -> None:
        child = new_instance("child", parent_id="i", parent_incarnation=4)

        await begun(store, children=(ChildStart(child, message(text="taken")),))

        assert await store.read_inbox("i") == []
        [claimed] = await claim(store)
        assert (claimed.instance_id, claimed.stamp) == (
            "child",
            Stamp(child.incarnation, 1, 1, child.commit_id),
        )

    async def test_a_parent_hears_that_an_id_is_taken(self, store: Store) -> None:
        await begun(store, "child")

        receipt = await accepted(
            store,
            first_turn(
                new_instance(),
                children=(ChildStart(new_instance("child"), message(text="taken")),),
            ),
        )

        assert receipt.has_unseen
        [claimed] = await claim(store)
        assert [(claimed.instance_id, m.body) for m in claimed.messages] == [("i", b"taken")]

    async def test_a_child_started_twice_by_one_start_is_no_clash(self, store: Store) -> None:
        child = ChildStart(new_instance("child"), message(text="taken"))
        stamp = await begun(store, children=(child,))

        await accepted(store, next_turn("i", stamp, children=(child,)))

        assert await store.read_inbox("i") == []

    async def test_a_signal_sent_to_a_child_in_the_same_turn_arrives(self, store: Store) -> None:
        child = ChildStart(new_instance("child"), message())

        await begun(store, children=(child,), deliveries=(message("child", "first"),))

        [claimed] = await claim(store)
        assert [m.body for m in claimed.messages] == [STARTED.body, b"first"]


class TestHolds:
    """Blocked and parked instances keep their messages and are not claimed."""

    @staticmethod
    def _hold(stamp: Stamp, *, lease: int = 0, by: str = "c1") -> Hold:
        status = Status.PARKED if by == "*" else Status.BLOCKED
        return Hold("i", stamp, lease, status, by, "does not fit \0")

    async def test_a_blocked_instance_waits_for_other_code(self, store: Store) -> None:
        await store.start([new_instance()])
        [claimed] = await claim(store, code="c1")

        assert await store.hold([self._hold(claimed.stamp, lease=claimed.lease)]) == [True]

        assert await claim(store, code="c2") == []
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.status, row.reason) == (Status.BLOCKED, "does not fit \0")
        assert await claim_blocked(store, code="c1") == []
        [again] = await claim_blocked(store, code="c2")
        assert again.attempts == 1
        await accepted(store, turn_of(again))
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.status, row.reason) == (Status.RUNNING, None)

    async def test_code_that_did_not_fit_takes_the_instance_no_more(self, store: Store) -> None:
        """It would block it again and again while other code goes on with it."""
        stamp = await begun(store)
        await store.hold([self._hold(stamp)])
        [taken] = await claim_blocked(store, code="c2")
        await accepted(store, turn_of(taken))
        await store.deliver([message()])

        assert await claim_blocked(store, code="c3") == []
        assert not await store.unpark("i")
        assert await claim(store, code="c1") == []
        assert len(await claim(store, code="c2")) == 1

    async def test_code_that_did_not_fit_takes_what_was_continued(self, store: Store) -> None:
        """The next execution has a history of its own."""
        stamp = await begun(store)
        await store.hold([self._hold(stamp)])
        [taken] = await claim_blocked(store, code="c2")
        await accepted(store, turn_of(taken, continued=continuation()))

        assert len(await claim(store, code="c1")) == 1

    async def test_no_code_is_tried_twice_and_one_digest_not_for_ever(self, store: Store) -> None:
        stamp = await begun(store)
        await store.hold([self._hold(stamp, by="d1/0000")])
        tries = 1
        while found := await claim_blocked(store, code=f"d1/{tries:04}"):
            await store.hold([self._hold(stamp, lease=found[0].lease, by=f"d1/{tries:04}")])
            assert await claim_blocked(store, code=f"d1/{tries:04}") == []
            tries += 1

        assert tries == MAX_TRIES
        [claimed] = await claim_blocked(store, code="d2/0000")
        assert claimed.attempts == 1
        await store.hold([self._hold(stamp, lease=claimed.lease, by="d2/0000")])
        assert await claim_blocked(store, code="d1/0000") == []

    async def test_what_is_being_tried_is_left_alone_until_the_lease_is_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store)
        await store.hold([self._hold(stamp)])
        await claim_blocked(store, code="c2")

        assert await claim_blocked(store, code="c3") == []
        clock.advance(timedelta(milliseconds=LEASE_MS + 1))
        assert await claim(store, code="c1") == []
        [again] = await claim(store, code="c3")
        assert again.attempts == 2

    async def test_a_held_instance_gets_messages_and_sleeps_on(self, store: Store) -> None:
        stamp = await begun(store)
        await store.hold([self._hold(stamp)])

        assert await store.deliver([message()]) == ["delivered"]

        assert await claim(store, code="c2") == []
        assert len(await store.read_inbox("i")) == 1

    async def test_a_parked_instance_waits_for_an_operator(self, store: Store) -> None:
        stamp = await begun(store)
        await store.deliver([message()])
        await store.hold([self._hold(stamp, by="*")])

        assert await claim_blocked(store, code="c2") == []
        assert await store.unpark("i")
        assert not await store.unpark("i")

        [claimed] = await claim(store)
        assert (claimed.attempts, len(claimed.messages)) == (1, 1)
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.status, row.reason) == (Status.RUNNING, None)

    async def test_a_hold_needs_the_stamp_and_the_lease(self, store: Store) -> None:
        await store.start([new_instance()])
        [claimed] = await claim(store)

        answers = await store.hold(
            [
                self._hold(claimed.stamp._replace(next_seq=7), lease=claimed.lease),
                self._hold(claimed.stamp, lease=token()),
                self._hold(claimed.stamp),
                Hold("never", claimed.stamp, 0, Status.PARKED, "*", ""),
                self._hold(claimed.stamp, lease=claimed.lease),
            ]
        )

        assert answers == [False, False, False, False, True]

    async def test_an_operator_does_not_take_a_lease_away(self, store: Store) -> None:
        stamp = await begun(store)
        await store.deliver([message()])
        await store.hold([self._hold(stamp)])
        [claimed] = await claim_blocked(store, code="c2")

        assert await store.unpark("i")

        assert await claim(store, "w2", code="c3") == []
        await accepted(store, turn_of(claimed))
