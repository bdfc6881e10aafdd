"""What callers are told is what the store holds, whatever is killed, frozen, cut or lost (S45).

The full size, on either store: `python -m tests.chaos.linear --full --store postgres`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.linear import SMALL, linear


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_every_answer_is_what_the_store_holds(store: str, tmp_path: Path) -> None:
    report = await linear(store, SMALL, 7, tmp_path)

    assert report.problems == [], report
    assert report.answers.total() >= SMALL.operations
    assert report.answers["execute: rejected"], "nobody was rejected"
    for kind in ("poison", "fork", "give up", "same id", "wrong clock"):
        assert report.faults[kind], f"no {kind}"
