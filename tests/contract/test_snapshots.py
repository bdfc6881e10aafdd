"""What every store does with snapshots of deciders."""

from __future__ import annotations

from perdure.model.feeds import StoredSnapshot
from perdure.model.instances import Stamp
from perdure.model.turns import Snapshot, TurnReceipt, TurnStatus
from perdure.store.base import ExecutionKey, Store
from tests.contract.store_values import (
    PLACED,
    accepted,
    decided,
    decider,
    first_turn,
    latest,
    next_turn,
    outcome,
)

ID = "order:1"


def of(stamp: Stamp, instance_id: str = ID) -> ExecutionKey:
    """Return the execution behind a stamp."""
    return ExecutionKey(instance_id, *stamp[:2])


class TestSnapshots:
    """The newest state of a decider is kept with the turn it is of."""

    async def test_a_snapshot_is_as_of_the_last_event_of_its_turn(self, store: Store) -> None:
        stamp = await decided(store)

        turn = next_turn(ID, stamp, events=(PLACED, PLACED), snapshot=Snapshot(3, 3, b"\0state"))
        await accepted(store, turn)

        assert await store.deciders.read_snapshots([of(stamp)]) == [
            StoredSnapshot(4, 3, 3, b"\0state")
        ]

    async def test_a_snapshot_takes_the_place_of_the_one_before(self, store: Store) -> None:
        stamp = await decided(store, snapshot=Snapshot(1, 1, b"old"))

        await accepted(store, next_turn(ID, stamp, events=(PLACED,)))
        assert await store.deciders.read_snapshots([of(stamp)]) == [StoredSnapshot(2, 1, 1, b"old")]

        stamp = await latest(store, ID)
        turn = next_turn(ID, stamp, events=(PLACED,), snapshot=Snapshot(2, 3, b""))
        await accepted(store, turn)
        assert await store.deciders.read_snapshots([of(stamp)]) == [StoredSnapshot(4, 2, 3, b"")]

    async def test_of_two_turns_of_one_transaction_the_last_has_the_snapshot(
        self, store: Store
    ) -> None:
        stamp = await decided(store)

        first = next_turn(ID, stamp, events=(PLACED,), snapshot=Snapshot(1, 2, b"2"))
        second = next_turn(ID, first.next_stamp, events=(PLACED,), snapshot=Snapshot(1, 3, b"3"))
        await store.commit([first, second])

        assert await store.deciders.read_snapshots([of(stamp)]) == [StoredSnapshot(4, 1, 3, b"3")]

    async def test_snapshots_of_several_executions_come_in_the_order_asked_for(
        self, store: Store
    ) -> None:
        a = await decided(store, "order:a", snapshot=Snapshot(1, 1, b"a"))
        b = await decided(store, "order:b", snapshot=Snapshot(1, 1, b"b"))
        none = await decided(store, "order:none")

        found = await store.deciders.read_snapshots(
            [
                of(b, "order:b"),
                of(none, "order:none"),
                of(a, "order:a"),
                of(a, "order:b"),
                of(a._replace(execution=2), "order:a"),
                of(a, "never"),
            ]
        )

        bodies = [None if one is None else one.body for one in found]
        assert bodies == [b"b", None, b"a", None, None, None]
        assert await store.deciders.read_snapshots([]) == []

    async def test_a_refused_turn_leaves_no_snapshot(self, store: Store) -> None:
        stamp = await decided(store)
        turn = next_turn(ID, stamp._replace(next_seq=9), snapshot=Snapshot(1, 1, b"late"))

        assert await store.commit([turn]) == [TurnReceipt(TurnStatus.REFUSED)]

        assert await store.deciders.read_snapshots([of(stamp)]) == [None]

    async def test_a_snapshot_stays_when_the_instance_ends(self, store: Store) -> None:
        stamp = await decided(store, snapshot=Snapshot(1, 1, b"s"), outcome=outcome())

        assert await store.deciders.read_snapshots([of(stamp)]) == [StoredSnapshot(2, 1, 1, b"s")]

    async def test_a_snapshot_goes_with_its_instance(self, store: Store) -> None:
        stamp = await decided(store, snapshot=Snapshot(1, 1, b"s"))
        old = await decided(store, "order:2", snapshot=Snapshot(1, 1, b"s"), outcome=outcome())

        await store.admin.delete([(ID, stamp.incarnation)], force=True)
        await accepted(store, first_turn(decider("order:2", replaces=old.incarnation)))

        assert await store.deciders.read_snapshots([of(stamp), of(old, "order:2")]) == [None, None]

    async def test_a_snapshot_counts_among_what_is_stored(self, store: Store) -> None:
        await decided(store, snapshot=Snapshot(1, 1, b"12345"))

        stats = await store.admin.instance_stats(ID)

        assert stats is not None
        assert stats.snapshot_bytes == 5
