"""What every store does with values: all bytes survive, and a bad one harms nobody else."""

from __future__ import annotations

import asyncio

import pytest

from perdure.errors import RowError
from perdure.model.histories.events import Body, StoredEvent
from perdure.store.base import ExecutionKey, Store
from perdure.store.locked_turns import KnownInstance
from tests.contract.store_values import (
    STARTED,
    accepted,
    begun,
    claim,
    claim_jobs,
    events_of,
    failed,
    first_turn,
    job,
    message,
    new_instance,
    next_turn,
    outcome,
)

BODIES = {
    "empty": b"",
    "nul": b"\0",
    "nul inside": b"a\0b\0",
    "not utf-8": b"\xff\xfe\xc3\x28",
    "emoji": "\N{PILE OF POO}e\u0301\u202e".encode(),
    "json": b'{"a":[1,null]}',
    "quotes": b"'; DROP TABLE live; --",
    "2 MiB": bytes(range(256)) * 8192,
}
IDS = ["a", "Ä \N{PILE OF POO}", "'; DROP TABLE live; --", "%_\\", "x" * 200, '"', "\\u0000", "[1]"]


class TestBodies:
    """Bytes come back as they went in."""

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
    async def test_a_body_survives_every_table(self, store: Store, body: bytes) -> None:
        start = new_instance(input=body, start_body=body)
        turn = first_turn(
            start,
            events=(Body("a", body), Body("b", body)),
            jobs=(job(2, input=body, policy=body),),
            deliveries=(message("j", if_absent="buffer", body=body),),
        )

        await accepted(store, turn)

        assert await events_of(store, "i", start.incarnation) == [Body("a", body), Body("b", body)]
        [claimed] = await claim_jobs(store)
        assert (claimed.input, claimed.policy) == (body, body)
        assert [m.body for m in await store.read_inbox("j")] == [body]
        await store.start([new_instance("j", start_body=body)])
        [turn_claimed] = await claim(store)
        assert [m.body for m in turn_claimed.messages] == [body, body]
        end = outcome(output=body, digest=body)
        await accepted(store, next_turn("i", turn.next_stamp, outcome=end))
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.input, row.output, row.digest) == (body, body, body)

    @pytest.mark.parametrize("instance_id", IDS)
    async def test_an_id_survives(self, store: Store, instance_id: str) -> None:
        stamp = await begun(store, instance_id, jobs=(job(),))
        await store.deliver([message(instance_id, message_id=instance_id)])

        assert await store.deliver([message(instance_id, message_id=instance_id)]) == ["duplicate"]
        [claimed] = await claim(store)
        assert (claimed.instance_id, claimed.stamp) == (instance_id, stamp)
        [work] = await claim_jobs(store)
        assert work.key == (instance_id, stamp.incarnation, 1, 2)

    async def test_the_largest_numbers_survive(self, store: Store) -> None:
        start = new_instance(incarnation=2**63 - 1)

        await accepted(store, first_turn(start, commit_id=2**63 - 1))

        live = await store.read_live("i")
        assert live is not None
        assert (live.stamp.incarnation, live.stamp.commit_id) == (2**63 - 1, 2**63 - 1)


