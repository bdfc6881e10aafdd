"""Statements at which a process can die, or its line to the server be cut, while an instance is
asked: on SQLite at each commit, and at every other statement once; on PostgreSQL at a few; with
PERDURE_CHAOS_FULL=1 each time that any is run.

The caller repeats what it was not told the outcome of, under the same id, in the next process.
Whatever dies, each update is done once and answered alike, over executions that continue.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import msgspec
import pytest

from perdure import Signal, Status, Update, orchestration
from perdure.authoring.registry import Defined
from perdure.checking.invariants import check
from perdure.errors import UpdateRefusedError
from tests.chaos import scenario
from tests.chaos.crashing import IN_MEMORY, OPTIONS, HandDriven, Step, World
from tests.chaos.statements import PLACES, chosen_of, few_of
from tests.chaos.sweeping import NewDatabase, Sweep
from tests.sizes import IS_FULL

pytestmark = pytest.mark.timeout(3_600 if IS_FULL else 600)

PER_EXECUTION = 3

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
    """Ask at once."""
    return await engine.until_answered(*(_ask_one(engine, value) for value in values))


async def _ask_one(engine: HandDriven, value: int) -> int | str:
    try:
        return await engine.handle("tally").update(add, value, update_id=f"u{value}")
    except UpdateRefusedError as error:
        return error.reason


async def begin(engine: HandDriven) -> None:
    """The first to ask starts the instance."""
    asked = add.with_options(update_id="u10")
    first = engine.update_with_start(asked, 10, "tally", tally, [])
    assert await engine.until_answered(first) == [1]


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


SCRIPT: Sequence[Step] = [begin, ask_second, ask_several, ask_again, end]


async def look_at(world: World) -> None:
    assert await check(world.store) == []
    [row] = await world.store.read_instances(["tally"])
    assert row is not None
    assert row.status is Status.COMPLETED
    taken = msgspec.json.decode(row.output or b"", type=list[int])
    assert sorted(taken) == [10, 11, 20, 21, 22]
    assert taken[:2] == [10, 11]


def sweep_of(new_database: NewDatabase, *, hot: bool) -> Sweep[None]:
    options = replace(OPTIONS, hot_instances=OPTIONS.hot_instances if hot else 0)
    return Sweep(
        new_database,
        lambda url: World(SCRIPT, options, DEFINITIONS, settles=True, url=url),
        look_at,
    )


@pytest.mark.parametrize("hot", [True, False], ids=["hot", "cold"])
@pytest.mark.parametrize("place", PLACES)
async def test_a_process_may_die_at_any_statement_while_an_instance_is_asked(
    place: str, hot: bool, chance: random.Random
) -> None:
    sweep = sweep_of(lambda: nullcontext(IN_MEMORY), hot=hot)
    points = chosen_of((await sweep.run_undisturbed()).points, place, chance)

    assert await sweep.failures_at(points, None) == []
    assert points


@pytest.mark.parametrize("hot", [True, False], ids=["hot", "cold"])
@pytest.mark.parametrize("cuts", [False, True], ids=["process dies", "line is cut"])
async def test_on_postgresql_too_while_an_instance_is_asked(
    cuts: bool, hot: bool, new_database_on_server: NewDatabase, chance: random.Random
) -> None:
    sweep = sweep_of(new_database_on_server, hot=hot)
    found = (await sweep.run_undisturbed()).points
    points = found if IS_FULL else few_of(found, {"insert_receipts"}, chance)

    assert await sweep.failures_at([one._replace(cuts=cuts) for one in points], None) == []
