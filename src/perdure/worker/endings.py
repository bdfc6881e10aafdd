"""Who in this process waits for an instance to end, and telling them at once."""

from __future__ import annotations

import asyncio

from perdure.model.turns import Outcome


class Endings:
    """Futures by instance. A worker tells; a client in the same process waits without polling."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[Outcome]]] = {}

    def expect(self, instance_id: str) -> asyncio.Future[Outcome]:
        """Return a future that is done if this process ends the instance."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(instance_id, []).append(future)
        return future

    def forget(self, instance_id: str, future: asyncio.Future[Outcome]) -> None:
        """Stop waiting."""
        waiting = self._waiting.get(instance_id, [])
        if future in waiting:
            waiting.remove(future)
            if not waiting:
                del self._waiting[instance_id]

    def awaited(self) -> list[str]:
        """Return the ids that somebody waits for."""
        return list(self._waiting)

    def tell(self, instance_id: str, outcome: Outcome) -> None:
        """The end of an instance was committed."""
        for future in self._waiting.pop(instance_id, ()):
            if not future.done():
                future.set_result(outcome)
