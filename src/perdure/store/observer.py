"""Who is told how long each operation of a store took, and which failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Observer:
    """What a store calls at the end of an operation."""

    ended: Callable[[tuple[str, str], float], None]
    """Hears of an operation, with "ok" or "error", and how many seconds it took."""
    failed: Callable[[tuple[str, str]], None]
    """Hears of an operation, and the class of its error."""
