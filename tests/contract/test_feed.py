"""What every store does with the feed of deciders' events, and with those who read it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from perdure.clock import ManualClock
from perdure.errors import RowError
from perdure.model.feeds import FeedEvent, ReaderStatus
from perdure.model.histories.events import Body, StoredEvent
from perdure.model.instances import DefinitionKey
from perdure.model.turns import FedEvent, TurnReceipt, TurnStatus
from perdure.store.base import Store
from tests.contract.store_values import (
    LEASE_MS,
    PLACED,
    STARTED,
    accepted,
    begun,
    decided,
    decider,
    failed,
    first_turn,
    next_turn,
    outcome,
    token,
)
from tests.contract.test_admin import continued

LEASE = timedelta(milliseconds=LEASE_MS)
CART = DefinitionKey("decider", "cart", "", 1)


async def fed(store: Store, instance_id: str, *tags: str, **fields: Any) -> int:
    """Start an instance that records events with these tags; return its incarnation."""
    events = tuple(Body("event_recorded", tag.encode()) for tag in tags)
    feed = tuple(FedEvent(index, tag) for index, tag in enumerate(tags, start=1))
    start = decider(instance_id, **fields)
    await accepted(store, first_turn(start, events=(STARTED, *events), feed=feed))
    return start.incarnation


async def tags_of(store: Store, *, after: int = 0, limit: int = 99, **filters: Any) -> list[str]:
    """Return the tags of events in the feed."""
    events, _ = await store.feed.read_feed(after=after, limit=limit, **filters)
    return [event.tag for event in events]


class TestFeed:
    """Events that are fed come in the order of their commits, and none is skipped."""

    async def test_a_fed_event_is_read_as_it_was_recorded(self, store: Store) -> None:
        start = decider("order:1")
        odd = Body("event_recorded", bytes(range(256)))
        fed = FedEvent(2, "Odd", 7, "timer:late", "cart-\N{SNOWMAN}")
        turn = first_turn(start, events=(STARTED, PLACED, odd), feed=(fed,))
        await accepted(store, turn)

        [event], upto = await store.feed.read_feed(after=0, limit=9)

        stored = StoredEvent(3, "event_recorded", 2, odd.body)
        pos = await store.feed.feed_end()
        assert event == FeedEvent(
            pos, "order", "order:1", start.incarnation, "Odd", stored, *fed[2:]
        )
        assert upto == pos > 0

    async def test_events_come_in_the_order_of_their_commits(self, store: Store) -> None:
        await fed(store, "order:2", "a", "b")
        stamp = await decided(store, "order:1")
        first = next_turn("order:1", stamp, events=(PLACED,), feed=(FedEvent(0, "c"),))
        await store.commit(
            [
                first,
                first_turn(decider("order:0"), feed=(FedEvent(0, "d"),)),
                next_turn(
                    "order:1",
                    first.next_stamp,
                    events=(STARTED, PLACED, PLACED),
                    feed=(FedEvent(0, "e"), FedEvent(2, "f")),
                ),
            ]
        )

        events, _ = await store.feed.read_feed(after=0, limit=99)

        assert [event.tag for event in events] == ["a", "b", "c", "d", "e", "f"]
        positions = [event.pos for event in events]
        assert positions == sorted(set(positions))
        assert [event.stored.seq for event in events] == [2, 3, 3, 1, 4, 6]

    async def test_an_empty_feed_ends_where_the_reader_stands(self, store: Store) -> None:
        assert await store.feed.feed_end() == 0
        assert await store.feed.read_feed(after=0, limit=9) == ([], 0)
        assert await store.feed.read_feed(after=5, limit=9) == ([], 5)

    async def test_the_feed_is_read_in_pages(self, store: Store) -> None:
        await fed(store, "order:1", *"abcde")
        pages = []
        after = 0
        while True:
            events, upto = await store.feed.read_feed(after=after, limit=2)
            if not events:
                break
            assert upto == events[-1].pos
            pages.append([event.tag for event in events])
            after = upto

        assert pages == [["a", "b"], ["c", "d"], ["e"]]
        assert after == await store.feed.feed_end()
        assert await store.feed.read_feed(after=0, limit=0) == ([], 0)
        assert await store.feed.read_feed(after=0, limit=-1) == ([], 0)

    async def test_filters_name_deciders_and_tags(self, store: Store) -> None:
        await fed(store, "order:1", "Placed", "Paid")
        await fed(store, "cart:1", "Filled", "Paid", definition=CART)
        await fed(store, "cart:2", "Filled", definition=CART._replace(behaviour=2))

        assert await tags_of(store, deciders=["cart"]) == ["Filled", "Paid", "Filled"]
        assert await tags_of(store, tags=["Paid"]) == ["Paid", "Paid"]
        assert await tags_of(store, deciders=["order"], tags=["Paid", "Filled"]) == ["Paid"]
        assert await tags_of(store, deciders=["order", "cart"], tags=["Filled"]) == ["Filled"] * 2
        assert await tags_of(store, deciders=["never"]) == []
        assert await tags_of(store) == ["Placed", "Paid", "Filled", "Paid", "Filled"]

    async def test_what_a_filter_leaves_out_is_skipped(self, store: Store) -> None:
        await fed(store, "order:1", "wanted", *["other"] * 5)

        events, upto = await store.feed.read_feed(after=0, limit=9, tags=["wanted"])

        assert len(events) == 1
        assert upto == await store.feed.feed_end()
        assert await store.feed.read_feed(after=upto, limit=9, tags=["wanted"]) == ([], upto)

    async def test_a_full_page_does_not_skip_what_is_behind_it(self, store: Store) -> None:
        await fed(store, "order:1", "a", "other", "b", "other")

        events, upto = await store.feed.read_feed(after=0, limit=1, tags=["a", "b"])

        assert [event.tag for event in events] == ["a"]
        assert await tags_of(store, after=upto, tags=["a", "b"]) == ["b"]

    async def test_events_of_an_ended_instance_stay(self, store: Store) -> None:
        await decided(store, "order:1", feed=(FedEvent(1, "Placed"),), outcome=outcome())

        assert await tags_of(store) == ["Placed"]

    async def test_events_go_with_their_instance_and_positions_do_not_come_back(
        self, store: Store
    ) -> None:
        await fed(store, "order:1", "a")
        gone = await fed(store, "order:2", "b", "c")
        end = await store.feed.feed_end()

        await store.admin.delete([("order:2", gone)], force=True)

        assert await tags_of(store) == ["a"]
        _, upto = await store.feed.read_feed(after=0, limit=9)
        assert upto == await store.feed.feed_end() < end
        assert await store.feed.read_feed(after=end, limit=9) == ([], end)
        await fed(store, "order:3", "d")
        assert await store.feed.feed_end() > end
        assert await tags_of(store, after=end) == ["d"]

    async def test_events_of_a_replaced_instance_go(self, store: Store) -> None:
        feed = (FedEvent(1, "old"),)
        old = await decided(store, "order:1", feed=feed, outcome=outcome())

        await fed(store, "order:1", "new", replaces=old.incarnation)

        assert await tags_of(store) == ["new"]

    async def test_a_refused_turn_feeds_nothing_and_one_sent_again_once(self, store: Store) -> None:
        stamp = await decided(store)
        turn = next_turn("order:1", stamp, events=(PLACED,), feed=(FedEvent(0, "a"),))
        late = next_turn("order:1", stamp, events=(PLACED,), feed=(FedEvent(0, "late"),))

        await accepted(store, turn)
        await accepted(store, turn)

        assert await store.commit([late]) == [TurnReceipt(TurnStatus.REFUSED)]
        assert await tags_of(store) == ["a"]

    async def test_a_turn_that_feeds_what_is_no_event_of_it_is_refused_alone(
        self, store: Store
    ) -> None:
        stamp = await decided(store)

        for index in (1, -1):
            turn = next_turn("order:1", stamp, events=(PLACED,), feed=(FedEvent(index, "a"),))
            error = await failed(store, turn)
            assert isinstance(error, RowError)
            assert "feeds event" in str(error)

        assert await store.feed.feed_end() == 0

    async def test_what_a_history_has_no_more_the_feed_has_no_more(self, store: Store) -> None:
        stamp = await decided(store, "order:1", feed=(FedEvent(1, "first"),))
        await continued(store, "order:1", stamp)
        live = await store.read_live("order:1")
        assert live is not None
        turn = next_turn("order:1", live.stamp, events=(PLACED,), feed=(FedEvent(0, "second"),))
        await accepted(store, turn)
        await fed(store, "order:2", "other")

        await store.admin.prune("order:1", keep_last=1)

        assert await tags_of(store) == ["second", "other"]
        assert (await store.admin.totals()).fed_events == 2

    async def test_how_many_events_are_fed_is_counted(self, store: Store) -> None:
        await fed(store, "order:1", "a", "b")

        assert (await store.admin.totals()).fed_events == 2


class TestReaders:
    """Of one name one reader has the right to read, and remembers how far it has come."""

    async def test_a_new_name_begins_before_all_events(
        self, store: Store, clock: ManualClock
    ) -> None:
        claimed = await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)

        assert claimed is not None
        assert (claimed.name, claimed.pos, claimed.reason) == ("mail", 0, None)
        assert claimed.status is ReaderStatus.RUNNING
        assert (claimed.lease_until_ms, claimed.updated_ms) == (clock() + LEASE_MS, clock())
        assert await store.feed.read_checkpoints() == [claimed]

    async def test_one_reader_has_a_name_at_a_time(self, store: Store, clock: ManualClock) -> None:
        first, second = token(), token()

        claimed = [
            await store.feed.claim_feed("mail", lease=lease, lease_ms=LEASE_MS)
            for lease in (first, second, first)
        ]
        other = await store.feed.claim_feed("other", lease=second, lease_ms=LEASE_MS)

        assert [one is not None for one in (*claimed, other)] == [True, False, True, True]
        clock.advance(LEASE)
        assert await store.feed.claim_feed("mail", lease=second, lease_ms=LEASE_MS) is not None
        assert await store.feed.claim_feed("mail", lease=first, lease_ms=LEASE_MS) is None

    async def test_a_claim_by_its_holder_extends_the_lease(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)
        clock.advance(LEASE / 2)

        claimed = await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)

        assert claimed is not None
        assert claimed.lease_until_ms == clock() + LEASE_MS
        clock.advance(LEASE / 2)
        assert await store.feed.claim_feed("mail", lease=6, lease_ms=LEASE_MS) is None

    async def test_a_checkpoint_moves_forward_under_its_lease(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)
        clock.advance(LEASE / 2)

        assert await store.feed.advance_feed("mail", lease=5, from_pos=0, to_pos=7)

        [checkpoint] = await store.feed.read_checkpoints()
        assert (checkpoint.pos, checkpoint.updated_ms) == (7, clock())
        assert await store.feed.advance_feed("mail", lease=5, from_pos=7, to_pos=9)

    async def test_a_checkpoint_does_not_move_from_elsewhere_nor_back_nor_for_others(
        self, store: Store
    ) -> None:
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)
        await store.feed.advance_feed("mail", lease=5, from_pos=0, to_pos=7)

        assert not await store.feed.advance_feed("mail", lease=5, from_pos=6, to_pos=9)
        assert not await store.feed.advance_feed("mail", lease=5, from_pos=7, to_pos=6)
        assert not await store.feed.advance_feed("mail", lease=5, from_pos=8, to_pos=7)
        assert not await store.feed.advance_feed("mail", lease=6, from_pos=7, to_pos=9)
        assert not await store.feed.advance_feed("mail", lease=0, from_pos=7, to_pos=9)
        assert not await store.feed.advance_feed("never", lease=5, from_pos=0, to_pos=9)

        assert [one.pos for one in await store.feed.read_checkpoints()] == [7]

    async def test_a_move_sent_again_is_made_once(self, store: Store) -> None:
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)

        for _ in range(2):
            assert await store.feed.advance_feed("mail", lease=5, from_pos=0, to_pos=7)

    async def test_a_lease_that_another_took_is_lost(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)
        clock.advance(LEASE)
        await store.feed.claim_feed("mail", lease=6, lease_ms=LEASE_MS)

        assert not await store.feed.advance_feed("mail", lease=5, from_pos=0, to_pos=7)
        await store.feed.release_feed("mail", lease=5)

        assert await store.feed.claim_feed("mail", lease=7, lease_ms=LEASE_MS) is None
        assert await store.feed.advance_feed("mail", lease=6, from_pos=0, to_pos=7)

    async def test_a_name_that_is_given_back_is_free_and_keeps_its_position(
        self, store: Store
    ) -> None:
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)
        await store.feed.advance_feed("mail", lease=5, from_pos=0, to_pos=7)

        await store.feed.release_feed("mail", lease=5)
        await store.feed.release_feed("never", lease=5)

        assert not await store.feed.advance_feed("mail", lease=5, from_pos=7, to_pos=9)
        claimed = await store.feed.claim_feed("mail", lease=6, lease_ms=LEASE_MS)
        assert claimed is not None
        assert claimed.pos == 7

    async def test_a_reader_that_is_paused_or_stuck_is_nobodys(self, store: Store) -> None:
        for status in (ReaderStatus.PAUSED, ReaderStatus.STUCK):
            await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)

            assert await store.feed.set_reader("mail", status=status, reason="why")

            assert await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS) is None
            assert not await store.feed.advance_feed("mail", lease=5, from_pos=0, to_pos=7)
            [checkpoint] = await store.feed.read_checkpoints()
            assert (checkpoint.status, checkpoint.reason) == (status, "why")
            assert checkpoint.lease_until_ms == 0
            assert await store.feed.set_reader("mail", status=ReaderStatus.RUNNING)
            [checkpoint] = await store.feed.read_checkpoints()
            assert (checkpoint.status, checkpoint.reason) == (ReaderStatus.RUNNING, None)

    async def test_a_reader_is_set_back_and_its_lease_ends(self, store: Store) -> None:
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)
        await store.feed.advance_feed("mail", lease=5, from_pos=0, to_pos=7)

        assert await store.feed.set_reader("mail", pos=0)

        assert not await store.feed.advance_feed("mail", lease=5, from_pos=7, to_pos=9)
        claimed = await store.feed.claim_feed("mail", lease=6, lease_ms=LEASE_MS)
        assert claimed is not None
        assert (claimed.pos, claimed.status) == (0, ReaderStatus.RUNNING)

    async def test_a_reader_is_changed_under_a_lease_only_while_it_is_held(
        self, store: Store
    ) -> None:
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)

        assert not await store.feed.set_reader("mail", status=ReaderStatus.STUCK, lease=6)
        assert await store.feed.set_reader("mail", status=ReaderStatus.STUCK, lease=5)
        assert not await store.feed.set_reader("mail", status=ReaderStatus.RUNNING, lease=5)

    async def test_a_reason_is_forgotten_when_the_reader_moves_on(self, store: Store) -> None:
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)
        await store.feed.set_reader("mail", reason="tried in vain")
        claimed = await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)
        assert claimed is not None
        assert claimed.reason == "tried in vain"

        await store.feed.advance_feed("mail", lease=5, from_pos=0, to_pos=1)

        assert [one.reason for one in await store.feed.read_checkpoints()] == [None]

    async def test_a_worker_that_is_lost_with_events_before_it_is_counted_until_it_goes_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        async def losses(lease: int) -> int:
            claimed = await store.feed.claim_feed("mail", lease=lease, lease_ms=LEASE_MS)
            assert claimed is not None
            clock.advance(LEASE)
            return claimed.losses

        idle = [await losses(5), await losses(6)]
        await fed(store, "order:1", "Placed")
        busy = [await losses(7), await losses(7), await losses(8)]
        await store.feed.release_feed("mail", lease=8)
        given_back = await losses(9)
        await store.feed.advance_feed("mail", lease=9, from_pos=0, to_pos=1)

        assert (idle, busy, given_back) == ([0, 0], [1, 1, 2], 2)
        assert await losses(10) == 0

    async def test_who_listens_hears_of_own_events_and_of_readers_that_change(
        self, store: Store
    ) -> None:
        heard: list[str] = []
        stop = store.feed.listen_feed(lambda: heard.append("news"))

        await begun(store, "i")
        after_start = len(heard)
        await fed(store, "order:1", "Placed")
        after_event = len(heard)
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)
        await store.feed.set_reader("mail", status=ReaderStatus.PAUSED)
        after_pause = len(heard)
        stop()
        await fed(store, "order:2", "Placed")

        assert (after_start, after_event, after_pause, len(heard)) == (0, 1, 2, 2)

    async def test_who_begins_to_listen_hears_of_a_commit_that_is_under_way(
        self, store: Store
    ) -> None:
        heard: list[str] = []
        events, feed = (STARTED, PLACED), (FedEvent(1, "Placed"),)
        answer = store.commit([first_turn(decider("order:1"), events=events, feed=feed)])
        stop = store.feed.listen_feed(lambda: heard.append("news"))

        await answer
        stop()

        assert heard == ["news"]

    async def test_a_reader_that_is_not_there_cannot_be_changed(self, store: Store) -> None:
        assert not await store.feed.set_reader("never", status=ReaderStatus.PAUSED)
        assert await store.feed.read_checkpoints() == []

    async def test_a_reader_that_is_forgotten_begins_before_all_events(self, store: Store) -> None:
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)
        await store.feed.advance_feed("mail", lease=5, from_pos=0, to_pos=7)
        await store.feed.claim_feed("kept", lease=5, lease_ms=LEASE_MS)
        await store.feed.set_reader("mail", status=ReaderStatus.STUCK, reason="why")

        assert await store.feed.forget_reader("mail")
        assert not await store.feed.forget_reader("mail")

        assert [one.name for one in await store.feed.read_checkpoints()] == ["kept"]
        claimed = await store.feed.claim_feed("mail", lease=6, lease_ms=LEASE_MS)
        assert claimed is not None
        assert (claimed.pos, claimed.status) == (0, ReaderStatus.RUNNING)

    async def test_a_reader_is_not_forgotten_while_somebody_reads(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.feed.claim_feed("mail", lease=5, lease_ms=LEASE_MS)

        assert not await store.feed.forget_reader("mail")
        clock.advance(LEASE)
        assert await store.feed.forget_reader("mail")
        assert not await store.feed.advance_feed("mail", lease=5, from_pos=0, to_pos=7)

    async def test_readers_are_listed_by_name(self, store: Store) -> None:
        for name in ("b", "c", "a"):
            await store.feed.claim_feed(name, lease=5, lease_ms=LEASE_MS)

        assert [one.name for one in await store.feed.read_checkpoints()] == ["a", "b", "c"]
