"""The engine: store, worker and client in one process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from perdure.authoring.registry import Definitions, Registry
from perdure.client.blocking import BlockingClient
from perdure.client.client import Client
from perdure.client.loop_thread import LentLoop
from perdure.clock import Clock, system_clock
from perdure.model.options import WorkerOptions
from perdure.projection.duties import reader_duties
from perdure.projection.handler_watch import HandlerWatch
from perdure.worker.serving import Health, Serving


class WorkerClient(BlockingClient):
    """The worker's own client, for activities that are not async.

    It is open as long as the worker is: opening and closing it does nothing.
    """

    def __init__(self, client: Client, lent: LentLoop) -> None:
        self._client = client
        self._admin = self._deciders = self._projections = client
        self._thread = lent


class Engine(Client):
    """A client that also works.

    Leaving the block stops the work, gives back what is under way, then closes the store.
    """

    def __init__(
        self,
        url: str,
        definitions: Definitions,
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
            definitions: Modules, registries, and what they hold: activities, orchestrations,
                deciders, projections, subscriptions.
            options: How the worker behaves.
            resources: Objects that activities fetch with `ctx.resource(Type)`.
            clock: The store's clock; tests hand one in.
        """
        super().__init__(url, clock=clock)
        self._lent = LentLoop("client of the worker")
        self._for_threads = WorkerClient(self, self._lent)
        self._handlers = HandlerWatch(self._held)
        registry, behaviour = Registry(definitions), options or WorkerOptions()
        self._serving = Serving(
            self._store,
            registry,
            behaviour,
            resources,
            self._endings,
            self,
            self.telemetry,
            reader_duties(
                self._store,
                registry.readers,
                behaviour,
                self.telemetry,
                self.noticed_work,
                self._handlers,
            ),
        )
        self._beside = self._serving

    async def open(self) -> Self:
        """Connect to the store and begin to work."""
        self._process.refuse_elsewhere()
        if not self._is_open:
            await super().open()
            try:
                await self._serving.open()
            except BaseException:
                await super().close()
                raise
            self._lent.lend()
            self._serving.start()
        return self

    async def close(self) -> None:
        """Stop working, then let go of the store. In a forked child nothing happens."""
        if self._is_open and not self._process.is_elsewhere:
            await self._serving.stop()
            self._lent.take_back()
            await super().close()
            self._handlers.close()

    def hurry(self) -> None:
        """Grant running activities no more time: `close`, also one under way, gives them back."""
        self._serving.hurry()

    def client_here(self) -> Client | BlockingClient:
        """Return the client for an activity that asks: this one on the loop it belongs to, and one
        that waits on any other thread."""
        return self if self._lent.is_here() else self._for_threads

    def _held(self, what: str) -> None:
        self._serving.health.holds_store = what

    @property
    def worker_id(self) -> str:
        """The name under which leases are taken and people see this worker."""
        return self._serving.worker_id

    @property
    def health(self) -> Health:
        """Whether the parts of the worker run."""
        return self._serving.health

    @property
    def registry(self) -> Registry:
        """What was handed over; its policy can be changed while the engine works."""
        return self._serving.registry
