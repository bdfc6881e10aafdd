"""What every store does with observed inputs."""

from __future__ import annotations

from perdure.clock import ManualClock
from perdure.model.admin import Expiry
from perdure.model.feeds import Observation
from perdure.model.turns import TurnReceipt, TurnStatus
from perdure.store.base import Store
from tests.contract.store_values import (
    accepted,
    decided,
    decider,
    first_turn,
    given,
    next_turn,
    observed,
    outcome,
    queued,
)

ID = "order:1"


class TestObservations:
    """Inputs that were observed are numbered, and stay until their instance is deleted."""

    async def test_observed_inputs_are_read_in_order(self, store: Store) -> None:
        stamp = await decided(
            store, observations=(observed("1"), observed("2", "rejected", rejection=b'"no"'))
        )
        again = observed("3", "completed", input_id="x")
        await accepted(store, next_turn(ID, stamp, now_ms=77, observations=(again,)))

        assert await store.deciders.read_observations(ID) == [
            Observation(1, 2, "Place", b"1", "accepted", None, ""),
            Observation(2, 2, "Place", b"2", "rejected", b'"no"', ""),
            Observation(3, 77, "Place", b"3", "completed", None, "x"),
        ]

    async def test_observed_inputs_come_in_pages(self, store: Store) -> None:
        await decided(store, observations=tuple(observed(str(number)) for number in range(5)))

        async def numbers(after: int, limit: int) -> list[int]:
            return [
                one.no
                for one in await store.deciders.read_observations(ID, after=after, limit=limit)
            ]

        assert await numbers(0, 2) == [1, 2]
        assert await numbers(2, 9) == [3, 4, 5]
        assert await numbers(5, 9) == []
        assert await numbers(0, 0) == await numbers(0, -1) == []
        assert await store.deciders.read_observations("never") == []

    async def test_instances_and_turns_of_one_transaction_are_numbered_by_themselves(
        self, store: Store
    ) -> None:
        stamp = await decided(store, observations=(observed("1"),))

        second = next_turn(ID, stamp, observations=(observed("2"), observed("3")))
        await store.commit(
            [
                second,
                first_turn(decider("order:2"), observations=(observed("a"),)),
                next_turn(ID, second.next_stamp, observations=(observed("4"),)),
            ]
        )

        seen = [(one.no, one.input) for one in await store.deciders.read_observations(ID)]
        assert seen == [(1, b"1"), (2, b"2"), (3, b"3"), (4, b"4")]
        assert [one.no for one in await store.deciders.read_observations("order:2")] == [1]

    async def test_inputs_that_changed_nothing_are_observed_in_the_same_order(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await decided(store, observations=(observed("1"),))
        await store.deciders.settle_inputs(ID, [], [observed("2", "rejected", rejection=b"0")])
        await accepted(store, next_turn(ID, stamp, observations=(observed("3"),)))

        rows = await store.deciders.read_observations(ID)

        assert [(row.no, row.input, row.outcome) for row in rows] == [
            (1, b"1", "accepted"),
            (2, b"2", "rejected"),
            (3, b"3", "accepted"),
        ]
        assert rows[1].at_ms == clock()

    async def test_an_input_for_an_instance_that_is_not_there_is_observed(
        self, store: Store
    ) -> None:
        for text in ("1", "2"):
            await store.deciders.settle_inputs("order:2", [], [observed(text, "rejected")])

        assert [one.no for one in await store.deciders.read_observations("order:2")] == [1, 2]
        assert await store.read_live("order:2") is None
        await decided(store, "order:2", observations=(observed("3"),))
        assert [one.no for one in await store.deciders.read_observations("order:2")] == [1, 2, 3]

    async def test_an_input_that_was_decided_before_is_not_observed_again(
        self, store: Store
    ) -> None:
        seen = observed("1", "rejected", input_id="x")

        for _ in range(2):
            await store.deciders.settle_inputs(ID, [given("no")], [seen])

        assert [one.no for one in await store.deciders.read_observations(ID)] == [1]

    async def test_a_turn_sent_again_is_observed_once(self, store: Store) -> None:
        stamp = await decided(store)
        turn = next_turn(ID, stamp, observations=(observed("1"),))

        await accepted(store, turn)
        await accepted(store, turn)

        assert len(await store.deciders.read_observations(ID)) == 1

    async def test_a_refused_turn_is_not_observed(self, store: Store) -> None:
        stamp = await decided(store)
        turn = next_turn(ID, stamp._replace(next_seq=9), observations=(observed("1"),))

        assert await store.commit([turn]) == [TurnReceipt(TurnStatus.REFUSED)]

        assert await store.deciders.read_observations(ID) == []

    async def test_observed_inputs_go_with_their_instance_only(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await decided(store, observations=(observed("1"),), outcome=outcome())
        everything = Expiry(receipts_before_ms=clock() + 1, unborn_before_ms=clock() + 1)
        await store.admin.expire(everything, limit=9)
        stats = await store.admin.instance_stats(ID)
        assert stats is not None
        assert stats.observations == 1
        assert len(await store.deciders.read_observations(ID)) == 1

        await store.admin.delete([(ID, stamp.incarnation)])

        assert await store.deciders.read_observations(ID) == []

    async def test_an_instance_that_replaces_another_begins_with_none(self, store: Store) -> None:
        old = await decided(store, observations=(observed("1"),), outcome=outcome())

        await accepted(store, first_turn(decider(replaces=old.incarnation)))

        assert await store.deciders.read_observations(ID) == []

    async def test_an_id_that_was_never_started_leaves_none_when_it_expires(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.deliver([queued(if_absent="buffer")])
        await store.deciders.settle_inputs(ID, [], [observed("1", "rejected")])

        await store.admin.expire(Expiry(unborn_before_ms=clock() + 1), limit=9)

        assert await store.deciders.read_observations(ID) == []

    async def test_bodies_are_bytes(self, store: Store) -> None:
        odd = bytes(range(256))

        await decided(
            store, observations=(observed()._replace(input=odd, rejection=odd), observed(""))
        )

        first, second = await store.deciders.read_observations(ID)
        assert (first.input, first.rejection) == (odd, odd)
        assert (second.input, second.rejection) == (b"", None)
