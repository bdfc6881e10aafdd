"""What every store does when instances are deleted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.clock import ManualClock
from perdure.errors import RowError
from perdure.model.admin import DeletedCounts, StoreTotals
from perdure.model.histories.events import Body
from perdure.model.instances import Status
from perdure.model.messages import DeliveryStatus
from perdure.model.turns import ChildStart, Hold, KvChange, TurnReceipt, TurnStatus
from perdure.store.base import ExecutionKey, JobLease, Store, TurnLease
from tests.contract.store_values import (
    LEASE_MS,
    accepted,
    begun,
    claim,
    claim_jobs,
    ended,
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
from tests.contract.test_admin import continued, dead

LEASE = timedelta(milliseconds=LEASE_MS)
MS = timedelta(milliseconds=1)
REFUSED = TurnReceipt(TurnStatus.REFUSED)


async def is_empty(store: Store) -> bool:
    """Return whether nothing is left but definitions."""
    return await store.admin.totals() == StoreTotals(
        instances=dict.fromkeys(map(str, Status), 0),
        executions=0,
        events=0,
        messages=0,
        timers=0,
        jobs=0,
        dead_jobs=0,
        unborn=0,
    )


async def family(store: Store) -> tuple[int, int]:
    """Start a parent and its child; return their incarnations."""
    start = new_instance("parent")
    child = new_instance(
        "child", parent_id="parent", parent_incarnation=start.incarnation, created_ms=9
    )
    await accepted(store, first_turn(start, children=(ChildStart(child, message("parent")),)))
    return start.incarnation, child.incarnation


class TestDeletion:
    """All rows of an incarnation go, or none."""

    async def test_everything_of_an_ended_instance_goes(self, store: Store) -> None:
        stamp = await begun(store, kv=(KvChange("k", b"1"),), report=b"1")
        await store.deliver([message(message_id="m")])
        [claimed] = await claim(store)
        await accepted(store, turn_of(claimed, outcome=outcome()))

        counts = await store.admin.delete([("i", stamp.incarnation)])

        assert counts == DeletedCounts(instances=1, executions=1, events=2)
        assert await is_empty(store)
        assert await store.read_instances(["i"]) == [None]
        assert await store.admin.read_kv("i") == {}
        assert await store.admin.read_reports(["i"]) == [None]
        assert await store.read_histories([ExecutionKey("i", stamp.incarnation, 1)]) == [[]]

    async def test_a_running_instance_goes_only_by_force(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store, jobs=(job(2), job(3)), timers=(timer(4, clock()),))
        await store.deliver([message()])
        done = await ended(store, "done")
        both = [("done", done), ("i", stamp.incarnation)]

        assert await store.admin.delete(both) is None
        assert len([row for row in await store.read_instances(["i", "done"]) if row]) == 2
        counts = await store.admin.delete(both, force=True)

        assert counts == DeletedCounts(instances=2, executions=2, events=3, messages=2, jobs=2)
        assert await is_empty(store)
        assert await store.read_live("i") is None

    @pytest.mark.parametrize("status", [Status.BLOCKED, Status.PARKED])
    async def test_a_held_instance_has_not_ended(self, store: Store, status: Status) -> None:
        stamp = await begun(store)
        await store.hold([Hold("i", stamp, 0, status, "*", "why")])

        assert await store.admin.delete([("i", stamp.incarnation)]) is None
        assert await store.admin.delete([("i", stamp.incarnation)], force=True) is not None

        assert await is_empty(store)

    async def test_all_executions_go(self, store: Store) -> None:
        stamp = await begun(store)
        await continued(store, "i", await continued(store, "i", stamp))

        counts = await store.admin.delete([("i", stamp.incarnation)], force=True)

        assert counts == DeletedCounts(instances=1, executions=3, events=5)
        assert await is_empty(store)

    async def test_dead_jobs_go_too(self, store: Store) -> None:
        key = await dead(store)

        await store.admin.delete([("i", key.incarnation)], force=True)

        assert await store.admin.read_dead_jobs(limit=9) == []
        assert await store.admin.retry_dead_jobs([key]) == [False]

    async def test_the_rows_of_others_stay(self, store: Store, clock: ManualClock) -> None:
        everything = {
            "jobs": (job(2),),
            "timers": (timer(3, clock()),),
            "kv": (KvChange("k", b"1"),),
            "report": b"1",
        }
        kept = await begun(store, "kept", **everything)
        gone = await begun(store, "gone", **everything)
        await store.deliver([message("kept", message_id="m"), message("gone", message_id="m")])

        await store.admin.delete([("gone", gone.incarnation)], force=True)

        assert len(await store.read_inbox("kept")) == 2
        assert len(await store.read_jobs("kept")) == 1
        assert list(await store.admin.read_kv("kept")) == ["k"]
        assert await store.admin.read_reports(["kept"]) != [None]
        assert len(await store.admin.read_executions("kept")) == 1
        assert await store.deliver([message("kept", message_id="m")]) == [DeliveryStatus.DUPLICATE]
        live = await store.read_live("kept")
        assert live is not None
        assert live.stamp == kept

    async def test_a_parent_does_not_go_without_its_children(self, store: Store) -> None:
        parent, child = await family(store)

        assert await store.admin.delete([("parent", parent)], force=True) is None
        assert (
            await store.admin.delete([("parent", parent), ("child", child + 1)], force=True) is None
        )
        assert (await store.admin.totals()).instances["running"] == 2
        counts = await store.admin.delete([("child", child), ("parent", parent)], force=True)

        assert counts is not None
        assert counts.instances == 2
        assert await is_empty(store)

    async def test_a_child_that_was_born_meanwhile_saves_its_parent(self, store: Store) -> None:
        """Whoever walked the tree before the last child was started must walk it again."""
        parent, child = await family(store)
        late = new_instance("late", parent_id="parent", parent_incarnation=parent)
        stamp = await latest(store, "parent")
        turn = next_turn("parent", stamp, children=(ChildStart(late, message("parent")),))
        await accepted(store, turn)

        assert await store.admin.delete([("parent", parent), ("child", child)], force=True) is None

        assert (await store.admin.totals()).instances["running"] == 3

    async def test_children_of_an_earlier_incarnation_do_not_count(self, store: Store) -> None:
        stamp = await begun(store)
        stray = new_instance("stray", parent_id="i", parent_incarnation=stamp.incarnation + 1)
        await store.start([stray])

        assert await store.admin.delete([("i", stamp.incarnation)], force=True) is not None

    async def test_only_the_present_incarnation_is_deleted(self, store: Store) -> None:
        old = await ended(store)
        fresh = new_instance(replaces=old)
        await store.start([fresh])

        assert await store.admin.delete([("i", old)], force=True) is None
        assert await store.admin.delete([("i", old), ("i", fresh.incarnation)], force=True) is None
        assert await store.admin.delete([("never", 1)], force=True) is None

        [row] = await store.read_instances(["i"])
        assert row is not None
        assert row.incarnation == fresh.incarnation

    async def test_nothing_to_delete_is_nothing_deleted(self, store: Store) -> None:
        done = await ended(store)

        assert await store.admin.delete([]) == DeletedCounts()
        counts = await store.admin.delete([("i", done), ("i", done)])

        assert counts == DeletedCounts(instances=1, executions=1, events=2)

    async def test_an_id_that_was_never_started_is_no_instance_to_delete(
        self, store: Store
    ) -> None:
        await store.deliver([message("unborn", if_absent="buffer")])

        assert await store.admin.delete([("unborn", 0)], force=True) is None

        assert len(await store.read_inbox("unborn")) == 1

    async def test_a_value_that_cannot_be_stored_is_refused(self, store: Store) -> None:
        for bad in ("nul\0", "\ud800"):
            with pytest.raises(RowError):
                await store.admin.delete([(bad, 1)])
        with pytest.raises(RowError):
            await store.admin.prune("\ud800", keep_last=1)


class TestWorkOnDeletedInstances:
    """Whoever still works on a deleted instance learns it, and cannot bring it back."""

    async def test_a_claimed_turn_is_refused(self, store: Store) -> None:
        await begun(store)
        await store.deliver([message()])
        [claimed] = await claim(store)
        await store.admin.delete([("i", claimed.stamp.incarnation)], force=True)
        turn = turn_of(
            claimed, jobs=(job(3),), kv=(KvChange("k", b"1"),), report=b"1", outcome=None
        )

        assert await store.commit([turn]) == [REFUSED]
        assert await store.commit([turn]) == [REFUSED]

        assert await is_empty(store)
        assert await store.admin.read_kv("i") == {}
        assert await store.admin.read_reports(["i"]) == [None]

    async def test_a_claimed_first_turn_is_refused(self, store: Store) -> None:
        await store.start([new_instance()])
        [claimed] = await claim(store)
        await store.admin.delete([("i", claimed.stamp.incarnation)], force=True)

        assert await store.commit([turn_of(claimed)]) == [REFUSED]

        assert await is_empty(store)

    @pytest.mark.parametrize("seize", [False, True], ids=["hot", "termination"])
    async def test_the_short_way_is_refused(self, store: Store, seize: bool) -> None:
        stamp = await begun(store)
        await store.admin.delete([("i", stamp.incarnation)], force=True)
        events = (Body("x", b""),)

        [receipt] = await store.commit([next_turn("i", stamp, events=events, seize=seize)])
        [end] = await store.commit(
            [next_turn("i", stamp, events=events, seize=seize, outcome=outcome())]
        )

        assert (receipt, end) == (REFUSED, REFUSED)
        assert await is_empty(store)

    async def test_a_turn_of_a_deleted_instance_starts_no_children(self, store: Store) -> None:
        stamp = await begun(store)
        await store.admin.delete([("i", stamp.incarnation)], force=True)
        child = new_instance("child", parent_id="i", parent_incarnation=stamp.incarnation)
        turn = next_turn(
            "i",
            stamp,
            children=(ChildStart(child, message()),),
            deliveries=(message("other", if_absent="buffer"),),
        )

        assert await store.commit([turn]) == [REFUSED]

        assert await is_empty(store)

    async def test_a_running_job_ends_in_nothing(self, store: Store) -> None:
        stamp = await begun(store, jobs=(job(),))
        [claimed] = await claim_jobs(store)
        lease = JobLease(claimed.key, claimed.token)
        await store.admin.delete([("i", stamp.incarnation)], force=True)

        assert await store.renew([], [lease], lease_ms=LEASE_MS) == ([], [lease])
        assert await store.end_jobs([result_of(claimed.key, claimed.token)]) == [False]
        assert not await store.admin.end_job_by_hand(claimed.key, "activity_completed", b"")
        [receipt] = await store.commit(
            [next_turn("i", stamp, job_ends=(result_of(claimed.key, claimed.token),))]
        )

        assert receipt == REFUSED
        assert await is_empty(store)

    async def test_a_lease_is_lost_and_cannot_be_released(self, store: Store) -> None:
        await store.start([new_instance()])
        [claimed] = await claim(store)
        lease = TurnLease("i", claimed.lease)
        await store.admin.delete([("i", claimed.stamp.incarnation)], force=True)

        assert await store.renew([lease], [], lease_ms=LEASE_MS) == ([lease], [])
        await store.release_turns([lease])
        hold = Hold("i", claimed.stamp, claimed.lease, Status.PARKED, "*", "why")

        assert await store.hold([hold]) == [False]
        assert not await store.unpark("i")
        assert await is_empty(store)

    async def test_a_message_for_it_has_no_addressee(self, store: Store) -> None:
        stamp = await begun(store)
        await store.admin.delete([("i", stamp.incarnation)], force=True)

        statuses = await store.deliver(
            [
                message(),
                message(incarnation=stamp.incarnation),
                message(incarnation=stamp.incarnation, if_absent="buffer"),
                message(if_absent="refuse"),
            ]
        )

        assert statuses == [DeliveryStatus.ABSENT] * 4
        assert await is_empty(store)

    async def test_its_id_is_free_again(self, store: Store) -> None:
        stamp = await begun(store)
        await store.deliver([message(message_id="m")])
        await store.admin.delete([("i", stamp.incarnation)], force=True)

        fresh = await begun(store)

        assert fresh.incarnation != stamp.incarnation
        assert await store.deliver([message(message_id="m")]) == [DeliveryStatus.DELIVERED]
        stale = next_turn("i", stamp, events=(Body("x", b""),))
        assert await store.commit([stale]) == [REFUSED]
