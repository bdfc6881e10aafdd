"""Which time of which schedule an instance was started for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec


class StartedSlot(msgspec.Struct, frozen=True, gc=False):
    """A slot as a start has it on record."""

    schedule: str
    at: str
    """In ISO form, with the offset of the schedule's place."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Which time of which schedule an instance was started for."""

    schedule: str
    """The schedule's name."""
    at: datetime
    """The time it is for, on the clock of the schedule's place; of a trigger, when that was."""


def slot_of(recorded: StartedSlot) -> Slot:
    """Return a recorded slot as people have it."""
    return Slot(recorded.schedule, datetime.fromisoformat(recorded.at))
