"""What every store does with instances whose first turn accepts nothing."""

from __future__ import annotations

from perdure.errors import RowError
from perdure.model.histories.events import Body
from perdure.model.messages import DeliveryStatus
from perdure.model.turns import Turn, TurnReceipt, TurnStatus
from perdure.store.base import Store
from tests.contract.store_values import (
    ORDER,
    PLACED,
    STARTED,
    accepted,
    claim,
    decided,
    decider,
    events_of,
    failed,
    first_turn,
    given,
    message,
    next_turn,
    observed,
    outcome,
    queued,
    turn_of,
)

ID = "order:1"
VANISHED = TurnReceipt(TurnStatus.ACCEPTED)


async def rejecting(store: Store, *input_ids: str) -> Turn:
    """Send inputs to a new instance, claim it, and return the turn that rejects them all."""
    messages = tuple(queued(input_id=input_id) for input_id in input_ids)
    await store.start([decider(messages=messages)])
    [claimed] = await claim(store, definitions=(ORDER,))
    receipts = tuple(given("no", input_id) for input_id in input_ids)
    return turn_of(claimed, events=(), receipts=receipts, vanishes=True)


async def nothing_is_left(store: Store, instance_id: str = ID) -> None:
    """Check that an instance was never there."""
    assert await store.read_live(instance_id) is None
    assert await store.read_instances([instance_id]) == [None]
    assert await store.read_inbox(instance_id) == []
    assert await store.read_jobs(instance_id) == []


