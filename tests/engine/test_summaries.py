"""Summaries of histories: read a page at a time, and of long ones only what is new."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from perdure import Signal, context, orchestration
from perdure.checking.invariants import digest_of
from perdure.client.acting.stopping import stop
from perdure.client.deciders.decisions import receipt_json
from perdure.client.histories.histories import find_event
from perdure.client.reading import summaries as kept
from perdure.client.reading import waiting
from perdure.client.reading.summaries import ITEM_BYTES, PAGE, Summaries
from perdure.client.reading.waiting import SHORT, list_waiting
from perdure.core.deciders.answers import AcceptedReceipt, write_receipt
from perdure.core.summary import Summary
from perdure.errors import EventsRemovedError
from perdure.model.admin import InstanceFilter
from perdure.model.histories.events import Body, CancelRequested, EventsRemoved, write_event
from perdure.model.histories.removals import EventRemoval
from perdure.model.instances import Stamp
from perdure.model.turns import FedEvent, Snapshot
from perdure.store.base import ExecutionKey, Store
from perdure.store.opening import open_store
from tests.contract.store_values import (
    STARTED,
    accepted,
    decider,
    first_turn,
    latest,
    new_instance,
    next_turn,
)
from tests.engine.stage import Stage, until, waits_for

go = Signal("go", str)


@orchestration
async def long(events: int) -> str:
    """Have a history of that many events, and wait."""
    ctx = context()
    for number in range(events - 2):
        ctx.kv["number"] = number
    return await go.receive()


def calls(count: int, *, length: int = 0) -> tuple[Body, ...]:
    """Return events that ask for something, with inputs of some length."""
    body = b'{"name":"say_hello","input":"%s"}' % (b"x" * length)
    return (Body("activity_scheduled", body),) * count


ANSWERED = Body("activity_completed", b'{"schedule":2,"result":null}')


async def started(store: Store, *events: Body, incarnation: int = 7, name: str = "i") -> Stamp:
    """Start an instance with these events behind its start; return its stamp."""
    start = new_instance(name, incarnation=incarnation)
    turn = first_turn(start, events=(STARTED, *events))
    await accepted(store, turn)
    return turn.next_stamp


async def goes_on(store: Store, stamp: Stamp, *events: Body, **fields: Any) -> Stamp:
    """Append events; return the stamp then."""
    turn = next_turn("i", stamp, events=events, **fields)
    await accepted(store, turn)
    return turn.next_stamp


KEY = ExecutionKey("i", 7, 1)


class Reads:
    """Counts the events of each read of histories."""

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[int] = []
        original = store.read_histories

        async def read_histories(*args: Any, **kwargs: Any) -> Any:
            found = await original(*args, **kwargs)
            self.events.append(sum(map(len, found)))
            return found

        monkeypatch.setattr(store, "read_histories", read_histories)

    def taken(self) -> list[int]:
        """Return what was read since the last time."""
        events, self.events = self.events, []
        return events


async def whole(store: Store, key: ExecutionKey = KEY) -> Summary:
    """Return the summary of a history that is read as a whole."""
    [history] = await store.read_histories([key])
    return Summary(history)


def says_the_same(one: Summary, other: Summary) -> bool:
    facts: Sequence[str] = ("started", "open", "unread", "promises", "cancel_reason")
    more = [write_event(CancelRequested(reason="x"))]
    return all(getattr(one, name) == getattr(other, name) for name in facts) and (
        one.digest_with(more, 1) == other.digest_with(more, 1)
    )


async def test_a_look_at_what_waits_with_20000_events_reads_what_is_new(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.allow_log("grows long")
    engine = await stage.engine([long])
    handle = await engine.start("long-1", long, 20_000)
    await waits_for(handle, "signal 'go'")
    client = await stage.client()
    other = client.handle("long-1")
    reads = Reads(client._core.store, monkeypatch)

    first = await other.explain()
    of_first = reads.taken()
    again = await other.explain()
    of_again = reads.taken()

    assert "waits for signal 'go' since " in first
    assert again == first
    assert max(of_first) <= PAGE
    assert sum(of_first) >= 20_000
    assert sum(of_again) == 1
    await handle.send(go, "on")
    assert await handle.result() == "on"


async def test_what_is_new_is_added_to_what_was_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = await started(store, *calls(3 * PAGE))
    summaries = Summaries()
    await summaries.read(store, KEY)
    reads = Reads(store, monkeypatch)

    await goes_on(store, stamp, ANSWERED, *calls(1))
    found = await summaries.read(store, KEY)

    assert reads.taken() == [3]  # The last one that was known, too.
    assert 2 not in found.open
    assert says_the_same(found, await whole(store))


async def test_a_summary_stays_as_it_was_when_it_was_returned(store: Store) -> None:
    stamp = await started(store, *calls(PAGE))
    summaries = Summaries()
    before = await summaries.read(store, KEY)

    await goes_on(store, stamp, ANSWERED)
    await summaries.read(store, KEY)

    assert len(before.open) == PAGE


async def test_two_looks_at_once_fold_each_event_once(store: Store) -> None:
    """An event that is folded twice may open what was answered."""
    await started(store, *calls(1), ANSWERED, *calls(4 * PAGE))
    summaries = Summaries()

    found = await asyncio.gather(*(summaries.read(store, KEY) for _ in range(5)))

    expected = await whole(store)
    assert all(says_the_same(one, expected) for one in found)


async def test_a_look_that_is_given_up_leaves_what_it_has_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started(store, *calls(4 * PAGE))
    summaries = Summaries()
    reads = Reads(store, monkeypatch)
    look = asyncio.ensure_future(summaries.read(store, KEY))
    await until(lambda: len(reads.events) > 1)
    look.cancel()
    await asyncio.wait([look])
    assert look.cancelled()
    reads.taken()

    found = await summaries.read(store, KEY)

    assert sum(reads.taken()) < 4 * PAGE
    assert says_the_same(found, await whole(store))


async def test_a_database_that_went_back_is_read_anew(store: Store) -> None:
    """As when another server takes over that was behind: what has the same numbers then was
    written by other commits."""
    other = open_store("sqlite://:memory:")
    await other.open()
    for one in (store, other):
        await started(one, *calls(2 * PAGE))
    await goes_on(store, await latest(store), *calls(9), now_ms=5)
    await goes_on(other, await latest(other), ANSWERED, *calls(40), now_ms=6)
    summaries = Summaries()
    await summaries.read(store, KEY)

    found = await summaries.read(other, KEY)

    assert says_the_same(found, await whole(other))
    await other.close()


async def test_an_id_that_is_used_again_is_another_history(store: Store) -> None:
    await started(store, *calls(2 * PAGE))
    summaries = Summaries()
    await summaries.read(store, KEY)
    assert await store.admin.delete([("i", 7)], force=True)

    gone = await summaries.read(store, KEY)
    await started(store, *calls(1), incarnation=8)
    found = await summaries.read(store, KEY._replace(incarnation=8))

    assert (gone.started, gone.open) == (None, {})
    assert list(found.open) == [2]


PLACED = Body("event_recorded", b'{"tag":"Placed","event":null}')
EFFECT = Body("effect_scheduled", b'{"name":"say_hello","input":null}')
STANDING = Body("events_removed", b"\0what they came to")
FAR = 2**60


async def shop_with(store: Store, events: Sequence[Body]) -> ExecutionKey:
    """Start an instance of a decider with these events; return its execution."""
    placed = [index for index, one in enumerate(events, start=1) if one == PLACED]
    feed = tuple(FedEvent(index, "Placed") for index in placed)
    snapshot = Snapshot(1, len(events), b"s")
    turn = first_turn(decider("i"), events=(STARTED, *events), feed=feed, snapshot=snapshot)
    await accepted(store, turn)
    return ExecutionKey("i", *turn.stamp[:2])


async def test_what_was_read_of_a_decider_outlasts_the_removal_of_its_old_events(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await shop_with(store, (*[PLACED] * (2 * PAGE), EFFECT))
    summaries = Summaries()
    before = await summaries.read(store, key)
    assert await store.deciders.remove_events(
        EventRemoval(*key, 900, 899, 9, STANDING), before_ms=FAR
    )
    reads = Reads(store, monkeypatch)

    after = await summaries.read(store, key)

    assert reads.taken() == [1]
    assert list(after.open) == list(before.open) == [2 * PAGE + 2]


async def test_a_removal_of_what_was_read_last_has_all_read_anew(store: Store) -> None:
    """Between two pages of one look, too: what lies between them would be missing."""
    key = await shop_with(store, (*[PLACED] * PAGE, EFFECT))
    summaries = Summaries()
    await summaries.read(store, key)
    last = PAGE + 2
    await goes_on(
        store, await latest(store), *[PLACED] * PAGE, EFFECT, snapshot=Snapshot(1, 9, b"")
    )
    assert await store.deciders.remove_events(
        EventRemoval(*key, last + 9, last + 8, 9, STANDING), before_ms=FAR
    )

    found = await summaries.read(store, key)

    assert says_the_same(found, await whole(store, key))
    assert list(found.open) == [last + PAGE + 1]


async def test_what_is_kept_has_a_bound_in_bytes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MAX_KEPT_BYTES", 3 * PAGE * ITEM_BYTES)
    keys = [ExecutionKey(name, 7, 1) for name in ("small", "second", "large")]
    await started(store, *calls(PAGE), name="small")
    await started(store, *calls(PAGE), name="second")
    await started(store, *calls(PAGE, length=4 * ITEM_BYTES), name="large")
    summaries = Summaries()
    for key in keys:
        await summaries.read(store, key)
    reads = Reads(store, monkeypatch)

    found = [await summaries.read(store, key) for key in keys]

    # What is larger than all that may be kept took the place of the others.
    assert [len(one.open) for one in found] == [PAGE] * 3
    assert reads.taken()[:2] == [PAGE, 2]


async def test_what_is_kept_has_a_bound_in_number(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MAX_KEPT", 1)
    for name in ("a", "b"):
        await started(store, *calls(PAGE), name=name)
    summaries = Summaries()
    reads = Reads(store, monkeypatch)

    for name in ("a", "a", "b", "a"):
        await summaries.read(store, ExecutionKey(name, 7, 1))

    assert reads.taken() == [PAGE, 2, 1, PAGE, 2, PAGE, 2]


async def test_a_short_history_is_not_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """To read it whole is as quick, and so many looks at short ones push out no long one."""
    await started(store, *calls(3))
    summaries = Summaries()
    reads = Reads(store, monkeypatch)

    for _ in range(2):
        await summaries.read(store, KEY)

    assert reads.taken() == [4, 4]


# ------------------------------------------------- others that read a page at a time


async def test_a_list_by_what_is_waited_for_reads_what_is_new_of_a_long_history(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started(store, *calls(1), name="short")
    await started(store, *calls(3 * PAGE), name="long")
    summaries = Summaries()
    reads = Reads(store, monkeypatch)

    found, of_each = [], []
    for _ in range(2):
        page = await list_waiting(
            store, summaries, InstanceFilter(), "say_hello", limit=10, after=None
        )
        found.append(sorted(row.instance_id for row in page.rows))
        of_each.append(reads.taken())

    assert found == [["long", "short"]] * 2
    # Both beginnings; then the long one, each page from the last event of the one before.
    assert of_each[0] == [SHORT + 2, PAGE, PAGE, PAGE, 4]
    assert of_each[1] == [SHORT + 2, 1]


async def test_a_list_by_what_is_waited_for_is_given_back_after_so_many_events_of_long_histories(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "EVENTS", 2 * PAGE)
    for name in ("a", "b", "c"):
        await started(store, *calls(3 * PAGE), name=name)

    page = await list_waiting(
        store, Summaries(), InstanceFilter(), "say_hello", limit=10, after=None
    )

    assert len(page.rows) == 1
    assert page.next is not None


async def test_an_event_is_looked_for_a_page_at_a_time_and_no_further(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started(store, *calls(PAGE), ANSWERED, *calls(2 * PAGE))
    reads = Reads(store, monkeypatch)

    found = await find_event(store, KEY, lambda one: one if one.kind == ANSWERED.kind else None)
    of_found = reads.taken()
    missing = await find_event(store, KEY, lambda one: one if one.kind == "completed" else None)

    assert found is not None
    assert found.seq == PAGE + 2
    assert of_found == [PAGE, PAGE]
    assert missing is None
    assert reads.taken() == [PAGE, PAGE, PAGE, 2]


async def test_an_instance_with_a_long_history_is_ended_as_one_that_is_read_as_a_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started(store, *calls(3 * PAGE))
    live = await store.read_live("i")
    assert live is not None
    reads = Reads(store, monkeypatch)

    end = await stop(store, live, "enough")

    assert end is not None
    assert max(reads.taken()) <= PAGE
    [history] = await store.read_histories([KEY])
    assert history[-1].kind == "terminated"
    assert end.digest == digest_of(history)


def recorded(version: int) -> Body:
    """Return an event of a decider that says which it is."""
    return Body("event_recorded", b'{"tag":"Placed","event":%d}' % version)


def answer(first: int, last: int) -> bytes:
    """Return the receipt of an input that these events were recorded for."""
    return write_receipt(AcceptedReceipt(first=first, last=last))


async def test_the_answer_to_an_input_is_read_a_page_at_a_time_and_no_further(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop_with(store, [recorded(version) for version in range(1, 4 * PAGE)])
    reads = Reads(store, monkeypatch)

    told = await receipt_json(store, "order", "i", answer(PAGE - 1, PAGE + 1))

    assert [one["event"] for one in told["events"]] == [PAGE - 1, PAGE, PAGE + 1]
    assert reads.taken() == [PAGE, PAGE]


@pytest.mark.parametrize("first", [2 * PAGE + 1, PAGE + 1])
async def test_the_answer_to_an_input_is_right_when_events_are_removed_between_two_pages(
    store: Store, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """Those behind are counted from what stands for them."""
    key = await shop_with(store, [recorded(version) for version in range(1, 3 * PAGE)])
    upto = 2 * PAGE + 1
    nothing = msgspec.Raw(b"null")
    standing = EventsRemoved(upto=upto, version=2 * PAGE, schema=1, state=nothing, memory=nothing)
    removal = EventRemoval(*key, upto, upto - 1, 9, write_event(standing))
    original = store.read_histories
    pages = 0

    async def read_histories(*args: Any, **kwargs: Any) -> Any:
        nonlocal pages
        pages += 1
        if pages == 2:
            assert await store.deciders.remove_events(removal, before_ms=FAR)
        return await original(*args, **kwargs)

    monkeypatch.setattr(store, "read_histories", read_histories)
    asked = receipt_json(store, "order", "i", answer(first, first))

    if first > 2 * PAGE:
        assert [one["event"] for one in (await asked)["events"]] == [first]
    else:
        with pytest.raises(EventsRemovedError):
            await asked
