"""Workers are killed and frozen while PostgreSQL crashes: nothing is lost, nothing is doubled.

Here with 300 orchestrations and deciders, 10 kills, 2 crashes of the server, 2 frozen workers and
10 cut lines; with PERDURE_CHAOS_FULL=1, or by `python -m tests.chaos.storm --full`, with 2,000, 50,
5, 5 and 100. Some inputs have a neighbour that the database refuses, every activity seeds `random`.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.chaos.storm import FULL, SMALL, storm

SIZE = FULL if os.environ.get("PERDURE_CHAOS_FULL") else SMALL


@pytest.mark.timeout(900 if SIZE is FULL else 240)
async def test_a_storm_loses_and_repeats_nothing(tmp_path: Path, chance: random.Random) -> None:
    report = await storm(SIZE, chance.getrandbits(30), tmp_path)

    assert report.problems == []
    assert (report.kills, report.crashes, report.freezes, report.cuts) == (
        SIZE.kills,
        SIZE.crashes,
        SIZE.freezes,
        SIZE.cuts,
    )
    assert report.poison
    assert report.instances >= SIZE.cases
    assert report.refused_frozen, "no worker woke up to find its work done by others"
