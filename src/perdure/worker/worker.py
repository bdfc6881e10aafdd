"""The worker: takes what its definitions serve from a store, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from perdure.authoring.registry import AnyDefinition, Registry
from perdure.clock import Clock, system_clock
from perdure.model.options import WorkerOptions
from perdure.store.opening import open_store
from perdure.worker.endings import Endings
from perdure.worker.serving import Health, Serving


class Worker:
    """Runs definitions. Use it as `async with Worker(url, [...]) as worker: await worker.run()`."""

    def __init__(
        self,
        url: str,
        definitions: Iterable[AnyDefinition],
        /,
        *,
        options: WorkerOptions | None = None,
        resources: Iterable[object] = (),
        clock: Clock = system_clock,
    ) -> None:
        """Prepare; nothing is opened yet.

        Args:
            url: Where the store is: `sqlite:///shop.db`.
            definitions: Modules, activities and orchestrations to run.
            options: How the worker behaves.
            resources: Objects that activities fetch with `ctx.resource(Type)`.
            clock: The store's clock; tests hand one in.
        """
        self._store = open_store(url, clock=clock)
        self._serving = Serving(
            self._store, Registry(definitions), options or WorkerOptions(), resources, Endings()
        )

    async def __aenter__(self) -> Self:
        await self._store.open()
        try:
            await self._serving.open()
        except BaseException:
            await self._store.close()
            raise
        self._serving.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self._serving.stop()
        await self._store.close()

    @property
    def health(self) -> Health:
        """Whether the parts of the worker run."""
        return self._serving.health

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT. Leaving the block then gives back what is under way."""
        loop = asyncio.get_running_loop()
        told = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, told.set)
        try:
            await told.wait()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
