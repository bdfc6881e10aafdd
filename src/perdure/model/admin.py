"""What people ask of a store: lists, counts, what is kept and what may go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from perdure.limits import BULK_MAX as BULK_MAX
from perdure.limits import PAGE_MAX as PAGE_MAX
from perdure.model.instances import DefinitionKey, InstanceRow, Status
from perdure.model.jobs import JobFailures, JobKey


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFilter:
    """Which instances; all conditions given must hold. Empty: every instance."""

    instance_ids: tuple[str, ...] | None = None
    statuses: tuple[Status, ...] = ()
    name: str | None = None
    version: str | None = None
    id_prefix: str | None = None
    created_from_ms: int | None = None
    created_before_ms: int | None = None
    ended_before_ms: int | None = None
    parent_id: str | None = None
    roots_only: bool = False
    """Only instances that no other one has as a child; what a schedule has started stands for
    itself."""
    tag: str | None = None
    """Only instances with an open job of this tag."""
    with_builtins: bool = True
    """Whether instances of built-in deciders are among them."""


class PageMark(NamedTuple):
    """Where a page of a list ended: the place of its last instance."""

    created_ms: int
    instance_id: str


class InstancePage(NamedTuple):
    """A part of a list of instances."""

    rows: list[InstanceRow]
    next: PageMark | None
    """From where to go on; None if this is the last part. There may be more even if the page is
    not full: no page looks at more than a bounded number of instances."""


class ExecutionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of an instance, as its history tells."""

    execution: int
    first_at_ms: int
    last_at_ms: int
    events: int
    last_kind: str


class InstanceStats(msgspec.Struct, frozen=True, kw_only=True):
    """How much is stored for one instance."""

    executions: int
    events: int
    """Of the current execution."""
    event_bytes: int
    messages: int
    """In the inbox, timers not counted."""
    timers: int
    jobs: int
    kv_keys: int
    kv_bytes: int
    observations: int = 0
    """Inputs that a decider was given and that it observes."""
    snapshot_bytes: int = 0
    """Of a decider's newest snapshot."""


class StoreTotals(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is in the whole store."""

    instances: dict[str, int]
    """How many of each status."""
    executions: int
    events: int
    messages: int
    timers: int
    jobs: int
    dead_jobs: int
    unborn: int
    """Ids with messages that were never started."""
    fed_events: int = 0
    """Events of deciders that projections can read."""


class QueueDepth(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for one definition: turns of an orchestration, or jobs of an activity."""

    definition: DefinitionKey
    ready: int
    """Could be taken now."""
    later: int
    """Waits for its time: a timer, a retry."""
    leased: int
    """A worker has it."""
    oldest_ready_ms: int | None
    """Since when the first one waits."""


class LeaseCount(NamedTuple):
    """How many leases one worker holds on the turns or jobs of one definition."""

    worker_id: str
    definition: DefinitionKey
    leased: int


class HeldLeases(NamedTuple):
    """Which leases are held, as far as it was looked."""

    counts: tuple[LeaseCount, ...]
    is_whole: bool
    """Whether all were looked at; if not, there may be more of each."""


class DeletedCounts(NamedTuple):
    """What a deletion removed."""

    instances: int = 0
    executions: int = 0
    events: int = 0
    messages: int = 0
    jobs: int = 0


class DeadJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that ran out of attempts."""

    key: JobKey
    queue: DefinitionKey
    input: bytes
    policy: bytes
    attempts: int
    lost: int
    failures: JobFailures
    created_ms: int
    died_ms: int


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job's progress as its activity told it."""

    key: JobKey
    queue: DefinitionKey
    attempt: int
    worker_id: str | None
    progress: bytes | None
    beat_ms: int | None


class KvRow(NamedTuple):
    """A value of an instance as stored."""

    value: bytes
    updated_ms: int


class ReportRow(NamedTuple):
    """The report of an instance as stored."""

    version: int
    value: bytes
    updated_ms: int


class SessionRow(NamedTuple):
    """A session and who has it."""

    session: str
    owner: str
    until_ms: int
    used_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What is too old to be kept. None: keep all of it."""

    receipts_before_ms: int | None = None
    """Receipts of instances that are no longer live, made before then."""
    unborn_before_ms: int | None = None
    """Ids that were sent messages and never started, the newest message before then."""
    dead_jobs_before_ms: int | None = None
    streams_before_ms: int | None = None
    """What instances sent to streams that ended before then. Their indexes are not given again."""
    sessions: bool = False
    """Sessions whose lease has run out and that no job waits for."""
