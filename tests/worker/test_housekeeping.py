from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from perdure.clock import ManualClock
from perdure.errors import StoreUnavailableError
from perdure.model.admin import InstanceFilter
from perdure.model.histories.events import Body
from perdure.model.instances import Stamp, Status
from perdure.model.options import Retention, WorkerOptions
from perdure.model.turns import Continuation, Hold
from perdure.store.base import Store
from perdure.telemetry import Metrics
from perdure.worker import housekeeping
from perdure.worker.housekeeping import Housekeeping
from tests.contract.store_values import (
    COMPLETED,
    ORCHESTRATION,
    STARTED,
    accepted,
    begun,
    ended,
    first_turn,
    message,
    new_instance,
    next_turn,
    outcome,
)

DAY = timedelta(days=1)


def keeping(store: Store, metrics: Metrics | None = None, **kept: Any) -> Housekeeping:
    options = WorkerOptions(retention=Retention(**kept))
    return Housekeeping(store, options, worker_id="w1", metrics=metrics or Metrics(), deciders={})


async def ids(store: Store) -> set[str]:
    rows = await store.admin.list_instances(InstanceFilter(), limit=500)
    return {row.instance_id for row in rows}


async def child_of(store: Store, parent: str, child: str, *, is_over: bool) -> int:
    """Start a child, and end it or not; return its incarnation."""
    [row] = await store.read_instances([parent])
    assert row is not None
    start = new_instance(child, parent_id=parent, parent_incarnation=row.incarnation)
    ending = {"events": (STARTED, COMPLETED), "outcome": outcome()} if is_over else {}
    await accepted(store, first_turn(start, **ending))
    return start.incarnation


async def end(store: Store, instance_id: str) -> None:
    live = await store.read_live(instance_id)
    assert live is not None
    turn = next_turn(instance_id, live.stamp, events=(COMPLETED,), outcome=outcome())
    await accepted(store, turn)


# --------------------------------------------------------------------- ended trees


async def test_what_ended_by_a_clock_that_was_behind_is_kept_from_its_creation_on(
    store: Store, clock: ManualClock
) -> None:
    """A child of today whose end is on record in 1970 keeps its tree."""
    parent = await ended(store, "old")
    child = new_instance(
        "young", parent_id="old", parent_incarnation=parent, created_ms=clock() - 1_000
    )
    await accepted(store, first_turn(child, events=(STARTED, COMPLETED), outcome=outcome()))

    removed = await keeping(store, ended=DAY).run_once()

    assert not removed
    assert await ids(store) == {"old", "young"}


async def test_what_ended_long_ago_goes_and_what_ended_lately_stays(
    store: Store, clock: ManualClock
) -> None:
    await ended(store, "old")
    clock.advance(2 * DAY)
    await ended(store, "young")
    await begun(store, "alive")
    house = keeping(store, ended=DAY)

    removed = await house.run_once()

    assert (removed.instances, removed.has_more) == (1, False)
    assert await ids(store) == {"young", "alive"}
    assert not await house.run_once()


async def test_without_a_policy_nothing_ends_up_removed(store: Store, clock: ManualClock) -> None:
    await ended(store, "old")
    clock.advance(1_000 * DAY)

    assert not await keeping(store).run_once()
    assert await ids(store) == {"old"}


async def test_it_is_removed_at_the_first_moment_it_is_too_old(
    store: Store, clock: ManualClock
) -> None:
    await ended(store, "i")
    house = keeping(store, ended=DAY)

    clock.advance(DAY)
    assert not await house.run_once()
    clock.advance(timedelta(milliseconds=1))
    assert (await house.run_once()).instances == 1


async def test_a_tree_goes_as_a_whole(store: Store, clock: ManualClock) -> None:
    await begun(store, "root")
    await child_of(store, "root", "child", is_over=False)
    await child_of(store, "child", "grandchild", is_over=True)
    await end(store, "child")
    await end(store, "root")
    clock.advance(2 * DAY)

    removed = await keeping(store, ended=DAY).run_once()

    assert removed.instances == 3
    assert await ids(store) == set()


