"""Jobs: queued runs of activities, with their leases, attempts and retry policies."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from perdure.limits import MAX_FAILURES_KEPT as MAX_FAILURES_KEPT
from perdure.model.histories.events import Failure
from perdure.model.instances import DefinitionKey
from perdure.model.streams import SentItems


class JobKey(NamedTuple):
    """Which call a job answers. Equal in all attempts, so it is the idempotency key too."""

    instance_id: str
    incarnation: int
    execution: int
    seq: int

    @property
    def idempotency_key(self) -> str:
        """Return the key as one string for outside systems."""
        return f"{self.instance_id}:{self.incarnation:x}:{self.execution}:{self.seq}"


class JobPolicy(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How a job is retried, kept in its row: a deploy never changes jobs under way."""

    max_attempts: int | None = 1
    """How many failures end it; None: never."""
    backoff: str = "exponential"
    first_delay_ms: int = 1_000
    factor: float = 2.0
    max_delay_ms: int = 300_000
    jitter: float = 0.0
    no_retry: tuple[str, ...] = ()
    """Names of exception classes that end it at once."""
    timeout_ms: int | None = None
    """How long one attempt may take."""
    deadline_ms: int | None = None
    """How long the call may take in all. The owner's timer keeps it; attempts only know of it."""
    returns_input: bool = False
    """Whether its result is written as an input of the decider that asked for it."""
    correlation: str = ""
    """Of an effect: what the input belongs to that asked for it."""


class JobFailures(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The attempts of a job that failed: how many, and those that are kept."""

    count: int = 0
    kept: tuple[Failure, ...] = ()
    misfit: str = ""
    """Why the worker that had it last could not even try, since its arguments do not fit there."""

    def plus(self, failure: Failure) -> JobFailures:
        """Return these and one more."""
        kept = (*self.kept, failure)
        if len(kept) > MAX_FAILURES_KEPT:
            kept = (kept[0], *kept[1 - MAX_FAILURES_KEPT :])
        return JobFailures(self.count + 1, kept)

    def after(self, end: JobEnd) -> JobFailures:
        """Return what to keep of them after one more attempt."""
        if end.failure is not None:
            return self.plus(end.failure)
        return JobFailures(self.count, self.kept, end.misfit) if end.misfit else self


class NewJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A job that a turn adds; its owner is the turn's instance and execution."""

    seq: int
    queue: DefinitionKey
    input: bytes
    policy: bytes
    """A JobPolicy as JSON."""
    session: str | None = None
    start_by_ms: int | None = None
    """When it is too late to start. Its claim removes the owner's timer `start:{seq}`."""
    leased: bool = False
    """Whether the committing worker takes it at once, under the commit's id as token."""


class BuriedJob(NamedTuple):
    """A job that a turn ends as dead, because no input came of its being late."""

    seq: int
    queue: DefinitionKey
    """For metrics; its row has it too."""
    failure: Failure
    unqueued: NewJob | None = None
    """The job, if it was never in a queue; None: its row tells, unless it has ended meanwhile."""


class ClaimedJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A job under our lease."""

    key: JobKey
    token: int
    queue: DefinitionKey
    input: bytes
    policy: bytes
    attempt: int
    """From 1; counted when claimed, so that a run that kills its process counts."""
    lost: int = 0
    """How many attempts ended without a word, together with their workers."""
    failures: JobFailures = JobFailures()
    created_ms: int = 0
    session: str | None = None
    details: bytes | None = None
    """What the last heartbeat of an earlier attempt said, as JSON."""
    owner_name: str = ""
    owner_version: str = ""
    """Which orchestration made the call."""
    is_rerun: bool = False
    """Whether a person put it back after it had died: its call has failed for good."""
    lease_until_ms: int = 0
    """When the lease ends unless it is renewed; 0: not known."""
    damage: str = ""
    """What of its row cannot be read. It fails with this text."""


class AttemptFacts(NamedTuple):
    """What is counted of an attempt that ran."""

    activity: str
    tag: str
    took_s: float


class JobEnd(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The end of one attempt. Exactly one of `kind` (a result) and `retry_at_ms` is set."""

    key: JobKey
    token: int
    kind: str | None = None
    body: bytes = b""
    """The message for the owner: the job is done and removed."""
    retry_at_ms: int | None = None
    """The job goes back into its queue until then."""
    failure: Failure | None = None
    """Kept with the job when it goes back."""
    refund: bool = False
    """Whether the attempt does not count, because it was given back unstarted."""
    misfit: str = ""
    """Why its arguments do not fit the code of the worker that gives it back, kept with the job."""
    details: bytes | None = None
    """What its last heartbeat said, kept with the job when it goes back."""
    is_dead: bool = False
    """Whether it ends in a failure that is no answer: kept among the dead jobs, for a person."""
    ran: AttemptFacts | None = None
    """Counted by the worker once the end is accepted; not stored."""
    sent: tuple[SentItems, ...] | None = None
    """What a successful attempt sent to streams and has not flushed, which counts from now on with
    all that it flushed; None: it has sent nothing."""
    attempt: int = 0
    """Which one that was, if it has sent something."""


class JobBeat(NamedTuple):
    """A running job's sign of progress. None: as before."""

    key: JobKey
    token: int
    details: bytes | None = None
    """For the next attempt, as JSON."""
    progress: bytes | None = None
    """For clients that watch it, as JSON."""


class StreamAppend(NamedTuple):
    """What a running job sent to streams since it was last asked."""

    key: JobKey
    token: int
    attempt: int
    sent: tuple[SentItems, ...]
    is_first: bool
    """Whether it is the first of its attempt: what an earlier one sent is void."""
    stored: int = 0
    """How many items of the attempt are stored already: tells, if it is run again because the
    answer was lost, whether these are."""


class Settled(NamedTuple):
    """The attempt has told the store of its end itself, in the transaction of its code."""

    end: JobEnd | None
    """None: the code was not called, for the job was not ours any more."""
    was_ours: bool
    """Whether the store has taken it; if not, nothing was written."""
