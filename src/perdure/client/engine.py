"""The engine: store, worker and client in one process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import AnyDefinition, Registry
from perdure.client.client import PATIENCE_S, Client
from perdure.clock import Clock, system_clock
from perdure.errors import NondeterminismError
from perdure.model.events import UnreadableEventError
from perdure.model.instances import InstanceRow, NewInstance
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.options import WorkerOptions
from perdure.model.turns import Outcome, TurnStatus
from perdure.worker.serving import Health, Serving
from perdure.worker.watchdog import TurnTooLongError


class Engine(Client):
    """A client that also works.

    Leaving the block stops the work, gives back what is under way, then closes the store.
    """

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
        super().__init__(url, clock=clock)
        self._serving = Serving(
            self._store, Registry(definitions), options or WorkerOptions(), resources, self._endings
        )

    async def open(self) -> Self:
        """Connect to the store and begin to work."""
        if not self._is_open:
            await super().open()
            try:
                await self._serving.open()
            except BaseException:
                await super().close()
                raise
            self._serving.start()
        return self

    async def close(self) -> None:
        """Stop working, then let go of the store."""
        if self._is_open:
            await self._serving.stop()
            await super().close()

    @property
    def health(self) -> Health:
        """Whether the parts of the worker run."""
        return self._serving.health

    def is_here(self, instance_id: str) -> bool:
        """Tell whether the worker has the instance in memory."""
        return self._serving.turns.hot.get(instance_id) is not None

    async def deliver(self, deliveries: Sequence[Delivery]) -> list[DeliveryStatus]:
        """Put messages into inboxes, and let the worker look at once."""
        statuses = await super().deliver(deliveries)
        self._serving.notice()
        return statuses

    def noticed_end(self, instance_id: str, incarnation: int, outcome: Outcome) -> None:
        """No turn of ours ended it: stop its jobs here, look for what its end told."""
        super().noticed_end(instance_id, incarnation, outcome)
        self._serving.turns.ended_from_outside(instance_id, incarnation)
        self._serving.notice()

    async def _start(
        self, new: NewInstance, orchestration: Orchestration[..., Any]
    ) -> InstanceRow | None:
        """Start an instance and run its first turn in one commit, if the worker has the code."""
        own = self._serving.serves(new.definition.name, new.definition.variant)
        if own is not None:
            try:
                status = await self._serving.turns.start(new, own, patience_s=PATIENCE_S)
            except (NondeterminismError, UnreadableEventError, TurnTooLongError):
                # The start itself is good. As a claimed turn the same trouble holds the instance,
                # where everybody can see it.
                return await self._start_for_claim(new, orchestration)
            if status is TurnStatus.ACCEPTED:
                return None
        return await self._start_for_claim(new, orchestration)

    async def _start_for_claim(
        self, new: NewInstance, orchestration: Orchestration[..., Any]
    ) -> InstanceRow | None:
        existing = await super()._start(new, orchestration)
        self._serving.notice()
        return existing

    def _code_of(self, orchestration: Orchestration[..., Any]) -> str:
        own = self._serving.serves(orchestration.name, orchestration.version)
        return "" if own is None else self._serving.registry.code_of(own.name, own.version)