class TestVanishing:
    """An instance that accepted nothing was never there."""

    async def test_an_instance_vanishes_and_its_receipts_and_observations_stay(
        self, store: Store
    ) -> None:
        turn = await rejecting(store, "x", "y")
        seen = (observed("1", "rejected"), observed("2", "rejected"))
        turn = next_turn(
            ID,
            turn.stamp,
            lease=turn.lease,
            consumed=turn.consumed,
            seen_no=turn.seen_no,
            receipts=turn.receipts,
            observations=seen,
            vanishes=True,
        )

        assert await store.commit([turn]) == [VANISHED]

        await nothing_is_left(store)
        assert await events_of(store, ID, turn.stamp.incarnation) == []
        assert await store.deciders.read_receipts(ID, ["x", "y"]) == {"x": b"no", "y": b"no"}
        assert [one.input for one in await store.deciders.read_observations(ID)] == [b"1", b"2"]
        assert (await store.admin.totals()).instances["running"] == 0
        assert await claim(store, definitions=(ORDER,)) == []

    async def test_a_turn_that_would_have_started_its_instance_leaves_only_receipts(
        self, store: Store
    ) -> None:
        turn = first_turn(decider(), events=(), receipts=(given("no"),), vanishes=True)

        assert await store.commit([turn]) == [VANISHED]

        await nothing_is_left(store)
        assert await store.deciders.read_receipts(ID, ["x"]) == {"x": b"no"}

    async def test_a_vanishing_sent_again_has_the_same_answer(self, store: Store) -> None:
        claimed = await rejecting(store, "x")
        fresh = first_turn(
            decider("order:2"), events=(), observations=(observed("1"),), vanishes=True
        )
        first = await store.commit([claimed, fresh])

        assert await store.commit([claimed, fresh]) == first == [VANISHED] * 2

        await nothing_is_left(store)
        assert len(await store.deciders.read_observations("order:2")) == 1

    async def test_an_id_that_vanished_starts_afresh(self, store: Store) -> None:
        turn = await rejecting(store, "x")
        await accepted(store, turn)

        assert await store.deliver([queued(input_id="y")]) == [DeliveryStatus.ABSENT]
        start = decider(messages=(queued(input_id="y"),))
        assert await store.start([start]) == [None]

        [claimed] = await claim(store, definitions=(ORDER,))
        assert claimed.stamp.place == (start.incarnation, 1, 1)
        assert [one.kind for one in claimed.messages] == ["started", "input_taken"]
        await accepted(store, turn_of(claimed, receipts=(given("yes", "y"),)))
        assert await store.deciders.read_receipts(ID, ["x", "y"]) == {"x": b"no", "y": b"yes"}
        assert await store.commit([turn]) == [VANISHED]
        assert await store.read_live(ID) is not None

    async def test_an_id_vanishes_and_starts_afresh_in_one_transaction(self, store: Store) -> None:
        turn = await rejecting(store, "x")
        start = decider()

        receipts = await store.commit([turn, first_turn(start, events=(STARTED, PLACED))])

        assert [receipt.status for receipt in receipts] == ["accepted", "accepted"]
        assert await events_of(store, ID, start.incarnation) == [STARTED, PLACED]
        [row] = await store.read_instances([ID])
        assert row is not None
        assert row.incarnation == start.incarnation

    async def test_what_came_meanwhile_is_not_lost(self, store: Store) -> None:
        turn = await rejecting(store, "x")
        await store.deliver([queued(input_id="y")])

        [receipt] = await store.commit([turn])

        assert (receipt.status, receipt.has_unseen) == (TurnStatus.ACCEPTED, True)
        assert await store.commit([turn]) == [receipt]
        assert await store.deciders.read_receipts(ID, ["x", "y"]) == {"x": b"no", "y": None}
        [claimed] = await claim(store, definitions=(ORDER,))
        assert claimed.stamp == turn.next_stamp
        assert claimed.attempts == 1
        assert [(one.no, one.kind) for one in claimed.messages] == [
            (1, "started"),
            (3, "input_taken"),
        ]
        again = turn_of(claimed, events=(), receipts=(given("no", "y"),), vanishes=True)
        assert await store.commit([again]) == [VANISHED]
        await nothing_is_left(store)

    async def test_messages_that_a_turn_did_not_take_are_not_lost(self, store: Store) -> None:
        """It takes so many of them at a time."""
        turn = await rejecting(store, "x", "y")

        part = next_turn(
            ID,
            turn.stamp,
            lease=turn.lease,
            consumed=turn.consumed[:2],
            seen_no=turn.seen_no,
            vanishes=True,
        )

        [receipt] = await store.commit([part])
        assert (receipt.status, receipt.has_unseen) == (TurnStatus.ACCEPTED, True)
        assert await store.commit([part]) == [receipt]
        [claimed] = await claim(store, definitions=(ORDER,))
        assert [one.no for one in claimed.messages] == [1, 3]

    async def test_messages_for_an_id_that_was_not_started_stay(self, store: Store) -> None:
        await store.deliver([message(ID, "a", if_absent="buffer")])
        turn = first_turn(decider(), events=(), receipts=(given("no"),), vanishes=True)

        [receipt] = await store.commit([turn])

        assert (receipt.status, receipt.has_unseen) == (TurnStatus.ACCEPTED, True)
        assert await store.commit([turn]) == [receipt]
        live = await store.read_live(ID)
        assert live is not None
        assert live.definition_no is None
        assert [one.body for one in await store.read_inbox(ID)] == [b"a"]
        assert await store.read_instances([ID]) == [None]

    async def test_messages_for_an_id_that_was_not_started_go_if_they_were_taken(
        self, store: Store
    ) -> None:
        await store.deliver([queued(if_absent="buffer")])
        turn = first_turn(
            decider(), events=(), consumed=(1,), receipts=(given("no"),), vanishes=True
        )

        assert await store.commit([turn]) == [VANISHED]

        await nothing_is_left(store)

    async def test_an_instance_that_another_has_moved_on_does_not_vanish(
        self, store: Store
    ) -> None:
        turn = await rejecting(store, "x")
        await accepted(
            store,
            next_turn(ID, turn.stamp, seize=True, events=(STARTED, PLACED), consumed=turn.consumed),
        )

        assert await store.commit([turn]) == [TurnReceipt(TurnStatus.REFUSED)]

        assert await store.read_live(ID) is not None
        assert await store.deciders.read_receipts(ID, ["x"]) == {"x": None}

    async def test_a_first_turn_of_a_taken_id_does_not_make_it_vanish(self, store: Store) -> None:
        await decided(store)

        turn = first_turn(decider(), events=(), receipts=(given("no"),), vanishes=True)

        assert await store.commit([turn]) == [TurnReceipt(TurnStatus.TAKEN)]
        assert await store.read_live(ID) is not None
        assert await store.deciders.read_receipts(ID, ["x"]) == {}

    async def test_an_input_that_was_decided_does_not_vanish_with_another_outcome(
        self, store: Store
    ) -> None:
        await store.deciders.settle_inputs(ID, [given("first")])

        turn = first_turn(decider(), events=(), receipts=(given("second"),), vanishes=True)

        assert await store.commit([turn]) == [TurnReceipt(TurnStatus.REFUSED)]
        assert await store.deciders.read_receipts(ID, ["x"]) == {"x": b"first"}

    async def test_an_instance_that_has_had_turns_cannot_vanish(self, store: Store) -> None:
        stamp = await decided(store)

        error = await failed(store, next_turn(ID, stamp, vanishes=True))
        assert isinstance(error, RowError)
        assert "vanish" in str(error)

        assert await store.read_live(ID) is not None

    async def test_whoever_seizes_may_let_an_instance_vanish(self, store: Store) -> None:
        """A direct input takes what waits, and all of it is rejected."""
        turn = await rejecting(store, "x")
        direct = next_turn(
            ID,
            turn.stamp,
            seize=True,
            consumed=turn.consumed,
            seen_no=turn.seen_no,
            receipts=(given("no"), given("no", "own")),
            vanishes=True,
        )

        assert await store.commit([direct]) == [VANISHED]

        assert await store.commit([turn]) == [TurnReceipt(TurnStatus.REFUSED)]
        await nothing_is_left(store)

    async def test_messages_to_others_are_delivered_all_the_same(self, store: Store) -> None:
        await decided(store, "order:2")
        turn = first_turn(
            decider(), events=(), deliveries=(message("order:2", "told"),), vanishes=True
        )

        assert await store.commit([turn]) == [VANISHED]

        assert [one.body for one in await store.read_inbox("order:2")] == [b"told"]


