"""The worker: takes what its definitions serve from a store, until it is told to stop.

It is an engine that has no callers: activities and built-ins need a client, so a worker has one.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from perdure.authoring.registry import GivenDefinitions, Registry
from perdure.client.client import Client
from perdure.client.engine import Engine
from perdure.client.lifetimes import entered_with_async
from perdure.clock import Clock, system_clock
from perdure.model.options import WorkerOptions
from perdure.store.forking import ProcessMark
from perdure.telemetry import Metrics
from perdure.worker.serving import Health

SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""What tells a worker to stop."""


@entered_with_async
class Worker:
    """Runs definitions: `await Worker(url, [...]).run()`, until it is told to stop.

    To look at it while it works, use it as `async with Worker(url, [...]) as worker:`.
    """

    def __init__(
        self,
        url: str,
        definitions: GivenDefinitions,
        /,
        *,
        options: WorkerOptions | None = None,
        resources: Iterable[object] = (),
        clock: Clock = system_clock,
    ) -> None:
        """Prepare; nothing is opened yet.

        Args:
            url: Where the store is: `sqlite:///shop.db`, `sqlite://:memory:shop` (shared within the
                process), `postgresql://user@host/shop`.
            definitions: Modules, registries, activities and orchestrations to run.
            options: How the worker behaves.
            resources: Objects that activities fetch with `ctx.resource(Type)`.
            clock: The store's clock; tests hand one in.
        """
        self._engine = Engine(url, definitions, options=options, resources=resources, clock=clock)
        self._engine._core.owner = "Worker"
        self._told = asyncio.Event()
        self._is_listening = False
        self._process = ProcessMark("Worker")

    async def __aenter__(self) -> Self:
        self._process.refuse_elsewhere()
        self._engine._core.enter()
        await self._engine.open()
        self._process.set(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        try:
            await self._engine.close()
        finally:
            self._stop_listening()

    @property
    def worker_id(self) -> str:
        """The name under which it takes leases and people see it."""
        return self._engine.worker_id

    @property
    def client(self) -> Client:
        """A client of the worker's store, open as long as the worker is."""
        return self._engine

    @property
    def health(self) -> Health:
        """Whether the parts of the worker run."""
        return self._engine.health

    @property
    def telemetry(self) -> Metrics:
        """What was counted so far."""
        return self._engine.telemetry

    @property
    def registry(self) -> Registry:
        """What was handed over; its policy can be changed while the worker works."""
        return self._engine.registry

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT. Leaving the block then gives back what is under way.
        Without a block the worker is opened first, and closed afterwards.

        Activities may go on for `stop_grace` meanwhile; a second signal grants them no more time,
        a third one does what it does without us.
        """
        self._process.refuse_elsewhere()
        if not self._engine._core.is_open:
            async with self:
                await self.run()
            return
        self._listen()
        try:
            await self._told.wait()
        except BaseException:
            self._stop_listening()
            raise

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            for number in SIGNALS:
                loop.add_signal_handler(number, self._hear)
            self._is_listening = True
        except NotImplementedError:  # Windows: the handlers stay, and are for the process alone.
            for number in SIGNALS:
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(self._hear))

    def _hear(self) -> None:
        if self._told.is_set():
            self._stop_listening()
            self._engine.hurry()
        self._told.set()

    def _stop_listening(self) -> None:
        if self._is_listening:
            self._is_listening = False
            loop = asyncio.get_running_loop()
            for number in SIGNALS:
                loop.remove_signal_handler(number)
