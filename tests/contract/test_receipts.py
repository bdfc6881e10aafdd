"""What every store does with what inputs came to."""

from __future__ import annotations

from datetime import timedelta

from perdure.clock import ManualClock
from perdure.model.admin import Expiry
from perdure.model.histories.events import Body
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.turns import InputReceipt, TurnReceipt, TurnStatus
from perdure.store.base import Store
from tests.contract.store_values import (
    ORDER,
    PLACED,
    SCHEDULED,
    STARTED,
    accepted,
    begun,
    claim,
    claim_jobs,
    continuation,
    decided,
    decider,
    events_of,
    first_turn,
    given,
    job,
    next_turn,
    outcome,
    queued,
    result_of,
    token,
    turn_of,
)

ID = "order:1"
MS = timedelta(milliseconds=1)
REFUSED = TurnReceipt(TurnStatus.REFUSED)


class TestReceipts:
    """An input with an id is decided once, and what it came to is kept with the decision."""

    async def test_a_turn_keeps_what_its_inputs_came_to(self, store: Store) -> None:
        await decided(store, receipts=(given("one", "x"), given("", "y")))

        outcomes = await store.deciders.read_receipts(ID, ["y", "never", "x"])

        assert outcomes == {"x": b"one", "y": b""}
        assert await store.deciders.read_receipts(ID, []) == {}
        assert await store.deciders.read_receipts("order:2", ["x"]) == {}

    async def test_an_input_that_waits_in_the_inbox_has_a_receipt_without_outcome(
        self, store: Store
    ) -> None:
        await store.start([decider(messages=(queued(),))])

        assert await store.deciders.read_receipts(ID, ["x"]) == {"x": None}

        [claimed] = await claim(store, definitions=(ORDER,))
        await accepted(store, turn_of(claimed, receipts=(given("ok"),)))

        assert await store.deciders.read_receipts(ID, ["x"]) == {"x": b"ok"}
        assert await store.read_inbox(ID) == []

    async def test_an_input_that_was_decided_is_not_delivered_any_more(self, store: Store) -> None:
        await decided(store, receipts=(given(),))

        assert await store.deliver([queued()]) == [DeliveryStatus.DUPLICATE]
        await store.start([decider(messages=(queued(),))])

        assert await store.read_inbox(ID) == []

    async def test_a_turn_that_decides_an_input_again_is_refused(self, store: Store) -> None:
        stamp = await decided(store, receipts=(given("first"),))

        turn = next_turn(ID, stamp, events=(PLACED,), receipts=(given("y", "y"), given("second")))

        assert await store.commit([turn]) == [REFUSED]
        assert await store.deciders.read_receipts(ID, ["x", "y"]) == {"x": b"first"}
        assert await events_of(store, ID, stamp.incarnation) == [STARTED, PLACED]

    async def test_a_turn_that_decides_an_input_twice_is_refused(self, store: Store) -> None:
        stamp = await decided(store)

        turn = next_turn(ID, stamp, receipts=(given("first"), given("second")))

        assert await store.commit([turn]) == [REFUSED]
        assert await store.deciders.read_receipts(ID, ["x"]) == {}

    async def test_of_two_turns_of_one_transaction_the_first_decides_an_input(
        self, store: Store
    ) -> None:
        stamp = await decided(store)

        receipts = await store.commit(
            [next_turn(ID, stamp, receipts=(given(text),)) for text in ("first", "second")]
        )

        assert [receipt.status for receipt in receipts] == ["accepted", "refused"]
        assert await store.deciders.read_receipts(ID, ["x"]) == {"x": b"first"}

    async def test_results_of_jobs_are_kept_when_an_input_was_decided_before(
        self, store: Store
    ) -> None:
        stamp = await decided(store, receipts=(given(),), jobs=(job(2),))
        [claimed] = await claim_jobs(store)
        end = result_of(claimed.key, claimed.token)

        turn = next_turn(ID, stamp, job_ends=(end,), receipts=(given(),))

        assert await store.commit([turn]) == [REFUSED._replace(ends_kept=(True,))]
        assert [message.kind for message in await store.read_inbox(ID)] == ["activity_completed"]

    async def test_an_input_that_waits_goes_when_it_is_decided_on_another_way(
        self, store: Store
    ) -> None:
        """It was sent and given directly at the same time; the direct way was faster."""
        stamp = await decided(store)
        await store.deliver([queued(input_id="a"), queued(input_id="x"), queued(input_id="b")])

        await accepted(store, next_turn(ID, stamp, receipts=(given(),)))

        assert [message.no for message in await store.read_inbox(ID)] == [1, 3]
        assert await store.deciders.read_receipts(ID, ["a", "x"]) == {"a": None, "x": b"ok"}

    async def test_a_turn_sent_again_is_accepted_with_its_receipts(self, store: Store) -> None:
        stamp = await decided(store)
        turn = next_turn(ID, stamp, receipts=(given(),))

        assert await store.commit([turn]) == await store.commit([turn])

        assert await store.deciders.read_receipts(ID, ["x"]) == {"x": b"ok"}

    async def test_a_refused_turn_leaves_no_receipt(self, store: Store) -> None:
        stamp = await decided(store)

        turn = next_turn(ID, stamp._replace(next_seq=9), receipts=(given(),))

        assert await store.commit([turn]) == [REFUSED]
        assert await store.deciders.read_receipts(ID, ["x"]) == {}

    async def test_receipts_outlive_the_end_and_expire_like_others(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await decided(store, receipts=(given("live", "w"),))
        await decided(store, "order:2", receipts=(given("live"),))
        end = next_turn(ID, stamp, events=(PLACED,), receipts=(given(),), outcome=outcome())
        await accepted(store, end)
        assert await store.deciders.read_receipts(ID, ["x"]) == {"x": b"ok"}
        clock.advance(MS)

        assert await store.admin.expire(Expiry(receipts_before_ms=clock()), limit=9) == 2

        assert await store.deciders.read_receipts(ID, ["w", "x"]) == {}
        assert await store.deciders.read_receipts("order:2", ["x"]) == {"x": b"live"}

    async def test_receipts_go_with_their_instance(self, store: Store) -> None:
        stamp = await decided(store, receipts=(given(),))

        await store.admin.delete([(ID, stamp.incarnation)], force=True)

        assert await store.deciders.read_receipts(ID, ["x"]) == {}
        await decided(store, receipts=(given("again"),))
        assert await store.deciders.read_receipts(ID, ["x"]) == {"x": b"again"}


class TestSettledInputs:
    """Outcomes of inputs that changed nothing are kept without a turn."""

    async def test_outcomes_are_kept_for_an_instance_that_is_there_or_not(
        self, store: Store
    ) -> None:
        stamp = await decided(store)

        assert await store.deciders.settle_inputs(ID, [given("no"), given("nor", "y")]) == [
            b"no",
            b"nor",
        ]
        assert await store.deciders.settle_inputs("order:2", [given("no")]) == [b"no"]
        assert await store.deciders.settle_inputs(ID, []) == []

        assert await store.deciders.read_receipts(ID, ["x", "y"]) == {"x": b"no", "y": b"nor"}
        assert await store.deciders.read_receipts("order:2", ["x"]) == {"x": b"no"}
        live = await store.read_live(ID)
        assert live is not None
        assert live.stamp == stamp
        assert await store.read_live("order:2") is None

    async def test_an_outcome_is_kept_on_the_state_it_was_decided_on_alone(
        self, store: Store
    ) -> None:
        """A database that has gone back meanwhile may have another one."""
        stamp = await decided(store)
        another = stamp._replace(commit_id=stamp.commit_id + 1)
        not_there = stamp._replace(commit_id=0)

        assert await store.deciders.settle_inputs(ID, [given("no")], stamp=another) is None
        assert await store.deciders.settle_inputs(ID, [given("no")], stamp=not_there) is None
        assert await store.deciders.settle_inputs("order:2", [given("no")], stamp=stamp) is None
        assert await store.deciders.read_receipts(ID, ["x"]) == {}

        assert await store.deciders.settle_inputs(ID, [given("no")], stamp=stamp) == [b"no"]
        assert await store.deciders.settle_inputs("order:2", [given("no")], stamp=not_there) == [
            b"no"
        ]
        assert await store.deciders.read_receipts(ID, ["x"]) == {"x": b"no"}

    async def test_an_earlier_outcome_counts(self, store: Store) -> None:
        await decided(store, receipts=(given("first"),))

        outcomes = await store.deciders.settle_inputs(ID, [given("second"), given("new", "y")])
        again = await store.deciders.settle_inputs(ID, [given("third", "y")])

        assert (outcomes, again) == ([b"first", b"new"], [b"new"])
        assert await store.deciders.read_receipts(ID, ["x", "y"]) == {"x": b"first", "y": b"new"}

    async def test_of_one_input_given_twice_the_first_outcome_counts(self, store: Store) -> None:
        outcomes = await store.deciders.settle_inputs(ID, [given("first"), given("second")])

        assert outcomes == [b"first", b"first"]
        assert await store.deciders.read_receipts(ID, ["x"]) == {"x": b"first"}

    async def test_a_turn_after_it_is_refused(self, store: Store) -> None:
        stamp = await decided(store)
        await store.deciders.settle_inputs(ID, [given("no")])

        turn = next_turn(ID, stamp, events=(PLACED,), receipts=(given("yes"),))

        assert await store.commit([turn]) == [REFUSED]
        assert await store.deciders.read_receipts(ID, ["x"]) == {"x": b"no"}

    async def test_an_input_that_waits_goes_and_whoever_took_it_is_refused(
        self, store: Store
    ) -> None:
        stamp = await decided(store)
        await store.deliver([queued(), queued(input_id="y")])
        [claimed] = await claim(store, definitions=(ORDER,))

        await store.deciders.settle_inputs(ID, [given("no")])

        late = turn_of(claimed, receipts=(given("yes"), given("yes", "y")))
        assert await store.commit([late]) == [REFUSED]
        [again] = await claim(store, definitions=(ORDER,))
        assert [message.no for message in again.messages] == [2]
        assert again.stamp.place == stamp.place
        await accepted(store, turn_of(again, receipts=(given("yes", "y"),)))
        assert await store.deciders.read_receipts(ID, ["x", "y"]) == {"x": b"no", "y": b"yes"}

    async def test_nothing_is_delivered_under_an_id_that_was_settled(self, store: Store) -> None:
        await store.deciders.settle_inputs(ID, [given("no")])

        assert await store.start([decider(messages=(queued(),))]) == [None]

        assert [message.kind for message in await store.read_inbox(ID)] == ["started"]

    async def test_bodies_are_bytes(self, store: Store) -> None:
        odd = bytes(range(256))
        first = first_turn(decider(), events=(STARTED, Body("x", odd)))
        await accepted(store, first)

        await store.deciders.settle_inputs(ID, [given("no")._replace(outcome=odd)])

        assert await store.deciders.read_receipts(ID, ["x"]) == {"x": odd}


class TestAnswersOfOrchestrations:
    """Receipts that keep the first outcome, and refuse nothing: updates leave such."""

    async def test_an_answer_is_kept_with_the_turn(self, store: Store) -> None:
        stamp = await begun(store)
        await store.deliver([asked("u")])
        assert await store.deciders.read_receipts("i", ["u"]) == {"u": None}

        await accepted(store, next_turn("i", stamp, events=(SCHEDULED,), receipts=(answer("yes"),)))

        assert await store.deciders.read_receipts("i", ["u"]) == {"u": b"yes"}

    async def test_asked_again_after_its_answer_it_is_not_delivered(self, store: Store) -> None:
        stamp = await begun(store)
        await accepted(store, next_turn("i", stamp, events=(SCHEDULED,), receipts=(answer("yes"),)))

        assert await store.deliver([asked("u")]) == [DeliveryStatus.DUPLICATE]

    async def test_a_second_answer_changes_nothing_and_harms_nothing(self, store: Store) -> None:
        stamp = await begun(store)
        first = next_turn("i", stamp, events=(SCHEDULED,), receipts=(answer("yes"),))
        await accepted(store, first)

        second = next_turn(
            "i",
            first.next_stamp,
            events=(SCHEDULED,),
            receipts=(answer("no"), answer("new", "v"), answer("old", "v")),
        )
        await accepted(store, second)

        assert await store.deciders.read_receipts("i", ["u", "v"]) == {"u": b"yes", "v": b"new"}

    async def test_a_refused_turn_answers_nothing(self, store: Store) -> None:
        stamp = await begun(store)
        elsewhere = stamp._replace(commit_id=token())

        turn = next_turn("i", elsewhere, events=(SCHEDULED,), receipts=(answer("yes"),))

        assert await store.commit([turn]) == [REFUSED]
        assert await store.deciders.read_receipts("i", ["u"]) == {}

    async def test_the_end_and_the_next_execution_keep_answers(self, store: Store) -> None:
        stamp = await begun(store)
        turn = next_turn(
            "i", stamp, events=(SCHEDULED,), receipts=(answer("yes"),), continued=continuation()
        )
        await accepted(store, turn)

        assert await store.deciders.read_receipts("i", ["u"]) == {"u": b"yes"}


def answer(outcome: str, update_id: str = "u") -> InputReceipt:
    return InputReceipt(update_id, outcome.encode(), keeps_first=True)


def asked(update_id: str) -> Delivery:
    return Delivery(
        instance_id="i",
        kind="signal_received",
        body=b"{}",
        message_id=update_id,
        if_absent="refuse",
    )


class TestArrivals:
    """Messages that a turn took without the inbox count as delivered with it."""

    async def test_it_has_a_receipt_and_is_not_delivered_again(self, store: Store) -> None:
        stamp = await begun(store)

        await accepted(store, next_turn("i", stamp, events=(SCHEDULED,), arrived=("u",)))

        assert await store.deciders.read_receipts("i", ["u"]) == {"u": None}
        assert await store.deliver([asked("u")]) == [DeliveryStatus.DUPLICATE]

    async def test_answered_in_the_same_turn_it_has_one_receipt(self, store: Store) -> None:
        stamp = await begun(store)
        turn = next_turn(
            "i", stamp, events=(SCHEDULED,), arrived=("u", "v"), receipts=(answer("yes"),)
        )

        await accepted(store, turn)

        assert await store.deciders.read_receipts("i", ["u", "v"]) == {"u": b"yes", "v": None}
        later = next_turn("i", turn.next_stamp, events=(SCHEDULED,), receipts=(answer("w", "v"),))
        await accepted(store, later)
        assert await store.deciders.read_receipts("i", ["u", "v"]) == {"u": b"yes", "v": b"w"}

    async def test_what_was_delivered_before_does_not_arrive_again(self, store: Store) -> None:
        stamp = await begun(store)
        first = next_turn("i", stamp, events=(SCHEDULED,), arrived=("u",))
        await accepted(store, first)

        again = next_turn("i", first.next_stamp, events=(SCHEDULED,), arrived=("u",))

        assert await store.commit([again]) == [REFUSED]

    async def test_sent_again_the_same_turn_is_accepted_once(self, store: Store) -> None:
        stamp = await begun(store)
        turn = next_turn("i", stamp, events=(SCHEDULED,), arrived=("u",))
        await accepted(store, turn)

        [again] = await store.commit([turn])

        assert again.status is TurnStatus.ACCEPTED
        assert len(await events_of(store, "i", stamp.incarnation)) == stamp.next_seq

    async def test_it_overtakes_no_message_that_the_turn_does_not_know(self, store: Store) -> None:
        stamp = await begun(store)
        await store.deliver([asked("first")])

        turn = next_turn("i", stamp, events=(SCHEDULED,), arrived=("u",))

        assert await store.commit([turn]) == [REFUSED]
        assert await store.deciders.read_receipts("i", ["u"]) == {}
