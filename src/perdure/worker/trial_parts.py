"""What a trial has a worker do otherwise. Workers of users have none of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perdure.errors import NondeterminismError
from perdure.ids import chance
from perdure.jobs.attempts import JobCode
from perdure.jobs.slots import JobRun


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialParts:
    """Parts of a worker that a trial brings along."""

    chance: Callable[[], float] = chance
    """Returns a random number between 0 and 1, for the jitter of retries."""
    stand_in: Callable[[JobRun], JobCode | None] = lambda _: None
    """Returns what is called instead of an activity's code, if anything is."""
    unfit: Callable[[str, NondeterminismError], None] = lambda *_: None
    """Hears of each instance whose code cannot be replayed, and why."""


NO_TRIAL = TrialParts()
