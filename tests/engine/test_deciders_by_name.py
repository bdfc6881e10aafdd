"""Deciders without their classes: states and events by name, and a projection over all of them."""

from __future__ import annotations

import pytest

from perdure.authoring.registry import Registry
from perdure.errors import (
    DefinitionError,
    InstanceNotFoundError,
    NotRegisteredError,
    UsageError,
)
from perdure.projection import EventMeta, Projection, RecordedJson
from tests.engine.accounts import Account, Deposit, Withdraw
from tests.engine.fed import Order, Stock
from tests.engine.fed import Place as PlaceOrder
from tests.engine.stage import Stage, until


class Audit(Projection[RecordedJson]):
    """Notes down whatever any decider records."""

    name = "audit"
    deciders = "all"

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, object]] = []

    async def handle(self, event: RecordedJson, meta: EventMeta, /) -> None:
        self.seen.append((meta.decider, meta.instance_id, event.tag, event.value))


async def test_state_and_events_are_read_by_the_name_of_the_decider(stage: Stage) -> None:
    engine = await stage.engine([Account])
    await engine.execute(Account, Deposit("a-1", 5))
    await engine.execute(Account, Withdraw("a-1", 2), input_id="w", correlation="lunch")

    assert await engine.state_json("account", "a-1") == 3
    assert await engine.state_json("account", "account:a-1", at=1) == 5
    first, second = await engine.events_json("account", "a-1")
    assert (first.version, first.tag, first.event, first.input_tag) == (
        1,
        "Moved",
        {"amount": 5},
        "Deposit",
    )
    assert (second.input, second.input_id, second.correlation) == (
        {"account": "a-1", "amount": 2},
        "w",
        "lunch",
    )
    assert await engine.events_json("account", "a-1", after=1) == [second]
    assert await engine.events_json("account", "a-1", limit=1) == [first]


async def test_without_the_code_there_are_events_and_no_state(stage: Stage) -> None:
    engine = await stage.engine([Account])
    await engine.execute(Account, Deposit("a-1", 5))
    client = await stage.client()

    assert [event.tag for event in await client.events_json("account", "a-1")] == ["Moved"]
    with pytest.raises(NotRegisteredError, match="states are folded by its code"):
        await client.state_json("account", "a-1")


async def test_what_is_not_there_or_no_decider_is_refused(stage: Stage) -> None:
    engine = await stage.engine([Account])

    with pytest.raises(InstanceNotFoundError):
        await engine.events_json("account", "nobody")
    with pytest.raises(InstanceNotFoundError):
        await engine.state_json("account", "nobody")
    with pytest.raises(UsageError):
        await engine.events_json("account", "a-1", limit=501)


async def test_a_projection_over_all_deciders_sees_each_event_as_it_is_recorded(
    stage: Stage,
) -> None:
    audit = Audit()
    first = await stage.engine([Account, Order, Stock])
    await first.execute(Account, Deposit("a-1", 5))
    await first.execute(Order, PlaceOrder("o-1"))
    # Its worker has none of the classes.
    await stage.engine([audit])

    await until(lambda: len(audit.seen) >= 2)

    assert audit.seen[0] == ("account", "a-1", "Moved", {"amount": 5})
    assert audit.seen[1][:3] == ("order", "o-1", "Placed")


def test_what_reads_of_all_names_no_events_and_no_other_word() -> None:
    class Picky(Audit):
        events = (Deposit,)

    class Some(Audit):
        deciders = "some"  # type: ignore[assignment]  # on purpose

    with pytest.raises(DefinitionError, match="leave out events"):
        Registry([Picky()])
    with pytest.raises(DefinitionError, match='or "all"'):
        Registry([Some()])
