"""The contract every store keeps.

Every writing method takes a batch, is one transaction or part of a larger one, and says for each
element what became of it. What one element cannot have (a lost lease, a taken id) never disturbs
the others. A batch that the database refuses because of a value is halved until the culprit is
alone; that one gets the `RowError`, the others go on.

Three classes of trouble:

- *refused*: told in the receipt; nothing of that element was written.
- `StoreUnavailableError`: locked, full, read-only, out of reach. Writes of a worker are tried again
  until they succeed; writes of a client give up after `patience_s`, and then nothing was written.
- lost answers: asked for, or sent again, by the store itself until one came; a commit id or message
  id makes the second time a no-op with the first answer.

Times are milliseconds by the store's `clock`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from perdure.clock import Clock
from perdure.errors import StoreError, StoreUnavailableError
from perdure.model.hints import Hint
from perdure.model.histories.events import StoredEvent
from perdure.model.histories.failures import Failure
from perdure.model.instances import DefinitionKey, InstanceRow, LiveRow, NewInstance
from perdure.model.jobs import ClaimedJob, JobBeat, JobEnd, JobKey
from perdure.model.messages import Delivery, DeliveryStatus, Message
from perdure.model.turns import (
    ClaimedTurn,
    Departed,
    Hold,
    JobClaim,
    KnownEnd,
    Neighbour,
    Presences,
    ProcessId,
    Turn,
    TurnClaim,
    TurnReceipt,
    WorkerRow,
)
from perdure.store.admin import AdminStore
from perdure.store.deciders import DeciderStore
from perdure.store.epoch import Epoch
from perdure.store.feed import FeedStore
from perdure.store.locked_turns import KnownInstance, LockedTurn, News
from perdure.store.observer import Observer
from perdure.store.streams import StreamStore
from perdure.store.within.borrowing import RunOnThread, SentMessages
from perdure.store.within.transactions import TransactionStore

PATIENCE_S = 10.0
"""How long a call of a client waits for a store that is locked, full or out of reach."""


class NotPermittedError(StoreError):
    """The database does not let this user do that: mostly one who may only read."""


class ExecutionKey(NamedTuple):
    """One execution of one instance."""

    instance_id: str
    incarnation: int
    execution: int


class TurnLease(NamedTuple):
    """The right to commit a turn of an instance."""

    instance_id: str
    lease: int


class JobLease(NamedTuple):
    """The right to run a job."""

    key: JobKey
    token: int


class WaitingJob(NamedTuple):
    """A job as people see it: who may run it, who does, how often it was tried."""

    key: JobKey
    queue: DefinitionKey
    visible_at_ms: int
    """When it may be claimed; of a running job, when its lease ends."""
    token: int
    worker_id: str | None
    """Who runs it now; None when it waits."""
    attempt: int
    created_ms: int
    session: str | None = None
    start_by_ms: int | None = None
    """Until when it must start; None when it has started, or may start at any time."""
    misfit: str = ""
    """Why its arguments do not fit the code of the worker that had it last."""
    is_rerun: bool = False
    """Whether a person put it back after it had died."""
    failure: Failure | None = None
    """How its last attempt failed."""


class Store(TransactionStore, Protocol):
    """Rows and leases behind one atomic commit, and four parts for the rest."""

    clock: Clock
    epoch: Epoch
    """Which life of the database this is."""
    creates: bool
    """Whether `open` makes the store if there is none yet."""
    observer: Observer | None
    """Who is told of each operation."""
    is_server: bool
    """Whether what all workers ask together is the load of one server."""
    knows_connections: bool
    """Whether `read_presences` can tell of any worker."""
    locks_turns: bool
    """Whether `commit_locked` can be used: not in a transaction of the user's."""

    @property
    def admin(self) -> AdminStore:
        """What people use: lists, counts, removal, repair."""
        ...

    @property
    def deciders(self) -> DeciderStore:
        """What deciders keep besides their events."""
        ...

    @property
    def feed(self) -> FeedStore:
        """The events of all deciders, and how far each reader has come."""
        ...

    @property
    def streams(self) -> StreamStore:
        """What instances and their activities say while they work."""
        ...

    async def open(self) -> None:
        """Connect, and bring the schema up to date.

        Raises:
            SchemaError: There is no store yet and none is to be made, or its schema was written by
                a newer perdure.
            StoreCorruptError: The file is damaged or is something else.
            StoreUnavailableError: It cannot be opened or written; the text says why.
        """
        ...

    async def close(self) -> None:
        """Finish what was handed in, then let go of the database."""
        ...

    @property
    def trouble(self) -> StoreUnavailableError | None:
        """What keeps it from being written, as the newest try of this process has found; None:
        nothing, or the last try is too long ago to tell."""
        ...

    async def intern(self, definitions: Sequence[DefinitionKey]) -> list[int]:
        """Return a small lasting number for each definition, making those that are new."""
        ...

    async def definition(self, definition_no: int) -> DefinitionKey:
        """Return the definition behind a number."""
        ...

    # ------------------------------------------------------------- the commit

    def commit(self, turns: Sequence[Turn]) -> Awaitable[list[TurnReceipt]]:
        """Write everything these turns changed, as one transaction, possibly with others.

        Handed in when called, not when awaited: the store may write while the caller computes on.

        For each turn: fence it (its stamp is the stored one, and the lease is its own, or, when it
        has none, no other worker's unexpired one), then all at once end its jobs, consume its
        messages, append its events, add jobs and timers and remove the cancelled ones, put its
        messages, start its children, set `wake_at` to now if there are messages it has not seen and
        else to its next timer, end its lease, clear `attempts`, end a hold, make the worker
        its home. A turn with an outcome removes its live row, inbox, jobs and timers instead. A
        turn that is continued removes the jobs of its execution and all messages addressed to it,
        moves the stamp to the next execution and puts its start and the unread messages, which come
        before those in the inbox. Values and the report stay in both cases. A timer whose key is
        among the cancelled ones too takes the place of the old one.

        A turn of a decider brings more: what its inputs came to, its business key, a snapshot as of
        its last event, which of its events are fed, what it observed. It is refused if one of its
        inputs was decided before, and stopped if another instance has the key. One that seizes a
        parked instance is refused, unless it terminates it. An input that was
        decided directly is removed from the inbox if it waits there under the same id. A turn that
        vanishes leaves no row but its receipts and observations; if there are messages that it has
        not taken, those it has taken go, and the instance waits for its first turn again.

        Every turn has its own answer. One that the database does not take, because of a value or of
        a rule that others have made, fails with the error that it alone has; its neighbours are
        written. *Refused* means that it never happened: one that was accepted before is accepted
        again, whichever worker has gone on from it.

        A refused turn writes nothing, except that results of its jobs whose leases are valid go to
        the owner's inbox when the owner still is of that incarnation and execution.
        """
        ...

    def commit_locked(self, turns: Sequence[LockedTurn]) -> Awaitable[list[TurnReceipt | None]]:
        """Have turns thought while their instances are kept as they are, and commit them.

        For each: lock its instance, waiting for other transactions that have it, read what is new
        of it, have the turn thought on the caller's loop, and commit it as `commit` does, in one
        transaction. If it is not thought within a time, the lock is let go and nothing of it is
        committed.

        Handed in when called, as `commit` is. None where there was no turn to commit, or none in
        time, or another instance was waited for: `LockedTurn` tells which.
        """
        ...

    async def start(
        self, instances: Sequence[NewInstance], *, patience_s: float | None = None
    ) -> list[InstanceRow | None]:
        """Start instances whose first turn is claimed by a worker; None means started.

        Messages that were sent before the start stay, after the start. An id that exists (live, or
        ended unless `replaces` names that incarnation) is left alone and its row returned; messages
        that came with the start are delivered to it if it is live.
        """
        ...

    async def deliver(
        self, deliveries: Sequence[Delivery], *, patience_s: float | None = None
    ) -> list[DeliveryStatus]:
        """Put messages into inboxes, numbered under the instance's lock, and wake the instances."""
        ...

    # ----------------------------------------------------------------- claims

    async def claim_turns(self, claim: TurnClaim) -> list[ClaimedTurn]:
        """Lease instances with something to do, longest waiting first, and count the attempt.

        Takes ready and abandoned ones alike: `wake_at` doubles as the end of the lease. The claimer
        becomes the home. An instance with another home is left to it for the first 200 ms. One
        that some code did not fit is taken only with other code. Unborn, held and unserved ones
        are never looked at. One that was lost `suspect_after` times is taken alone, or left to
        others if `takes_suspect` says no.
        """
        ...

    async def claim_blocked(self, claim: TurnClaim) -> list[ClaimedTurn]:
        """Lease blocked instances that this code has not been tried on, as `claim_turns` does.

        What has been tried `MAX_TRIES` times is left to code with another digest.
        """
        ...

    async def claim_jobs(self, claim: JobClaim) -> list[ClaimedJob]:
        """Lease jobs of these queues, longest waiting first, and count the attempt.

        A job with a session goes only to the session's owner; a session without one, or whose
        lease has run out, or whose owner has given no sign of life for that long or does not serve
        the job's queue, becomes the claimer's in the same transaction, unless another worker holds
        an unexpired lease on a job of that session and queue. An owner without a row among the
        workers is restarting: its lease decides. A job that starts removes its owner's timer
        `start:{seq}`. One that was lost `suspect_after` times is taken alone, or left to others if
        `takes_suspect` says no, unless its queue is harmless.
        """
        ...

    async def end_jobs(self, ends: Sequence[JobEnd]) -> list[bool]:
        """End attempts: remove the job and put its result into the owner's inbox, or requeue it.

        False means that the lease was lost (or the job cancelled) and nothing was written.
        """
        ...

    async def renew(
        self, turns: Sequence[TurnLease], jobs: Sequence[JobLease], *, lease_ms: int
    ) -> tuple[list[TurnLease], list[JobLease]]:
        """Extend leases; return those that are lost. Never shortens one, never revives one."""
        ...

    async def beat_jobs(self, beats: Sequence[JobBeat]) -> None:
        """Keep what running jobs say of their progress; a job whose lease is lost says nothing."""
        ...

    async def lost_jobs(self, jobs: Sequence[JobLease]) -> list[JobLease]:
        """Return which of these leases are gone: the job was cancelled, ended or taken over.

        A question only, cheap enough to be asked whenever another process has changed something.
        """
        ...

    async def renew_sessions(
        self, owner: str, busy: Sequence[str], *, lease_ms: int, idle_ms: int
    ) -> list[str]:
        """Extend the owner's sessions that are busy, or were used within `idle_ms`; the others are
        left to run out. Return those of the busy ones that are no longer the owner's."""
        ...

    async def release_sessions(self, owner: str) -> None:
        """Give up all sessions of an owner that will not come back."""
        ...

    async def release_turns(self, leases: Sequence[TurnLease]) -> None:
        """Give back turns that were claimed and not worked on; the attempt does not count."""
        ...

    async def hold(self, holds: Sequence[Hold]) -> list[bool]:
        """Block or park instances under our lease or stamp: their messages stay, no worker claims
        them but by `claim_blocked`. False means that the stamp or lease no longer fits."""
        ...

    async def unpark(self, instance_id: str) -> bool:
        """Let any worker try a parked or blocked instance again; return whether it was one."""
        ...

    async def beat(self, worker: WorkerRow, *, is_first: bool = False) -> list[Neighbour]:
        """Record a worker's sign of life; workers that gave none for an hour are forgotten.

        Args:
            worker: Which.
            is_first: Whether it has just come; other processes are given a hint of that.

        Returns:
            The other workers of its place.
        """
        ...

    async def retire(self, worker_id: str) -> None:
        """Remove a worker that stops, and its claim to be a home of instances."""
        ...

    async def release_worker(
        self,
        worker_id: str,
        *,
        lease_ms: int,
        keeps_sessions: bool = False,
        process: ProcessId | None = None,
        departed: Departed | None = None,
        retires: bool = True,
    ) -> bool:
        """End everything that a worker holds that is known to be dead, or to be cut off.

        Its leases on turns, jobs and the feed end now, as if they had run out: attempts are counted
        and jobs are lost.

        Args:
            worker_id: Whose.
            lease_ms: How long its leases last: what ends later than twice that is not looked at.
            keeps_sessions: Whether its sessions stay its own, for the next process of its name.
            process: The one that is dead. If the worker's last sign of life is of another one, or
                it has retired, nothing is done. None, and no `departed`: nothing fences this but
                the id, so no other process may use that meanwhile.
            departed: What `read_presences` has told of it. If it is connected again, is another
                process, or the server may have lost its connections itself, nothing is done.
            retires: Whether the worker retires, too. If not it can be released again, of what the
                database had still under way for it.

        Returns:
            Whether it was done.
        """
        ...

    # ---------------------------------------------------------------- reading

    async def read_histories(
        self, executions: Sequence[ExecutionKey], *, after_seq: int = 0, limit: int | None = None
    ) -> list[list[StoredEvent]]:
        """Return the events of each execution in order."""
        ...

    async def read_instances(self, instance_ids: Sequence[str]) -> list[InstanceRow | None]:
        """Return the wide rows; the execution of a running instance is read from its live row."""
        ...

    async def read_ends(self, instance_ids: Sequence[str]) -> dict[str, KnownEnd | None]:
        """Return how instances ended, of those that have; None: there is no such instance. One that
        is parked or blocked is told with that status, and why."""
        ...

    async def read_live(self, instance_id: str) -> LiveRow | None:
        """Return the narrow row of an unfinished or unborn instance."""
        ...

    async def read_news(self, known: Sequence[KnownInstance]) -> list[News]:
        """Return what is new of instances since they were remembered, as of one moment, without
        their inboxes. Of the turns that follow less need be loaded."""
        ...

    async def read_inbox(self, instance_id: str) -> list[Message]:
        """Return all messages of an instance, timers included, by effective time and number."""
        ...

    async def read_jobs(self, instance_id: str) -> list[WaitingJob]:
        """Return the open jobs of an instance."""
        ...

    async def read_workers(self, *, seen_since_ms: int) -> list[WorkerRow]:
        """Return the workers that gave a sign of life since then."""
        ...

    async def read_neighbours(self, worker_id: str, place: str) -> list[Neighbour]:
        """Return the other workers of a worker's place."""
        ...

    async def read_presences(self) -> Presences:
        """Return of which workers the server knows that they are connected no more.

        Of none where there is no server, or nothing is known of connections.
        """
        ...

    async def forget_presence(self, key: int) -> None:
        """Forget the lock of a worker that is no more."""
        ...

    async def next_wake_ms(self, definitions: Sequence[int], queues: Sequence[int]) -> int | None:
        """Return when the next turn or job of these becomes claimable; None for never.

        Of jobs with a session only those whose time lies ahead: what waits already is another
        worker's, or there was no room for it.
        """
        ...

    def change_count(self, kind: Hint) -> int:
        """Return a number that differs after another store, in any process, has committed something
        that gives a hint of this kind.

        Cheap, never waits. A hint: what it misses is found by looking.
        """
        ...

    def listen_changes(self, kind: Hint, heard: Callable[[], None]) -> Callable[[], None]:
        """Have a function called whenever `change_count` of a kind has changed, on any thread, if
        the store is told of it. If it has to look itself the function is never called. Called on a
        running loop.

        Returns:
            What ends that.
        """
        ...

    def hears_changes(self, kind: Hint) -> bool:
        """Return whether those who listen to a kind are called whenever its number has changed, so
        that it need not be compared now and then."""
        ...

    # -------------------------------------------------- in the user's transactions

    def borrow(
        self, connection: object, *, errands: RunOnThread | None, ended: Callable[[], None]
    ) -> BorrowedStore:
        """Return a store that does everything on a connection of the user's, inside the
        transaction that is open there.

        Args:
            connection: A connection to this store's database.
            errands: Runs functions on the thread of a blocking connection; None: this thread.
            ended: Called on the loop when the transaction may have ended, if the database does not
                tell it otherwise.

        Raises:
            UsageError: It is no connection that can be used here.
        """
        ...


class BorrowedStore(Store, Protocol):
    """A store inside a transaction of the user's. It starts, delivers, commits and reads, and
    refuses the rest with a `UsageError`. A turn that was not written for any other reason than its
    values fails with an `UnwrittenError`."""

    @property
    def sent(self) -> SentMessages | None:
        """What was sent through this one, while that may not have arrived yet."""
        ...

    async def lock(self, instance_id: str) -> None:
        """Keep an instance as it is until the end of the transaction, to decide an input of it.
        What was sent to it before is in its inbox then."""
        ...

    def revoke(self) -> None:
        """Break off what runs now, and use the connection no more."""
        ...

    def go_on(self) -> None:
        """Use the connection again: nothing that was broken off still runs."""
        ...
