"""A store in one SQLite file, or in memory.

One connection writes, on the batcher's thread; a few others read. Every operation that waits goes
into the next transaction: see `writer` for what happens there. "Database is locked" never reaches
anybody: processes take turns by a lock beside the file, and what SQLite still refuses is tried
again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from perdure.clock import Clock
from perdure.errors import StoreError
from perdure.model.events import StoredEvent
from perdure.model.instances import DefinitionKey, InstanceRow, LiveRow, NewInstance
from perdure.model.jobs import ClaimedJob, JobBeat, JobEnd
from perdure.model.messages import Delivery, DeliveryStatus, Message
from perdure.model.turns import (
    ClaimedTurn,
    Hold,
    JobClaim,
    Turn,
    TurnClaim,
    TurnReceipt,
    WorkerRow,
)
from perdure.store.base import ExecutionKey, JobLease, TurnLease, WaitingJob
from perdure.store.batching import Batcher
from perdure.store.contents import Contents
from perdure.store.counters import StoreCounters
from perdure.store.sqlite import claims, reading, sessions
from perdure.store.sqlite.admin import SqliteAdmin
from perdure.store.sqlite.connection import MEMORY, Connection
from perdure.store.sqlite.database import check_version
from perdure.store.sqlite.deciders import SqliteDeciders
from perdure.store.sqlite.files import prepare_file
from perdure.store.sqlite.lock import NoLock, WriteLock
from perdure.store.sqlite.readers import Readers
from perdure.store.sqlite.writer import Transaction, Work, Writer

T = TypeVar("T")
_encode = msgspec.json.encode


FORGET_WORKERS_AFTER_MS = 3_600_000
"""How long a worker that gives no sign of life is kept for people to see: it was killed."""


class SqliteStore(SqliteAdmin, SqliteDeciders):
    """See `perdure.store.base.Store`; what is said there is not repeated here.

    Args:
        path: A file, or ":memory:".
        driver: "sqlite3" or "apsw".
        clock: Rules leases and visibility.
    """

    def __init__(self, path: str, *, driver: str, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.driver = driver
        self.path = path if path == MEMORY else os.path.abspath(path)
        self.counters = StoreCounters()
        self._writer: Writer | None = None
        self._batcher: Batcher | None = None
        self._readers: Readers | None = None
        self._lock: WriteLock | NoLock = NoLock()
        self._session_marks = sessions.SessionMarks()

    # --------------------------------------------------------------- lifetime

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        if self._batcher is not None:
            raise StoreError("the store was opened before; make a new one")
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        check_version(self.driver)
        if self.path != MEMORY:
            prepare_file(Path(self.path))
            self._lock = WriteLock(f"{self.path}-lock")
        writer = Writer(
            self.path,
            driver=self.driver,
            lock=self._lock,
            clock=self.clock,
            counters=self.counters,
        )
        try:
            writer.open()
            if self.path != MEMORY:
                self._readers = Readers(self.driver, self.path)
        except BaseException:
            writer.close()
            raise
        self._writer = writer
        self._batcher = Batcher(
            writer.execute,
            exclusive=self._lock,
            finish=writer.close,
            counters=self.counters,
            name="perdure-write",
        )
        self._batcher.start()

    async def close(self) -> None:
        """Finish what was handed in, then let go of the database."""
        if self._batcher is None:
            return
        # Readers first: whoever closes last copies the WAL back, and that is the writer's part.
        if self._readers is not None:
            await asyncio.to_thread(self._readers.close)
        await self._batcher.close()

    # ------------------------------------------------------------ definitions

    async def intern(self, definitions: Sequence[DefinitionKey]) -> list[int]:
        """Return a small lasting number for each definition, making those that are new."""

        def number_all(transaction: Transaction) -> list[int]:
            return [
                transaction.definitions.number(transaction.connection, key) for key in definitions
            ]

        return await self._work(number_all)

    async def definition(self, definition_no: int) -> DefinitionKey:
        """Return the definition behind a number."""
        assert self._writer is not None, "the store is not open"
        definitions = self._writer.definitions
        key = definitions.known(definition_no)
        if key is None:
            key = await self._read(lambda c: reading.read_definition(c, definition_no))
            if key is None:
                raise StoreError(f"there is no definition number {definition_no}")
            definitions.learn(definition_no, key)
        return key

    # -------------------------------------------------------------- the commit

    def commit(self, turns: Sequence[Turn]) -> Awaitable[list[TurnReceipt]]:
        """Write everything these turns changed, as one transaction, possibly with others."""
        assert self._batcher is not None, "the store is not open"
        answer = self._batcher.hand_in(turns)
        if self._heard and any(turn.feed for turn in turns):
            answer.add_done_callback(lambda _: self._tell_feed())
        return answer

    async def start(
        self, instances: Sequence[NewInstance], *, patience_s: float | None = None
    ) -> list[InstanceRow | None]:
        """Start instances whose first turn is somebody's claim; None means started."""
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
        return await self._work(
            lambda t: claims.claim_turns(t.connection, claim, now_ms=t.now_ms, offset=t.number)
        )

    async def claim_jobs(self, claim: JobClaim) -> list[ClaimedJob]:
        """Lease jobs of these queues, and count the attempt."""
        return await self._work(
            lambda t: claims.claim_jobs(
                t.connection,
                claim,
                now_ms=t.now_ms,
                offset=t.number,
                marks=self._session_marks,
                definitions=t.definitions,
            )
        )

    async def renew(
        self, turns: Sequence[TurnLease], jobs: Sequence[JobLease], *, lease_ms: int
    ) -> tuple[list[TurnLease], list[JobLease]]:
        """Extend leases; return those that are lost."""

        def renew_all(transaction: Transaction) -> tuple[list[TurnLease], list[JobLease]]:
            connection, now_ms = transaction.connection, transaction.now_ms
            until_ms = now_ms + lease_ms
            return (
                claims.renew_turns(connection, turns, now_ms=now_ms, until_ms=until_ms),
                claims.renew_jobs(connection, jobs, now_ms=now_ms, until_ms=until_ms),
            )

        return await self._work(renew_all)

    async def beat_jobs(self, beats: Sequence[JobBeat]) -> None:
        """Keep what running jobs say of their progress; a job whose lease is lost says nothing."""
        if beats:
            await self._work(lambda t: claims.beat_jobs(t.connection, beats, now_ms=t.now_ms))

    async def lost_jobs(self, jobs: Sequence[JobLease]) -> list[JobLease]:
        """Return which of these leases are gone: the job was cancelled, ended or taken over."""
        return await self._read(lambda c: claims.lost_jobs(c, jobs)) if jobs else []

    async def renew_sessions(
        self, owner: str, busy: Sequence[str], *, lease_ms: int, idle_ms: int
    ) -> list[str]:
        """Extend the owner's sessions; return those of the busy ones that it no longer has."""
        return await self._work(
            lambda t: sessions.renew_sessions(
                t.connection, owner, busy, now_ms=t.now_ms, lease_ms=lease_ms, idle_ms=idle_ms
            )
        )

    async def release_sessions(self, owner: str) -> None:
        """Give up all sessions of an owner that will not come back."""
        await self._work(lambda t: t.connection.run("release_sessions", owner=owner))

    async def release_turns(self, leases: Sequence[TurnLease]) -> None:
        """Give back turns that were claimed and not worked on; the attempt does not count."""
        await self._work(lambda t: claims.release_turns(t.connection, leases, now_ms=t.now_ms))

    async def unblock(self, definition_no: int, code: str) -> int:
        """Offer blocked instances of a definition to code that differs; return how many."""
        return await self._work(
            lambda t: len(
                t.connection.run("unblock", definition_no=definition_no, code=code, now_ms=t.now_ms)
            )
        )

    async def unpark(self, instance_id: str) -> bool:
        """Let a parked or blocked instance be tried again by anybody; tell whether it was one."""
        return await self._work(lambda t: claims.unpark(t.connection, instance_id, now_ms=t.now_ms))

    async def beat(self, worker: WorkerRow) -> None:
        """Record a worker's sign of life, and forget workers that have given none for long."""
        params = {**worker._asdict(), "definitions": _encode(worker.definitions)}
        before_ms = worker.seen_ms - FORGET_WORKERS_AFTER_MS

        def work(transaction: Transaction) -> None:
            transaction.connection.run("beat", **params)
            transaction.connection.run("bury_workers", before_ms=before_ms)

        await self._work(work)

    async def retire(self, worker_id: str) -> None:
        """Remove a worker that stops, and its claim to be anybody's home."""
        await self._work(lambda t: t.connection.run("retire", worker_id=worker_id))

    # ---------------------------------------------------------------- reading

    async def read_histories(
        self, executions: Sequence[ExecutionKey], *, after_seq: int = 0, limit: int | None = None
    ) -> list[list[StoredEvent]]:
        """Return the events of each execution in order."""
        return await self._read(
            lambda c: reading.read_histories(c, executions, after_seq=after_seq, limit=limit)
        )

    async def read_instances(self, instance_ids: Sequence[str]) -> list[InstanceRow | None]:
        """Return the wide rows."""
        return await self._read(lambda c: reading.read_instances(c, instance_ids))

    async def read_live(self, instance_id: str) -> LiveRow | None:
        """Return the narrow row of an unfinished or unborn instance."""
        [found] = await self._read(lambda c: reading.read_lives(c, [instance_id]))
        return found

    async def read_inbox(self, instance_id: str) -> list[Message]:
        """Return all messages of an instance in the order they are applied."""
        return await self._read(lambda c: reading.read_inbox(c, instance_id))

    async def read_jobs(self, instance_id: str) -> list[WaitingJob]:
        """Return the open jobs of an instance."""
        return await self._read(lambda c: reading.read_jobs(c, instance_id))

    async def read_workers(self, *, seen_since_ms: int) -> list[WorkerRow]:
        """Return the workers that gave a sign of life since then."""
        return await self._read(lambda c: reading.read_workers(c, seen_since_ms))

    async def next_wake_ms(self, definitions: Sequence[int], queues: Sequence[int]) -> int | None:
        """Return when the next turn or job of these becomes claimable; None for never."""
        return await self._read(
            lambda c: reading.next_wake_ms(c, definitions, queues, now_ms=self.clock())
        )

    async def read_contents(self) -> Contents:
        """Return everything, as of one moment, for the checker."""
        return await self._read(reading.read_contents)

    def change_count(self) -> int:
        """Return a number that differs after another store, in any process, has committed."""
        return self._lock.changes_of_others()

    # ---------------------------------------------------------------- helpers

    async def _submit(self, operations: Sequence[Any], patience_s: float | None) -> list[Any]:
        assert self._batcher is not None, "the store is not open"
        return await self._batcher.submit(operations, patience_s)

    async def _work(self, run: Callable[[Transaction], T], *, patience_s: float | None = None) -> T:
        [result] = await self._submit([Work(run)], patience_s)
        value: T = result
        return value

    async def _read(self, work: Callable[[Connection], T]) -> T:
        if self._readers is not None:
            return await self._readers.read(work)
        # A database in memory has one connection, which belongs to the writing thread.
        return await self._work(lambda transaction: work(transaction.connection))
