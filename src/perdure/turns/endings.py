"""Who in this process waits for news of an instance, and telling them at once.

News is its end, that it is held, and any change of what it reports or keeps under its keys. The
worker tells what its own turns committed; what happens elsewhere is found by looking
(`client.reading.watch`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from perdure.errors import InstanceHeldError, InstanceNotFoundError
from perdure.model.instances import Status
from perdure.model.turns import InputReceipt, InstanceEnd


class Endings:
    """Futures by instance. A worker tells; a client in the same process waits without polling."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[InstanceEnd]]] = {}
        self._listeners: dict[str, list[Callable[[str], None]]] = {}
        self._deaf: set[asyncio.Future[InstanceEnd]] = set()
        """Those that hear of the end alone."""
        self._answers: dict[str, dict[str, list[asyncio.Future[bytes | None]]]] = {}
        self.told = 0
        """How often an end or a hold was told, or that an instance is gone."""
        self._of_holds: list[Callable[[InstanceHeldError], None]] = []
        """Called with every hold that this process has written."""

    def expect(self, instance_id: str, *, hears_holds: bool = True) -> asyncio.Future[InstanceEnd]:
        """Return a future that is done if this process ends the instance.

        Args:
            instance_id: The instance.
            hears_holds: Whether it raises an InstanceHeldError when the instance is held.
        """
        future: asyncio.Future[InstanceEnd] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(instance_id, []).append(future)
        if not hears_holds:
            self._deaf.add(future)
        return future

    def forget(self, instance_id: str, future: asyncio.Future[InstanceEnd]) -> None:
        """Stop waiting."""
        if self._deaf:
            self._deaf.discard(future)
        waiting = self._waiting.get(instance_id, [])
        if future in waiting:
            waiting.remove(future)
            if not waiting:
                del self._waiting[instance_id]
        elif future.done() and not future.cancelled():
            # A caller that found out by itself has no use for what was told.
            future.exception()

    def awaited(self) -> list[str]:
        """Return the ids whose end a caller waits for."""
        return list(self._waiting)

    def tell(self, instance_id: str, outcome: InstanceEnd) -> None:
        """The end of an instance was committed."""
        self.told += 1
        for future in self._waiting.pop(instance_id, ()):
            if not future.done():
                future.set_result(outcome)
        if self._listeners:
            self.tell_change(instance_id)
        if self._answers:
            self._tell_unanswered(instance_id)

    def tell_gone(self, instance_id: str) -> None:
        """An instance was deleted: there will be no end."""
        self.told += 1
        for future in self._waiting.pop(instance_id, ()):
            if not future.done():
                future.set_exception(InstanceNotFoundError(instance_id))
        self.tell_change(instance_id)
        self._tell_unanswered(instance_id)

    def tell_held(self, instance_id: str, status: Status, reason: str) -> None:
        """An instance was found to be parked or blocked."""
        self.told += 1
        held = InstanceHeldError(instance_id, status, reason)
        for future in tuple(self._waiting.get(instance_id, ())):
            if not future.done() and future not in self._deaf:
                self.forget(instance_id, future)
                future.set_exception(held)

    def tell_hold(self, instance_id: str, status: Status, reason: str) -> None:
        """This process has parked or blocked an instance."""
        self.tell_held(instance_id, status, reason)
        for listener in self._of_holds:
            listener(InstanceHeldError(instance_id, status, reason))

    def listen_to_holds(self, listener: Callable[[InstanceHeldError], None]) -> None:
        """Have a function called with every hold that this process writes from now on."""
        self._of_holds.append(listener)

    # -------------------------------------------------------------------- updates

    def expect_answer(self, instance_id: str, receipt: str) -> asyncio.Future[bytes | None]:
        """Return a future that is done when this process has committed what an update came to, or
        the end of its instance: then with None."""
        future: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        waiting = self._answers.setdefault(instance_id, {})
        waiting.setdefault(receipt, []).append(future)
        return future

    def forget_answer(
        self, instance_id: str, receipt: str, future: asyncio.Future[bytes | None]
    ) -> None:
        """Stop waiting for an answer."""
        waiting = self._answers.get(instance_id, {})
        futures = waiting.get(receipt, [])
        if future in futures:
            futures.remove(future)
            if not futures:
                del waiting[receipt]
            if not waiting:
                del self._answers[instance_id]

    def tell_answers(self, instance_id: str, receipts: Iterable[InputReceipt]) -> None:
        """A turn that answered updates was committed."""
        waiting = self._answers.get(instance_id)
        if waiting:
            for receipt, outcome, _ in receipts:
                for future in waiting.get(receipt, ()):
                    if not future.done():
                        future.set_result(outcome)

    def _tell_unanswered(self, instance_id: str) -> None:
        """An instance has ended: there will be no more answers."""
        for futures in self._answers.get(instance_id, {}).values():
            for future in futures:
                if not future.done():
                    future.set_result(None)

    # ---------------------------------------------------------------- reports and kv

    def listen(self, instance_id: str, listener: Callable[[str], None]) -> None:
        """Have a function called with the id whenever this process has changed the instance."""
        self._listeners.setdefault(instance_id, []).append(listener)

    def unlisten(self, instance_id: str, listener: Callable[[str], None]) -> None:
        """Undo one `listen`."""
        listeners = self._listeners.get(instance_id, [])
        if listener in listeners:
            listeners.remove(listener)
            if not listeners:
                del self._listeners[instance_id]

    def tell_change(self, instance_id: str) -> None:
        """A turn that reported, or changed a value under a key, was committed."""
        for listener in tuple(self._listeners.get(instance_id, ())):
            listener(instance_id)
