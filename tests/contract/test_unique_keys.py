"""What every store does with business keys."""

from __future__ import annotations

from typing import Any

from perdure.model.instances import Stamp, Status
from perdure.model.turns import ChildStart, Turn, TurnReceipt, TurnStatus, UniqueKey
from perdure.store.base import Store
from tests.contract.store_values import (
    FED,
    PLACED,
    STARTED,
    accepted,
    claim_jobs,
    decided,
    decider,
    events_of,
    first_turn,
    given,
    job,
    latest,
    message,
    next_turn,
    observed,
    outcome,
    result_of,
    timer,
)

KEY = UniqueKey("order", "k")
OTHER = UniqueKey("order", "other")
FREE = UniqueKey("order", None)


def taken_by(holder: str) -> TurnReceipt:
    """Return the answer to whoever wants a key that is taken."""
    return TurnReceipt(TurnStatus.KEY_TAKEN, holder=holder)


def wanting(instance_id: str, stamp: Stamp, unique: UniqueKey, **fields: Any) -> Turn:
    """Return a turn that wants a key."""
    return next_turn(instance_id, stamp, events=(PLACED,), unique=unique, **fields)


class TestUniqueKeys:
    """A key of a scope has one holder, the first that asked, as long as it lives."""

    async def test_a_turn_takes_a_key_that_is_free(self, store: Store) -> None:
        await decided(store, "order:1", unique=KEY)

        assert await store.deciders.read_unique_key("order", "k") == "order:1"
        assert await store.deciders.read_unique_key("order", "other") is None
        assert await store.deciders.read_unique_key("customer", "k") is None

    async def test_a_key_that_is_taken_stops_a_turn_and_nothing_of_it_is_written(
        self, store: Store
    ) -> None:
        await decided(store, "order:1", unique=KEY)
        stamp = await decided(store, "order:2")
        turn = wanting(
            "order:2",
            stamp,
            KEY,
            jobs=(job(2),),
            timers=(timer(3, 9),),
            deliveries=(message("order:1"),),
            children=(ChildStart(decider("order:3"), message("order:2")),),
            receipts=(given(),),
            feed=(FED,),
            observations=(observed(),),
        )

        assert await store.commit([turn]) == [taken_by("order:1")]

        assert await events_of(store, "order:2", stamp.incarnation) == [STARTED, PLACED]
        assert await store.read_jobs("order:2") == []
        assert await store.read_inbox("order:1") == await store.read_inbox("order:2") == []
        assert await store.read_live("order:3") is None
        assert await store.deciders.read_receipts("order:2", ["x"]) == {}
        assert await store.deciders.read_observations("order:2") == []
        assert await store.feed.feed_end() == 0
        live = await store.read_live("order:2")
        assert live is not None
        assert live.stamp == stamp

    async def test_an_instance_whose_first_turn_wants_a_taken_key_is_not_started(
        self, store: Store
    ) -> None:
        await decided(store, "order:1", unique=KEY)

        [receipt] = await store.commit([first_turn(decider("order:2"), unique=KEY)])

        assert receipt == taken_by("order:1")
        assert await store.read_live("order:2") is None
        assert await store.read_instances(["order:2"]) == [None]

    async def test_a_taken_id_is_told_before_a_taken_key(self, store: Store) -> None:
        await decided(store, "order:1", unique=KEY)
        await decided(store, "order:2")

        [receipt] = await store.commit([first_turn(decider("order:2"), unique=KEY)])

        assert receipt == TurnReceipt(TurnStatus.TAKEN)

    async def test_results_of_jobs_are_kept_when_the_key_is_taken(self, store: Store) -> None:
        await decided(store, "order:1", unique=KEY)
        stamp = await decided(store, "order:2", jobs=(job(2),))
        [claimed] = await claim_jobs(store)
        end = result_of(claimed.key, claimed.token)

        turn = next_turn("order:2", stamp, job_ends=(end,), unique=KEY)

        assert await store.commit([turn]) == [taken_by("order:1")._replace(ends_kept=(True,))]
        [waiting] = await store.read_inbox("order:2")
        assert waiting.kind == "activity_completed"
        assert await store.read_jobs("order:2") == []

    async def test_a_key_that_is_had_within_a_turn_only_must_be_free_too(
        self, store: Store
    ) -> None:
        await decided(store, "order:1", unique=KEY)
        stamp = await decided(store, "order:2")
        own = UniqueKey("order", "own")

        turns = [
            wanting("order:2", stamp, OTHER, passed_keys=(own, KEY)),
            wanting("order:2", stamp, FREE, passed_keys=(KEY,)),
            wanting("order:2", stamp, OTHER, passed_keys=(own,)),
        ]
        first, second, third = await store.commit(turns)

        assert first == second == taken_by("order:1")._replace(passed_key="k")
        assert third.status is TurnStatus.ACCEPTED
        assert await store.deciders.read_unique_key("order", "own") is None
        assert await store.deciders.read_unique_key("order", "other") == "order:2"

    async def test_the_holder_may_take_its_key_again(self, store: Store) -> None:
        stamp = await decided(store, "order:1", unique=KEY)

        await accepted(store, wanting("order:1", stamp, KEY))

        assert await store.deciders.read_unique_key("order", "k") == "order:1"

    async def test_another_key_frees_the_one_before(self, store: Store) -> None:
        stamp = await decided(store, "order:1", unique=KEY)

        await accepted(store, wanting("order:1", stamp, OTHER))

        assert await store.deciders.read_unique_key("order", "other") == "order:1"
        await decided(store, "order:2", unique=KEY)
        assert await store.deciders.read_unique_key("order", "k") == "order:2"

    async def test_no_key_frees_the_one_before(self, store: Store) -> None:
        stamp = await decided(store, "order:1", unique=KEY)

        await accepted(store, wanting("order:1", stamp, FREE))

        assert await store.deciders.read_unique_key("order", "k") is None

    async def test_scopes_are_apart(self, store: Store) -> None:
        stamp = await decided(store, "order:1", unique=KEY)
        await accepted(store, wanting("order:1", stamp, UniqueKey("customer", "k")))
        stamp = await latest(store, "order:1")
        await accepted(store, wanting("order:1", stamp, UniqueKey("customer", None)))

        assert await store.deciders.read_unique_key("order", "k") == "order:1"
        assert await store.deciders.read_unique_key("customer", "k") is None

    async def test_a_turn_without_a_key_changes_none(self, store: Store) -> None:
        stamp = await decided(store, "order:1", unique=KEY)

        await accepted(store, next_turn("order:1", stamp, events=(PLACED,)))

        assert await store.deciders.read_unique_key("order", "k") == "order:1"

    async def test_a_turn_sent_again_is_accepted_with_its_key(self, store: Store) -> None:
        stamp = await decided(store, "order:1")
        turn = wanting("order:1", stamp, KEY)

        assert await store.commit([turn]) == await store.commit([turn])

        assert await store.deciders.read_unique_key("order", "k") == "order:1"

    async def test_keys_are_taken_as_they_are(self, store: Store) -> None:
        keys = ["", "a b", "'; DROP TABLE unique_keys; --", "%_\\", "Ä\N{PILE OF POO}", "K", "k"]

        for number, key in enumerate(keys):
            await decided(store, f"order:{number}", unique=UniqueKey("order", key))

        holders = [await store.deciders.read_unique_key("order", key) for key in keys]
        assert holders == [f"order:{number}" for number in range(len(keys))]


