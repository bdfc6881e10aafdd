"""What every store does with the values and reports of instances."""

from __future__ import annotations

from datetime import timedelta

from perdure.clock import ManualClock
from perdure.model.admin import KvRow, ReportRow
from perdure.model.turns import KvChange, TurnReceipt, TurnStatus
from perdure.store.base import Store
from tests.contract.store_values import (
    CONTINUED,
    STARTED,
    accepted,
    begun,
    claim,
    continuation,
    first_turn,
    latest,
    new_instance,
    next_turn,
    outcome,
    turn_of,
)

REFUSED = TurnReceipt(TurnStatus.REFUSED)


class TestValues:
    """What instances keep under keys."""

    async def test_a_turn_sets_changes_and_removes_values(self, store: Store) -> None:
        stamp = await begun(
            store, kv=(KvChange("a", b"1"), KvChange("b", b"2"), KvChange("c", b"3"))
        )

        await accepted(
            store,
            next_turn(
                "i",
                stamp,
                now_ms=99,
                kv=(KvChange("a", None), KvChange("b", b'"new"'), KvChange("never", None)),
            ),
        )

        assert await store.admin.read_kv("i") == {"b": KvRow(b'"new"', 99), "c": KvRow(b"3", 2)}

    async def test_values_of_instances_are_apart(self, store: Store) -> None:
        await begun(store, "a", kv=(KvChange("k", b"1"),))
        await begun(store, "b", kv=(KvChange("k", b"2"),))

        live = await store.read_live("a")
        assert live is not None
        await accepted(store, next_turn("a", live.stamp, kv=(KvChange("k", None),)))

        assert await store.admin.read_kv("a") == {}
        assert await store.admin.read_kv("b") == {"k": KvRow(b"2", 2)}

    async def test_values_stay_when_the_instance_ends(self, store: Store) -> None:
        stamp = await begun(store, kv=(KvChange("a", b"1"),))

        await accepted(store, next_turn("i", stamp, kv=(KvChange("b", b"2"),), outcome=outcome()))

        assert await store.admin.read_kv("i") == {"a": KvRow(b"1", 2), "b": KvRow(b"2", 3)}

    async def test_values_stay_when_the_instance_continues_as_new(self, store: Store) -> None:
        stamp = await begun(store, kv=(KvChange("a", b"1"),))

        await accepted(
            store,
            next_turn(
                "i",
                stamp,
                events=(CONTINUED,),
                kv=(KvChange("b", b"2"),),
                continued=continuation(),
            ),
        )

        assert list(await store.admin.read_kv("i")) == ["a", "b"]

    async def test_values_go_when_the_instance_is_replaced(self, store: Store) -> None:
        start = new_instance()
        await accepted(
            store,
            first_turn(start, kv=(KvChange("a", b"1"),), report=b"1", outcome=outcome()),
        )

        await accepted(
            store,
            first_turn(new_instance(replaces=start.incarnation), kv=(KvChange("b", b"2"),)),
        )

        assert await store.admin.read_kv("i") == {"b": KvRow(b"2", 2)}
        assert await store.admin.read_reports(["i"]) == [None]

    async def test_a_refused_turn_leaves_no_value(self, store: Store) -> None:
        stamp = await begun(store)
        late = stamp._replace(next_seq=9)

        turn = next_turn("i", late, kv=(KvChange("a", b"1"),), report=b"1")

        assert await store.commit([turn]) == [REFUSED]
        assert await store.admin.read_kv("i") == {}
        assert await store.admin.read_reports(["i"]) == [None]

    async def test_keys_and_values_survive_as_they_are(self, store: Store) -> None:
        keys = ["", "a b", "'; DROP TABLE kv; --", "%_\\", "Ä\N{PILE OF POO}", "x" * 200]
        changes = tuple(KvChange(key, f'"{key}\0"'.encode()) for key in keys)

        await begun(store, kv=changes)

        stored = await store.admin.read_kv("i")
        assert {key: row.value for key, row in stored.items()} == dict(changes)


class TestReports:
    """What instances say of themselves."""

    async def test_the_version_rises_by_one_with_every_turn_that_reports(
        self, store: Store, clock: ManualClock
    ) -> None:
        stamp = await begun(store, report=b'"a"')
        assert await store.admin.read_reports(["i"]) == [ReportRow(1, b'"a"', 2)]

        clock.advance(timedelta(seconds=1))
        await accepted(store, next_turn("i", stamp))
        await accepted(store, next_turn("i", await latest(store), report=b'"b"', now_ms=77))

        assert await store.admin.read_reports(["i"]) == [ReportRow(2, b'"b"', 77)]

    async def test_a_turn_sent_again_does_not_report_twice(self, store: Store) -> None:
        stamp = await begun(store)
        turn = next_turn("i", stamp, report=b"1")

        await accepted(store, turn)
        await accepted(store, turn)

        assert await store.admin.read_reports(["i"]) == [ReportRow(1, b"1", 3)]

    async def test_two_turns_of_one_transaction_raise_the_version_by_two(
        self, store: Store
    ) -> None:
        stamp = await begun(store, events=(STARTED,))

        first = next_turn("i", stamp, report=b"1")
        receipts = await store.commit([first, next_turn("i", first.next_stamp, report=b"2")])

        assert [receipt.status for receipt in receipts] == ["accepted", "accepted"]
        assert await store.admin.read_reports(["i"]) == [ReportRow(2, b"2", 3)]

    async def test_a_report_stays_across_executions_and_after_the_end(self, store: Store) -> None:
        stamp = await begun(store, report=b"1")
        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))
        [claimed] = await claim(store)
        await accepted(store, turn_of(claimed, report=b"2", outcome=outcome()))

        assert await store.admin.read_reports(["i", "none"]) == [ReportRow(2, b"2", 3), None]

    async def test_a_report_that_is_taken_back_is_a_new_version(self, store: Store) -> None:
        stamp = await begun(store, report=b"1")

        await accepted(store, next_turn("i", stamp, report=b"null"))

        assert await store.admin.read_reports(["i"]) == [ReportRow(2, b"null", 3)]
