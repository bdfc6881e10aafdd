"""What a batch writes beside its live rows: decided by `commit`, written by `flush`."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from perdure.model.histories.events import StoredEvent
from perdure.model.instances import NewInstance, Status
from perdure.model.jobs import JobEnd, JobKey
from perdure.model.turns import InstanceEnd, NewObservation, Snapshot, Turn, UniqueKey
from perdure.store.sql.commits.row_types import FeedValues, ReceiptValues
from perdure.store.sql.commits.rows import LiveState, PendingJob
from perdure.store.sql.commits.streams import RewoundStreams, SentBatch


class AppendedEvents(msgspec.Struct, frozen=True):
    """The events of one accepted turn."""

    row: LiveState
    incarnation: int
    execution: int
    first_seq: int
    turn: Turn


class KeptEvents(NamedTuple):
    """The events of another execution that one begins with."""

    row: LiveState
    incarnation: int
    execution: int
    commit_id: int
    prefix: tuple[StoredEvent, ...]


class EndedInstance(msgspec.Struct, frozen=True):
    """An instance that a turn of this batch ended."""

    row: LiveState
    incarnation: int
    execution: int
    last_commit: int
    outcome: InstanceEnd


class StartedInstance(msgspec.Struct, frozen=True):
    """An instance that this batch started."""

    part: int
    definition_no: int
    instance: NewInstance


class StatusChange(NamedTuple):
    """An instance whose status changes without ending it."""

    row: LiveState
    status: Status
    reason: str | None


class MovedInstance(NamedTuple):
    """An instance that goes on under another definition; with an input, in its next execution."""

    part: int
    instance_id: str
    incarnation: int
    execution: int
    definition_no: int
    input: bytes | None


class RequeuedJob(NamedTuple):
    """A job that goes back into its queue."""

    key: JobKey
    visible_at_ms: int
    attempt: int
    failures: bytes | None
    details: bytes | None


class DeadJobRow(NamedTuple):
    """A job that is kept as dead when it goes."""

    key: JobKey
    failures: bytes | None


class UnqueuedJob(NamedTuple):
    """A job that is dead and was never in a queue."""

    row: LiveState
    incarnation: int
    pending: PendingJob


class KvRowChange(NamedTuple):
    """What is left under a key; None: nothing."""

    updated_ms: int
    value: bytes | None


class ReportChange(NamedTuple):
    """What an instance reports, and by how much its version rises."""

    part: int
    turns: int
    updated_ms: int
    value: bytes


class SnapshotRow(NamedTuple):
    """The state of a decider after its turns of this batch."""

    part: int
    incarnation: int
    execution: int
    seq: int
    made_ms: int
    snapshot: Snapshot


class ObservationRow(NamedTuple):
    """An observed input and its number."""

    part: int
    instance_id: str
    no: int
    at_ms: int
    observation: NewObservation


class DecisionChanges(msgspec.Struct):
    """What a batch writes of deciders only."""

    is_there: bool = False
    """Whether there is anything."""
    outcomes: dict[tuple[int, str, str], bytes] = msgspec.field(default_factory=dict)
    """What inputs came to, by part, instance and id of the input."""
    keys_freed: dict[tuple[str, str], None] = msgspec.field(default_factory=dict)
    """Instances whose key of a scope is freed, and the scope."""
    holders_gone: list[tuple[int, str]] = msgspec.field(default_factory=list)
    """Instances that ended: all their keys are freed."""
    keys_taken: dict[UniqueKey, tuple[str, int]] = msgspec.field(default_factory=dict)
    """Business keys and who has them from now on, with its incarnation."""
    snapshots: dict[str, SnapshotRow] = msgspec.field(default_factory=dict)
    feed: list[FeedValues] = msgspec.field(default_factory=list)
    observations: list[ObservationRow] = msgspec.field(default_factory=list)


class UnheardMessages(NamedTuple):
    """What was sent to an instance that has ended since and had not taken it: receipts of updates,
    but for those that are named, and those of some promises."""

    part: int
    instance_id: str
    heard: tuple[str, ...]
    unkept: tuple[str, ...]


class Changes(msgspec.Struct):
    """What a batch writes beside its live rows."""

    events: list[AppendedEvents] = msgspec.field(default_factory=list)
    kept: list[KeptEvents] = msgspec.field(default_factory=list)
    revived: list[tuple[int, str, int]] = msgspec.field(default_factory=list)
    """Instances that had ended and are running again."""
    unheard: list[UnheardMessages] = msgspec.field(default_factory=list)
    started: list[StartedInstance] = msgspec.field(default_factory=list)
    ended: list[EndedInstance] = msgspec.field(default_factory=list)
    moved: dict[str, MovedInstance] = msgspec.field(default_factory=dict)
    statuses: dict[str, StatusChange] = msgspec.field(default_factory=dict)
    replaced: list[tuple[int, str, int]] = msgspec.field(default_factory=list)
    consumed: list[tuple[int, str, int]] = msgspec.field(default_factory=list)
    timers_gone: list[tuple[int, str, str]] = msgspec.field(default_factory=list)
    jobs_gone: list[JobKey] = msgspec.field(default_factory=list)
    requeued: list[RequeuedJob] = msgspec.field(default_factory=list)
    dead: list[DeadJobRow] = msgspec.field(default_factory=list)
    unqueued: list[UnqueuedJob] = msgspec.field(default_factory=list)
    left: list[tuple[int, str, int, int]] = msgspec.field(default_factory=list)
    """Executions that were followed by the next one."""
    kv: dict[tuple[int, str, str], KvRowChange] = msgspec.field(default_factory=dict)
    reports: dict[str, ReportChange] = msgspec.field(default_factory=dict)
    sent: list[SentBatch] = msgspec.field(default_factory=list)
    """What turns and successful attempts sent to streams."""
    rewound: list[RewoundStreams] = msgspec.field(default_factory=list)
    senders: list[JobEnd] = msgspec.field(default_factory=list)
    """The ends of successful attempts that sent something."""
    sessions_used: dict[str, None] = msgspec.field(default_factory=dict)
    receipts: list[ReceiptValues] = msgspec.field(default_factory=list)
    vanished: list[tuple[int, str, int]] = msgspec.field(default_factory=list)
    """Instances with stored rows that were never there."""
    replaced_deciders: list[tuple[int, str, int]] = msgspec.field(default_factory=list)
    decisions: DecisionChanges = msgspec.field(default_factory=DecisionChanges)
