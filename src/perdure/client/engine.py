"""The engine: store, worker and client in one process."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Self

from perdure.authoring.registry import GivenDefinitions, Registry
from perdure.client.blocking.client import BlockingClient
from perdure.client.blocking.loop_thread import LentLoop
from perdure.client.client import Client
from perdure.client.deciders.declaring import declare
from perdure.client.lifetimes import entered_with_async
from perdure.clock import Clock, system_clock
from perdure.errors import InstanceHeldError, OptionError
from perdure.jobs.builtins import ClientForJobs
from perdure.model.options import WorkerOptions
from perdure.projection.handler_watch import HandlerWatch
from perdure.projection.loops import reader_loops
from perdure.worker.serving import Health, Serving

logger = logging.getLogger(__name__)


@entered_with_async
class Engine(Client):
    """A client that also works.

    Leaving the block stops the work, gives back what is under way, then closes the store.
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
            definitions: Modules, registries, and what they hold: activities, orchestrations,
                deciders, projections, subscriptions, schedules.
            options: How the worker behaves.
            resources: Objects that activities fetch with `ctx.resource(Type)`.
            clock: The store's clock; tests hand one in.
        """
        super().__init__(url, create=True, clock=clock)
        self._lent = LentLoop("client of the worker")
        self._for_threads = BlockingClient._around(self, self._lent)
        self._handlers = HandlerWatch(self._held)
        self._serving = self._make_serving(
            Registry(definitions), _checked_options(options), checked_resources(resources)
        )
        self._core.beside = self._serving

    def _make_serving(
        self, registry: Registry, options: WorkerOptions, resources: Iterable[object]
    ) -> Serving:
        core = self._core
        return Serving(
            core.raw_store,
            registry,
            options,
            resources,
            core.endings,
            ClientForJobs(core, self._inputs, self._client_here),
            core.metrics,
            lambda worker_id: reader_loops(
                core.raw_store,
                registry.readers,
                options,
                core.metrics,
                core.noticed_work,
                self._handlers,
                worker_id=worker_id,
            ),
        )

    async def open(self) -> Self:
        """Connect to the store and begin to work.

        Raises:
            DefinitionError: A definition takes or returns what can never be stored.
            AlreadyExistsError: A client has put a schedule of another orchestration under a name
                that the code declares.
        """
        self.registry.check_values()
        if await self._core.open():
            try:
                await self._serving.open()
            except BaseException:
                await self._core.close()
                raise
            self._lent.lend()
            self._serving.start()
            await self._declare_schedules()
        return self

    async def _declare_schedules(self) -> None:
        """Have the schedules of the code; what is there already costs a look each."""
        for schedule in self.registry.schedules.values():
            try:
                is_changed = await declare(self, schedule, by_code=True)
            except InstanceHeldError as error:
                # It is as it was, and people see it; that is no reason not to work.
                logger.warning(
                    "schedule %r is held, and not declared anew: %s",
                    schedule.name,
                    error,
                    extra={"schedule": schedule.name, "worker_id": self.worker_id},
                )
                continue
            except BaseException:
                await self.close()
                raise
            if is_changed:
                logger.info(
                    "schedule %r is declared by this worker's code",
                    schedule.name,
                    extra={"schedule": schedule.name, "worker_id": self.worker_id},
                )

    async def close(self) -> None:
        """Stop working, then let go of the store. In a forked child nothing happens."""
        if self._core.is_open:
            await self._serving.stop()
            self._lent.take_back()
            await self._core.close()
            self._handlers.close()

    def hurry(self) -> None:
        """Grant running activities no more time: `close`, also one under way, gives them back."""
        self._serving.hurry()

    def _client_here(self) -> Client | BlockingClient:
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


def _checked_options(options: WorkerOptions | None) -> WorkerOptions:
    if options is None:
        return WorkerOptions()
    if not isinstance(options, WorkerOptions):
        raise OptionError(
            f"options must be a WorkerOptions, got {options!r}; say "
            "options=WorkerOptions(async_jobs=100), for example"
        )
    return options


def checked_resources(resources: Iterable[object]) -> tuple[object, ...]:
    """Return the objects that activities may ask for.

    Raises:
        OptionError: It is no collection of objects.
    """
    if isinstance(resources, str | bytes) or not isinstance(resources, Iterable):
        raise OptionError(
            f"resources must be a list of objects, got {resources!r}; say resources=[...]"
        )
    return tuple(resources)