class TestKeysInOneTransaction:
    """Turns of one transaction see each other's keys, in order."""

    async def test_of_two_turns_the_first_has_the_key(self, store: Store) -> None:
        first, second = await decided(store, "order:1"), await decided(store, "order:2")

        receipts = await store.commit(
            [
                wanting("order:1", first, KEY),
                wanting("order:2", second, KEY),
                first_turn(decider("order:3"), unique=KEY),
            ]
        )

        assert receipts[0].status is TurnStatus.ACCEPTED
        assert receipts[1:] == [taken_by("order:1")] * 2
        assert await store.deciders.read_unique_key("order", "k") == "order:1"

    async def test_a_key_that_is_freed_can_be_taken(self, store: Store) -> None:
        first = await decided(store, "order:1", unique=KEY)
        second = await decided(store, "order:2")
        third = await decided(store, "order:3")

        giving_up = wanting("order:1", first, OTHER)
        receipts = await store.commit(
            [
                giving_up,
                wanting("order:2", second, KEY),
                wanting("order:1", giving_up.next_stamp, KEY),
                wanting("order:1", giving_up.next_stamp, FREE),
                wanting("order:3", third, OTHER),
            ]
        )

        assert [receipt.status.value for receipt in receipts] == [
            "accepted",
            "accepted",
            "key taken",
            "accepted",
            "accepted",
        ]
        assert receipts[2].holder == "order:2"
        assert await store.deciders.read_unique_key("order", "k") == "order:2"
        assert await store.deciders.read_unique_key("order", "other") == "order:3"

    async def test_a_key_that_was_given_up_can_be_taken_back(self, store: Store) -> None:
        stamp = await decided(store, "order:1", unique=KEY)

        giving_up = wanting("order:1", stamp, OTHER)
        await store.commit([giving_up, wanting("order:1", giving_up.next_stamp, KEY)])

        assert await store.deciders.read_unique_key("order", "k") == "order:1"
        assert await store.deciders.read_unique_key("order", "other") is None

    async def test_a_key_of_an_instance_that_ends_can_be_taken(self, store: Store) -> None:
        first, second = await decided(store, "order:1", unique=KEY), await decided(store, "order:2")
        third = await decided(store, "order:3")

        taking = wanting("order:3", third, OTHER)
        receipts = await store.commit(
            [
                taking,
                next_turn("order:3", taking.next_stamp, outcome=outcome()),
                next_turn("order:1", first, outcome=outcome()),
                wanting("order:2", second, KEY),
                first_turn(decider("order:4"), unique=OTHER),
            ]
        )

        assert {receipt.status for receipt in receipts} == {TurnStatus.ACCEPTED}
        assert await store.deciders.read_unique_key("order", "k") == "order:2"
        assert await store.deciders.read_unique_key("order", "other") == "order:4"


