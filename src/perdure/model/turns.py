"""What a turn changes: one instance's share of a commit."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from perdure.errors import StoreError
from perdure.model.histories.events import Body
from perdure.model.histories.rewinds import Rewind
from perdure.model.instances import DefinitionKey, NewInstance, Stamp, Status
from perdure.model.jobs import BuriedJob, JobEnd, NewJob
from perdure.model.messages import CarriedMessage as CarriedMessage
from perdure.model.messages import Delivery, Message
from perdure.model.streams import ForwardedItems, SentItems


class NewTimer(NamedTuple):
    """A message to oneself that becomes visible later. A key is unique within an instance."""

    key: str
    due_ms: int
    kind: str
    body: bytes


class ChildStart(NamedTuple):
    """An instance started by a turn, and what the turn's instance hears of it at once."""

    instance: NewInstance
    if_taken: Delivery | None
    if_started: Delivery | None = None


class KvChange(NamedTuple):
    """What a turn leaves under a key of its instance; None: nothing."""

    key: str
    value: bytes | None


class Continuation(NamedTuple):
    """The next execution of an instance, begun in the commit that ends the one before."""

    definition: DefinitionKey
    start: Body
    """The message that its first turn takes."""
    input: bytes
    unread: tuple[CarriedMessage, ...]
    """Messages that were recorded and not taken, in order. They come before those in the inbox."""


class InputReceipt(NamedTuple):
    """What became of an input that has an id: the answer to a caller that gives it again."""

    input_id: str
    outcome: bytes
    keeps_first: bool = False
    """Whether a receipt that is there stays as it is, and the turn is accepted all the same. So are
    those of updates: the stamp alone says that an execution answers once."""


class UniqueKey(NamedTuple):
    """The business key that an instance has from now on; None: none."""

    scope: str
    key: str | None


class Snapshot(NamedTuple):
    """A decider's state as of the last event of a turn, so that a load need not fold them all."""

    schema: int
    version: int
    """How many events are folded in it."""
    body: bytes


class FedEvent(NamedTuple):
    """An event of a turn that projections read, and what they are told about it."""

    index: int  # type: ignore[assignment]  # hides a method of tuple that is not needed here
    """Its place among the turn's events."""
    tag: str
    version: int = 0
    """Its number among the events of the instance that are fed, from 1."""
    cause: str = ""
    """Who gave the input that it follows from."""
    correlation: str = ""
    """What that input belongs to."""


class NewObservation(NamedTuple):
    """An input that was given to a decider, and what it came to."""

    tag: str
    input: bytes
    outcome: str
    """accepted, rejected or completed"""
    rejection: bytes | None = None
    input_id: str = ""


class InstanceEnd(NamedTuple):
    """How an instance ended."""

    status: Status
    output: bytes | None
    reason: str | None
    digest: bytes


class KnownEnd(NamedTuple):
    """How an instance ended, and which one of its id that was."""

    incarnation: int
    outcome: InstanceEnd


