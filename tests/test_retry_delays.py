"""How long after a failure an activity is tried again, by the shape of its back-off."""

from __future__ import annotations

import pytest

from perdure.model.jobs import JobPolicy
from perdure.model.options import Backoff, delay_after

SECOND_MS = 1_000


@pytest.mark.parametrize(
    ("shape", "pauses"),
    [("fixed", [1, 1, 1, 1]), ("linear", [1, 2, 3, 4]), ("exponential", [1, 3, 9, 20])],
)
def test_pauses_grow_by_their_shape_up_to_the_longest(shape: Backoff, pauses: list[int]) -> None:
    policy = JobPolicy(
        backoff=shape, first_delay_ms=SECOND_MS, factor=3, max_delay_ms=20 * SECOND_MS
    )

    delays = [delay_after(policy, failures, chance=1) for failures in range(1, 5)]

    assert delays == [seconds * SECOND_MS for seconds in pauses]


@pytest.mark.parametrize(("chance", "pause_ms"), [(0, 1_000), (0.5, 1_050), (1, 1_100)])
def test_jitter_adds_a_part_of_the_pause(chance: float, pause_ms: int) -> None:
    policy = JobPolicy(first_delay_ms=SECOND_MS, jitter=0.1)

    assert delay_after(policy, 1, chance=chance) == pause_ms


def test_a_pause_after_very_many_failures_is_the_longest() -> None:
    policy = JobPolicy(factor=10, max_delay_ms=5 * SECOND_MS)

    assert delay_after(policy, 100_000, chance=0) == 5 * SECOND_MS