async def test_a_living_member_keeps_its_whole_tree(store: Store, clock: ManualClock) -> None:
    """A child that its parent abandoned goes on; who its parent was must stay known."""
    await begun(store, "root")
    await child_of(store, "root", "child", is_over=False)
    await child_of(store, "child", "grandchild", is_over=False)
    await end(store, "child")
    await end(store, "root")
    clock.advance(2 * DAY)
    house = keeping(store, ended=DAY)

    assert not await house.run_once()
    assert await ids(store) == {"root", "child", "grandchild"}

    await end(store, "grandchild")
    assert not await house.run_once()
    clock.advance(2 * DAY)
    assert (await house.run_once()).instances == 3


@pytest.mark.parametrize("status", [Status.BLOCKED, Status.PARKED])
async def test_what_is_held_is_never_removed(
    store: Store, clock: ManualClock, status: Status
) -> None:
    stamp = await begun(store, "held")
    assert await store.hold([Hold("held", stamp, 0, status, "c1", "why")]) == [True]
    clock.advance(1_000 * DAY)

    assert not await keeping(store, ended=DAY).run_once()
    assert await ids(store) == {"held"}


async def test_an_orphan_is_a_tree_of_its_own(store: Store, clock: ManualClock) -> None:
    """Its parent's id began anew, so nobody leads to it any more."""
    parent = await ended(store, "parent")
    await child_of(store, "parent", "orphan", is_over=True)
    clock.advance(2 * DAY)
    again = new_instance("parent", replaces=parent, created_ms=clock())
    await accepted(store, first_turn(again))

    removed = await keeping(store, ended=DAY).run_once()

    assert removed.instances == 1
    assert await ids(store) == {"parent"}


async def test_more_than_one_page_is_removed_in_one_round(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "PAGE", 3)
    monkeypatch.setattr(housekeeping, "BULK_MAX", 2)
    for number in range(10):
        await ended(store, f"i{number}")
    clock.advance(2 * DAY)

    removed = await keeping(store, ended=DAY).run_once()

    assert (removed.instances, removed.has_more) == (10, False)


