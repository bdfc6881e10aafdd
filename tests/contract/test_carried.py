"""What every store does with messages and definitions when an execution follows another."""

from __future__ import annotations

from datetime import timedelta

from perdure.clock import ManualClock
from perdure.model.instances import DefinitionKey, Status
from perdure.model.turns import TurnReceipt, TurnStatus
from perdure.store.base import Store
from tests.contract.store_values import (
    CONTINUED,
    ORCHESTRATION,
    STARTED,
    accepted,
    begun,
    carried,
    claim,
    continuation,
    first_turn,
    message,
    new_instance,
    next_turn,
    outcome,
    turn_of,
)

REFUSED = TurnReceipt(TurnStatus.REFUSED)
NEWER = DefinitionKey("orchestration", "greet", "2.0.0", 1)
SECOND = timedelta(seconds=1)


class TestMessagesAcrossExecutions:
    """S20: no message is lost, doubled or overtaken when an execution follows another."""

    async def test_a_message_just_before_the_commit_reaches_the_next_execution(
        self, store: Store
    ) -> None:
        await store.start([new_instance()])
        [claimed] = await claim(store)
        await store.deliver([message(text="before")])

        receipt = await accepted(
            store, turn_of(claimed, events=(STARTED, CONTINUED), continued=continuation())
        )

        assert receipt.has_unseen
        [again] = await claim(store)
        assert [m.body for m in again.messages] == [b"next", b"before"]

    async def test_a_message_just_after_the_commit_reaches_the_next_execution(
        self, store: Store
    ) -> None:
        """It arrives before the first turn of the next execution, and must not get lost there."""
        stamp = await begun(store)
        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))

        assert await store.deliver([message(text="after")]) == ["delivered"]

        [claimed] = await claim(store)
        assert [m.body for m in claimed.messages] == [b"next", b"after"]

    async def test_a_cancel_request_in_the_inbox_stays(self, store: Store) -> None:
        stamp = await begun(store)
        cancel = message(kind="cancel_requested", incarnation=stamp.incarnation)
        await store.deliver([cancel])

        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))

        kinds = [m.kind for m in await store.read_inbox("i")]
        assert kinds == ["started", "cancel_requested"]
        assert await store.deliver([cancel]) == ["delivered"]

    async def test_a_message_is_delivered_once_for_its_id_across_executions(
        self, store: Store
    ) -> None:
        stamp = await begun(store)
        await store.deliver([message(message_id="m")])
        await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))

        assert await store.deliver([message(message_id="m")]) == ["duplicate"]

    async def test_messages_that_were_taken_and_not_used_come_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store)
        await store.deliver([message(text=text) for text in ("a", "b")])
        [claimed] = await claim(store)
        # In the same millisecond as those that are carried over.
        await store.deliver([message(text="c")])
        at_ms = clock()

        await accepted(
            store,
            turn_of(claimed, continued=continuation("go", carried("a", at_ms), carried("b"))),
        )
        clock.advance(SECOND)
        await store.deliver([message(text="d")])

        [again] = await claim(store)
        assert [m.body for m in again.messages] == [b"go", b"a", b"b", b"c", b"d"]
        assert list(again.messages) == await store.read_inbox("i")

    async def test_unread_messages_keep_their_order_whatever_their_times_say(
        self, store: Store
    ) -> None:
        stamp = await begun(store)
        await store.deliver([message(text="newest")])
        unread = [carried("a", 2**50), carried("b", 7), carried("c", 2**40)]

        await accepted(
            store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation("go", *unread))
        )

        [claimed] = await claim(store)
        assert [m.body for m in claimed.messages] == [b"go", b"a", b"b", b"c", b"newest"]

    async def test_unread_messages_carried_again_and_again_stay_in_order(
        self, store: Store
    ) -> None:
        """More of them than one claim returns, so that some were put back and never taken."""
        stamp = await begun(store)
        texts = [f"{number:04}" for number in range(1_500)]
        await store.deliver([message(text="newest")])
        unread = [carried(text) for text in texts]
        await accepted(
            store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation("go", *unread))
        )

        for _ in range(3):
            [claimed] = await claim(store)
            assert claimed.messages[0].body == b"go"
            taken = [carried(m.body.decode()) for m in claimed.messages[1:]]
            assert len(taken) == 999
            turn = turn_of(
                claimed, events=(STARTED, CONTINUED), continued=continuation("go", *taken)
            )
            assert (await accepted(store, turn)).has_unseen

        read: list[str] = []
        while found := await claim(store):
            read += [m.body.decode() for m in found[0].messages]
            await accepted(store, turn_of(found[0], events=(STARTED,)))
        assert read == ["go", *texts, "newest"]

    async def test_an_unread_message_is_taken_like_any_other(self, store: Store) -> None:
        stamp = await begun(store)
        unread = [carried(str(number)) for number in range(200)]
        await accepted(
            store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation("go", *unread))
        )

        [claimed] = await claim(store)
        receipt = await accepted(store, turn_of(claimed))

        assert len(claimed.messages) == 201
        assert not receipt.has_unseen
        assert await store.read_inbox("i") == []
        assert await claim(store) == []

    async def test_an_end_takes_unread_messages_along(self, store: Store) -> None:
        stamp = await begun(store)
        await accepted(
            store,
            next_turn("i", stamp, events=(CONTINUED,), continued=continuation("go", carried("a"))),
        )
        live = await store.read_live("i")
        assert live is not None

        await accepted(store, next_turn("i", live.stamp, outcome=outcome()))

        assert await store.read_inbox("i") == []


class TestDefinitionsOfTurns:
    """A start may leave the version open; the turn that chooses one puts it on record."""

    OPEN = DefinitionKey("orchestration", "greet", "", 0)

    async def test_a_turn_binds_an_instance_to_the_definition_it_chose(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.start([new_instance(definition=self.OPEN)])
        [claimed] = await claim(store, definitions=(self.OPEN,))

        await accepted(store, turn_of(claimed, definition=NEWER))

        await store.deliver([message()])
        assert await claim(store, definitions=(self.OPEN,)) == []
        assert len(await claim(store, definitions=(NEWER,))) == 1
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.name, row.version, row.execution) == ("greet", "2.0.0", 1)
        assert row.input == b"null"

    async def test_a_start_with_its_first_turn_may_choose_too(self, store: Store) -> None:
        await accepted(
            store, first_turn(new_instance(definition=self.OPEN), definition=ORCHESTRATION)
        )

        [row] = await store.read_instances(["i"])
        assert row is not None
        assert row.version == "1.0.0"
        [number] = await store.intern([ORCHESTRATION])
        live = await store.read_live("i")
        assert live is not None
        assert live.definition_no == number

    async def test_an_instance_that_ends_in_its_first_turn_has_the_chosen_version(
        self, store: Store
    ) -> None:
        await accepted(
            store,
            first_turn(new_instance(definition=self.OPEN), definition=NEWER, outcome=outcome()),
        )

        [row] = await store.read_instances(["i"])
        assert row is not None
        assert (row.version, row.status) == ("2.0.0", Status.COMPLETED)

    async def test_a_refused_turn_binds_nothing(self, store: Store) -> None:
        stamp = await begun(store)

        [receipt] = await store.commit(
            [next_turn("i", stamp._replace(next_seq=9), definition=NEWER)]
        )

        assert receipt == REFUSED
        [row] = await store.read_instances(["i"])
        assert row is not None
        assert row.version == "1.0.0"
