"""The store's methods, for any database that runs the statements by name.

What is said in `perdure.store.base` is not repeated here. A database adds how it connects, how a
batch becomes a transaction (`_hand_in`, `_submit`), and how it reads (`read`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from perdure.clock import Clock
from perdure.clock_watch import LASTS_MS, since_moved_ms, steady_ms
from perdure.errors import StoreError
from perdure.model.hints import Hint
from perdure.model.histories.events import StoredEvent
from perdure.model.instances import DefinitionKey, InstanceRow, LiveRow, NewInstance
from perdure.model.jobs import ClaimedJob, JobBeat, JobEnd
from perdure.model.messages import Delivery, DeliveryStatus, Message
from perdure.model.turns import (
    NO_PRESENCES,
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
    TurnStatus,
    WorkerRow,
)
from perdure.store.base import ExecutionKey, JobLease, TurnLease, WaitingJob
from perdure.store.batching import LATER
from perdure.store.contents import (
    Contents,
    KeyPlace,
    KeySlice,
    Slice,
    SlicePlace,
    StrayEvent,
    TornSession,
)
from perdure.store.counters import StoreCounters
from perdure.store.epoch import Epoch
from perdure.store.forking import ProcessMark
from perdure.store.locked_turns import KnownInstance, LockedTurn, News
from perdure.store.observer import Observer
from perdure.store.sql import claims, job_leases, sessions
from perdure.store.sql.admin import SqlAdmin
from perdure.store.sql.commits.batch import Operation, Transaction
from perdure.store.sql.connection import Connection
from perdure.store.sql.deciders import SqlDeciders
from perdure.store.sql.definitions import Definitions
from perdure.store.sql.feed_store import SqlFeed
from perdure.store.sql.projection_sql import Approval
from perdure.store.sql.questions import news, reading, slices
from perdure.store.sql.questions.feed import feed_end
from perdure.store.sql.questions.looking import Look
from perdure.store.sql.stream_store import SqlStreams
from perdure.store.sql.twice import done_once
from perdure.store.sql.worker_rows import served_body

T = TypeVar("T")

FORGET_WORKERS_AFTER_MS = 3_600_000
"""How long a worker that gives no sign of life is kept for people to see: it was killed."""
FORGET_WHEN_STEADY_MS = 2 * LASTS_MS
"""How long the clock must have been steady: the living need time for a sign of life by it."""


class SqlStore(ABC):
    """See `perdure.store.base.Store`.

    Args:
        clock: Rules leases and visibility.
        approval: Which statements projections may run.
    """

    is_server = False
    knows_connections = False
    locks_turns = True

    def __init__(self, *, clock: Clock, approval: Approval) -> None:
        self.clock = clock
        self.epoch = Epoch()
        self.creates = True
        self.observer: Observer | None = None
        self.admin = SqlAdmin(self)
        self.deciders = SqlDeciders(self)
        self.feed = SqlFeed(self, approval=approval, before_reading=self._number_feed)
        self.streams = SqlStreams(self)
        self._definitions = Definitions(self.epoch)
        self._session_marks = sessions.SessionMarks()
        self._process = ProcessMark("store")

    # ------------------------------------------------- what a database brings

    @property
    @abstractmethod
    def counters(self) -> StoreCounters:
        """Return what it has done."""

    def listen_changes(self, kind: Hint, heard: Callable[[], None]) -> Callable[[], None]:
        """Never call it: there are no notifications, unless a database says otherwise."""
        return lambda: None

    def hears_changes(self, kind: Hint) -> bool:
        """Return false, for the same reason."""
        return False

    async def _number_feed(self) -> None:
        """Do nothing: an event has its position when it is committed."""
        return

    @abstractmethod
    def _hand_in(self, operations: Sequence[Any]) -> asyncio.Future[list[Any]]:
        """Have operations written by the next transaction, however long it takes. Each gets an
        answer: what it came to, or the error that it has."""

    @abstractmethod
    async def _submit(self, operations: Sequence[Any], patience_s: float | None) -> list[Any]:
        """Have operations written by the next transaction, within a time."""

    @abstractmethod
    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a function with a connection that reads one state of the database."""

    async def read_once(self, work: Callable[[Connection], T]) -> T:
        """Run a function that reads with one statement: that sees one state by itself."""
        return await self.read(work)

    async def _read_row(self, work: Callable[[Connection], T]) -> T:
        """Run a function that reads one row by its key, with one statement."""
        return await self.read_once(work)

    async def work(
        self,
        run: Callable[[Transaction], T],
        *,
        patience_s: float | None = None,
        is_quiet: bool = False,
        look: Look | None = None,
        if_twice: Callable[[T, T], T] | None = None,
    ) -> T:
        """Run a function in the next transaction that writes."""
        operation = Operation(run, is_quiet, look=look, if_twice=if_twice)
        [result] = await self._submit([operation], patience_s)
        value: T = result
        return value

    async def add(self, run: Callable[[Transaction], T], *, patience_s: float | None = None) -> T:
        """Run a function that only adds to the store, in the same way."""
        return await self.work(run, patience_s=patience_s)

    async def tell(self, run: Callable[[Transaction], T], *, patience_s: float | None = None) -> T:
        """Run a function in the next transaction that writes, and have those who wait for news
        read."""
        [result] = await self._submit([Operation(run, is_news=True)], patience_s)
        value: T = result
        return value

    # ------------------------------------------------------------ definitions

    async def intern(self, definitions: Sequence[DefinitionKey]) -> list[int]:
        """Return a small lasting number for each definition, making those that are new."""

        def number_all(transaction: Transaction) -> list[int]:
            known, connection = transaction.definitions, transaction.connection
            known.number_all(connection, definitions)
            return [known.number(connection, key) for key in definitions]

        return await self.work(number_all, is_quiet=True)

    async def definition(self, definition_no: int) -> DefinitionKey:
        """Return the definition behind a number."""
        key = self._definitions.known(definition_no)
        if key is None:
            key = await self.read(lambda c: reading.read_definition(c, definition_no))
            if key is None:
                raise StoreError(f"there is no definition number {definition_no}")
            self._definitions.learn(definition_no, key)
        return key

    # -------------------------------------------------------------- the commit

    def commit(self, turns: Sequence[Turn]) -> Awaitable[list[TurnReceipt]]:
        """Write everything these turns changed, as one transaction, possibly with others."""
        answer = self._hand_in(turns)
        answer.add_done_callback(_make_receipts)
        for turn in turns:
            if turn.feed:
                # Also without a listener: one that begins now may have read before this commits.
                answer.add_done_callback(lambda _: self.feed.tell_listeners())
                break
        return answer

    def commit_locked(self, turns: Sequence[LockedTurn]) -> Awaitable[list[TurnReceipt | None]]:
        """Have turns thought while their instances are kept as they are, and commit them."""
        answer = self._hand_in(turns)
        answer.add_done_callback(lambda _: self.feed.tell_listeners())
        return _locked_receipts(answer)

    async def start(
        self, instances: Sequence[NewInstance], *, patience_s: float | None = None
    ) -> list[InstanceRow | None]:
        """Start instances whose first turn is a worker's claim; None means started."""
        return await self._submit(instances, patience_s)

    async def deliver(
        self, deliveries: Sequence[Delivery], *, patience_s: float | None = None
    ) -> list[DeliveryStatus]:
        """Put messages into inboxes, numbered under the instance's lock, and wake the instances."""
        return await self._submit(deliveries, patience_s)

    async def end_jobs(self, ends: Sequence[JobEnd]) -> list[bool]:
        """End attempts: remove the job and put its result into the owner's inbox, or requeue it."""
        return await self._submit(ends, None)

    async def hold(self, holds: Sequence[Hold]) -> list[bool]:
        """Block or park instances under our lease or stamp."""
        return await self._submit(holds, None)

    # ----------------------------------------------------------------- claims

    async def claim_turns(self, claim: TurnClaim) -> list[ClaimedTurn]:
        """Lease instances with something to do, and count the attempt."""
        return await self._claim_turns(claims.TurnClaiming(claim, claims.ask_ready))

    async def claim_blocked(self, claim: TurnClaim) -> list[ClaimedTurn]:
        """Lease blocked instances that this code has not been tried on."""
        return await self._claim_turns(claims.TurnClaiming(claim, claims.ask_blocked))

    async def _claim_turns(self, claiming: claims.TurnClaiming) -> list[ClaimedTurn]:
        def run(transaction: Transaction) -> list[ClaimedTurn]:
            now_ms, offset = transaction.now_ms, transaction.number
            turns = claiming.run(transaction.connection, now_ms=now_ms, offset=offset)
            if not transaction.only_claims:
                claiming.leased = ()  # What comes after it may change these rows once more.
            return turns

        return await self.work(run, is_quiet=True, look=claiming)

    async def claim_jobs(self, claim: JobClaim) -> list[ClaimedJob]:
        """Lease jobs of these queues, and count the attempt."""
        claiming = claims.JobClaiming(claim, self._session_marks)
        return await self.work(
            lambda t: claiming.run(t.connection, t.definitions, now_ms=t.now_ms, offset=t.number),
            is_quiet=True,
            look=claiming,
        )

    async def renew(
        self, turns: Sequence[TurnLease], jobs: Sequence[JobLease], *, lease_ms: int
    ) -> tuple[list[TurnLease], list[JobLease]]:
        """Extend leases; return those that are lost."""

        def renew_turns(transaction: Transaction) -> list[TurnLease]:
            now_ms = transaction.now_ms
            return claims.renew_turns(
                transaction.connection,
                turns,
                held_ms=self._held_ms(now_ms, lease_ms),
                until_ms=now_ms + lease_ms,
            )

        def renew_jobs(transaction: Transaction) -> list[JobLease]:
            now_ms = transaction.now_ms
            return job_leases.renew_jobs(
                transaction.connection,
                jobs,
                now_ms=now_ms,
                held_ms=self._held_ms(now_ms, lease_ms),
                until_ms=now_ms + lease_ms,
            )

        # Two operations of one transaction, or of two if one of them is in trouble.
        lost_turns, lost_jobs = await self._submit(
            [Operation(renew_turns, is_quiet=True), Operation(renew_jobs, is_quiet=True)], None
        )
        return lost_turns, lost_jobs

    def _held_ms(self, now_ms: int, lease_ms: int) -> int:
        """Return what the end of a lease must lie behind for its holder still to have it. When the
        clock has just moved ahead, the end says nothing: whose token is stored holds it."""
        return 0 if since_moved_ms(self.clock) < lease_ms else now_ms

    async def beat_jobs(self, beats: Sequence[JobBeat]) -> None:
        """Keep what running jobs say of their progress; a job whose lease is lost says nothing."""
        if beats:
            await self.work(
                lambda t: job_leases.beat_jobs(t.connection, beats, now_ms=t.now_ms), is_quiet=True
            )

    async def lost_jobs(self, jobs: Sequence[JobLease]) -> list[JobLease]:
        """Return which of these leases are gone: the job was cancelled, ended or taken over."""
        return await self.read_once(lambda c: job_leases.lost_jobs(c, jobs)) if jobs else []

    async def renew_sessions(
        self, owner: str, busy: Sequence[str], *, lease_ms: int, idle_ms: int
    ) -> list[str]:
        """Extend the owner's sessions; return those of the busy ones that it no longer has."""
        return await self.work(
            lambda t: sessions.renew_sessions(
                t.connection,
                owner,
                busy,
                now_ms=t.now_ms,
                held_ms=self._held_ms(t.now_ms, lease_ms),
                lease_ms=lease_ms,
                idle_ms=idle_ms,
            ),
            is_quiet=True,
        )

    async def release_sessions(self, owner: str) -> None:
        """Give up all sessions of an owner that will not come back."""
        await self.work(lambda t: t.connection.run("release_sessions", owner=owner), is_quiet=True)

    async def release_turns(self, leases: Sequence[TurnLease]) -> None:
        """Give back turns that were claimed and not worked on; the attempt does not count."""

        def release(transaction: Transaction) -> object:
            is_all = claims.release_turns(transaction.connection, leases, now_ms=transaction.now_ms)
            return None if is_all else LATER

        await self.work(release)

    async def unpark(self, instance_id: str) -> bool:
        """Let all workers try a parked or blocked instance again; return whether it was one."""
        return await self.work(
            lambda t: claims.unpark(t.connection, instance_id, now_ms=t.now_ms), if_twice=done_once
        )

    async def beat(self, worker: WorkerRow, *, is_first: bool = False) -> list[Neighbour]:
        """Record a worker's sign of life, and forget workers that have given none for long."""
        params = {
            **{name: value for name, value in worker._asdict().items() if name != "slots"},
            "definitions": served_body(worker),
            "is_lasting": int(worker.is_lasting),
        }
        before_ms = worker.seen_ms - FORGET_WORKERS_AFTER_MS

        def work(transaction: Transaction) -> list[Neighbour]:
            [(others,)] = transaction.connection.run("beat", **params)
            if steady_ms(self.clock) >= FORGET_WHEN_STEADY_MS:
                transaction.connection.run("bury_workers", before_ms=before_ms)
            return reading.neighbours_in(others)

        return await self.work(work, is_quiet=not is_first)

    async def retire(self, worker_id: str) -> None:
        """Remove a worker that stops, and its claim to be the home of instances."""
        await self.work(lambda t: t.connection.run("retire", worker_id=worker_id), is_quiet=True)

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
        """End everything that a worker holds that is known to be dead, or to be cut off."""

        def release(transaction: Transaction) -> bool:
            connection, now_ms = transaction.connection, transaction.now_ms
            if process is not None and not connection.run(
                "lock_worker", worker_id=worker_id, **process._asdict()
            ):
                return False
            if departed is not None and not self._is_departed(connection, departed):
                return False
            # Twice: the clock by which the worker has reckoned may be ahead of this one.
            until_ms = now_ms + 2 * lease_ms
            for name in ("end_turn_leases", "end_job_leases"):
                connection.run(name, worker_id=worker_id, now_ms=now_ms, until_ms=until_ms)
            connection.run("end_feed_leases", worker_id=worker_id, now_ms=now_ms)
            if not keeps_sessions:
                connection.run("release_sessions", owner=worker_id)
            if retires:
                connection.run("retire", worker_id=worker_id)
            return True

        return await self.work(release)

    def _is_departed(self, connection: Connection, departed: Departed) -> bool:
        """Return whether a worker is still not connected, and keep it so."""
        return False

    # ---------------------------------------------------------------- reading

    async def read_histories(
        self, executions: Sequence[ExecutionKey], *, after_seq: int = 0, limit: int | None = None
    ) -> list[list[StoredEvent]]:
        """Return the events of each execution in order."""
        return await self.read(
            lambda c: reading.read_histories(c, executions, after_seq=after_seq, limit=limit)
        )

    async def read_instances(self, instance_ids: Sequence[str]) -> list[InstanceRow | None]:
        """Return the wide rows."""
        read = self._read_row if len(instance_ids) == 1 else self.read_once
        return await read(lambda c: reading.read_instances(c, instance_ids))

    async def read_ends(self, instance_ids: Sequence[str]) -> dict[str, KnownEnd | None]:
        """Return how instances ended, of those that have."""
        return await self.read_once(lambda c: reading.read_ends(c, instance_ids))

    async def read_live(self, instance_id: str) -> LiveRow | None:
        """Return the narrow row of an unfinished or unborn instance."""
        [found] = await self._read_row(lambda c: reading.read_lives(c, [instance_id]))
        return found

    async def read_news(self, known: Sequence[KnownInstance]) -> list[News]:
        """Return what is new of instances that are remembered."""
        return await self.read_once(lambda c: news.read_news(c, known))

    async def read_inbox(self, instance_id: str) -> list[Message]:
        """Return all messages of an instance in the order they are applied."""
        return await self.read_once(lambda c: reading.read_inbox(c, instance_id))

    async def read_jobs(self, instance_id: str) -> list[WaitingJob]:
        """Return the open jobs of an instance."""
        return await self.read(lambda c: reading.read_jobs(c, instance_id))

    async def read_workers(self, *, seen_since_ms: int) -> list[WorkerRow]:
        """Return the workers that gave a sign of life since then."""
        return await self.read(lambda c: reading.read_workers(c, seen_since_ms))

    async def read_neighbours(self, worker_id: str, place: str) -> list[Neighbour]:
        """Return the other workers of a worker's place."""
        return await self.read(lambda c: reading.read_neighbours(c, worker_id, place))

    async def read_presences(self) -> Presences:
        """Return of which workers the server knows that they are connected no more."""
        return NO_PRESENCES

    async def forget_presence(self, key: int) -> None:
        """Do nothing: there are no such locks."""
        return

    async def next_wake_ms(self, definitions: Sequence[int], queues: Sequence[int]) -> int | None:
        """Return when the next turn or job of these becomes claimable; None for never."""
        return await self.read_once(
            lambda c: reading.next_wake_ms(c, definitions, queues, now_ms=self.clock())
        )

    async def read_contents(self) -> Contents:
        """Return everything, as of one moment, for the checker."""
        return await self.read(slices.read_contents)

    async def read_slice(self, after: SlicePlace, before_part: int) -> Slice:
        """Return everything of some of the ids behind a place, as of one moment."""
        return await self.read(lambda c: slices.read_slice(c, after, before_part))

    async def read_keys(self, after: KeyPlace) -> KeySlice:
        """Return some of the keys behind a place, as of one moment."""
        return await self.read(lambda c: slices.read_keys(c, after))

    async def find_stray_feed(self, after: int, upto: int) -> list[StrayEvent]:
        """Return what the feed has between two positions and no history has."""
        return await self.read(lambda c: slices.find_stray_feed(c, after, upto))

    async def last_position(self) -> int:
        """Return the newest position of the feed, without giving any."""
        return await self.read(feed_end)

    async def find_torn_sessions(self) -> list[TornSession]:
        """Return the sessions that are not as they must be."""
        return await self.read(lambda c: slices.find_torn_sessions(c, now_ms=self.clock()))


async def _locked_receipts(answers: Awaitable[list[Any]]) -> list[TurnReceipt | None]:
    """Return a receipt for each turn that was thought, also for those that failed."""
    return [_failed(one) if isinstance(one, Exception) else one for one in await answers]


def _make_receipts(answer: asyncio.Future[list[Any]]) -> None:
    """Put receipts in the place of what turns failed with, before any other code has the answer."""
    if answer.cancelled() or answer.exception() is not None:
        return
    receipts = answer.result()
    for place, one in enumerate(receipts):
        if isinstance(one, Exception):
            receipts[place] = _failed(one)


def _failed(error: Exception) -> TurnReceipt:
    if not isinstance(error, StoreError):
        cause, error = error, StoreError(f"a turn cannot be written: {error!r}")
        error.__cause__ = cause
    return TurnReceipt(TurnStatus.FAILED, error=error)