class TestFreedKeys:
    """A key is free as soon as its holder is no more."""

    async def test_an_end_frees_the_key(self, store: Store) -> None:
        stamp = await decided(store, "order:1", unique=KEY)

        await accepted(store, next_turn("order:1", stamp, outcome=outcome()))

        assert await store.deciders.read_unique_key("order", "k") is None

    async def test_a_termination_frees_the_key(self, store: Store) -> None:
        stamp = await decided(store, "order:1", unique=KEY)

        end = outcome(Status.TERMINATED)
        await accepted(store, next_turn("order:1", stamp, seize=True, outcome=end))

        assert await store.deciders.read_unique_key("order", "k") is None

    async def test_a_turn_that_takes_a_key_and_ends_leaves_it_free(self, store: Store) -> None:
        await decided(store, "order:1", unique=KEY, outcome=outcome())

        assert await store.deciders.read_unique_key("order", "k") is None

    async def test_a_deletion_frees_the_key(self, store: Store) -> None:
        stamp = await decided(store, "order:1", unique=KEY)

        await store.admin.delete([("order:1", stamp.incarnation)], force=True)

        assert await store.deciders.read_unique_key("order", "k") is None

    async def test_an_instance_that_replaces_an_ended_one_begins_without_its_key(
        self, store: Store
    ) -> None:
        old = await decided(store, "order:1", unique=KEY, outcome=outcome())

        start = decider("order:1", replaces=old.incarnation)
        await accepted(store, first_turn(start, unique=OTHER))

        assert await store.deciders.read_unique_key("order", "k") is None
        assert await store.deciders.read_unique_key("order", "other") == "order:1"
