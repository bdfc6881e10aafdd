"""What every store does with what is too old."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.clock import ManualClock
from perdure.model.admin import DeletedCounts, Expiry
from perdure.model.histories.events import Body
from perdure.model.instances import part_of
from perdure.model.messages import DeliveryStatus
from perdure.model.streams import SentItems
from perdure.model.turns import KvChange, TurnReceipt, TurnStatus
from perdure.store.base import Store
from perdure.store.sql.removal import Expired, remove_expired
from perdure.store.sql.store import SqlStore
from tests.contract.store_values import (
    COMPLETED,
    LEASE_MS,
    accepted,
    begun,
    claim,
    job,
    message,
    new_instance,
    next_turn,
    outcome,
)
from tests.contract.test_admin import claim_session, continued, dead

LEASE = timedelta(milliseconds=LEASE_MS)
MS = timedelta(milliseconds=1)
REFUSED = TurnReceipt(TurnStatus.REFUSED)


class TestPruning:
    """Earlier executions go, and never what replay needs."""

    async def test_earlier_executions_go_and_the_current_one_stays(self, store: Store) -> None:
        stamp = await begun(store)
        third = await continued(store, "i", await continued(store, "i", stamp))

        counts = await store.admin.prune("i", keep_last=1)

        assert counts == DeletedCounts(executions=2, events=4)
        assert [one.execution for one in await store.admin.read_executions("i")] == [3]
        await accepted(store, next_turn("i", third, events=(Body("x", b""),)))
        assert await store.admin.prune("i", keep_last=1) == DeletedCounts()

    @pytest.mark.parametrize(
        ("keep_last", "left"),
        [(-5, [4]), (0, [4]), (1, [4]), (2, [3, 4]), (3, [2, 3, 4]), (2**70, [1, 2, 3, 4])],
    )
    async def test_the_last_ones_are_kept(
        self, store: Store, keep_last: int, left: list[int]
    ) -> None:
        stamp = await begun(store)
        for _ in range(3):
            stamp = await continued(store, "i", stamp)

        await store.admin.prune("i", keep_last=keep_last)

        assert [one.execution for one in await store.admin.read_executions("i")] == left

    async def test_what_ended_later_is_kept(self, store: Store) -> None:
        stamp = await begun(store)
        second = await continued(store, "i", stamp, now_ms=10)
        await continued(store, "i", second, now_ms=20)

        assert await store.admin.prune("i", keep_last=1, ended_before_ms=10) == DeletedCounts()
        await store.admin.prune("i", keep_last=1, ended_before_ms=11)

        assert [one.execution for one in await store.admin.read_executions("i")] == [2, 3]

    async def test_the_last_execution_of_an_ended_instance_stays(self, store: Store) -> None:
        stamp = await continued(store, "i", await begun(store))
        await accepted(store, next_turn("i", stamp, events=(Body("x", b""),), outcome=outcome()))

        assert await store.admin.prune("i", keep_last=0) == DeletedCounts(executions=1, events=2)

        assert [one.execution for one in await store.admin.read_executions("i")] == [2]

    async def test_an_execution_before_its_first_turn_is_the_current_one(
        self, store: Store
    ) -> None:
        """Its history is empty; the one before is not the last."""
        await store.start([new_instance()])

        assert await store.admin.prune("i", keep_last=0) == DeletedCounts()
        assert len(await claim(store)) == 1

    async def test_messages_kv_and_receipts_stay(self, store: Store) -> None:
        stamp = await begun(store, kv=(KvChange("k", b"1"),), report=b"1")
        await store.deliver([message(message_id="m")])
        await continued(store, "i", stamp)
        await store.deliver([message()])
        unread = await store.read_inbox("i")

        await store.admin.prune("i", keep_last=1)

        assert await store.read_inbox("i") == unread
        assert list(await store.admin.read_kv("i")) == ["k"]
        assert await store.admin.read_reports(["i"]) != [None]
        assert await store.deliver([message(message_id="m")]) == [DeliveryStatus.DUPLICATE]

    async def test_an_unknown_instance_has_nothing_to_prune(self, store: Store) -> None:
        await store.deliver([message("unborn", if_absent="buffer")])

        assert await store.admin.prune("never", keep_last=1) == DeletedCounts()
        assert await store.admin.prune("unborn", keep_last=1) == DeletedCounts()


class TestExpiry:
    """What is too old goes, at most so much at a time."""

    async def test_receipts_go_when_their_instance_is_not_live(
        self, store: Store, clock: ManualClock
    ) -> None:
        live = await begun(store, "live")
        stamp = await begun(store, "ended")
        for name in ("live", "ended"):
            await store.deliver([message(name, message_id="m")])
        end = next_turn("ended", stamp, events=(Body("x", b""),), outcome=outcome())
        await accepted(store, end)

        assert await store.admin.expire(Expiry(receipts_before_ms=clock()), limit=9) == 0
        assert await store.admin.expire(Expiry(receipts_before_ms=clock() + 1), limit=9) == 1
        assert await store.admin.expire(Expiry(receipts_before_ms=clock() + 1), limit=9) == 0

        assert await store.deliver([message("live", message_id="m")]) == [DeliveryStatus.DUPLICATE]
        assert await store.deliver([message("ended", message_id="m")]) == [DeliveryStatus.ENDED]
        assert live.execution == 1

    async def test_ids_that_were_never_started_go_with_their_messages(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.deliver([message("old", message_id="m", if_absent="buffer")])
        await store.deliver([message("young", if_absent="buffer")])
        await begun(store, "born")
        clock.advance(MS)
        await store.deliver([message("young", if_absent="buffer")])

        assert await store.admin.expire(Expiry(unborn_before_ms=clock() - 1), limit=9) == 0
        assert await store.admin.expire(Expiry(unborn_before_ms=clock()), limit=9) == 1

        assert await store.read_live("old") is None
        assert await store.read_inbox("old") == []
        assert len(await store.read_inbox("young")) == 2
        assert await store.read_live("born") is not None
        again = message("old", message_id="m", if_absent="buffer")
        assert await store.deliver([again]) == [DeliveryStatus.BUFFERED]

    async def test_dead_jobs_go(self, store: Store, clock: ManualClock) -> None:
        await dead(store, "old")
        clock.advance(MS)
        young = await dead(store, "young")

        assert await store.admin.expire(Expiry(dead_jobs_before_ms=clock()), limit=9) == 1

        assert [job.key for job in await store.admin.read_dead_jobs(limit=9)] == [young]

    async def test_streams_go_when_their_instance_has_ended(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Those that live keep theirs, and an index is not given twice after a reset."""
        sent = (SentItems("s", (b"1", b"2")), SentItems("t", (b"3",)))
        await begun(store, "live", sent=sent)
        stamp = await begun(store, "old", sent=sent)
        end = next_turn("old", stamp, events=(COMPLETED,), outcome=outcome())
        await accepted(store, end)
        before_ms = clock() + 1
        clock.advance(MS)
        stamp = await begun(store, "young", sent=sent)
        end = next_turn("young", stamp, events=(COMPLETED,), outcome=outcome())
        await accepted(store, end)

        assert await store.admin.expire(Expiry(streams_before_ms=before_ms - 1), limit=9) == 0
        assert await store.admin.expire(Expiry(streams_before_ms=before_ms), limit=1) == 1
        assert await store.admin.expire(Expiry(streams_before_ms=before_ms), limit=9) == 1
        assert await store.admin.expire(Expiry(streams_before_ms=before_ms), limit=9) == 0

        left = await store.streams.read_stream("old", "s", after=0, limit=9)
        assert left is not None
        assert left.items == ()
        assert left.has_ended
        heads = await store.streams.read_stream_heads("old")
        assert [(one.stream, one.last_index, one.items) for one in heads] == [
            ("s", 2, 0),
            ("t", 1, 0),
        ]
        for name in ("live", "young"):
            kept = await store.streams.read_stream(name, "s", after=0, limit=9)
            assert kept is not None
            assert [one.body for one in kept.items] == [b"1", b"2"]

    async def test_what_was_reset_meanwhile_keeps_its_streams(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A look found it ended; before the removal it is running again."""
        await begun(store, "i", sent=(SentItems("s", (b"1",)),))
        key = [part_of("i"), "i", "s", 1]
        found = Expired(receipts=[], unborn=[], dead_jobs=[], streams=[key], sessions=[])
        expiry = Expiry(streams_before_ms=clock() + 9)

        assert isinstance(store, SqlStore)
        removed = await store.work(
            lambda t: remove_expired(t.connection, found, expiry, now_ms=clock())
        )

        assert removed == 0

        kept = await store.streams.read_stream("i", "s", after=0, limit=9)
        assert kept is not None
        assert len(kept.items) == 1

    async def test_sessions_go_when_nobody_has_them_and_no_job_needs_them(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store, jobs=(job(2, session="needed"), job(3, session="idle")))
        await claim_session(store, "w1")
        await accepted(store, next_turn("i", stamp, jobs_gone=(3,)))

        assert await store.admin.expire(Expiry(sessions=True), limit=9) == 0
        clock.advance(LEASE)
        assert await store.admin.expire(Expiry(sessions=True), limit=9) == 1

        assert [row.session for row in await store.admin.read_sessions()] == ["needed"]

    async def test_a_limit_holds_for_each_sort(self, store: Store, clock: ManualClock) -> None:
        for number in range(3):
            await store.deliver([message(f"unborn{number}", if_absent="buffer")])
            await dead(store, f"i{number}")
        expiry = Expiry(unborn_before_ms=clock() + 1, dead_jobs_before_ms=clock() + 1)

        assert [await store.admin.expire(expiry, limit=2) for _ in range(3)] == [4, 2, 0]
        assert await store.admin.expire(expiry, limit=0) == 0
        assert await store.admin.expire(expiry, limit=-1) == 0

    async def test_nothing_is_too_old_unless_somebody_says_so(
        self, store: Store, clock: ManualClock
    ) -> None:
        await dead(store)
        await store.deliver([message("unborn", message_id="m", if_absent="buffer")])
        clock.advance(timedelta(days=10_000))

        assert await store.admin.expire(Expiry(), limit=9) == 0

        assert len(await store.read_inbox("unborn")) == 1
        assert len(await store.admin.read_dead_jobs(limit=9)) == 1
