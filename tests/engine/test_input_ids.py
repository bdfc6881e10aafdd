"""An input id stands for one input: given again with another one, that is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec
import pytest

from perdure import Accepted, AlreadyCompleted, Decider, Decision, Rejected, activity
from perdure.core.deciders.answers import (
    UNCHECKED,
    AcceptedReceipt,
    DirectInput,
    write_receipt,
)
from perdure.core.deciders.fingerprints import check_same
from perdure.errors import InputIdReusedError
from perdure.model.fingerprints import TAG, fingerprint
from perdure.model.turns import Turn, TurnReceipt
from tests import rows
from tests.engine.fed import Order, Place, Ship
from tests.engine.stage import Gate, Stage, until
from tests.engine.test_execute_corners import hold_after

OTHER_SKU = r"input id 'req-1' was given to instance 'order:o-1' before, .*\(other in sku\)"


async def test_another_input_under_an_id_that_was_decided_is_refused(stage: Stage) -> None:
    client = await stage.client()
    first = await client.execute(Order, Place("o-1", "book"), input_id="req-1")

    assert await client.execute(Order, Place("o-1", "book"), input_id="req-1") == first
    await client.send(Order, Place("o-1", "book"), input_id="req-1")
    with pytest.raises(InputIdReusedError, match=OTHER_SKU):
        await client.execute(Order, Place("o-1", "lamp"), input_id="req-1")
    with pytest.raises(InputIdReusedError, match=OTHER_SKU):
        await client.send(Order, Place("o-1", "lamp"), input_id="req-1")
    with pytest.raises(InputIdReusedError, match="other in its kind"):
        await client.execute(Order, Ship("o-1"), input_id="req-1")

    assert len(await client.events(Order, "o-1")) == 1


async def test_another_input_under_the_id_of_a_rejected_one_is_refused(stage: Stage) -> None:
    client = await stage.client()
    await client.execute(Order, Ship("o-1"))
    assert isinstance(await client.execute(Order, Ship("o-1"), input_id="req-1"), Rejected)

    with pytest.raises(InputIdReusedError, match="other in its kind"):
        await client.execute(Order, Place("o-1"), input_id="req-1")


async def test_another_input_under_the_id_of_a_queued_one_is_refused(stage: Stage) -> None:
    client = await stage.client()
    await client.send(Order, Place("o-1", "book"), input_id="req-1")

    await client.send(Order, Place("o-1", "book"), input_id="req-1")
    with pytest.raises(InputIdReusedError, match=OTHER_SKU):
        await client.send(Order, Place("o-1", "lamp"), input_id="req-1")
    with pytest.raises(InputIdReusedError, match=OTHER_SKU):
        await client.execute(Order, Place("o-1", "lamp"), input_id="req-1")
    with pytest.raises(InputIdReusedError, match=OTHER_SKU):
        await client.send_json(
            "order",
            "Place",
            {"order_id": "o-1", "sku": "lamp"},
            instance_id="o-1",
            input_id="req-1",
        )
    assert isinstance(await client.execute(Order, Place("o-1", "book"), input_id="req-1"), Accepted)


async def test_of_two_inputs_at_once_under_one_id_one_is_refused(stage: Stage) -> None:
    client = await stage.client()
    await client.execute(Order, Place("o-1"))

    answers = await asyncio.gather(
        client.execute(Order, Place("o-1", "book"), input_id="req-1"),
        client.execute(Order, Place("o-1", "lamp"), input_id="req-1"),
        return_exceptions=True,
    )

    assert {type(answer) for answer in answers} == {Accepted, InputIdReusedError}
    assert len(await client.events(Order, "o-1")) == 2


async def test_of_two_that_are_queued_at_once_under_one_id_one_is_refused(stage: Stage) -> None:
    clients = await stage.client(), await stage.client()
    for number in range(20):
        answers = await asyncio.gather(
            *(
                client.send(Order, Place(f"o-{number % 2}", sku), input_id=f"req-{number}")
                for client, sku in zip(clients, ("book", "lamp"), strict=True)
            ),
            return_exceptions=True,
        )

        assert {type(answer) for answer in answers} == {type(None), InputIdReusedError}


async def test_another_input_is_refused_though_the_first_is_decided_between_two_looks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = await stage.client(), await stage.client()
    look = other._core.store.deciders.read_receipts
    first = Place("o-1", "book")
    meanwhile: list[Callable[[], Awaitable[object]]] = [
        lambda: client.send(Order, first, input_id="req-1"),
        lambda: client.execute(Order, first, input_id="req-1"),
    ]

    async def slowly(instance_id: str, input_ids: Sequence[str]) -> dict[str, bytes | None]:
        found = await look(instance_id, input_ids)
        if meanwhile:
            await meanwhile.pop(0)()
        return found

    monkeypatch.setattr(other._core.store.deciders, "read_receipts", slowly)
    with pytest.raises(InputIdReusedError, match=OTHER_SKU):
        await other.send(Order, Place("o-1", "lamp"), input_id="req-1")

    assert meanwhile == []
    assert [one.event.sku for one in await client.events(Order, "o-1")] == ["book"]


async def test_who_waits_without_the_code_is_not_told_what_another_input_came_to(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The input that is decided here overtakes the one that was queued meanwhile."""
    client, other = await stage.client(), await stage.client()
    await client.execute(Order, Place("o-1"))
    gate, commit = Gate(), client._core.store.commit

    async def late(turns: Sequence[Turn]) -> list[TurnReceipt]:
        await gate.pass_through()
        return await commit(turns)

    monkeypatch.setattr(client._core.store, "commit", late)
    deciding = asyncio.create_task(client.execute(Order, Place("o-1", "book"), input_id="req-1"))
    await gate.reached()
    waiting = asyncio.create_task(
        other.execute_json(
            "order",
            "Place",
            {"order_id": "o-1", "sku": "lamp"},
            instance_id="o-1",
            input_id="req-1",
        )
    )
    await until(lambda: other.inbox("order:o-1"))
    gate.opened.set()

    assert isinstance(await deciding, Accepted)
    with pytest.raises(InputIdReusedError, match=OTHER_SKU):
        await waiting


