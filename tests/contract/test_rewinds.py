"""What every store does with executions that begin with events of another one (S35)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.clock import ManualClock
from perdure.model.histories.events import Body, StoredEvent
from perdure.model.histories.rewinds import RestoredValue, Rewind
from perdure.model.instances import Stamp, Status
from perdure.model.turns import NOBODY, Hold, KvChange, Turn, TurnReceipt, TurnStatus
from perdure.store.base import ExecutionKey, Store
from tests.contract.store_values import (
    accepted,
    begun,
    carried,
    claim,
    claim_jobs,
    ended,
    job,
    latest,
    message,
    new_instance,
    next_turn,
    outcome,
    result_of,
    timer,
    token,
)

REFUSED = TurnReceipt(TurnStatus.REFUSED)
SECOND = timedelta(seconds=1)
DIGEST = b"digest"
PREFIX = (StoredEvent(1, "started", 11, b"a"), StoredEvent(2, "activity_scheduled", 12, b"b"))


def rewind(**fields: Any) -> Rewind:
    given: dict[str, Any] = {
        "prefix": PREFIX,
        "first": Body("went_back", b"w"),
        "answer": None,
        "unread": (),
        "reason": "reset to event 2",
        **fields,
    }
    return Rewind(**given)


def resetting(stamp: Stamp, instance_id: str = "i", **fields: Any) -> Turn:
    fields = {"rewound": rewind(), "events": (), "seize": True, "worker_id": "", **fields}
    return next_turn(instance_id, stamp, **fields)


async def history(store: Store, stamp: Stamp, execution: int) -> list[StoredEvent]:
    [found] = await store.read_histories([ExecutionKey("i", stamp.incarnation, execution)])
    return found


class TestRewinds:
    """One commit leaves an execution and begins the next with a part of its history."""

    async def test_the_next_execution_begins_with_the_prefix(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store)
        before = await history(store, stamp, 1)
        clock.advance(SECOND)
        turn = resetting(stamp)

        receipt = await accepted(store, turn)

        assert receipt.has_unseen
        live = await store.read_live("i")
        assert live is not None
        assert live.stamp == turn.next_stamp == Stamp(stamp.incarnation, 2, 3, turn.commit_id)
        assert (live.lease, live.home, live.wake_at_ms) == (0, None, clock())
        assert await history(store, stamp, 1) == before
        assert tuple(await history(store, stamp, 2)) == PREFIX
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.status, row.execution) == (Status.RUNNING, 2)
        assert row.reason == "reset to event 2"

    async def test_what_the_first_turn_takes_is_in_order(self, store: Store) -> None:
        stamp = await begun(store)
        await store.deliver([message(text="waits")])

        unread = (carried("one", 5), carried("two", 4))
        kept = rewind(answer=carried("answer", 9), unread=unread)
        await accepted(store, resetting(stamp, rewound=kept))

        [claimed] = await claim(store)
        bodies = [one.body for one in claimed.messages]
        assert bodies == [
            b"w",
            carried("answer").body,
            carried("one").body,
            carried("two").body,
            message(text="waits").body,
        ]
        assert [one.execution for one in claimed.messages] == [2, 2, 0, 0, 0]

    async def test_jobs_timers_and_messages_of_the_old_execution_go(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store)
        turn = next_turn("i", stamp, jobs=(job(2),), timers=(timer(3, clock() + 5),))
        await accepted(store, turn)
        [claimed] = await claim_jobs(store)

        await accepted(store, resetting(turn.next_stamp))

        assert await store.end_jobs([result_of(claimed.key, claimed.token)]) == [False]
        assert await store.read_jobs("i") == []
        assert [one.kind for one in await store.read_inbox("i")] == ["went_back"]

    async def test_a_reset_needs_the_right_stamp(self, store: Store) -> None:
        stamp = await begun(store)
        await accepted(store, next_turn("i", stamp))

        assert await store.commit([resetting(stamp)]) == [REFUSED]
        assert await history(store, stamp, 2) == []

    async def test_a_reset_that_is_sent_again_is_accepted_once(self, store: Store) -> None:
        stamp = await begun(store)
        turn = resetting(stamp)
        await accepted(store, turn)

        [again] = await store.commit([turn])
        await accepted(store, next_turn("i", await latest(store)))
        [later] = await store.commit([turn])

        assert (again.status, later.status) == (TurnStatus.ACCEPTED, TurnStatus.ACCEPTED)
        live = await store.read_live("i")
        assert live is not None
        assert live.stamp.execution == 2

    async def test_whoever_has_the_lease_is_refused(self, store: Store) -> None:
        stamp = await begun(store)
        await store.deliver([message()])
        [claimed] = await claim(store)

        await accepted(store, resetting(stamp))

        late = next_turn("i", stamp, lease=claimed.lease)
        assert await store.commit([late]) == [REFUSED]

    async def test_values_go_back(self, store: Store, clock: ManualClock) -> None:
        stamp = await begun(store)
        turn = next_turn("i", stamp, kv=(KvChange("a", b"1"), KvChange("b", b"2")), report=b"3")
        await accepted(store, turn)
        restored = (RestoredValue("a", b"0", 7), RestoredValue("b", None, 0))

        rewound = rewind(kv=restored, report=b"null")
        await accepted(store, resetting(turn.next_stamp, rewound=rewound))

        assert await store.admin.read_kv("i", None) == {"a": (b"0", 7)}
        [report] = await store.admin.read_reports(["i"])
        assert report is not None
        assert report.value == b"null"

    async def test_a_parked_instance_can_be_reset(self, store: Store) -> None:
        stamp = await begun(store)
        assert await store.hold([Hold("i", stamp, 0, Status.PARKED, NOBODY, "no")]) == [True]

        await accepted(store, resetting(stamp))

        live = await store.read_live("i")
        assert live is not None
        assert live.blocked_by is None


class TestRevivals:
    """An instance that has ended is running again."""

    async def revived(self, store: Store, *waiting: str) -> Stamp:
        stamp = await begun(store)
        await store.deliver([message(message_id=one) for one in waiting])
        end = outcome(Status.FAILED, output=b"why", digest=DIGEST)
        await accepted(store, next_turn("i", stamp, outcome=end))
        return Stamp(stamp.incarnation, 1, 4)

    async def test_it_is_running_again(self, store: Store) -> None:
        stamp = await self.revived(store)
        turn = resetting(stamp, rewound=rewind(digest=DIGEST))

        await accepted(store, turn)

        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.status, row.execution, row.reason) == (Status.RUNNING, 2, "reset to event 2")
        assert (row.output, row.digest, row.ended_ms) == (None, None, None)
        [claimed] = await claim(store)
        assert claimed.stamp == turn.next_stamp
        assert tuple(await history(store, stamp, 2)) == PREFIX

    async def test_what_it_had_not_taken_may_be_sent_again(self, store: Store) -> None:
        ids = ["update:taken", "update:lost", "promise:1.1", "promise:1.2", "mine", "update;"]
        stamp = await self.revived(store, *ids)

        kept = rewind(digest=DIGEST, heard=("update:taken",), unkept=("promise:1.2",))
        await accepted(store, resetting(stamp, rewound=kept))

        left = await store.deciders.read_receipts("i", ids)
        assert sorted(left) == ["mine", "promise:1.1", "update:taken", "update;"]

    @pytest.mark.parametrize("digest", [b"another", None], ids=["other", "none"])
    async def test_one_that_ended_otherwise_stays_as_it_is(
        self, store: Store, digest: bytes | None
    ) -> None:
        stamp = await self.revived(store)

        turn = resetting(stamp, rewound=rewind(digest=digest))

        assert await store.commit([turn]) == [REFUSED]
        assert await store.read_live("i") is None

    async def test_what_has_gone_on_since_stays_as_it_is(self, store: Store) -> None:
        stamp = await self.revived(store)
        turn = resetting(stamp, rewound=rewind(digest=DIGEST))
        await accepted(store, turn)
        end = outcome(Status.FAILED, digest=DIGEST)
        await accepted(store, next_turn("i", turn.next_stamp, outcome=end))

        late = resetting(stamp, rewound=rewind(digest=DIGEST))

        assert await store.commit([late]) == [REFUSED]
        assert await store.read_live("i") is None

    async def test_of_two_that_reset_it_one_does(self, store: Store) -> None:
        stamp = await self.revived(store)
        turns = [resetting(stamp, rewound=rewind(digest=DIGEST)) for _ in range(2)]

        receipts = await store.commit(turns)

        statuses = sorted(receipt.status for receipt in receipts)
        assert statuses == [TurnStatus.ACCEPTED, TurnStatus.REFUSED]

    async def test_what_was_never_there_is_not_reset(self, store: Store) -> None:
        assert await store.commit([resetting(Stamp(5, 1, 1))]) == [REFUSED]


class TestForks:
    """An instance is started with events of another one."""

    async def test_it_begins_with_the_prefix(self, store: Store) -> None:
        kept = rewind(unread=(carried("one", 5),), kv=(RestoredValue("a", b"0", 7),), report=b"8")
        new = new_instance("i", forked=kept, commit_id=token())

        assert await store.start([new]) == [None]

        [claimed] = await claim(store)
        assert claimed.stamp == Stamp(new.incarnation, 1, 3, new.commit_id)
        assert [one.body for one in claimed.messages] == [b"w", carried("one").body]
        assert tuple(await history(store, claimed.stamp, 1)) == PREFIX
        assert set(await store.admin.read_kv("i", None)) == {"a"}

    async def test_an_id_that_is_taken_is_left_alone(self, store: Store) -> None:
        await ended(store)
        [row] = await store.start([new_instance("i", forked=rewind(), commit_id=token())])

        assert row is not None
        assert await store.read_live("i") is None

    async def test_a_fork_that_is_sent_again_is_accepted_once(self, store: Store) -> None:
        new = new_instance("i", forked=rewind(), commit_id=token())

        assert await store.start([new]) == [None]
        assert await store.start([new]) == [None]
