"""One worker of a trial: the real one, driven by hand, that may die as it stands.

Its claims, turns, jobs, threads and readers of the feed are those of any worker. What is left out
are the loops that wait for time to pass or for other processes: in a trial time is moved by hand,
leases outlast it, and there is one worker at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, cast

from perdure.authoring.registry import Registry
from perdure.client.blocking.client import BlockingClient
from perdure.client.blocking.loop_thread import LentLoop
from perdure.client.client import Client
from perdure.client.core import ClientCore
from perdure.client.deciders.inputs import InputSender
from perdure.clock import to_ms
from perdure.errors import UsageError
from perdure.jobs.builtins import ClientForJobs
from perdure.jobs.slots import JobRun, SlotKind
from perdure.model.feeds import ReaderStatus
from perdure.model.options import WorkerOptions
from perdure.projection.handler_watch import HandlerWatch
from perdure.projection.loops import reader_loops
from perdure.store.base import Store
from perdure.telemetry import Metrics
from perdure.testing.fakes import Fakes
from perdure.testing.findings import Findings
from perdure.testing.mortal_store import CommitCount, MortalStore
from perdure.turns.unserved import LIVE_WORKER_MS
from perdure.worker.serving import Serving
from perdure.worker.trial_parts import TrialParts

A_CENTURY = timedelta(days=36_525)

OPTIONS = WorkerOptions(
    # Nothing renews them: a trial's time moves by leaps.
    lease_for=A_CENTURY,
    session_lease=A_CENTURY,
    session_idle=A_CENTURY,
    poll_min=timedelta(milliseconds=1),
    poll_max=timedelta(milliseconds=50),
    stop_grace=timedelta(0),
    cancel_grace=timedelta(seconds=1),
    tags="any",
    watch_calls="always",
    shadow_rate=1,
    # Python's own settings are the test's.
    collect_after=0,
    thread_switch=timedelta(0),
)

PATIENCE_S = 60.0
"""How long code of an activity or a projection may take before a trial gives up on it."""

PASSES = 10
"""Of the loop, after which whatever was told something has asked for more, or has none to do."""

ROUNDS = 8
"""Claims in vain before work that is due counts as not ours: a suspect comes at one of a few."""

READERS_EVERY_S = 0.001


class LifeCore(ClientCore):
    """What the jobs of a trial's worker act through."""

    def __init__(self, store: Store, secret: bytes) -> None:
        super().__init__(store, Metrics(), owner="Trial")
        self.secret = secret

    async def read_secret(self) -> bytes:
        """Return what tokens of promises are signed with: the same in every run of a test."""
        return self.secret


