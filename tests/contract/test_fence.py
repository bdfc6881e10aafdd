"""The contract of the fence: on which commit a turn is based, and that it is known for ever."""

from __future__ import annotations

from perdure.model.instances import Status
from perdure.model.turns import NOBODY, Hold, TurnReceipt, TurnStatus
from perdure.store.base import Store
from tests.contract.store_values import (
    COMPLETED,
    SCHEDULED,
    STARTED,
    accepted,
    begun,
    events_of,
    first_turn,
    latest,
    message,
    new_instance,
    next_turn,
    outcome,
    token,
)

REFUSED = TurnReceipt(TurnStatus.REFUSED)


class TestFenceByCommit:
    """S7, S45, S47: a turn is accepted on the very commit that it is based on, and found again."""

    async def test_a_turn_based_on_another_commit_is_refused_although_its_numbers_fit(
        self, store: Store
    ) -> None:
        stamp = await begun(store)

        elsewhere = next_turn("i", stamp._replace(commit_id=token()), events=(SCHEDULED,))

        assert await store.commit([elsewhere]) == [REFUSED]
        assert await events_of(store, "i", stamp.incarnation) == [STARTED]

    async def test_a_hold_based_on_another_commit_holds_nothing(self, store: Store) -> None:
        stamp = await begun(store)

        elsewhere = stamp._replace(commit_id=token())

        assert await store.hold([Hold("i", elsewhere, 0, Status.PARKED, NOBODY, "")]) == [False]

    async def test_a_turn_that_others_have_gone_on_from_was_accepted(self, store: Store) -> None:
        stamp = await begun(store)
        turn = next_turn("i", stamp, events=(SCHEDULED,))
        await accepted(store, turn)
        overtaking = next_turn("i", turn.next_stamp, events=(SCHEDULED, SCHEDULED))
        await accepted(store, overtaking)

        again = await accepted(store, turn)

        assert again.has_unseen
        assert (await latest(store)) == overtaking.next_stamp

    async def test_a_first_turn_that_others_have_gone_on_from_was_accepted(
        self, store: Store
    ) -> None:
        turn = first_turn(new_instance())
        await accepted(store, turn)
        await accepted(store, next_turn("i", turn.next_stamp, events=(SCHEDULED,)))

        await accepted(store, turn)

        assert len(await events_of(store, "i", turn.stamp.incarnation)) == 2

    async def test_a_turn_of_an_instance_that_others_have_ended_was_accepted(
        self, store: Store
    ) -> None:
        first = first_turn(new_instance())
        await accepted(store, first)
        turn = next_turn("i", first.next_stamp, events=(SCHEDULED,))
        await accepted(store, turn)
        end = next_turn("i", turn.next_stamp, events=(COMPLETED,), outcome=outcome())
        await accepted(store, end)

        for one in (first, turn, end):
            await accepted(store, one)

        assert await store.read_live("i") is None
        assert len(await events_of(store, "i", turn.stamp.incarnation)) == 3

    async def test_of_two_turns_at_one_place_the_refused_one_stays_refused(
        self, store: Store
    ) -> None:
        stamp = await begun(store)
        ours, theirs = (next_turn("i", stamp, events=(SCHEDULED,)) for _ in range(2))
        await accepted(store, theirs)
        await accepted(store, next_turn("i", theirs.next_stamp, events=(SCHEDULED,)))

        assert await store.commit([ours, theirs]) == [
            REFUSED,
            TurnReceipt(TurnStatus.ACCEPTED, 0, has_unseen=True),
        ]
        assert await store.commit([ours]) == [REFUSED]

    async def test_a_turn_that_comes_again_beside_a_new_one_was_accepted(
        self, store: Store
    ) -> None:
        stamp, other = await begun(store), await begun(store, "j")
        turn = next_turn("i", stamp, events=(SCHEDULED,))
        await accepted(store, turn)
        await accepted(store, next_turn("i", turn.next_stamp, events=(SCHEDULED,)))
        new = next_turn("j", other, events=(SCHEDULED,))

        receipts = await store.commit([turn, new])

        assert [receipt.status for receipt in receipts] == [TurnStatus.ACCEPTED] * 2

    async def test_a_turn_that_comes_again_in_the_transaction_of_the_one_after_it_was_accepted(
        self, store: Store
    ) -> None:
        stamp = await begun(store)
        turn = next_turn("i", stamp, events=(SCHEDULED,))
        following = next_turn("i", turn.next_stamp, events=(SCHEDULED,))

        receipts = await store.commit([turn, following, turn])

        assert [receipt.status for receipt in receipts] == [TurnStatus.ACCEPTED] * 3
        assert len(await events_of(store, "i", stamp.incarnation)) == 3

    async def test_a_message_that_an_operator_removes_refuses_the_turn_that_has_read_it(
        self, store: Store
    ) -> None:
        stamp = await begun(store)
        await store.deliver([message()])
        [read] = await store.read_inbox("i")

        assert await store.admin.drop_message("i", read.no)

        turn = next_turn("i", stamp, consumed=(read.no,), seen_no=read.no, events=(SCHEDULED,))
        assert await store.commit([turn]) == [REFUSED]
