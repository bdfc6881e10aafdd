"""Instances as the store knows them: identity, status, the row people list."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple
from zlib import crc32

import msgspec

from perdure.model.builtins import RESERVED_PREFIX
from perdure.model.histories.rewinds import Rewind
from perdure.model.messages import Delivery

PARTS = 256
"""Into how many fixed slices all instances fall. Never changes: it is stored in every key."""


def part_of(instance_id: str) -> int:
    """Return the slice an instance belongs to, the same in every process and for ever."""
    return crc32(instance_id.encode()) % PARTS


class Status(StrEnum):
    """Where an instance stands, for people and for filters."""

    RUNNING = "running"
    BLOCKED = "blocked"  # the code no longer matches the history; goes on with fitting code
    PARKED = "parked"  # its turn keeps failing or its rows are damaged; an operator decides
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"

    @property
    def is_terminal(self) -> bool:
        """Return whether the instance has ended. Such a status changes by a reset alone."""
        return self in _TERMINAL

    @property
    def is_held(self) -> bool:
        """Return whether the instance is parked or blocked: nothing of it moves until then."""
        return self in _HELD


_TERMINAL = {Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.TERMINATED}
_HELD = {Status.BLOCKED, Status.PARKED}

LIVE = tuple(status for status in Status if not status.is_terminal)
"""Of instances that have not ended, held ones among them."""
HELD = tuple(status for status in Status if status.is_held)
ENDED = tuple(status for status in Status if status.is_terminal)


DECIDER = "decider"
"""The kind of definition whose instances have business keys, snapshots and a place in the feed."""


QUEUE_KINDS = ("activity", "inline")
"""The kinds of definition that jobs belong to; all others have instances."""


class DefinitionKey(NamedTuple):
    """What a claim asks for: an orchestration's version, a decider, or an activity's queue.

    For an orchestration `variant` is its version; for an activity it is the tag or ""; for a
    decider "". A worker's sign of life also names its projections and subscriptions, as kind
    "projection" and with "".
    """

    kind: str
    name: str
    variant: str
    behaviour: int = 0


class Stamp(NamedTuple):
    """What a commit must find unchanged.

    The numbers alone do not tell one past from another: a database that lost its last commits, when
    a standby took over or a backup was restored, comes to the same numbers on another way. So the
    stamp names the commit too.
    """

    incarnation: int
    execution: int
    next_seq: int
    commit_id: int = 0
    """Of the last accepted turn, or of the start; 0: the turn itself starts its instance."""

    @property
    def place(self) -> tuple[int, int, int]:
        """Where the next event goes, whichever worker has written those before it."""
        return self[:3]

    @property
    def key(self) -> tuple[int, int]:
        """Which execution it is of."""
        return self[:2]


class NewInstance(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An instance to be started."""

    instance_id: str
    incarnation: int
    definition: DefinitionKey
    input: bytes
    start_kind: str
    start_body: bytes
    """The message that its first turn takes."""
    created_ms: int
    visible_at_ms: int = 0
    """When the first turn may run; 0 means at once."""
    parent_id: str | None = None
    parent_incarnation: int | None = None
    replaces: int | None = None
    """Incarnation of an ended instance of this id whose rows are removed in the same commit."""
    commit_id: int = 0
    """Sent again with the same number, a start is accepted once."""
    messages: tuple[Delivery, ...] = ()
    """Delivered to this id in the same commit, after the start; also if the id is live already."""
    forked: Rewind | None = None
    """With which events of another instance it begins. The start message is in there, too."""


class InstanceRow(msgspec.Struct, frozen=True, kw_only=True):
    """The wide row of an instance, live or ended."""

    instance_id: str
    incarnation: int
    execution: int
    kind: str
    name: str
    version: str
    status: Status
    input: bytes
    output: bytes | None
    """What it returned, or the Failure it ended with, as JSON."""
    reason: str | None
    """Why it is blocked, parked, cancelled or terminated, or was reset."""
    parent_id: str | None
    parent_incarnation: int | None
    created_ms: int
    updated_ms: int
    ended_ms: int | None
    digest: bytes | None
    """Hash over its whole history, written when it ends."""


def before_its_end(row: InstanceRow) -> InstanceRow:
    """Return a row as it was while the instance was live."""
    if not row.status.is_terminal:
        return row
    return msgspec.structs.replace(
        row, status=Status.RUNNING, output=None, reason=None, ended_ms=None, digest=None
    )


class LiveRow(msgspec.Struct, frozen=True, kw_only=True):
    """The narrow row of an unfinished instance."""

    instance_id: str
    stamp: Stamp
    definition_no: int | None
    """None: *unborn*, it has messages but was not started yet."""
    wake_at_ms: int | None
    lease: int
    lease_until_ms: int
    home: str | None
    last_no: int
    last_at_ms: int
    attempts: int
    blocked_by: str | None
    """The code that does not fit, or "*" when parked: see `model.blocked`."""


def is_own_root(row: InstanceRow) -> bool:
    """Return whether an instance stands for itself: it has no parent, or a built-in decider has
    started it, which goes on for ever."""
    return row.parent_id is None or row.parent_id.startswith(RESERVED_PREFIX)
