"""Statements at which a process can die, or its line to the server be cut, while instances go back
and branch off, promises are kept, items are done page by page, streams are sent to and taken back,
schedules fire, and one thing is done to many instances.

On SQLite it is tried at every statement once, on PostgreSQL at the new ones and at a commit; with
PERDURE_CHAOS_FULL=1 each time that any is run.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.chaos import operator_scenario
from tests.chaos.crashing import OPTIONS, World
from tests.chaos.statements import StatementFault, chosen_of, few_of
from tests.chaos.sweeping import NewDatabase, Sweep, Undisturbed
from tests.chaos.test_crash_points import SCRIPTS, look_at
from tests.sizes import IS_FULL

pytestmark = pytest.mark.timeout(3_600 if IS_FULL else 600)

NEW_STATEMENTS = {
    "going back": {"revive_instances", "rewind_streams", "forget_unheard"},
    "promised": {"insert_receipts"},
    "items": {"insert_instances"},
    "undoing": {"delete_jobs"},
    "telling": {"insert_stream_rows", "put_stream_heads", "keep_stream_rows", "insert_take_back"},
    "in bulk": {"revive_instances", "insert_receipts"},
    "scheduled": {"insert_instances"},
}
"""What must be among the statements that a script runs, or nothing is tried."""


def sweep_of(script: str, new_database: NewDatabase) -> Sweep[Any]:
    if script in SCRIPTS:
        return Sweep(new_database, lambda url: World(SCRIPTS[script], url=url), look_at)
    steps, definitions = operator_scenario.SCRIPTS[script], operator_scenario.DEFINITIONS
    return Sweep(
        new_database,
        lambda url: World(steps, OPTIONS, definitions, settles=True, url=url),
        operator_scenario.look_at,
    )


def points_at(
    script: str, undisturbed: Undisturbed[Any], store_kind: str, chance: random.Random
) -> Sequence[StatementFault]:
    points = undisturbed.points
    assert {point.name for point in points} >= NEW_STATEMENTS[script]
    if IS_FULL:
        return points
    if store_kind == "sqlite":
        return chosen_of(points, "elsewhere", chance)
    return few_of(points, NEW_STATEMENTS[script], chance)


@pytest.mark.parametrize("script", NEW_STATEMENTS)
async def test_a_process_may_die_at_any_statement(
    script: str, store_kind: str, new_database: NewDatabase, chance: random.Random
) -> None:
    sweep = sweep_of(script, new_database)
    undisturbed = await sweep.run_undisturbed()
    points = points_at(script, undisturbed, store_kind, chance)

    assert await sweep.failures_at(points, undisturbed.left) == []
    assert points


@pytest.mark.parametrize("script", NEW_STATEMENTS)
async def test_a_line_may_be_cut_at_any_statement(
    script: str, new_database_on_server: NewDatabase, chance: random.Random
) -> None:
    """The process lives on, and has to find out what was committed."""
    sweep = sweep_of(script, new_database_on_server)
    undisturbed = await sweep.run_undisturbed()
    points = points_at(script, undisturbed, "postgres", chance)
    cuts = [point._replace(cuts=True) for point in points]

    assert await sweep.failures_at(cuts, undisturbed.left) == []
    assert cuts
