"""Statements at which a process can die while an instance is asked: at each commit, and at every
other statement once; with PERDURE_CHAOS_FULL=1 each time it is run.

The caller repeats what it was not told the outcome of, under the same id, in the next process.
Whatever dies, each update is done once and answered alike, over executions that continue.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from perdure import Signal, Status, Update, orchestration
from perdure.authoring.registry import Defined
from perdure.checking.invariants import check
from perdure.errors import UpdateRefusedError
from tests.chaos import scenario
from tests.chaos.crashing import OPTIONS, Fault, FaultKind, HandDriven, Life, Step, World
from tests.chaos.statements import (
    PLACES,
    StatementFault,
    StatementStore,
    chosen_of,
    points_of,
    sqlite_of,
)
from tests.postgres import Server
from tests.sizes import IS_FULL, WITHIN_S

PER_EXECUTION = 3
WRITTEN = {"commit", "start", "deliver", "end_jobs"}
"""Calls of the store whose answer tells that something is stored."""
CALLS_DRAWN = 4
"""At how many calls of the store a process dies on PostgreSQL, unless all are tried."""

add = Update("add", int, int)
close = Signal("close", str)


@orchestration
async def tally(taken: list[int]) -> list[int]:
    """Take numbers: some are refused, some take an activity; continue after a few."""
    closed = asyncio.create_task(close.receive())
    for _ in range(PER_EXECUTION):
        taking = asyncio.create_task(add.receive())
        await asyncio.wait([closed, taking], return_when=asyncio.FIRST_COMPLETED)
        if not taking.done():
            taking.cancel()
            return taken
        request = taking.result()
        if request.value < 0:
            request.refuse("negative")
            continue
        if request.value % 2:
            await scenario.step(request.value)
        taken.append(request.value)
        request.answer(len(taken))
    tally.continue_as_new(taken)


DEFINITIONS: list[Defined] = [*scenario.DEFINITIONS, tally]


async def ask(engine: HandDriven, *values: int) -> list[int | str]:
    """Ask at once, and drive the engine until all have an answer."""
    asked = [asyncio.create_task(_ask_one(engine, value)) for value in values]
    try:
        while not all(one.done() for one in asked):
            await engine.until_idle()
            await asyncio.sleep(0)
            if not all(one.done() for one in asked):
                await engine.pass_time()
        return [one.result() for one in asked]
    finally:
        for one in asked:
            one.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _ask_one(engine: HandDriven, value: int) -> int | str:
    try:
        return await engine.handle("tally").update(add, value, update_id=f"u{value}")
    except UpdateRefusedError as error:
        return error.reason


async def begin(engine: HandDriven) -> None:
    await engine.start("tally", tally, [])


async def ask_first(engine: HandDriven) -> None:
    assert await ask(engine, 10) == [1]


async def ask_second(engine: HandDriven) -> None:
    assert await ask(engine, 11) == [2]


async def ask_several(engine: HandDriven) -> None:
    answers = await ask(engine, 20, 21, -1, 22)
    assert sorted(map(str, answers)) == ["3", "4", "5", "negative"]


async def ask_again(engine: HandDriven) -> None:
    """What was answered in other executions, and perhaps by other processes, is answered alike."""
    assert await ask(engine, 10, 11, -1) == [1, 2, "negative"]


async def end(engine: HandDriven) -> None:
    await engine.handle("tally").send(close, "", message_id="close")


SCRIPT: Sequence[Step] = [begin, ask_first, ask_second, ask_several, ask_again, end]


def new_life(world: World, fault: StatementFault | None = None) -> Life:
    return world.new_life().on(StatementStore(sqlite_of(world), fault))


async def follow(world: World, fault: StatementFault | None = None) -> Life:
    """Let one process after another try until one comes through; return the first."""
    first = life = new_life(world, fault)
    while True:
        try:
            is_through = await life.run()
        finally:
            await life.end()
        if is_through:
            return first
        life = new_life(world)


async def look_at(world: World) -> None:
    assert await check(world.store) == []
    [row] = await world.store.read_instances(["tally"])
    assert row is not None
    assert row.status is Status.COMPLETED
    taken = msgspec.json.decode(row.output or b"", type=list[int])
    assert sorted(taken) == [10, 11, 20, 21, 22]
    assert taken[:2] == [10, 11]


@pytest.mark.parametrize("hot", [True, False], ids=["hot", "cold"])
@pytest.mark.parametrize("place", PLACES)
async def test_a_process_may_die_at_any_statement_while_an_instance_is_asked(
    place: str, hot: bool, chance: random.Random
) -> None:
    options = replace(OPTIONS, hot_instances=OPTIONS.hot_instances if hot else 0)
    async with World(SCRIPT, options, DEFINITIONS, settles=True) as world:
        life = await follow(world)
        assert isinstance(life.store, StatementStore)
        points = chosen_of(points_of(life.store.statements), place, chance)
        await look_at(world)
    wrong = []

    for point in points:
        try:
            async with (
                asyncio.timeout(WITHIN_S),
                World(SCRIPT, options, DEFINITIONS, settles=True) as world,
            ):
                await follow(world, point)
                await look_at(world)
        except (AssertionError, TimeoutError) as error:
            wrong.append(f"{point}: {error!r}")

    assert wrong == []
    assert points


async def test_on_postgresql_the_answer_to_any_call_may_be_lost_while_an_instance_is_asked(
    postgres: Server, postgres_template: str, chance: random.Random
) -> None:
    """There a transaction whose process dies is rolled back by the server: what can differ is
    whether a call took effect of which nobody heard."""

    async def through(fault: Fault | None) -> list[str]:
        url = postgres.create_database(template=postgres_template)
        try:
            async with (
                asyncio.timeout(WITHIN_S),
                World(SCRIPT, OPTIONS, DEFINITIONS, settles=True, url=url) as world,
            ):
                life = first = world.new_life(fault)
                while not await live(life):
                    life = world.new_life()
                await look_at(world)
                return [call.name for call in first.store.writes if call.has_effect]
        finally:
            postgres.drop_database(url)

    async def live(life: Life) -> bool:
        try:
            return await life.run()
        finally:
            await life.end()

    calls = await through(None)
    faults = [
        Fault(kind, occurrence, name)
        for kind in (FaultKind.BEFORE, FaultKind.AFTER)
        for name in sorted({*calls} & WRITTEN)
        for occurrence in range(1, calls.count(name) + 1)
    ]
    drawn = faults if IS_FULL else chance.sample(faults, CALLS_DRAWN)

    wrong = []
    for fault in drawn:
        try:
            await through(fault)
        except (AssertionError, TimeoutError) as error:
            wrong.append(f"{fault}: {error!r}")
    assert wrong == []