async def test_a_receipt_of_an_earlier_version_fits_every_input(stage: Stage) -> None:
    client = await stage.client()
    first = await client.execute(Order, Place("o-1"), input_id="req-1")
    rows.run(
        stage.url,
        "UPDATE receipts SET outcome = ? WHERE message_id = 'req-1'",
        b'{"outcome":"accepted","first":1,"last":1}',
    )

    assert await client.execute(Order, Place("o-1", "lamp"), input_id="req-1") == first


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ({"a": 1}, {"a": 1, "added": "later"}),
        ({"a": 1, "left": "out"}, {"a": 1}),
        ({"a": 1.0}, {"a": 1}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}),
        ("text", "text"),
    ],
)
def test_what_only_code_or_spelling_has_changed_is_the_same_input(
    first: object, again: object
) -> None:
    kept = fingerprint("Pay", msgspec.json.encode(first))

    check_same("i", kept, DirectInput("Pay", msgspec.json.encode(again), "req-1"))


def test_who_lacks_the_code_may_name_the_kind_otherwise() -> None:
    kept = fingerprint("Pay", b'{"a":1}')

    check_same("i", kept, DirectInput("shop.Pay", b'{"a":1}', "req-1", cause=UNCHECKED))
    with pytest.raises(InputIdReusedError):
        check_same("i", kept, DirectInput("Ship", b'{"a":1}', "req-1"))
    assert TAG in kept


# ----------------------------------------------------- the input that completes an instance


@dataclass(frozen=True)
class Close:
    till: str
    for_good: bool = True


@dataclass(frozen=True)
class Closed:
    for_good: bool = True


class Till(Decider[bool, Close, Closed, str]):
    """Is closed again and again, and once for good."""

    name = "till"

    def initial(self) -> bool:
        return False

    def instance_id(self, input: Close, /) -> str:
        return input.till

    def decide(self, state: bool, input: Close, now: datetime, /) -> Decision[Close, Closed, str]:
        return self.close(Closed(input.for_good))

    def close(self, closed: Closed) -> Decision[Close, Closed, str]:
        return Decision.accept(closed)

    def evolve(self, state: bool, event: Closed, /) -> bool:
        return event.for_good

    def is_terminal(self, state: bool, /) -> bool:
        return state


async def test_the_input_that_completes_an_instance_is_told_so_twice_while_its_effect_runs(
    stage: Stage,
) -> None:
    gate = Gate()

    @activity
    async def count() -> None:
        await gate.pass_through()

    class Counted(Till):
        name = "counted"

        def close(self, closed: Closed) -> Decision[Close, Closed, str]:
            return Decision.accept(closed).effect(count)

    engine = await stage.engine([Counted, count])
    await engine.execute(Counted, Close("t", for_good=False))

    first, again = await asyncio.gather(
        *(engine.execute(Counted, Close("t"), input_id="r-1") for _ in range(2))
    )
    gate.opened.set()

    assert first == again == Accepted((Closed(),), True, 2)
    assert await engine.execute(Counted, Close("t"), input_id="r-2") == AlreadyCompleted()


async def test_an_input_that_another_client_gives_too_and_that_ends_the_instance_is_told_to_both(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = await stage.client(), await stage.client()
    gate = hold_after(monkeypatch, other._core.store.deciders, "read_receipts")
    calling = asyncio.create_task(other.execute(Till, Close("t"), input_id="r-1"))
    await gate.reached.wait()
    answer = await client.execute(Till, Close("t"), input_id="r-1")
    gate.opened.set()

    assert await calling == answer == Accepted((Closed(),), True, 1)
    assert await other.execute(Till, Close("t"), input_id="r-2") == AlreadyCompleted()


async def test_a_receipt_of_an_input_that_the_store_has_lost_answers_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby that was behind took over between the two questions: the versions that the receipt
    names are those of another input now, or of none."""
    client = await stage.client()
    store = client._core.store
    await client.execute(Order, Place("o-2", "book"))
    lost = write_receipt(AcceptedReceipt(first=1, last=1))
    read = store.deciders.read_receipts
    answers: list[dict[str, bytes | None]] = [{"req-1": lost}]

    async def gone_back(instance_id: str, input_ids: Sequence[str]) -> dict[str, bytes | None]:
        return answers.pop() if answers else await read(instance_id, input_ids)

    monkeypatch.setattr(store.deciders, "read_receipts", gone_back)
    answer = await client.execute(Order, Ship("o-2"), input_id="req-1")

    assert answers == []
    assert isinstance(answer, Accepted)
    assert answer.version == 2
