"""One worker's machinery on an open store: what `Worker` and `Engine` share."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import Registry
from perdure.errors import UsageError
from perdure.model.instances import DefinitionKey
from perdure.model.jobs import ClaimedJob, JobEnd
from perdure.model.options import WorkerOptions
from perdure.model.turns import WorkerRow
from perdure.store.base import JobLease, Store, TurnLease
from perdure.worker.claims import Claimer
from perdure.worker.endings import Endings
from perdure.worker.jobs import JobRunner
from perdure.worker.lanes import Kind
from perdure.worker.leases import LeaseKeeper
from perdure.worker.tuning import PythonTuning
from perdure.worker.turns import TurnRunner, fresh_id

logger = logging.getLogger(__name__)

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


class Serving:
    """Runs the definitions of a registry: claims, turns, jobs, leases, sign of life."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        options: WorkerOptions,
        resources: Iterable[object],
        endings: Endings,
    ) -> None:
        self.worker_id = options.name or f"{socket.gethostname()}-{os.getpid()}-{fresh_id():x}"
        self.registry = registry
        self.health = Health()
        self._store = store
        self._options = options
        self.turns = TurnRunner(
            store,
            registry,
            options,
            worker_id=self.worker_id,
            endings=endings,
            look=self._look,
        )
        self.jobs = JobRunner(
            registry,
            options,
            clock=store.clock,
            resources=resources,
            worker_id=self.worker_id,
            end=self._job_ended,
            find_inline=self.turns.find_inline,
        )
        self.turns.jobs = self.jobs
        self._leases = LeaseKeeper(
            store,
            options,
            turns=self.turns.leases,
            jobs=self.jobs.leases,
            lost=self._leases_lost,
        )
        self.claimer: Claimer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loops: list[asyncio.Task[None]] = []
        self._started_ms = 0
        self._is_serving = False
        self._tuning = PythonTuning(options)

    async def open(self) -> None:
        """Learn the store's numbers for our definitions, and say that we are here."""
        self._loop = asyncio.get_running_loop()
        keys = list(self.registry.claimable())
        numbers = dict(zip(keys, await self._store.intern(keys), strict=True))
        orchestrations = self._orchestration_numbers(numbers)
        self.turns.serve({number: found for number, (found, _) in orchestrations.items()})
        self.claimer = Claimer(
            self._store,
            self._options,
            worker_id=self.worker_id,
            turns=self.turns,
            jobs=self.jobs,
            definitions=[(number, code) for number, (_, code) in orchestrations.items()],
            queues=self._queue_numbers(numbers),
        )
        self._started_ms = self._store.clock()
        await self._beat_once()
        for number, (_, code) in orchestrations.items():
            await self._store.unblock(number, code)

    def start(self) -> None:
        """Begin to work."""
        assert self.claimer is not None, "open() comes first"
        self._is_serving = True
        self._tuning.apply()
        self._leases.start()
        for name, run in (("claims", self.claimer.run), ("sign of life", self._beat)):
            task = asyncio.get_running_loop().create_task(
                self._supervise(name, run), name=f"perdure-{name}"
            )
            self._loops.append(task)

    async def stop(self) -> None:
        """Take no more work, finish or give back what is under way, leave no lease."""
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._loops.clear()
        if self.claimer is None:
            return
        if self._is_serving:
            self._is_serving = False
            self._tuning.undo()
            given_back = await self.jobs.stop(self._options.stop_grace)
            try:
                async with asyncio.timeout(LET_GO_WITHIN_S):
                    await self._let_go(given_back)
            except TimeoutError:
                logger.error("the store did not answer while the worker stopped; leases run out")
            await asyncio.to_thread(self._leases.stop)

    async def _let_go(self, given_back: list[JobEnd]) -> None:
        """Commit what was run, give back what was not, leave no lease."""
        await self.turns.close()
        if given_back:
            await self._store.end_jobs(given_back)
        await self._store.retire(self.worker_id)

    def serves(self, name: str, version: str) -> Orchestration[..., Any] | None:
        """Return our definition of an orchestration, if we have one and are at work."""
        return self.registry.orchestrations.get((name, version)) if self._is_serving else None

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
                logger.exception("a loop of the worker failed and is started again: %s", name)
            await asyncio.sleep(RESTART_AFTER_S[min(failures, len(RESTART_AFTER_S) - 1)])
            failures += 1
            self.health.failing = ""

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_EVERY_S)
            await self._beat_once()

    async def _beat_once(self) -> None:
        row = WorkerRow(
            worker_id=self.worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_ms=self._started_ms,
            seen_ms=self._store.clock(),
            definitions=tuple(self.registry.claimable()),
        )
        await self._store.beat(row)

    def _look(self, at_ms: int) -> None:
        if self.claimer is not None:
            self.claimer.look(at_ms)

    def _job_ended(self, job: ClaimedJob, end: JobEnd) -> None:
        self.turns.job_ended(job, end)
        if self.claimer is not None:
            self.claimer.room_freed()

    def _leases_lost(self, turns: list[TurnLease], jobs: list[JobLease]) -> None:
        if self._loop is None:
            raise UsageError("the worker is not open")
        self._loop.call_soon_threadsafe(self.turns.lose, turns)
        self._loop.call_soon_threadsafe(self.jobs.lose, jobs)

    # ------------------------------------------------------------------- numbers

    def _orchestration_numbers(
        self, numbers: dict[DefinitionKey, int]
    ) -> dict[int, tuple[Orchestration[..., Any], str]]:
        found = {}
        for key, number in numbers.items():
            if key.kind == "orchestration":
                orchestration = self.registry.orchestration(key.name, key.variant)
                code = self.registry.code_of(key.name, key.variant)
                found[number] = (orchestration, code)
        return found

    def _queue_numbers(self, numbers: dict[DefinitionKey, int]) -> dict[Kind, list[int]]:
        """Return the numbers of the queues we serve, by the kind of room their jobs need."""
        queues: dict[Kind, list[int]] = {}
        for key, number in numbers.items():
            kind = Kind.ELSEWHERE if key.kind == "orchestration" else self.jobs.kind_of(key)
            if kind is not Kind.ELSEWHERE:
                queues.setdefault(kind, []).append(number)
        return queues
