"""What every store does with events of deciders that are not kept any more."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.model.histories.events import Body, StoredEvent
from perdure.model.histories.removals import EventRemoval, SnapshotPlace
from perdure.model.instances import Stamp, part_of
from perdure.model.turns import FedEvent, Snapshot, TurnStatus
from perdure.store.base import ExecutionKey, Store
from perdure.store.contents import FIRST_PLACE, SlicePlace
from tests.contract.store_values import (
    STARTED,
    accepted,
    decider,
    first_turn,
    latest,
    next_turn,
    outcome,
    token,
)

ID = "order:1"
STANDING = Body("events_removed", b"\0what they came to")
FAR = 2**60


async def filled(store: Store, instance_id: str = ID, *, events: int = 8, **more: Any) -> Stamp:
    """Return the stamp of an instance with so many fed events behind its start."""
    bodies = tuple(Body("event_recorded", b"%d" % n) for n in range(2, events + 2))
    feed = tuple(FedEvent(index, f"E{index + 1}") for index in range(1, events + 1))
    fields: dict[str, Any] = {"snapshot": Snapshot(1, events, b"s"), **more}
    turn = first_turn(decider(instance_id), events=(STARTED, *bodies), feed=feed, **fields)
    await accepted(store, turn)
    return await latest(store, instance_id) if "outcome" not in fields else turn.next_stamp


def removal(stamp: Stamp, upto: int = 5, *, rows: int | None = None) -> EventRemoval:
    rows = upto - 1 if rows is None else rows
    return EventRemoval(ID, *stamp[:2], upto, rows, 123, STANDING)


async def numbers(store: Store, stamp: Stamp) -> list[int]:
    [history] = await store.read_histories([ExecutionKey(ID, *stamp[:2])])
    return [event.seq for event in history]


async def fed(store: Store) -> list[int]:
    events, _ = await store.feed.read_feed(after=0, limit=99)
    return [event.stored.seq for event in events]


class TestRemoving:
    """A stretch behind the start goes, from the history and the feed, and one event stands for
    it."""

    async def test_events_go_and_what_stands_for_them_comes(self, store: Store) -> None:
        stamp = await filled(store)

        assert await store.deciders.remove_events(removal(stamp), before_ms=FAR)

        [history] = await store.read_histories([ExecutionKey(ID, *stamp[:2])])
        assert [event.seq for event in history] == [1, 2, 6, 7, 8, 9]
        assert history[1] == StoredEvent(2, STANDING.kind, 123, STANDING.body)
        assert await fed(store) == [6, 7, 8, 9]

    async def test_a_second_stretch_takes_what_stood_for_the_first(self, store: Store) -> None:
        stamp = await filled(store)
        await store.deciders.remove_events(removal(stamp), before_ms=FAR)

        # The first two rows of the stretch are what stands for 2 to 5, and event 6.
        assert await store.deciders.remove_events(removal(stamp, 7, rows=3), before_ms=FAR)

        assert await numbers(store, stamp) == [1, 2, 8, 9]
        assert await fed(store) == [8, 9]

    async def test_the_one_that_comes_second_removes_nothing(self, store: Store) -> None:
        stamp = await filled(store)
        assert await store.deciders.remove_events(removal(stamp, 7), before_ms=FAR)

        assert not await store.deciders.remove_events(removal(stamp, 5), before_ms=FAR)
        assert not await store.deciders.remove_events(removal(stamp, 7), before_ms=FAR)
        assert not await store.deciders.remove_events(removal(stamp, 8), before_ms=FAR)

        assert await numbers(store, stamp) == [1, 2, 8, 9]

    async def test_a_turn_that_runs_meanwhile_is_accepted(self, store: Store) -> None:
        stamp = await filled(store)
        await store.deciders.remove_events(removal(stamp), before_ms=FAR)

        turn = next_turn(ID, stamp, events=(Body("event_recorded", b"x"),))
        [first] = await store.commit([turn])
        [again] = await store.commit([turn])

        assert (first.status, again.status) == (TurnStatus.ACCEPTED, TurnStatus.ACCEPTED)
        assert await numbers(store, stamp) == [1, 2, 6, 7, 8, 9, 10]

    async def test_pages_of_a_history_go_on_behind_what_was_removed(self, store: Store) -> None:
        stamp = await filled(store, events=30)
        other = await filled(store, "order:2", events=1)
        await store.deciders.remove_events(removal(stamp, 20), before_ms=FAR)
        key = ExecutionKey(ID, *stamp[:2])
        pages = []
        after = 0
        while True:
            [page] = await store.read_histories([key], after_seq=after, limit=4)
            if not page:
                break
            pages.append([event.seq for event in page])
            after = page[-1].seq

        assert pages == [[1, 2, 21, 22], [23, 24, 25, 26], [27, 28, 29, 30], [31]]
        # Behind one that was removed while the pages were read.
        [late] = await store.read_histories([key], after_seq=7, limit=2)
        assert [event.seq for event in late] == [21, 22]
        both = [ExecutionKey("order:2", *other[:2]), key, ExecutionKey("never", 1, 1)]
        found = await store.read_histories(both, after_seq=1, limit=3)
        assert [[event.seq for event in one] for one in found] == [[2], [2, 21, 22], []]


class TestKeeping:
    """What must not go stays, and then nothing goes."""

    async def test_what_is_young_stays(self, store: Store) -> None:
        stamp = await filled(store)
        [history] = await store.read_histories([ExecutionKey(ID, *stamp[:2])])
        recorded_ms = history[4].at_ms

        assert not await store.deciders.remove_events(removal(stamp), before_ms=recorded_ms)
        assert await store.deciders.remove_events(removal(stamp), before_ms=recorded_ms + 1)

    @pytest.mark.parametrize("snapshot", [None, Snapshot(1, 3, b"s")])
    async def test_what_no_snapshot_lies_behind_stays(
        self, store: Store, snapshot: Snapshot | None
    ) -> None:
        stamp = await filled(store, events=3, snapshot=snapshot)
        turn = next_turn(ID, stamp, events=(Body("x", b""), Body("x", b"")))
        await accepted(store, turn)

        assert not await store.deciders.remove_events(removal(stamp, 5), before_ms=FAR)
        assert await store.deciders.remove_events(removal(stamp, 4), before_ms=FAR) == (
            snapshot is not None
        )

    async def test_what_a_reader_has_not_passed_stays(self, store: Store) -> None:
        stamp = await filled(store)
        key = ExecutionKey(ID, *stamp[:2])
        assert await store.deciders.first_unread(key) is None
        lease = token()
        await store.feed.claim_feed("slow", lease=lease, lease_ms=1000)
        events, _ = await store.feed.read_feed(after=0, limit=99)
        assert await store.deciders.first_unread(key) == 2

        assert not await store.deciders.remove_events(removal(stamp), before_ms=FAR)
        # Events 2 to 4 were read: 5 was not.
        await store.feed.advance_feed("slow", lease=lease, from_pos=0, to_pos=events[2].pos)
        await store.feed.set_reader("slow", reason="away")
        assert await store.deciders.first_unread(key) == 5
        assert not await store.deciders.remove_events(removal(stamp), before_ms=FAR)
        assert await store.deciders.remove_events(removal(stamp, 4), before_ms=FAR)

        await store.feed.forget_reader("slow")
        assert await store.deciders.first_unread(key) is None

    async def test_others_stay(self, store: Store) -> None:
        stamp = await filled(store)
        other = await filled(store, "order:2")
        elsewhere = removal(stamp._replace(incarnation=stamp.incarnation + 1))

        assert not await store.deciders.remove_events(elsewhere, before_ms=FAR)
        assert not await store.deciders.remove_events(
            removal(stamp)._replace(execution=2), before_ms=FAR
        )
        await store.deciders.remove_events(removal(stamp), before_ms=FAR)

        [whole] = await store.read_histories([ExecutionKey("order:2", *other[:2])])
        assert len(whole) == 9

    async def test_a_deleted_instance_leaves_nothing(self, store: Store) -> None:
        stamp = await filled(store)
        await store.deciders.remove_events(removal(stamp), before_ms=FAR)

        await store.admin.delete([(ID, stamp.incarnation)], force=True)

        assert await numbers(store, stamp) == []
        assert not await store.deciders.remove_events(removal(stamp, 7, rows=3), before_ms=FAR)


class TestListing:
    """Who has many events is found by the snapshots of live instances."""

    async def test_snapshots_are_listed_page_by_page(self, store: Store) -> None:
        stamps = {one: await filled(store, one) for one in ("order:1", "order:2", "order:3")}
        await filled(store, "order:few", events=2)
        await filled(store, "order:over", outcome=outcome())
        await accepted(store, first_turn(decider("order:none")))
        live = await store.read_live(ID)
        assert live is not None
        found: list[SnapshotPlace] = []
        after = FIRST_PLACE
        while page := await store.deciders.list_snapshots(after=after, above=7, limit=2):
            found += page
            last_id = page[-1].instance_id
            after = SlicePlace(part_of(last_id), last_id)

        assert sorted(found) == [
            SnapshotPlace(one, *stamp[:2], live.definition_no or 0, 9, 8)
            for one, stamp in stamps.items()
        ]
        assert await store.deciders.list_snapshots(after=FIRST_PLACE, above=8, limit=9) == []
