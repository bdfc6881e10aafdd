"""What the client of a trial does otherwise: it lets the worker come to rest before it waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from hashlib import blake2b
from typing import TypeVar

import msgspec

from perdure.client.core import SEEN_WITHIN, ClientCore
from perdure.client.reading.explain import explain, gather_evidence
from perdure.client.reading.outcomes import outcome_in
from perdure.client.reading.watch import NewsMark
from perdure.errors import InstanceHeldError, InstanceNotFoundError, ResultTimeoutError
from perdure.model.admin import KvRow, ReportRow
from perdure.model.instances import InstanceRow, NewInstance, Status
from perdure.model.jobs import JobKey
from perdure.model.streams import StreamPlace
from perdure.model.turns import InstanceEnd, WorkerRow
from perdure.telemetry import Metrics
from perdure.testing.life import OPTIONS
from perdure.testing.world import World
from perdure.turns.lone_turns import lone_turns
from perdure.turns.turns import TurnRunner

T = TypeVar("T")

AT_REST = "the trial is at rest: advance the clock, or send what it waits for"


class TrialCore(ClientCore):
    """A client beside the worker of a trial: another process, as far as crashes are concerned."""

    def __init__(self, world: World, metrics: Metrics) -> None:
        super().__init__(world.store, metrics, owner="Trial")
        self._world = world
        self._begun = 0

    async def begin(self, new: NewInstance) -> InstanceRow | None:
        """Start an instance under an incarnation that is the same in every run of a test: its ids,
        uuids and random numbers come of that."""
        self._begun += 1
        drawn = blake2b(b"%d %d" % (self._world.seed, self._begun), digest_size=8).digest()
        incarnation = int.from_bytes(drawn, "big") >> 1 | 1
        return await super().begin(msgspec.structs.replace(new, incarnation=incarnation))

    async def read_secret(self) -> bytes:
        """Return what tokens of promises are signed with: the same in every run of a test."""
        return self._world.secret

    # ------------------------------------------------------- who works in this process

    def turns(self) -> TurnRunner:
        """Return what decides inputs of this client, watched as closely as the worker."""
        self.refuse_closed()
        if self._alone is None:
            unfit = self._world.findings.add
            self._alone = lone_turns(
                self.raw_store, self.endings, self.metrics, OPTIONS, unfit=unfit
            )
        return self._alone

    async def replay_all(self) -> None:
        """Replay whatever this client has decided and has in memory."""
        if self._alone is not None:
            for hot in list(self._alone.hot):
                if not hot.is_ahead:
                    self._alone.shadow.maybe(hot.execution)
            await self._alone.background.drain()

    async def live_workers(self, seen_within: timedelta = SEEN_WITHIN) -> list[WorkerRow]:
        """Return the trial's worker, however far the clock has moved since its last sign."""
        worker_id = self._world.life.serving.worker_id
        rows = await self.store.read_workers(seen_since_ms=0)
        return [row for row in rows if row.worker_id == worker_id]

    # --------------------------------------------------------------------- waiting

    async def wait_ended(
        self, instance_id: str, *, hears_holds: bool = False, begun: NewsMark | None = None
    ) -> InstanceEnd:
        """Let the trial come to rest; return how an instance has ended by then.

        Args:
            instance_id: The instance.
            hears_holds: No matter: that it is held is always told.
            begun: No matter: the trial comes to rest first.

        Raises:
            InstanceNotFoundError: There is no such instance.
            NondeterminismError: Its code cannot be replayed, or that of another one.
            InstanceHeldError: It is parked, or stays blocked.
            ResultTimeoutError: It has not ended, and nothing moves; the text says what it waits
                for.
        """

        async def look(row: InstanceRow) -> InstanceEnd | None:
            return outcome_in(row) if row.status.is_terminal else None

        end = await self._at_rest(instance_id, "result", look)
        assert end is not None, "an instance that has ended has an outcome"
        return end

    async def wait_reported(self, instance_id: str, after: int) -> ReportRow | None:
        """Let the trial come to rest; return a report that is newer than a version."""

        async def look(_: InstanceRow) -> ReportRow | None:
            [found] = await self.store.admin.read_reports([instance_id])
            return found if found is not None and found.version > after else None

        return await self._at_rest(instance_id, "report", look)

    async def wait_kept(self, instance_id: str, key: str, after_ms: int = 0) -> KvRow | None:
        """Let the trial come to rest; return what is kept under a key."""

        async def look(_: InstanceRow) -> KvRow | None:
            kept = (await self.store.admin.read_kv(instance_id, key)).get(key)
            return kept if kept is not None and kept.updated_ms > after_ms else None

        return await self._at_rest(instance_id, f"value under key {key!r}", look)

    async def wait_answered(
        self, instance_id: str, receipt: str, send: Callable[[], Awaitable[bool]]
    ) -> bytes | None:
        """Send an update, let the trial come to rest, and return what is kept of its outcome."""
        await send()

        async def look(_: InstanceRow) -> bytes | None:
            return (await self.store.deciders.read_receipts(instance_id, [receipt])).get(receipt)

        return await self._at_rest(instance_id, "answer to the update", look)

    async def wait_sent(self, place: StreamPlace) -> None:
        """Let the trial come to rest, until there is something behind a place in a stream."""

        async def look(_: InstanceRow) -> bool | None:
            [is_news] = await self.store.streams.find_stream_news([place])
            return is_news or None

        await self._at_rest(place.instance_id, f"item of stream {place.stream!r}", look)

    async def _at_rest(
        self, instance_id: str, what: str, look: Callable[[InstanceRow], Awaitable[T | None]]
    ) -> T | None:
        """Return what is looked for; None if the instance ended without it."""
        while True:
            await self._world.settle()
            row = await self._row(instance_id)
            found = await look(row)
            if found is not None or row.status.is_terminal:
                return found
            if row.status is not Status.RUNNING:
                raise InstanceHeldError(instance_id, row.status, row.reason or "")
            if not await self._world.wait_unmoved():
                break
        workers = await self.live_workers()
        sentence = explain(await gather_evidence(self.store, self.summaries, row, workers))
        raise ResultTimeoutError(
            instance_id, timedelta(0), f"{sentence} {AT_REST.capitalize()}.", what=what
        )

    async def _row(self, instance_id: str) -> InstanceRow:
        [row] = await self.store.read_instances([instance_id])
        if row is None:
            raise InstanceNotFoundError(instance_id)
        return row

    # --------------------------------------------------------- what this client has done

    def noticed_work(self) -> None:
        """Let the worker look at once."""
        if self._world.is_open:
            self._world.life.serving.notice()

    def noticed_end(self, instance_id: str, incarnation: int, outcome: InstanceEnd) -> None:
        """Tell the worker, which another process would find out by looking."""
        super().noticed_end(instance_id, incarnation, outcome)
        self._world.life.core.noticed_end(instance_id, incarnation, outcome)
        self.stop_jobs(instance_id, incarnation)

    def noticed_gone(self, instance_id: str, incarnation: int) -> None:
        """The same for an instance that was deleted."""
        super().noticed_gone(instance_id, incarnation)
        self._world.life.core.noticed_gone(instance_id, incarnation)

    def noticed_job_end(self, key: JobKey) -> None:
        """The same for a job that was ended by hand."""
        self._world.life.core.noticed_job_end(key)

    def stop_jobs(self, instance_id: str, incarnation: int) -> None:
        """Stop the jobs of an instance."""
        self._world.life.core.stop_jobs(instance_id, incarnation)
