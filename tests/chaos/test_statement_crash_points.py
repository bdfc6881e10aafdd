"""Statements at which a process can die while instances go back and branch off, promises are kept,
items are done page by page, and streams are sent to and taken back: at every statement once; with
PERDURE_CHAOS_FULL=1 each time it is run, and at each commit, which `test_crash_points` does too."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.chaos.crashing import Life, World
from tests.chaos.statements import (
    PLACES,
    StatementFault,
    StatementStore,
    chosen_of,
    points_of,
    sqlite_of,
)
from tests.chaos.test_crash_points import SCRIPTS, look_at
from tests.sizes import IS_FULL, WITHIN_S

NEW_STATEMENTS = {
    "going back": {"revive_instances", "rewind_streams", "forget_unheard"},
    "promised": {"insert_receipts"},
    "items": {"insert_instances"},
    "telling": {"insert_stream_rows", "put_stream_heads", "keep_stream_rows", "insert_take_back"},
}
"""What must be among the statements that a script runs, or nothing is tried."""


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


@pytest.mark.timeout(1_200 if IS_FULL else 600)
@pytest.mark.parametrize("place", PLACES if IS_FULL else ["elsewhere"])
@pytest.mark.parametrize("script", NEW_STATEMENTS)
async def test_a_process_may_die_at_any_statement(
    script: str, place: str, chance: random.Random
) -> None:
    async with World(SCRIPTS[script]) as world:
        life = await follow(world)
        outcomes = await look_at(world)
        assert isinstance(life.store, StatementStore)
        points = chosen_of(points_of(life.store.statements), place, chance)
    if place == "elsewhere":
        assert {point.name for point in points} >= NEW_STATEMENTS[script]
    wrong = []

    for point in points:
        try:
            async with asyncio.timeout(WITHIN_S), World(SCRIPTS[script]) as world:
                await follow(world, point)
                found = await look_at(world)
            if found != outcomes:
                wrong.append(f"{point}: {found}")
        except (AssertionError, TimeoutError) as error:
            wrong.append(f"{point}: {error!r}")

    assert wrong == []
    assert points
