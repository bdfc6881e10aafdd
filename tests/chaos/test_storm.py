"""Workers are killed and frozen while PostgreSQL crashes: nothing is lost, nothing is doubled.

Here with 300 orchestrations and deciders, 10 kills, 2 crashes of the server, 2 frozen workers, 10
cut lines and 5 wrong clocks; with PERDURE_CHAOS_FULL=1, or by `python -m tests.chaos.storm --full`,
with 2,000, 50, 5, 5, 100 and 100. Some inputs have a neighbour that the database refuses, every
activity seeds `random`, some fork. Each answer that the client was told is what the store holds.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.storm import FULL, SMALL, storm
from tests.sizes import IS_FULL

SIZE = FULL if IS_FULL else SMALL


@pytest.mark.timeout(1_800 if SIZE is FULL else 600)
async def test_a_storm_loses_and_repeats_nothing(tmp_path: Path, chance: random.Random) -> None:
    report = await storm(SIZE, chance.getrandbits(30), tmp_path)

    assert report.problems == []
    assert (report.kills, report.crashes) == (SIZE.kills, SIZE.crashes)
    assert report.freezes >= SIZE.freezes
    assert (report.cuts, report.jumps) == (SIZE.cuts, SIZE.jumps)
    assert report.poison
    assert report.forks
    assert report.answers["start: started"]
    assert report.instances >= SIZE.cases
    assert report.refused_frozen, "no worker woke up to find its work done by others"
