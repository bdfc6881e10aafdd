"""One worker's machinery on an open store: what `Worker` and `Engine` share."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import Registry, orchestration_key, reader_key, schedule_key
from perdure.authoring.scope import InlineRequest
from perdure.clock import to_ms
from perdure.errors import StoreError, UsageError
from perdure.ids import fresh_id
from perdure.jobs.builtins import ClientForJobs, builtin_works
from perdure.jobs.cancels import CancelWatch
from perdure.jobs.decider_builtins import decider_works
from perdure.jobs.heartbeats import Heartbeats
from perdure.jobs.jobs import JobRunner
from perdure.jobs.names import NameWatch
from perdure.jobs.running import Host
from perdure.jobs.sending import StreamFlusher
from perdure.jobs.sessions import SessionKeeper
from perdure.jobs.slots import SlotKind
from perdure.jobs.within import Transactions
from perdure.lint.foreseeing import foresee
from perdure.model.instances import DefinitionKey
from perdure.model.jobs import ClaimedJob, JobEnd, JobKey, Settled
from perdure.model.options import WorkerOptions
from perdure.model.turns import WorkerRow
from perdure.store.base import JobLease, Store, TurnLease
from perdure.store.off_loop import wait_off_loop
from perdure.telemetry import Metrics, error_facts
from perdure.turns.coverage import Coverage
from perdure.turns.endings import Endings
from perdure.turns.metrics import TurnMetrics
from perdure.turns.surroundings import Surroundings
from perdure.turns.turns import TurnRunner
from perdure.worker.claims import Claimer
from perdure.worker.departures import Departures
from perdure.worker.gauges import Gauges
from perdure.worker.housekeeping import Housekeeping
from perdure.worker.leases import LeaseKeeper
from perdure.worker.loop_watch import LoopWatch
from perdure.worker.neighbours import Neighbours
from perdure.worker.process_id import own_process
from perdure.worker.trial_parts import NO_TRIAL, TrialParts
from perdure.worker.tuning import PythonTuning

logger = logging.getLogger(__name__)

Duties: TypeAlias = Mapping[str, Callable[[], Coroutine[Any, Any, None]]]
"""Loops that run for ever, by name."""

BEAT_EVERY_S = 10
"""How often a worker says that it lives."""

LET_GO_WITHIN_S = 10
"""How long a stopping worker waits for the store; leases that it cannot give back run out."""

RESTART_AFTER_S = (0.1, 1.0, 5.0, 15.0)
"""Pauses before a loop that failed is started again; the last one for all later failures."""


@dataclass(slots=True)
class Health:
    """Whether the parts of a worker run. A part that keeps failing is started again and again."""

    restarts: int = 0
    last_error: str = ""
    failing: str = ""
    """The loop that is down at the moment, or nothing."""
    holds_store: str = ""
    """Which projection has been keeping all others from writing for longer than it may, since when
    and where it stands; or nothing."""


class Serving:
    """Runs the definitions of a registry: claims, turns, jobs, leases, sign of life."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        options: WorkerOptions,
        resources: Iterable[object],
        endings: Endings,
        client: ClientForJobs,
        metrics: Metrics,
        duties: Callable[[str], Duties] = lambda _: {},
        trial: TrialParts = NO_TRIAL,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            store: The open store.
            registry: What to run.
            options: How to behave.
            resources: Objects that activities fetch.
            endings: Who waits for ends in this process.
            client: What activities and built-ins act through.
            metrics: Where to count.
            duties: Returns loops of others that run as long as the worker does, by name; hears
                its id.
            trial: What is otherwise in a trial.
        """
        self.worker_id = options.name or f"{socket.gethostname()}-{os.getpid()}-{fresh_id():x}"
        self.registry = registry
        self._is_behind = asyncio.Event()
        """Set when a definition is recorded here that is covered and not claimed yet."""
        self.coverage = Coverage(registry, options, behind=self._is_behind.set)
        self.health = Health()
        self._duties = duties(self.worker_id)
        self._readers = [reader_key(name) for name in registry.readers]
        self._readers += [schedule_key(name) for name in registry.schedules]
        self._store = store
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._started_ms = 0
        self._is_serving = False
        self._is_stale = True
        """Whether what is claimed is not what is covered."""
        self._epoch_no = store.epoch.number
        self._tuning = PythonTuning(options)
        deciders = self.coverage.deciders
        self.housekeeping = Housekeeping(
            store, options, worker_id=self.worker_id, metrics=metrics, deciders=deciders
        )
        self._gauges = Gauges(store, options, metrics)
        self._neighbours = Neighbours(store, worker_id=self.worker_id, freed=self.notice)
        self._departures = Departures(store, worker_id=self.worker_id, freed=self.notice)
        self._metrics = metrics
        self._heartbeats = Heartbeats(store, options.heartbeat_every)
        self._streams = StreamFlusher(store.streams, endings.tell_change, metrics.stream_items)
        self.jobs = self._make_jobs(tuple(resources), client, trial)
        self.turns = self._make_turns(endings, trial)
        metrics.hot_instances.read_by(self.turns.hot.__len__)
        self._loop_watch = LoopWatch(options.turn_warning, self.jobs.started)
        self._watch_leases()

    def _make_turns(self, endings: Endings, trial: TrialParts) -> TurnRunner:
        around = Surroundings(
            worker_id=self.worker_id,
            jobs=self.jobs,
            endings=endings,
            metrics=TurnMetrics(self._metrics, worker_id=self.worker_id),
            look=self._look,
            continued=self.housekeeping.continued,
            unfit=trial.unfit,
        )
        return TurnRunner(self._store, self.coverage, self._options, around)

    def _make_jobs(
        self, resources: tuple[object, ...], client: ClientForJobs, trial: TrialParts
    ) -> JobRunner:
        store, registry = self._store, self.registry
        return JobRunner(
            registry,
            self._options,
            host=Host(
                self.worker_id,
                store.clock,
                resources,
                client.here,
                self._heartbeats.notice,
                self._streams,
                trial.chance,
                trial.stand_in,
            ),
            end=self._job_ended,
            freed=self._place_freed,
            find_inline=self._find_inline,
            builtins={
                **builtin_works(client),
                **decider_works(client, store, registry.decider),
            },
            transactions=Transactions(store, registry, settled=self._job_settled),
            metrics=self._metrics,
        )

    def _watch_leases(self) -> None:
        """Prepare what takes, keeps and gives up leases of turns, jobs and sessions."""
        store, options, jobs = self._store, self._options, self.jobs
        self._sessions = SessionKeeper(store, options, jobs.sessions, owner=self.worker_id)
        self._names = NameWatch(store, jobs.sessions)
        self._cancels = CancelWatch(
            store, options, busy=jobs.busy, jobs=jobs.leases, lost=jobs.lose
        )
        self._leases = LeaseKeeper(
            store,
            options,
            turns=self.turns.leases,
            jobs=jobs.leases,
            renewed=jobs.renewed,
            lost=self._leases_lost,
        )
        self.claimer = Claimer(
            store,
            options,
            worker_id=self.worker_id,
            turns=self.turns,
            jobs=jobs,
            metrics=self._metrics,
        )

    async def open(self) -> None:
        """Learn the store's numbers for our definitions, and say that we are here."""
        self._loop = asyncio.get_running_loop()
        self._say_foreseen()
        self._streams.open()
        self._started_ms = self._store.clock()
        self._neighbours.own = own_process()
        await self.housekeeping.open()
        if self._options.name is not None and self._store.knows_connections:
            await self._departures.free_own()
        self.turns.sign_with(await self._store.admin.read_secret())
        await self._beat_once(is_first=True)

    def _say_foreseen(self) -> None:
        """Say what in our definitions no guard will see, though it cannot be replayed."""
        if self._options.watch_calls == "never":
            return
        registry = self.registry
        written: tuple[Any, ...] = (
            *(one.fn for one in registry.orchestrations.values()),
            *(one.cls for one in registry.deciders.values()),
        )
        for one in foresee(written):
            logger.warning(
                "%s at %s:%d may take another way when it is replayed: %s",
                one.definition,
                one.path,
                one.line,
                one.message,
                extra={"definition": one.definition, "worker_id": self.worker_id},
            )

    def loops(self) -> Duties:
        """Return the duties that run for ever, each supervised. A new one is a line here."""
        return {
            "claims": self.claimer.run,
            "sign of life": self._beat,
            "heartbeats": self._heartbeats.run,
            "streams": self._streams.run,
            "cancellations": self._cancels.run,
            "sessions": self._sessions.run,
            "neighbours": self._neighbours.run,
            **({"departures": self._departures.run} if self._store.knows_connections else {}),
            "housekeeping": self.housekeeping.run,
            "gauges": self._gauges.run,
            **self._duties,
        }

    def start(self) -> None:
        """Begin to work."""
        assert self._loop is not None, "open() comes first"
        self._is_serving = True
        self._tuning.apply()
        self._leases.start()
        self._loop_watch.start()
        for name, run in self.loops().items():
            task = self._loop.create_task(self._supervise(name, run), name=f"perdure-{name}")
            self._tasks[name] = task

    def start_by_hand(self) -> None:
        """Take work without the loops: a test claims, renews and moves time itself."""
        self._is_serving = True

    async def stop(self) -> None:
        """Take no more work, finish or give back what is under way, leave no lease."""
        # Not waited for yet: a claim may have to wait for an activity's transaction on the store.
        claims_ended = asyncio.ensure_future(self._end_loops(["claims"]))
        if not self._is_serving:
            await claims_ended
        else:
            self._is_serving = False
            self._tuning.undo()
            self._loop_watch.close()
            # Activities may go on for a while: until then they are listened to and looked after.
            given_back = await self.jobs.stop(self._options.stop_grace)
            await claims_ended
            await self._end_loops(list(self._tasks))
            try:
                async with asyncio.timeout(LET_GO_WITHIN_S):
                    await self._let_go(given_back)
            except TimeoutError:
                logger.error(
                    "the store did not answer while the worker stopped; leases run out",
                    extra={"worker_id": self.worker_id},
                )
            await wait_off_loop(self._leases.stop)

    def hurry(self) -> None:
        """Grant running activities no more time when the worker stops, or does so already."""
        self.jobs.hurry()

    async def _end_loops(self, names: Iterable[str]) -> None:
        tasks = [self._tasks.pop(name) for name in names if name in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _let_go(self, given_back: list[JobEnd]) -> None:
        """Commit what was run, give back what was not, leave no lease."""
        await self.turns.close()
        if given_back:
            await self._store.end_jobs(given_back)
        await self._sessions.release()
        if not self.jobs.sessions.are_left:
            await self._store.retire(self.worker_id)

    def serves(self, name: str, version: str) -> Orchestration[..., Any] | None:
        """Return the code that begins an orchestration here, if we take it and are at work.

        Args:
            name: The orchestration.
            version: Its version; empty if that is open, then it is the one of what is returned.
        """
        if not self._is_serving:
            return None
        found = self.coverage.beginning.get((name, version))
        if found is None:
            key = orchestration_key(name, version)
            found = self.coverage.code_for(key)
            self.coverage.note(key)
        return found

    @property
    def is_serving(self) -> bool:
        """Whether it takes work."""
        return self._is_serving

    @property
    def duties(self) -> Duties:
        """The loops of others that run as long as the worker does, by name."""
        return self._duties

    async def give_sign_of_life(self) -> None:
        """Say that the worker lives, and what it serves."""
        await self._beat_once()

    def notice(self) -> None:
        """Something was written by this process that a claim may find."""
        self._look(0)

    # ---------------------------------------------------------------- supervision

    async def _supervise(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a loop for ever: whatever it raises, it is started again."""
        failures = 0
        while True:
            try:
                await run()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                self.health.restarts += 1
                self.health.last_error = f"{name}: {type(error).__name__}: {error}"
                self.health.failing = name
                # Only what the store says is safe to repeat: the rest may quote values of users.
                logger.error(
                    "a loop of the worker failed and is started again: %s",
                    name,
                    exc_info=isinstance(error, StoreError),
                    extra={"worker_id": self.worker_id, **error_facts(error)},
                )
            await asyncio.sleep(RESTART_AFTER_S[min(failures, len(RESTART_AFTER_S) - 1)])
            failures += 1
            self.health.failing = ""

    async def _beat(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_EVERY_S):
                    await self._is_behind.wait()
            self._is_behind.clear()
            await self._beat_once()

    async def _beat_once(self, *, is_first: bool = False) -> None:
        """Find out what to serve, and say it with the sign of life."""
        recorded = await self._store.admin.definitions() if self.coverage.asks_store else {}
        self._is_stale |= self.coverage.learn(recorded.values())
        if self._epoch_no != self._store.epoch.number:
            # Definitions that were recorded in the life before may be gone.
            self._epoch_no = self._store.epoch.number
            self._is_stale = True
            logger.info(
                "the store may have gone back; nothing is kept that was read before",
                extra={"worker_id": self.worker_id},
            )
        if self._is_stale:
            await self._serve()
            self._is_stale = False
        own = self._neighbours.own
        row = WorkerRow(
            worker_id=self.worker_id,
            host=socket.gethostname(),
            pid=own.pid,
            started_ms=self._started_ms,
            seen_ms=self._store.clock(),
            definitions=(*self.coverage.claimable(), *self._readers),
            place=own.place,
            born=own.born,
            lease_ms=to_ms(self._options.lease_for),
            is_lasting=self._options.name is not None,
            slots=self.jobs.slots_in_use(),
        )
        if self._options.name is not None:
            await self._names.look(row)
        self._neighbours.learn(await self._store.beat(row, is_first=is_first))

    async def _serve(self) -> None:
        """Claim what is covered now, under the store's numbers."""
        keys = self.coverage.claimable()
        numbers = dict(zip(keys, await self._store.intern(keys), strict=True))
        served = {
            numbers[key]: key for key in (*self.coverage.orchestrations, *self.coverage.deciders)
        }
        codes = {number: self.coverage.tried_as(key) for number, key in served.items()}
        self.turns.serve(served)
        self.jobs.serve(self.coverage.queues)
        self.claimer.serve(codes.items(), self._queue_numbers(numbers))

    def _look(self, at_ms: int) -> None:
        self.claimer.look(at_ms)

    def _job_ended(self, job: ClaimedJob, end: JobEnd) -> None:
        if job.key in self.jobs.suspects:
            self.turns.background.spawn(self._end_suspect(job, end))
            return
        self.turns.job_ended(end)

    def _place_freed(self, job: ClaimedJob) -> None:
        self.claimer.room_freed(job)

    async def _end_suspect(self, job: ClaimedJob, end: JobEnd) -> None:
        """Store the end of a suspect before the next one comes."""
        try:
            await self.turns.end_in_store(end)
        finally:
            self.jobs.end_stored(job.key)
            self.claimer.room_freed(job)

    async def _find_inline(self, key: JobKey) -> InlineRequest | None:
        return await self.turns.find_inline(key)

    def _job_settled(self, job: ClaimedJob, settled: Settled) -> None:
        self.turns.job_settled(job.key, settled)

    def _leases_lost(self, turns: list[TurnLease], jobs: list[JobLease]) -> None:
        if self._loop is None:
            raise UsageError("the worker is not open")
        self._loop.call_soon_threadsafe(self.turns.lose, turns)
        self._loop.call_soon_threadsafe(self.jobs.lose, jobs)

    def _queue_numbers(self, numbers: dict[DefinitionKey, int]) -> dict[SlotKind, list[int]]:
        """Return the numbers of the queues we serve, by the kind of room their jobs need."""
        queues: dict[SlotKind, list[int]] = {}
        for key in self.coverage.queues:
            kind = self.jobs.kind_of(key)
            if kind is not SlotKind.ELSEWHERE:
                queues.setdefault(kind, []).append(numbers[key])
        return queues
