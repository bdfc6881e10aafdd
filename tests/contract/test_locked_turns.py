"""The contract of news and locked turns: what was recorded since; turns that nobody overtakes."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

from perdure.errors import RowError
from perdure.model.instances import LiveRow, Stamp
from perdure.model.turns import Turn, TurnReceipt, TurnStatus, UniqueKey
from perdure.store.base import Store
from perdure.store.locked_turns import KnownInstance, LockedTurn, News
from tests.contract.store_values import (
    COMPLETED,
    PLACED,
    SCHEDULED,
    STARTED,
    accepted,
    begun,
    decided,
    ended,
    events_of,
    given,
    latest,
    message,
    next_turn,
    outcome,
    token,
)

ACCEPTED = TurnStatus.ACCEPTED


async def news_of(store: Store, stamp: Stamp, instance_id: str = "i") -> News:
    [news] = await store.read_news([KnownInstance(instance_id, stamp)])
    return news


def kinds(news: News) -> list[str] | None:
    return None if news.events is None else [event.kind for event in news.events]


class TestNews:
    """What was recorded since an instance was remembered, of the same past."""

    async def test_nothing_is_new_of_what_is_stored(self, store: Store) -> None:
        stamp = await begun(store)

        news = await news_of(store, stamp)

        assert kinds(news) == []
        assert news.live is not None
        assert news.live.stamp == stamp

    async def test_what_others_have_recorded_since_is_new(self, store: Store) -> None:
        stamp = await begun(store)
        first = next_turn("i", stamp, events=(SCHEDULED, SCHEDULED))
        await accepted(store, first)
        second = next_turn("i", first.next_stamp, events=(SCHEDULED,))
        await accepted(store, second)

        news = await news_of(store, stamp)

        assert news.events is not None
        assert [(event.seq, event.kind) for event in news.events] == [
            (seq, SCHEDULED.kind) for seq in (2, 3, 4)
        ]
        assert news.live is not None
        assert news.live.stamp == second.next_stamp
        assert kinds(await news_of(store, first.next_stamp)) == [SCHEDULED.kind]

    async def test_each_instance_has_its_own_news(self, store: Store) -> None:
        known = [KnownInstance(name, await begun(store, name)) for name in "ijk"]
        for name, count in (("i", 2), ("k", 1)):
            stamp = await latest(store, name)
            await accepted(store, next_turn(name, stamp, events=(SCHEDULED,) * count))

        found = await store.read_news([*known, KnownInstance("nobody", known[0].stamp)])

        assert [kinds(news) for news in found] == [[SCHEDULED.kind] * 2, [], [SCHEDULED.kind], None]
        assert found[3].live is None

    async def test_what_is_too_much_to_be_read_at_once_is_read_anew(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("perdure.store.sql.questions.news.MAX_EVENTS_PER_READ", 3)
        known = [KnownInstance(name, await begun(store, name)) for name in "ij"]
        for one in known:
            turn = next_turn(one.instance_id, one.stamp, events=(SCHEDULED, SCHEDULED))
            await accepted(store, turn)

        whole, cut = await store.read_news(known)

        assert kinds(whole) == [SCHEDULED.kind] * 2
        assert kinds(cut) is None
        assert cut.live is not None

    async def test_a_turn_without_events_moves_only_the_stamp(self, store: Store) -> None:
        stamp = await begun(store)
        turn = next_turn("i", stamp)
        await accepted(store, turn)

        news = await news_of(store, stamp)

        assert kinds(news) == []
        assert news.live is not None
        assert news.live.stamp == turn.next_stamp

    async def test_what_is_remembered_of_a_past_that_was_lost_is_not_gone_on_from(
        self, store: Store
    ) -> None:
        """S47: the numbers fit, and the events are others."""
        stamp = await begun(store)
        lost = next_turn("i", stamp, events=(SCHEDULED,)).next_stamp
        other = next_turn("i", stamp, events=(SCHEDULED,))
        await accepted(store, other)
        await accepted(store, next_turn("i", other.next_stamp, events=(SCHEDULED,)))

        assert kinds(await news_of(store, lost)) is None
        assert kinds(await news_of(store, stamp._replace(next_seq=9, commit_id=token()))) is None

    async def test_another_life_of_an_id_is_not_gone_on_from(self, store: Store) -> None:
        stamp = await begun(store)

        assert kinds(await news_of(store, stamp._replace(incarnation=token()))) is None
        assert kinds(await news_of(store, stamp._replace(execution=2))) is None

    async def test_nothing_goes_on_from_an_end(self, store: Store) -> None:
        stamp = await begun(store)
        await accepted(store, next_turn("i", stamp, events=(COMPLETED,), outcome=outcome()))

        assert await news_of(store, stamp) == News(None, None)


def locked(
    stamp: Stamp,
    think: Callable[[News], Turn | None],
    *,
    instance_id: str = "i",
    wants_inbox: Callable[[LiveRow], bool] = lambda _: False,
) -> LockedTurn:
    return LockedTurn(KnownInstance(instance_id, stamp), think, wants_inbox=wants_inbox)


def one_more(news: News, **fields: Any) -> Turn:
    """Think a turn of one event on what is stored."""
    assert news.live is not None
    values: dict[str, Any] = {"events": (SCHEDULED,), "seize": True, **fields}
    return next_turn(news.live.instance_id, news.live.stamp, **values)


class TestLockedTurns:
    """Turns that are thought while their instances are kept as they are."""

    async def test_a_turn_is_thought_on_what_is_new_and_committed(self, store: Store) -> None:
        stamp = await begun(store)
        await accepted(store, next_turn("i", stamp, events=(SCHEDULED,)))
        seen: list[News] = []

        def think(news: News) -> Turn:
            seen.append(news)
            return one_more(news)

        [receipt] = await store.commit_locked([locked(stamp, think)])

        assert receipt is not None
        assert receipt.status is ACCEPTED
        assert [kinds(news) for news in seen] == [[SCHEDULED.kind]]
        assert seen[0].inbox is None
        stored = await events_of(store, "i", stamp.incarnation)
        assert stored == [STARTED, SCHEDULED, SCHEDULED]

    async def test_nobody_writes_while_a_turn_is_thought(
        self, store: Store, url: str, kind: str
    ) -> None:
        if kind == "memory":
            pytest.skip("nobody else can come near it")
        stamp = await begun(store)
        tried: list[bool] = []

        def think(news: News) -> Turn:
            tried.append(can_write(url))
            return one_more(news)

        [receipt] = await store.commit_locked([locked(stamp, think)])

        assert tried == [False]
        assert receipt is not None
        assert receipt.status is ACCEPTED
        assert can_write(url)

    async def test_messages_are_read_if_they_are_wanted(self, store: Store) -> None:
        stamp = await begun(store)
        await store.deliver([message(text="one")])
        seen: list[News] = []

        def think(news: News) -> Turn:
            seen.append(news)
            assert news.live is not None
            assert news.inbox is not None
            taken = tuple(one.no for one in news.inbox)
            return one_more(news, consumed=taken, seen_no=news.live.last_no)

        wanted = locked(stamp, think, wants_inbox=lambda live: live.last_no == 1)
        [receipt] = await store.commit_locked([wanted])

        assert receipt is not None
        assert not receipt.has_unseen
        assert seen[0].inbox is not None
        assert [one.body for one in seen[0].inbox] == [b"one"]
        assert await store.read_inbox("i") == []

    async def test_a_message_that_the_turn_has_not_seen_stays(self, store: Store) -> None:
        stamp = await begun(store)
        await store.deliver([message()])

        [receipt] = await store.commit_locked([locked(stamp, one_more)])

        assert receipt is not None
        assert receipt.has_unseen
        assert len(await store.read_inbox("i")) == 1

    async def test_where_there_is_no_turn_to_commit_nothing_is(self, store: Store) -> None:
        stamp = await begun(store)

        assert await store.commit_locked([locked(stamp, lambda _: None)]) == [None]

        assert await latest(store) == stamp
        await accepted(store, next_turn("i", stamp, events=(SCHEDULED,)))

    async def test_an_instance_that_is_not_there_has_no_news(self, store: Store) -> None:
        incarnation = await ended(store)
        seen: list[News] = []

        await store.commit_locked([locked(Stamp(incarnation, 1, 2, token()), seen.append)])

        assert seen == [News(None, None)]

    async def test_code_that_raises_commits_nothing_and_lets_go(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        stamp, other = await begun(store), await begun(store, "j")

        def think(_: News) -> Turn:
            raise ZeroDivisionError("a secret")

        bad = locked(stamp, think)
        receipts = await store.commit_locked([bad, locked(other, one_more, instance_id="j")])

        assert [receipt and receipt.status for receipt in receipts] == [None, ACCEPTED]
        assert bad.is_void
        assert "could not be thought" in caplog.text
        assert "secret" not in caplog.text
        assert await latest(store) == stamp
        await accepted(store, next_turn("i", stamp, events=(SCHEDULED,)))

    async def test_code_that_takes_too_long_commits_nothing_and_lets_go(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("perdure.store.sql.questions.news.HOLD_FOR_S", 0.02)
        stamp = await begun(store)

        def think(news: News) -> Turn:
            while not turn.is_void:
                time.sleep(0.001)
            return one_more(news)

        turn = locked(stamp, think)

        assert await store.commit_locked([turn]) == [None]
        assert turn.turn is None
        assert await latest(store) == stamp
        await accepted(store, next_turn("i", stamp, events=(SCHEDULED,)))

    async def test_a_turn_is_thought_once_though_its_transaction_is_run_again(
        self, store: Store
    ) -> None:
        """A value that the store refuses rolls back all that are committed with it."""
        stamp, other = await begun(store), await decided(store)
        thought: list[str] = []

        def think(news: News) -> Turn:
            thought.append("good")
            return one_more(news)

        def think_bad(news: News) -> Turn:
            thought.append("bad")
            return one_more(news, events=(PLACED,), receipts=(given(input_id="\ud800"),))

        good, bad = await store.commit_locked(
            [locked(stamp, think), locked(other, think_bad, instance_id="order:1")]
        )

        assert good is not None
        assert good.status is ACCEPTED
        assert bad is not None
        assert isinstance(bad.error, RowError)
        assert sorted(thought) == ["bad", "good"]
        assert await latest(store, "order:1") == other

    async def test_of_two_turns_that_are_thought_together_on_one_instance_one_counts(
        self, store: Store
    ) -> None:
        stamp = await begun(store)

        receipts = await store.commit_locked([locked(stamp, one_more), locked(stamp, one_more)])

        assert [receipt and receipt.status for receipt in receipts] == [
            ACCEPTED,
            TurnStatus.REFUSED,
        ]

    async def test_a_turn_on_another_state_than_the_one_that_is_kept_is_refused(
        self, store: Store
    ) -> None:
        stamp = await begun(store)
        await accepted(store, next_turn("i", stamp, events=(SCHEDULED,)))

        old = locked(stamp, lambda _: next_turn("i", stamp, events=(SCHEDULED,)))

        assert await store.commit_locked([old]) == [TurnReceipt(TurnStatus.REFUSED)]

    async def test_a_business_key_that_another_instance_has_stops_it(self, store: Store) -> None:
        unique = UniqueKey("order", "k")
        await decided(store, "order:1", unique=unique)
        stamp = await decided(store, "order:2")

        wanting = locked(
            stamp,
            lambda news: one_more(news, events=(PLACED,), unique=unique),
            instance_id="order:2",
        )
        [receipt] = await store.commit_locked([wanting])

        assert receipt is not None
        assert (receipt.status, receipt.holder) == (TurnStatus.KEY_TAKEN, "order:1")
        assert await latest(store, "order:2") == stamp

    async def test_an_input_that_was_decided_before_is_not_decided_again(
        self, store: Store
    ) -> None:
        stamp = await decided(store, receipts=(given("first"),))

        again = locked(
            stamp,
            lambda news: one_more(news, events=(PLACED,), receipts=(given("second"),)),
            instance_id="order:1",
        )
        [receipt] = await store.commit_locked([again])

        assert receipt is not None
        assert receipt.status is not ACCEPTED
        assert await store.deciders.read_receipts("order:1", ["x"]) == {"x": b"first"}

    async def test_many_share_a_transaction_and_other_operations_go_on_beside(
        self, store: Store
    ) -> None:
        stamps = {f"i-{no}": await begun(store, f"i-{no}") for no in range(5)}

        receipts, statuses = await asyncio.gather(
            store.commit_locked([locked(s, one_more, instance_id=i) for i, s in stamps.items()]),
            store.deliver([message(instance_id) for instance_id in stamps]),
        )

        assert [receipt and receipt.status for receipt in receipts] == [ACCEPTED] * 5
        assert statuses == ["delivered"] * 5
        for instance_id, stamp in stamps.items():
            assert (await latest(store, instance_id)).next_seq == stamp.next_seq + 1
            assert len(await store.read_inbox(instance_id)) == 1


def can_write(url: str) -> bool:
    """Return whether somebody else could change the instance "i" now."""
    try:
        if url.startswith("sqlite"):
            path = url.removeprefix("sqlite:///")
            with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as file:
                file.execute("BEGIN IMMEDIATE")
        else:
            with psycopg.connect(url) as server:
                server.execute(
                    "SELECT 1 FROM perdure.live WHERE instance_id = 'i' FOR UPDATE NOWAIT"
                )
    except (sqlite3.OperationalError, psycopg.errors.LockNotAvailable):
        return False
    return True