class Turn(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Everything one turn changes. All of it is written, or nothing."""

    instance_id: str
    stamp: Stamp
    """What the store must still have. For a first turn the stamp after the start."""
    commit_id: int
    """Random; sent again with the same number, a turn is accepted once."""
    now_ms: int
    worker_id: str
    """Becomes the instance's home."""
    lease: int = 0
    """Token it was claimed under; 0 for the short way, which needs that no other worker holds a
    lease."""
    seize: bool = False
    """Accept it whichever worker holds the lease: for a termination, and for inputs of callers;
    those are not accepted while the instance is parked."""
    start: NewInstance | None = None
    """Start the instance and run its first turn in one commit."""
    seen_no: int = 0
    """Number of the newest message the turn knows of."""
    consumed: tuple[int, ...] = ()
    """Numbers of the messages it took (or dropped) from the inbox."""
    arrived: tuple[str, ...] = ()
    """Ids of messages that it took without the inbox. Refused when one of them was delivered
    before, or when there are messages that the turn does not know of: they come first."""
    taken: int = 0
    """What tells the messages that it took from others, if no lease does: see `digest_of`. Numbers
    do not: a store that has gone back gives them again."""
    timers_gone: tuple[str, ...] = ()
    """Keys of timers that are cancelled, before those of this turn are set."""
    job_ends: tuple[JobEnd, ...] = ()
    """Jobs of this worker whose results the turn applied without the inbox. If a job's lease is
    lost the turn is refused; if only the turn is refused, the results go to the inbox."""
    events: tuple[Body, ...] = ()
    jobs: tuple[NewJob, ...] = ()
    jobs_leased_until_ms: int = 0
    jobs_gone: tuple[int, ...] = ()
    """Schedule numbers of jobs that are cancelled."""
    jobs_buried: tuple[BuriedJob, ...] = ()
    """Jobs that are kept among the dead ones. Those that were in a queue are in `jobs_gone` too."""
    timers: tuple[NewTimer, ...] = ()
    next_due_ms: int | None = None
    """When its next timer becomes due, if it has one after this turn."""
    deliveries: tuple[Delivery, ...] = ()
    children: tuple[ChildStart, ...] = ()
    definition: DefinitionKey | None = None
    """Of a first turn whose start left the version open: the one that was chosen. Of one that is
    rewound: the one that it goes on with, if that is another."""
    kv: tuple[KvChange, ...] = ()
    report: bytes | None = None
    """What the instance reports from now on, as JSON; None: as before."""
    sent: tuple[SentItems, ...] = ()
    """What its code sent to streams."""
    forwarded: tuple[ForwardedItems, ...] = ()
    """What a page of items sent to a stream of the instance that it works for."""
    continued: Continuation | None = None
    """Ends this execution and begins the next: removes its jobs, its timers and all messages that
    are addressed to it; messages for any execution stay."""
    rewound: Rewind | None = None
    """Leaves this execution as it is and begins the next one with a part of its history; one that
    has ended is running again. Such a turn has no events of its own."""
    receipts: tuple[InputReceipt, ...] = ()
    """What its inputs came to; refused when one of them was decided before."""
    unique: UniqueKey | None = None
    """Its business key, if that changes; refused when another instance of the scope has it."""
    passed_keys: tuple[UniqueKey, ...] = ()
    """Business keys that it had within the turn only. Refused when another instance has one."""
    snapshot: Snapshot | None = None
    feed: tuple[FedEvent, ...] = ()
    observations: tuple[NewObservation, ...] = ()
    vanishes: bool = False
    """Of a first turn that accepted nothing: the instance was never there. Its receipts and
    observations stay, and so do messages that it has not taken: then the receipt tells of unseen
    ones, and the instance waits for its first turn again."""
    outcome: InstanceEnd | None = None
    """The end: removes its live row, inbox, jobs and timers."""
    is_plain: bool = False
    """Whether it has nothing of what `has_more` asks for, as nearly all have not. It is said by
    what makes the turn, so that what comes of it need not be asked field by field; False is always
    right."""

    @property
    def next_stamp(self) -> Stamp:
        """The stamp of its instance after it was accepted, if the instance has not ended."""
        incarnation, execution, seq, _ = self.stamp
        if self.continued is not None:
            return Stamp(incarnation, execution + 1, 1, self.commit_id)
        if self.rewound is not None:
            next_seq = len(self.rewound.prefix) + 1
            return Stamp(incarnation, execution + 1, next_seq, self.commit_id)
        return Stamp(incarnation, execution, seq + len(self.events), self.commit_id)


_MORE = (
    *("arrived", "taken", "timers", "timers_gone", "jobs_gone", "jobs_buried", "deliveries"),
    *("children", "definition", "kv", "report", "sent", "forwarded", "continued", "rewound"),
    *("receipts", "unique", "passed_keys", "snapshot", "feed", "observations", "vanishes"),
)
"""What few turns have."""


def has_more(turn: Turn) -> bool:
    """Return whether a turn changes more than its events, jobs and messages, its start and its end,
    or ends an attempt that has sent something: whether it must not be called plain."""
    return has_sent(turn) or any(getattr(turn, name) not in (None, (), 0) for name in _MORE)


def with_more(turn: Turn, **fields: object) -> Turn:
    """Return a turn with some of what few have."""
    return msgspec.structs.replace(turn, is_plain=False, **fields)


def has_sent(turn: Turn) -> bool:
    """Return whether a turn, or an attempt that it ends, has sent something to a stream."""
    return bool(turn.sent or turn.forwarded) or have_sent(turn.job_ends)


def have_sent(ends: tuple[JobEnd, ...]) -> bool:
    """Return whether one of some attempts has sent something to a stream."""
    for end in ends:  # noqa: SIM110  # a generator costs more than the rest of it
        if end.sent is not None:
            return True
    return False


class TurnStatus(StrEnum):
    """What became of a turn."""

    ACCEPTED = "accepted"
    REFUSED = "refused"  # the stamp, a lease or a job no longer fits: drop the coroutine
    TAKEN = "taken"  # it would have started an instance whose id exists
    KEY_TAKEN = "key taken"  # another instance has its business key
    FAILED = "failed"  # the database does not take it, for a reason that it alone has


class TurnReceipt(NamedTuple):
    """The store's answer to a turn."""

    status: TurnStatus
    last_no: int = 0
    """Number of the newest message of the instance, its own new timers included."""
    has_unseen: bool = False
    """Whether there are messages that the turn did not know of."""
    holder: str | None = None
    """Of a turn whose business key is taken: the instance that has it."""
    passed_key: str | None = None
    """Which of its `passed_keys` that is; None: the one in `unique`."""
    ends_kept: tuple[bool, ...] = ()
    """Of a turn that was not accepted: which of its `job_ends` were taken all the same, and are in
    the inbox."""
    error: StoreError | None = None
    """Why it failed. Nothing of it was written, unless the error is that the store was closed
    before it could tell."""


class ClaimedTurn(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An instance under our lease, with its visible messages in the order they are applied."""

    instance_id: str
    definition_no: int
    stamp: Stamp
    lease: int
    attempts: int
    """How often it was claimed since its last accepted commit, this time included."""
    last_no: int
    messages: tuple[Message, ...]


SUSPECT_AFTER = 2
"""After how many losses work is a *suspect*, which may have killed its workers. One loss is nothing
special: a crash takes everything along that runs, and all of it has to go on at once."""
_ANY_LOSSES = 2**31 - 1


class TurnClaim(NamedTuple):
    """What a worker wants to claim."""

    worker_id: str
    definitions: tuple[tuple[int, str], ...]
    """Definition numbers it serves, each with the digest of its code."""
    limit: int
    lease_ms: int
    lease: int
    """Fresh random token for everything claimed by this call."""
    suspect_after: int = SUSPECT_AFTER
    """How often a suspect was claimed without a commit."""
    takes_suspect: bool = True
    """Whether it may get a suspect, and then that one alone."""

    @property
    def losses_below(self) -> int:
        """How often an instance must have been lost for this claim to pass it over."""
        return _ANY_LOSSES if self.takes_suspect else self.suspect_after


class SessionClaim(NamedTuple):
    """How a worker takes jobs that must all run on one worker."""

    owner: str
    """Who holds the sessions: a lasting name outlives a restart."""
    lease_ms: int
    """How long a session stays its owner's without a renewal."""
    busy: tuple[str, ...]
    """Sessions with jobs running here. More of their jobs may always come."""
    more: int
    """How many other sessions it has room for."""

    @property
    def has_room(self) -> bool:
        """Whether jobs of any session may come."""
        return self.more > 0 or bool(self.busy)


class JobClaim(NamedTuple):
    """What a worker wants to run."""

    worker_id: str
    queues: tuple[int, ...]
    limit: int
    lease_ms: int
    token: int
    sessions: SessionClaim | None = None
    """On what terms it takes jobs with a session; None: not at all."""
    suspect_after: int = SUSPECT_AFTER
    """How often a suspect was lost with its worker."""
    takes_suspect: bool = True
    """Whether it may get a suspect, and then that one alone."""
    harmless: tuple[int, ...] = ()
    """Queues whose jobs are never suspects."""

    def losses_below(self, queue_no: int) -> int:
        """Return how often a job of a queue must have been lost for this claim to pass it over."""
        is_taken = self.takes_suspect or queue_no in self.harmless
        return _ANY_LOSSES if is_taken else self.suspect_after


NOBODY = "*"
"""In place of a code digest: no code may try this instance until an operator says so."""


class Hold(NamedTuple):
    """Stop trying an instance until something changes: blocked by code, or parked."""

    instance_id: str
    stamp: Stamp
    lease: int
    status: Status
    blocked_by: str
    reason: str


class SlotUse(NamedTuple):
    """The slots of one kind at a worker, and how many were in use when it gave its sign of life."""

    kind: str
    """`async`, `threaded` or `process`."""
    slots: int
    running: int
    waiting: int
    """Jobs that the worker has claimed and that wait for a slot."""


class WorkerRow(NamedTuple):
    """A worker's sign of life."""

    worker_id: str
    host: str
    pid: int
    started_ms: int
    seen_ms: int
    definitions: tuple[DefinitionKey, ...]
    place: str = ""
    """Where its pid and `born` mean one process and no other, ever: `ProcessId.place`."""
    born: int = 0
    lease_ms: int = 0
    """How long its leases last."""
    is_lasting: bool = False
    """Whether its name is one that the next process of it has too."""
    slots: tuple[SlotUse, ...] = ()
    """Of each kind of activities of users; empty: it did not say."""


class ProcessId(NamedTuple):
    """One process and no other, ever."""

    place: str
    """The host, its boot and what else a pid depends on. Empty: that is not known here, and no
    other worker can tell whether the process lives."""
    pid: int
    born: int
    """When it started, as the kernel counts: a pid is given to others later."""


class Neighbour(NamedTuple):
    """A worker of the same place."""

    worker_id: str
    pid: int
    born: int
    lease_ms: int
    is_lasting: bool


class Departed(NamedTuple):
    """A worker none of whose connections to the database is left, as the server knows."""

    worker_id: str
    host: str
    pid: int
    started_ms: int
    """Since when: with the three above one process and no other."""
    lease_ms: int
    is_lasting: bool
    life: int
    """In which life of the server."""
    key: int
    """The lock that its connections have held."""


class Presences(NamedTuple):
    """What a server knows of the connections of workers."""

    known: int
    """Of how many workers it knows anything."""
    departed: list[Departed]
    """Those that are connected no more."""
    stale: list[int]
    """Locks of workers that are no more, which are not held either."""


NO_PRESENCES = Presences(0, [], [])