async def test_a_round_is_bounded_and_the_next_one_goes_on(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees that must stay do not keep the others from being looked at."""
    monkeypatch.setattr(housekeeping, "PAGE", 2)
    monkeypatch.setattr(housekeeping, "MAX_PAGES", 1)
    for number in range(3):
        await ended(store, f"i{number}")
        await child_of(store, f"i{number}", f"child{number}", is_over=False)
    await ended(store, "free")
    clock.advance(2 * DAY)
    house = keeping(store, ended=DAY)

    rounds = [await house.run_once() for _ in range(4)]

    assert sum(removed.instances for removed in rounds) == 1
    assert rounds[0].has_more
    assert "free" not in await ids(store)


async def test_several_workers_may_keep_house_at_the_same_time(
    store: Store, clock: ManualClock
) -> None:
    """Whoever comes second finds nothing left; nothing is removed twice or halfway."""
    for number in range(50):
        await ended(store, f"i{number}")
        await child_of(store, f"i{number}", f"child{number}", is_over=True)
    clock.advance(2 * DAY)
    houses = [keeping(store, ended=DAY) for _ in range(3)]

    removed = await asyncio.gather(*(house.run_once() for house in houses))

    assert sum(one.instances for one in removed) == 100
    assert await ids(store) == set()


async def test_a_tree_that_changes_meanwhile_does_not_keep_the_others(
    store: Store, clock: ManualClock
) -> None:
    """Trees are deleted together; if one of them may no longer go, the others still do."""
    for number in range(3):
        await ended(store, f"i{number}")
    clock.advance(2 * DAY)
    house = keeping(store, ended=DAY)
    read_children = store.admin.read_children

    async def read_and_start(instance_ids: Any) -> Any:
        found = await read_children(instance_ids)
        if "i1" in instance_ids:
            await child_of(store, "i1", "late", is_over=False)
        return found

    store.admin.read_children = read_and_start  # type: ignore[method-assign]  # a race, on purpose

    assert (await house.run_once()).instances == 2
    assert await ids(store) == {"i1", "late"}


async def test_a_tree_beyond_the_limit_is_left_and_named(
    store: Store,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(housekeeping, "MAX_TREE", 2)
    await ended(store, "root")
    for number in range(3):
        await child_of(store, "root", f"child{number}", is_over=True)
    clock.advance(2 * DAY)

    assert not await keeping(store, ended=DAY).run_once()

    [record] = caplog.records
    assert record.__dict__["instance_id"] == "root"
    assert len(await ids(store)) == 4


# ------------------------------------------------------------------ executions


async def continued(store: Store, instance_id: str, times: int) -> Stamp:
    """Start an instance that continues as new, each time after one event."""
    stamp = await begun(store, instance_id)
    for _ in range(times):
        following = Continuation(ORCHESTRATION, STARTED, b"null", ())
        last = Body("continued_as_new", b'{"version":"1.0.0","input":null}')
        turn = next_turn(instance_id, stamp, events=(last,), continued=following)
        await accepted(store, turn)
        stamp = turn.next_stamp
        [message] = await store.read_inbox(instance_id)
        begin = next_turn(
            instance_id, stamp, events=(STARTED,), consumed=(message.no,), seen_no=message.no
        )
        await accepted(store, begin)
        stamp = begin.next_stamp
    return stamp


async def executions(store: Store, instance_id: str) -> list[int]:
    return [row.execution for row in await store.admin.read_executions(instance_id)]


async def test_earlier_executions_beyond_the_number_kept_go(store: Store) -> None:
    await continued(store, "i", 4)

    removed = await keeping(store, executions=2).run_once()

    assert removed.executions == 2
    assert await executions(store, "i") == [3, 4, 5]


async def test_the_current_execution_always_stays(store: Store) -> None:
    await continued(store, "i", 3)

    await keeping(store, executions=0).run_once()

    assert await executions(store, "i") == [4]


async def test_all_are_looked_through_once_and_then_only_those_that_continued(
    store: Store,
) -> None:
    house = keeping(store, executions=0)
    await house.run_once()
    await continued(store, "i", 2)

    assert not await house.run_once()
    house.continued("i")
    assert (await house.run_once()).executions == 2


async def test_of_more_than_are_remembered_all_are_looked_through_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "MAX_CONTINUED", 1)
    house = keeping(store, executions=0)
    await house.run_once()
    for instance_id in ("i", "j", "k"):
        await continued(store, instance_id, 1)
        house.continued(instance_id)

    assert (await house.run_once()).executions == 3


async def test_what_could_not_be_pruned_is_pruned_the_next_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = keeping(store, executions=0)
    await house.run_once()
    for instance_id in ("i", "j"):
        await continued(store, instance_id, 1)
        house.continued(instance_id)

    async def unavailable(*_: Any, **__: Any) -> None:
        raise StoreUnavailableError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(store.admin, "prune", unavailable)
        with pytest.raises(StoreUnavailableError):
            await house.run_once()

    assert (await house.run_once()).executions == 2


async def test_an_instance_that_is_gone_meanwhile_is_no_trouble(store: Store) -> None:
    house = keeping(store, executions=0)
    house.continued("gone")

    assert not await house.run_once()


# ---------------------------------------------------------------------- what is old


async def test_receipts_are_forgotten_only_of_instances_that_have_ended(
    store: Store, clock: ManualClock
) -> None:
    """A message sent again must be known for a repetition as long as it could arrive."""
    await begun(store, "alive")
    await begun(store, "over")
    await store.deliver([message("alive", message_id="m"), message("over", message_id="m")])
    live = await store.read_live("over")
    assert live is not None
    done = next_turn("over", live.stamp, events=(COMPLETED,), outcome=outcome(), seize=True)
    await accepted(store, done)
    clock.advance(8 * DAY)

    removed = await keeping(store).run_once()

    assert removed.expired == 1


async def test_messages_for_an_id_that_nobody_starts_are_forgotten(
    store: Store, clock: ManualClock
) -> None:
    await store.deliver([message("never", if_absent="buffer")])
    house = keeping(store, unborn=DAY)
    assert not await house.run_once()

    clock.advance(2 * DAY)
    assert await house.run_once()
    assert await store.read_live("never") is None


async def test_what_was_removed_is_logged_and_counted(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    metrics = Metrics()
    await ended(store, "old")
    clock.advance(2 * DAY)

    await keeping(store, metrics, ended=DAY).run_once()

    removed = "perdure_housekeeping_removed_total"
    assert metrics.snapshot().value(removed, what="instances") == 1
    assert metrics.snapshot().value(removed, what="events") == 2
    [record] = [one for one in caplog.records if one.name == "perdure.worker.housekeeping"]
    facts = record.__dict__
    assert (facts["removed_instances"], facts["worker_id"]) == (1, "w1")
