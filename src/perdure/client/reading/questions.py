"""Questions for rows of instances that are asked together become one question to the store."""

from __future__ import annotations

import asyncio

from perdure.model.instances import InstanceRow
from perdure.store.base import Store


class RowQuestions:
    """Collects what is asked within one pass of the loop, and asks it at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: dict[str, list[asyncio.Future[InstanceRow | None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def row(self, instance_id: str) -> InstanceRow | None:
        """Return the row of an instance as it is from now on; None if there is none."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[InstanceRow | None] = loop.create_future()
        if not self._asked:
            loop.call_soon(self._send)
        self._asked.setdefault(instance_id, []).append(future)
        return await future

    def _send(self) -> None:
        asked, self._asked = self._asked, {}
        task = asyncio.get_running_loop().create_task(self._ask(asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, asked: dict[str, list[asyncio.Future[InstanceRow | None]]]) -> None:
        try:
            rows = await self._store.read_instances(list(asked))
        except Exception as error:
            for future in _open(asked):
                future.set_exception(error)
            return
        except asyncio.CancelledError:
            for future in _open(asked):
                future.cancel()
            raise
        for futures, row in zip(asked.values(), rows, strict=True):
            for future in futures:
                if not future.done():
                    future.set_result(row)


def _open(
    asked: dict[str, list[asyncio.Future[InstanceRow | None]]],
) -> list[asyncio.Future[InstanceRow | None]]:
    return [future for futures in asked.values() for future in futures if not future.done()]
