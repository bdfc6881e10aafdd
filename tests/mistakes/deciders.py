"""Mistakes with deciders: ids, and inputs that are given twice."""

from datetime import datetime
from typing import Any

from perdure import Decider, Decision
from perdure.errors import (
    DefinitionError,
    InputIdReusedError,
    InstanceNotFoundError,
    InvalidIdError,
    PayloadError,
    UsageError,
)
from tests.engine.fed import Order, Place
from tests.mistakes.table import Ground, mistake


class Twice(Decider[str, str, str, str]):
    """Puts its own name before the id, as the store does."""

    name = "twice"

    def initial(self) -> str:
        return ""

    def instance_id(self, input: str) -> str:
        return f"twice:{input}"

    def decide(self, state: str, input: str, now: datetime) -> Decision[str, str, str]:
        return Decision.accept(input)

    def evolve(self, state: str, event: str) -> str:
        return event


@mistake(InstanceNotFoundError, "no instance 'order:o-9'", before="no instance 'order:order:o-9'")
async def a_stored_id_of_an_instance_that_there_is_not(ground: Ground) -> None:
    engine = await ground.engine(Order)
    await engine.state(Order, "order:o-9")


@mistake(None, "order:o-1: version 1", before="no instance 'order:order:o-1'")
async def a_stored_id_where_the_own_one_is_meant(ground: Ground) -> str:
    engine = await ground.engine(Order)
    await engine.execute(Order, Place("o-1", "book"))
    [listed] = (await engine.instances()).items
    events = await engine.events(Order, listed.instance_id)
    assert await engine.state(Order, listed.instance_id) == await engine.state(Order, "o-1")
    return f"{listed.instance_id}: version {len(events)}"


@mistake(
    InvalidIdError,
    "instance id of decider 'twice' 'twice:5' begins with 'twice:', which is put before it",
    before="stored as 'twice:twice:5'",
)
async def an_id_with_the_name_of_the_decider(ground: Ground) -> None:
    engine = await ground.engine(Twice)
    await engine.execute(Twice, "5")


@mistake(
    InputIdReusedError,
    "input id 'req-1' was given to instance 'order:o-1' before, with another input (other in sku)",
    "take a new id for a new input",
    before="the first answer, silently",
)
async def an_input_id_with_another_input(ground: Ground) -> None:
    engine = await ground.engine(Order)
    await engine.execute(Order, Place("o-1", "book"), input_id="req-1")
    await engine.execute(Order, Place("o-1", "lamp"), input_id="req-1")


@mistake(
    UsageError,
    "at='1': a version is a whole number, 0 before the first event",
    before="TypeError: '<' not supported between instances of 'str' and 'int'",
)
async def a_text_as_a_version_to_look_at(ground: Ground) -> None:
    engine = await _with_an_order(ground)
    await engine.state(Order, "o-1", at="1")


@mistake(
    UsageError,
    "name_of must be a function from a state to its name, got 'status'",
    before="TypeError: 'str' object is not callable",
)
async def the_name_of_an_attribute_to_name_states_by(ground: Ground) -> None:
    engine = await _with_an_order(ground)
    await engine.transitions(Order, "o-1", name_of="status")


@mistake(
    PayloadError,
    "input Place of decider 'order'",
    "is no JSON",
    before="TypeError: Encoding objects of type object is unsupported",
)
async def an_object_where_json_is_meant(ground: Ground) -> None:
    engine = await _with_an_order(ground)
    await engine.execute_json("order", "Place", {"order_id": "o-1", "sku": object()})


@mistake(InvalidIdError, "tag ['Place']", before="TypeError: unhashable type: 'list'")
async def a_list_as_the_name_of_an_input(ground: Ground) -> None:
    engine = await _with_an_order(ground)
    await engine.execute_json("order", ["Place"], {})


async def _with_an_order(ground: Ground) -> Any:
    engine = await ground.engine(Order)
    await engine.execute(Order, Place("o-1", "book"))
    return engine


@mistake(
    DefinitionError,
    "decider 'broken'",
    "initial() raised KeyError: 'rate'",
    before="what initial() returns is no state that can be stored: KeyError: 'rate'",
)
async def a_first_state_that_cannot_be_made(ground: Ground) -> None:
    class Broken(Decider[int, int, int, str]):
        name = "broken"

        def initial(self) -> int:
            raise KeyError("rate")

        def instance_id(self, input: int, /) -> str:
            return "b"

        def decide(self, state: int, input: int, now: datetime, /) -> Decision[int, int, str]:
            return Decision.accept(input)

        def evolve(self, state: int, event: int, /) -> int:
            return event

    await ground.engine(Broken)
