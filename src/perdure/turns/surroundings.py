"""What turns need of the process that they run in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perdure.errors import NondeterminismError
from perdure.turns.endings import Endings
from perdure.turns.job_room import JobRoom
from perdure.turns.metrics import TurnMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The neighbours of turns: a worker's, or those of a client alone."""

    worker_id: str
    """Under which turns are committed."""
    jobs: JobRoom
    """Runs what turns ask for."""
    endings: Endings
    """Callers of this process that wait for instances."""
    metrics: TurnMetrics
    """Count what was accepted."""
    look: Callable[[int], None] = lambda _: None
    """Looks for work at a time, or at 0 now."""
    continued: Callable[[str], None] = lambda _: None
    """Hears of instances that continued as new."""
    unfit: Callable[[str, NondeterminismError], None] = lambda *_: None
    """Hears, in a trial, of each instance whose code cannot be replayed, and why, with values."""
