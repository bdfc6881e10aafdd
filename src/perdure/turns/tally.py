"""What is known of an execution in memory beside its code: how long, how large, since when.

Added up turn by turn as the store accepts them; of an execution that comes back into memory, read
off its history. Turns are not recorded as such: of a history that was read, those that ended within
the same millisecond count as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from perdure.model.histories.events import (
    CancelRequested,
    ChildCancelled,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    StoredEvent,
    UnreadableEventError,
    read_event,
)
from perdure.model.turns import Turn

CHILD_KINDS = frozenset(
    {ChildScheduled.kind, ChildCompleted.kind, ChildFailed.kind, ChildCancelled.kind}
)
NOTED_KINDS = CHILD_KINDS | {CancelRequested.kind}
"""Events that are counted by themselves; the others only by their number."""


class ChildEnd(NamedTuple):
    """A child that its parent has heard of for the last time."""

    name: str
    outcome: str
    took_ms: int


class ExecutionTally:
    """The numbers of one execution."""

    __slots__ = ("bytes", "cancels", "children", "since_ms", "turns")

    def __init__(self) -> None:
        self.turns = 0
        self.bytes = 0
        """Of all events, as stored."""
        self.since_ms = 0
        """When this execution began."""
        self.cancels = 0
        """Requests to stop that were recorded."""
        self.children: dict[int, tuple[str, int]] | None = None
        """Names of children without an answer, and when they were called, by event number; None as
        long as there were none, since most have none."""

    def read(self, history: Sequence[StoredEvent]) -> None:
        """Take over what a history tells, or what a part of it tells that comes next."""
        self.turns += len({event.at_ms for event in history})
        for seq, kind, at_ms, body in history:
            self.bytes += len(body)
            if kind in NOTED_KINDS:
                self._note(seq, kind, at_ms, body)
        if history and not self.since_ms:
            self.since_ms = history[0].at_ms

    def add(self, turn: Turn) -> Sequence[ChildEnd]:
        """Add an accepted turn; return the children that have ended for it."""
        self.turns += 1
        if turn.stamp.next_seq == 1:
            self.since_ms = turn.now_ms
        size = self.bytes
        if turn.is_plain and not turn.consumed:
            # What is noted comes by a message, or in a turn that has more.
            for _, body in turn.events:
                size += len(body)
            self.bytes = size
            return ()
        is_noted = False
        for kind, body in turn.events:
            size += len(body)
            if kind in NOTED_KINDS:
                is_noted = True
        self.bytes = size
        return self._note_all(turn) if is_noted else ()

    def _note_all(self, turn: Turn) -> list[ChildEnd]:
        noted = [
            self._note(seq, kind, turn.now_ms, body)
            for seq, (kind, body) in enumerate(turn.events, turn.stamp.next_seq)
            if kind in NOTED_KINDS
        ]
        return [end for end in noted if end is not None]

    def _note(self, seq: int, kind: str, at_ms: int, body: bytes) -> ChildEnd | None:
        if kind == CancelRequested.kind:
            self.cancels += 1
            return None
        try:
            event = read_event(kind, body)
        except UnreadableEventError:
            return None  # Its replay has said so already.
        match event:
            case ChildScheduled(name=name):
                self.children = self.children or {}
                self.children[seq] = (name, at_ms)
            case ChildCompleted(schedule=schedule):
                return self._end_of(schedule, "completed", at_ms)
            case ChildFailed(schedule=schedule, status=status):
                return self._end_of(schedule, status.removeprefix("was "), at_ms)
            case ChildCancelled(schedule=schedule):
                return self._end_of(schedule, "given up", at_ms)
        return None

    def _end_of(self, schedule: int, outcome: str, at_ms: int) -> ChildEnd | None:
        found = None if self.children is None else self.children.pop(schedule, None)
        if found is None:
            return None
        name, since_ms = found
        return ChildEnd(name, outcome, at_ms - since_ms)