class TestBadValues:
    """A value that cannot be stored raises for its owner and for nobody else."""

    @pytest.mark.parametrize(
        ("instance_id", "commit_id"),
        [("nul\0", 1), ("\ud800", 1), ("i", 2**63), ("i", "text")],
        ids=["nul", "surrogate", "number too large", "wrong type"],
    )
    async def test_a_value_that_cannot_be_stored_is_refused(
        self, store: Store, instance_id: str, commit_id: int
    ) -> None:
        turn = first_turn(new_instance(instance_id), commit_id=commit_id)
        assert isinstance(await failed(store, turn), RowError)

        await begun(store)

    async def test_one_bad_turn_does_not_disturb_the_others(self, store: Store) -> None:
        turns = [first_turn(new_instance(f"i{number}")) for number in range(20)]
        turns[13] = first_turn(new_instance("i13"), jobs=(job(2), job(2)))

        outcomes = await asyncio.gather(*(store.commit([turn]) for turn in turns))

        errors = [receipt.error for [receipt] in outcomes]
        assert [number for number, error in enumerate(errors) if error is not None] == [13]
        assert isinstance(errors[13], RowError)
        rows = await store.read_instances([turn.instance_id for turn in turns])
        assert [number for number, row in enumerate(rows) if row is None] == [13]

    async def test_one_bad_turn_of_a_call_raises_after_the_others_were_written(
        self, store: Store
    ) -> None:
        good, bad = first_turn(new_instance("good")), first_turn(new_instance("bad\0"))

        receipts = await store.commit([bad, good])

        assert [receipt.status for receipt in receipts] == ["failed", "accepted"]
        assert isinstance(receipts[0].error, RowError)

        await accepted(store, good)
        assert await events_of(store, "good", good.stamp.incarnation) == [STARTED]


class TestReading:
    """Reads of many rows."""

    async def test_histories_are_read_in_the_order_asked(self, store: Store) -> None:
        a, b = await begun(store, "a"), await begun(store, "b")
        events = tuple(Body("x", str(number).encode()) for number in range(2, 8))
        await accepted(store, next_turn("a", a, events=events))

        histories = await store.read_histories(
            [
                ExecutionKey("b", b.incarnation, 1),
                ExecutionKey("a", a.incarnation, 2),
                ExecutionKey("a", a.incarnation, 1),
            ]
        )

        assert [len(history) for history in histories] == [1, 0, 7]
        assert histories[2][6] == StoredEvent(7, "x", 3, b"7")

    async def test_narrow_rows_are_read_in_the_order_asked(self, store: Store) -> None:
        stamp = await begun(store, "a")
        await store.deliver([message("unborn", if_absent="buffer")])

        names = ("nobody", "unborn", "a")
        lives = [new.live for new in await store.read_news([KnownInstance(one) for one in names])]

        assert lives == [None, await store.read_live("unborn"), await store.read_live("a")]
        assert lives[1] is not None
        assert lives[1].definition_no is None
        assert lives[2] is not None
        assert lives[2].stamp == stamp
        assert await store.read_news([]) == []

    async def test_a_history_is_read_in_pieces(self, store: Store) -> None:
        stamp = await begun(store)
        events = tuple(Body("x", str(number).encode()) for number in range(2, 11))
        await accepted(store, next_turn("i", stamp, events=events))
        key = ExecutionKey("i", stamp.incarnation, 1)

        [tail] = await store.read_histories([key], after_seq=4, limit=3)

        assert [event.seq for event in tail] == [5, 6, 7]

    async def test_long_histories_are_read_whole(self, store: Store) -> None:
        a, b = await begun(store, "a"), await begun(store, "b")
        many = tuple(Body("x", b"%d" % number) for number in range(12_000))
        await store.commit([next_turn("a", a, events=many), next_turn("b", b, events=many)])

        histories = await store.read_histories(
            [ExecutionKey("a", a.incarnation, 1), ExecutionKey("b", b.incarnation, 1)]
        )

        for history in histories:
            assert [event.seq for event in history] == list(range(1, 12_002))
            assert [event.body for event in history[1:]] == [body for _, body in many]

    async def test_unknown_things_are_none_or_empty(self, store: Store) -> None:
        assert await store.read_instances(["never"]) == [None]
        assert await store.read_live("never") is None
        assert await store.read_inbox("never") == []
        assert await store.read_jobs("never") == []
        assert await store.read_histories([ExecutionKey("never", 1, 1)]) == [[]]
        assert await store.read_histories([]) == []

    async def test_empty_batches_do_nothing(self, store: Store) -> None:
        assert await store.commit([]) == []
        assert await store.start([]) == []
        assert await store.deliver([]) == []
        assert await store.end_jobs([]) == []
        assert await store.hold([]) == []
        await store.release_turns([])
