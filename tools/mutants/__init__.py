"""The mutants: lines on which promises rest, each broken in one way.

A mutant names text that is in its file exactly once, what stands there instead, and tests that must
fail then, the quickest first. `tests/test_mutants.py` keeps the list true to the code; what catches
which is in docs/mutants.md.
"""

from __future__ import annotations

from itertools import chain

from tools.mutants import (
    commits,
    items,
    lateness,
    looks,
    promises,
    removed_events,
    repair,
    schedules,
    sharing,
    streams,
    web,
    work,
)
from tools.mutants.mutant import Mutant

GROUPS: dict[str, tuple[Mutant, ...]] = {
    "The fence": commits.FENCE,
    "Turns that are sent again": commits.AGAIN,
    "Rows that are kept": commits.KEPT_ROWS,
    "One answer for each": commits.ANSWERS,
    "Lives of a database, and ids": commits.EPOCHS,
    "Instances that several decide on": sharing.SHARED,
    "Claims": work.CLAIMS,
    "Leases": work.LEASES,
    "What is late": lateness.LATE,
    "Once": work.ONCE,
    "The inbox": work.INBOX,
    "Business keys": work.KEYS,
    "Going back": repair.GOING_BACK,
    "Schedules": schedules.SCHEDULES,
    "What a decider may forget": removed_events.REMOVED_EVENTS,
    "Promises, and many at once": promises.PROMISES,
    "Very many items": items.ITEMS,
    "Streams": streams.STREAMS,
    "Doors": web.DOORS,
    "Looks": looks.LOOKS,
}

MUTANTS = tuple(chain.from_iterable(GROUPS.values()))