class Life:
    """A worker from its beginning to its death."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        resources: Iterable[object],
        count: CommitCount,
        fakes: Fakes,
        findings: Findings,
        *,
        jitter: Callable[[], float],
        secret: bytes,
    ) -> None:
        self.store = MortalStore(store, count)
        mortal = cast(Store, self.store)  # it has all that the store has
        self.core = LifeCore(mortal, secret)
        inputs = InputSender(self.core)
        self._client = Client._around(self.core, inputs)
        self._lent = LentLoop("client of the trial's worker")
        self._for_threads = BlockingClient._around(self._client, self._lent)
        self._handlers = HandlerWatch(lambda _: None)
        self._readers: list[asyncio.Task[None]] = []
        self._seen_ms = 0
        self.serving = Serving(
            mortal,
            registry,
            OPTIONS,
            resources,
            self.core.endings,
            ClientForJobs(self.core, inputs, self._client_here),
            self.core.metrics,
            lambda worker_id: reader_loops(
                mortal,
                registry.readers,
                OPTIONS,
                self.core.metrics,
                self.core.noticed_work,
                self._handlers,
                worker_id=worker_id,
            ),
            TrialParts(chance=jitter, stand_in=fakes.stand_in, unfit=findings.add),
        )
        self.core.beside = self.serving

    async def open(self) -> None:
        """Get ready to work."""
        await self.core.open()
        await self.serving.open()
        self.serving.turns.sign_with(self.core.secret)
        self.serving.start_by_hand()
        self._seen_ms = self.store.clock()
        self._lent.lend()
        loop = asyncio.get_running_loop()
        self._readers = [loop.create_task(run()) for run in self.serving.duties.values()]

    def _client_here(self) -> Client | BlockingClient:
        return self._client if self._lent.is_here() else self._for_threads

    @property
    def is_dead(self) -> bool:
        """Whether it has died."""
        return self.store.died.is_set()

    # -------------------------------------------------------------------- working

    async def come_to_rest(self) -> None:
        """Do all that can be done before time passes or something comes from outside.

        Raises:
            UsageError: Code goes on for too long.
        """
        async with asyncio.timeout(PATIENCE_S) as patience:
            try:
                rounds = 0
                while True:
                    if await self._do_some():
                        rounds = 0
                    elif self._is_due() and rounds < ROUNDS:
                        rounds += 1
                    elif not await self._are_readers_behind():
                        return
                    else:
                        await asyncio.sleep(READERS_EVERY_S)
            except asyncio.CancelledError:
                if not patience.expired():
                    raise
                raise UsageError(self._too_long()) from None

    async def _do_some(self) -> bool:
        """Claim, and wait for all that moves by itself; return whether there was something."""
        found = await self.serving.claimer.run_once()
        found |= await self._wait_for_code()
        asked = self.store.asked
        # Whatever waits for an instance or an event may just have been told.
        for _ in range(PASSES):
            await asyncio.sleep(0)
        if self.store.is_quiet and self.store.asked == asked and not self._code():
            return found
        await self.store.wait_quiet()
        return True

    async def _wait_for_code(self) -> bool:
        has_waited = False
        while tasks := self._code():
            has_waited = True
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return has_waited

    def _code(self) -> set[asyncio.Future[Any]]:
        """Return what runs by itself and is waited for: not calls that wait for other instances."""
        running = {one.task for one in self._runs() if one.slots.kind is not SlotKind.WAITING}
        return {one for one in (*running, *self.serving.turns.background.tasks) if one is not None}

    def _runs(self) -> Iterable[JobRun]:
        return list(self.serving.jobs.started)

    def _is_due(self) -> bool:
        wake_ms = self.next_wake_ms()
        # What is due and was not given is looked for again after a pause.
        return wake_ms is not None and wake_ms <= self.store.clock() + to_ms(OPTIONS.poll_max)

    def next_wake_ms(self) -> int | None:
        """Return when something will be due that this worker takes, as of its last claim; None:
        nothing."""
        return self.serving.claimer.look_at_ms

    async def _are_readers_behind(self) -> bool:
        """Return whether a projection or subscription has events that it can still handle."""
        readers = self.serving.registry.readers
        if not readers:
            return False
        known = {one.name: one for one in await self.store.feed.read_checkpoints()}
        for name, reader in readers.items():
            found = known.get(name)
            if found is None:
                return True
            if found.status is ReaderStatus.RUNNING:
                wanted = reader.filter
                events, _ = await self.store.feed.read_feed(
                    after=found.pos, limit=1, deciders=wanted.deciders, tags=wanted.tags
                )
                if events:
                    return True
        return False

    async def time_has_passed(self) -> None:
        """Give a sign of life, if the last one looks old."""
        if self.store.clock() - self._seen_ms >= LIVE_WORKER_MS // 2:
            self._seen_ms = self.store.clock()
            await self.serving.give_sign_of_life()

    async def replay_all(self) -> None:
        """Replay whatever is in memory, as if it left that."""
        turns = self.serving.turns
        for hot in list(turns.hot):
            if not hot.is_ahead:
                turns.shadow.maybe(hot.execution)
        await turns.background.drain()

    def _too_long(self) -> str:
        running = ", ".join(
            f"activity {one.context.activity!r} of instance {one.job.key.instance_id!r}"
            for one in self._runs()
        )
        return (
            f"the trial does not come to rest within {PATIENCE_S:g} s"
            f"{': ' + running + ' still runs' if running else ''}; time is not moved while code "
            "runs, so let it end, or fake it"
        )

    # ---------------------------------------------------------------------- ending

    async def die(self) -> None:
        """End as a killed process does: nothing more is written, all that is in memory is gone."""
        self.store.die()
        turns, jobs = self.serving.turns, self.serving.jobs
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        while tasks := {*(one.task for one in jobs.started if one.task), *turns.background.tasks}:
            await asyncio.sleep(0)  # A task that has not begun would leave its coroutine behind.
            for task in tasks:
                task.cancel()
            _, late = await asyncio.wait(tasks, timeout=1)
            if late:
                break  # Code in a thread cannot be ended; what it says is not heard.
        for hot in list(turns.hot):
            turns.hot.drop(hot)
        await self.core.close()
        turns.watchdog.close()
        self._lent.take_back()
        self._handlers.close()
        await jobs._launcher.close()

    async def release(self) -> None:
        """Free what it held, as a neighbour does that finds its process gone. Of the store itself:
        the dead cannot."""
        await self.store.living.release_worker(
            self.serving.worker_id, lease_ms=to_ms(OPTIONS.lease_for)
        )
