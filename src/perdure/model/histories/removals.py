"""What removing events of deciders asks of a store."""

from __future__ import annotations

from typing import NamedTuple

from perdure.model.histories.events import Body


class SnapshotPlace(NamedTuple):
    """Which event of a live instance its newest snapshot is of."""

    instance_id: str
    incarnation: int
    execution: int
    definition_no: int
    seq: int
    version: int


class EventRemoval(NamedTuple):
    """Which events of an execution to remove, and what is to stand for them."""

    instance_id: str
    incarnation: int
    execution: int
    upto: int
    """The last one; the first is that behind the start."""
    rows: int
    """How many rows these are, as far as the worker knows that asks."""
    at_ms: int
    """When the last one was recorded."""
    standing: Body
    """What stands for them: the store does not open it."""