class TestDeciderInstances:
    """What a store does for every instance it does for deciders."""

    async def test_an_input_starts_an_instance_or_reaches_the_one_that_is_there(
        self, store: Store
    ) -> None:
        start = decider(messages=(queued(input_id="x"),))
        assert await store.start([start]) == [None]

        [row] = await store.start([decider(messages=(queued(input_id="y"),))])

        assert row is not None
        assert (row.incarnation, row.kind, row.name) == (start.incarnation, "decider", "order")
        [claimed] = await claim(store, definitions=(ORDER,))
        assert len(claimed.messages) == 3

    async def test_an_input_for_an_ended_instance_is_not_delivered(self, store: Store) -> None:
        turn = await rejecting(store, "x")
        await accepted(store, turn)
        stamp = await decided(store)
        await store.commit([next_turn(ID, stamp, outcome=outcome())])

        [row] = await store.start([decider(messages=(queued(input_id="z"),))])

        assert row is not None
        assert row.status == "completed"
        assert await store.read_inbox(ID) == []
        assert await store.deciders.read_receipts(ID, ["z"]) == {}

    async def test_whoever_decides_directly_takes_messages_whoever_has_the_lease(
        self, store: Store
    ) -> None:
        stamp = await decided(store)
        await store.deliver([queued(input_id="x")])
        [claimed] = await claim(store, definitions=(ORDER,))
        taken = Body(claimed.messages[0].kind, claimed.messages[0].body)

        receipt = await accepted(
            store,
            next_turn(
                ID,
                stamp,
                seize=True,
                worker_id="client",
                consumed=(1,),
                seen_no=1,
                events=(taken, PLACED),
                receipts=(given("ok"),),
            ),
        )

        assert (receipt.last_no, receipt.has_unseen) == (1, False)
        assert await store.commit([turn_of(claimed)]) == [TurnReceipt(TurnStatus.REFUSED)]
        assert await store.read_inbox(ID) == []
        assert await claim(store, definitions=(ORDER,)) == []
