"""Events of deciders in the order of their commits, and how far readers have got."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from perdure.model.histories.events import StoredEvent


class FeedEvent(NamedTuple):
    """One event as a projection reads it."""

    pos: int
    """Its place in the order of commits; rises, with gaps."""
    decider: str
    instance_id: str
    """As stored, with the decider's name before it."""
    incarnation: int
    tag: str
    stored: StoredEvent
    version: int = 0
    cause: str = ""
    correlation: str = ""


class ReaderStatus(StrEnum):
    """Whether a reader of the feed goes on."""

    RUNNING = "running"
    PAUSED = "paused"  # by a person
    STUCK = "stuck"  # an event could not be handled; the reason says why


class Checkpoint(NamedTuple):
    """How far a reader of the feed has come."""

    name: str
    pos: int
    status: ReaderStatus
    reason: str | None
    losses: int
    """How many workers were lost while there were events to handle, since it last moved."""
    lease_until_ms: int
    updated_ms: int


class StuckEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a reader is stuck, as its checkpoint keeps it."""

    pos: int
    """The event that could not be handled; 0: it could not begin."""
    type_name: str
    """The exception's class."""
    message: str
    attempts: int = 1
    instance_id: str = ""
    """As stored."""
    tag: str = ""
    is_rebuild: bool = False
    """Whether it was to begin anew and could not."""

    @property
    def method(self) -> str:
        """What it could not get through before any event: setup, or reset; empty: an event."""
        if self.pos:
            return ""
        return "reset" if self.is_rebuild else "setup"


def write_stuck(stuck: StuckEvent) -> str:
    """Return it as the text of a reason."""
    return msgspec.json.encode(stuck).decode()


def read_stuck(reason: str | None) -> StuckEvent | None:
    """Return what a reason says; None if it says something else."""
    try:
        return msgspec.json.decode(reason or "", type=StuckEvent)
    except msgspec.MsgspecError:
        return None


REBUILD = "rebuild"
"""The reason of a reader that was set back and has not begun again."""


class Observation(NamedTuple):
    """An input that a decider was given, as stored."""

    no: int
    at_ms: int
    tag: str
    input: bytes
    outcome: str
    rejection: bytes | None
    input_id: str


class StoredSnapshot(NamedTuple):
    """A decider's state as stored: fold the events after `seq` into it."""

    seq: int
    schema: int
    version: int
    body: bytes
