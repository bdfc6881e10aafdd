"""What the built-in decider of schedules is given, records and knows. Stored for ever: classes and
fields keep their names, and a new field has a default."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.authoring.schedules.spec import Overlap, ScheduleSpec

# ------------------------------------------------------------------------ inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareSchedule:
    """There is to be such a schedule."""

    name: str
    spec: ScheduleSpec
    by_code: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TickSchedule:
    """A slot is due."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRun:
    """An instance that the schedule has started has ended, or was not started."""

    name: str
    instance_id: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSchedule:
    """Start nothing more by the clock."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSchedule:
    """Go on from now."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSchedule:
    """Start one now."""

    name: str
    trigger_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillSchedule:
    """Start what a range of time would have started."""

    name: str
    from_ms: int
    before_ms: int
    overlap: Overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueBackfill:
    """There is more to be started of a backfill."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSchedule:
    """There is to be no such schedule any more."""

    name: str


# ------------------------------------------------------------------------ events


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDeclared:
    """What is started when, from now on."""

    name: str
    spec: ScheduleSpec
    by_code: bool
    decided_ms: int
    """Slots up to here are no matter any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFired:
    """An instance is started for a slot."""

    slot: str
    at_ms: int
    instance_id: str
    why: str = ""
    """*backfill*, *trigger*, or *queue*; empty: the slot was due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSkipped:
    """Nothing is started for a slot."""

    slot: str
    at_ms: int
    why: str
    is_backfill: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotQueued:
    """A slot waits until nothing of the schedule runs."""

    slot: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsPassed:
    """Slots up to a time are no matter any more: missed, or there were none."""

    decided_ms: int
    missed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsStopped:
    """What runs is asked to stop, to make room for a slot."""

    how: str
    """*cancel* or *terminate*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """An instance has ended."""

    instance_id: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePaused:
    """Nothing more is started by the clock."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleResumed:
    """It goes on."""

    decided_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillBegun:
    """A range of time is started again."""

    from_ms: int
    before_ms: int
    overlap: Overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillEnded:
    """The oldest backfill is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDeleted:
    """There is no such schedule any more."""


# -------------------------------------------------------------------- rejections


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSchedule:
    """Nothing was declared under the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """It is as it was to become."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outranked:
    """The schedule has a higher version of its orchestration than the one that declares it."""

    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NameTaken:
    """The name is that of a schedule of another orchestration, which another hand has put."""

    orchestration: str
    by_code: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TooMuch:
    """More is asked for than a schedule does at a time."""

    why: str


# ------------------------------------------------------------------------- state


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedSlot:
    """A slot that waits."""

    slot: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """What is left of a backfill."""

    after_ms: int
    before_ms: int
    overlap: Overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """A schedule, and how far it has come."""

    name: str = ""
    spec: ScheduleSpec | None = None
    by_code: bool = False
    paused: str | None = None
    """Why; None: it is not."""
    decided_ms: int = 0
    """Slots up to here have been decided on. Never goes back, whatever the clock does."""
    last: QueuedSlot | None = None
    """The last slot that something was started for."""
    running: tuple[str, ...] = ()
    """Instances that have not ended, in the order of their starts."""
    queued: QueuedSlot | None = None
    stopping: str = ""
    """How what runs was asked to stop; empty: it was not."""
    backfills: tuple[Backfill, ...] = ()
    is_deleted: bool = False
