"""What the log says of code that does not fit: where, and never a value."""

from __future__ import annotations

import pytest

from perdure.errors import NondeterminismError
from perdure.turns.holds import _shown

CANARY = "canary-4711"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (
            NondeterminismError(
                "time.time() at a.py:1 in f cannot be replayed", place="a.py:1 in f"
            ),
            "time.time() at a.py:1 in f cannot be replayed",
        ),
        (
            NondeterminismError(f"o-1 no longer matches: {CANARY}", seq=3, place="a.py:2 in f"),
            "its code does not fit its history at event 3, asked for at a.py:2 in f",
        ),
        (
            NondeterminismError(f"cannot fold event 2: ValueError: {CANARY}", seq=2),
            "its code does not fit its history at event 2",
        ),
        (
            NondeterminismError(f"is_terminal failed: ValueError: {CANARY}"),
            "its code does not fit its history",
        ),
    ],
)
def test_only_a_call_that_cannot_be_replayed_is_told_in_its_own_words(
    error: NondeterminismError, shown: str
) -> None:
    assert _shown(error) == shown
