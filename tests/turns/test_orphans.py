"""Which children are ended before they begin: those to whom the message of an end is on its way."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure.clock import ManualClock
from perdure.model.histories.events import (
    NULL,
    CancelRequested,
    MessageEvent,
    Started,
    Terminated,
    read_event,
    write_event,
)
from perdure.model.histories.lineage import Lineage, Parent
from perdure.model.instances import Stamp
from perdure.model.messages import Delivery, Message
from perdure.model.turns import ClaimedTurn
from perdure.store.base import Store
from perdure.store.opening import open_store
from perdure.turns.loading.orphans import end_orphans
from tests.contract.store_values import accepted, begun, continuation, ended, next_turn


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    store = open_store(store_url, clock=ManualClock())
    await store.open()
    yield store
    await store.close()


def claimed(*line: Parent, execution: int = 1, seq: int = 1) -> ClaimedTurn:
    """Return the claim of a child that begins, with those above it, its parent first."""
    parent, *above = line
    started = Started(
        name="child",
        version="1",
        behaviour=1,
        input=NULL,
        parent=parent,
        lineage=Lineage(len(line), tuple(above)) if above else None,
    )
    return ClaimedTurn(
        instance_id="child",
        definition_no=1,
        stamp=Stamp(9, execution, seq),
        lease=1,
        attempts=1,
        last_no=1,
        messages=(Message(1, 5, *write_event(started)),),
    )


async def is_ended(store: Store, claim: ClaimedTurn) -> bool:
    """Return whether a child is ended before it begins."""
    [told] = await end_orphans(store, [claim])
    if told == claim:
        return False
    *rest, last = told.messages
    assert tuple(rest) == claim.messages
    assert isinstance(read_event(last.kind, last.body), Terminated)
    return True


async def tell(store: Store, instance_id: str, event: MessageEvent) -> None:
    kind, body = write_event(event)
    await store.deliver([Delivery(instance_id=instance_id, kind=kind, body=body)])


async def running(store: Store, instance_id: str) -> Parent:
    return Parent(instance_id, (await begun(store, instance_id)).incarnation, 1, 2)


async def over(store: Store, instance_id: str) -> Parent:
    return Parent(instance_id, await ended(store, instance_id), 1, 2)


@pytest.mark.parametrize(
    "message", [CancelRequested(reason="enough"), Terminated(reason="enough")], ids=lambda m: m.kind
)
async def test_a_child_is_ended_if_its_parent_has_yet_to_hear_of_an_end_above(
    store: Store, message: MessageEvent
) -> None:
    parent, root = await running(store, "parent"), await over(store, "root")
    await tell(store, "parent", message)

    assert await is_ended(store, claimed(parent, root))


async def test_the_message_may_still_be_with_somebody_further_up(store: Store) -> None:
    parent, middle = await running(store, "parent"), await running(store, "middle")
    root = await over(store, "root")
    await tell(store, "middle", CancelRequested(reason="enough"))

    assert await is_ended(store, claimed(parent, middle, root))


async def test_a_child_begins_if_those_above_have_heard_and_go_on(store: Store) -> None:
    parent, root = await running(store, "parent"), await over(store, "root")

    assert not await is_ended(store, claimed(parent, root))


async def test_a_child_begins_if_nobody_above_has_ended(store: Store) -> None:
    parent, root = await running(store, "parent"), await running(store, "root")
    await tell(store, "parent", CancelRequested(reason="enough"))

    assert not await is_ended(store, claimed(parent, root))


async def test_the_end_of_the_parent_itself_is_left_to_its_own_message(store: Store) -> None:
    parent, root = await over(store, "parent"), await over(store, "root")

    assert not await is_ended(store, claimed(parent, root))


async def test_an_execution_that_was_followed_by_the_next_has_ended(store: Store) -> None:
    parent, stamp = await running(store, "parent"), await begun(store, "root")
    await accepted(store, next_turn("root", stamp, continued=continuation()))
    await tell(store, "parent", CancelRequested(reason="enough"))

    assert await is_ended(store, claimed(parent, Parent("root", stamp.incarnation, 1, 2)))
    assert not await is_ended(store, claimed(parent, Parent("root", stamp.incarnation, 2, 2)))


async def test_another_instance_under_the_id_of_one_above_says_nothing(store: Store) -> None:
    parent, root = await running(store, "parent"), await over(store, "root")
    await tell(store, "parent", CancelRequested(reason="enough"))
    another = Parent("root", root.incarnation + 1, 1, 2)

    assert not await is_ended(store, claimed(parent, another))


async def test_what_has_begun_hears_of_the_end_itself_and_may_clean_up(store: Store) -> None:
    """Also in its next execution: an earlier one has done things."""
    parent, root = await running(store, "parent"), await over(store, "root")
    await tell(store, "parent", CancelRequested(reason="enough"))

    assert not await is_ended(store, claimed(parent, root, seq=4))
    assert not await is_ended(store, claimed(parent, root, execution=2))
