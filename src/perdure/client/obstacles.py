"""What keeps an instance from ever ending where its only worker is in this process.

A worker beside others leaves what it cannot run to them, and waits. `run` is alone: what is held,
or called and not served, would keep its caller waiting for ever.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from perdure.client.reading.explain import Evidence, explain, gather_evidence, unserved_in
from perdure.client.reading.trees import read_tree
from perdure.errors import InstanceHeldError, NotServedError
from perdure.model.instances import InstanceRow, Status

if TYPE_CHECKING:
    from perdure.client.engine import Engine
    from perdure.client.handle import Handle


TELL_AFTER_S = 5.0
"""How long an instance may be waited for without a word."""

TOLD_OF = ("signal", "promise", "update", "failed")
"""What is told, in the words of `explain`: that it waits for what another process has to send, or
for an activity that has failed and is tried again."""

logger = logging.getLogger(__name__)


class Obstacles:
    """Hears of what an engine cannot go on with."""

    def __init__(self, engine: Engine) -> None:
        """Listen from now on: the first turn of an instance may be the one that is stuck."""
        self._core = engine._core
        self._heard = asyncio.Event()
        self._held: set[str] = set()
        """What was held here. What an earlier run has blocked is tried again by this one."""
        self._core.endings.listen_to_holds(self._hear_held)
        assert self._core.beside is not None, "an engine has a worker"
        self._core.beside.turns.unserved.listen(self._heard.set)

    def _hear_held(self, held: InstanceHeldError) -> None:
        self._held.add(held.instance_id)
        self._heard.set()

    async def result_of(self, handle: Handle[Any], *, may_exist: bool) -> Any:
        """Wait for the result of an instance.

        Args:
            handle: The instance.
            may_exist: Whether it may be there since an earlier run, and stuck since then.

        Raises:
            InstanceHeldError: It is blocked or parked, or one that it started is.
            NotServedError: It waits for what no worker serves, or one that it started does.
        """
        if may_exist:
            self._heard.set()
        result = asyncio.ensure_future(handle.result(if_held="wait"))
        obstacle = asyncio.ensure_future(self._obstacle_of(handle))
        waiting = asyncio.ensure_future(self._tell(handle))
        try:
            await asyncio.wait((result, obstacle), return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise obstacle.result()
            return await result
        finally:
            for one in (result, obstacle, waiting):
                one.cancel()
            await asyncio.gather(result, obstacle, waiting, return_exceptions=True)

    async def _tell(self, handle: Handle[Any]) -> None:
        """Tell, once, of an instance that waits for what is not done here, or may never be."""
        await asyncio.sleep(TELL_AFTER_S)
        [row] = await self._core.store.read_instances([handle.instance_id])
        if row is None:
            return
        evidence = await self._gather(row)
        # Texts of exceptions are in the history and not in the log.
        jobs = [job._replace(failure=None) for job in evidence.jobs]
        sentence = explain(evidence._replace(jobs=jobs))
        if any(f" {one} " in sentence.replace(",", " ") for one in TOLD_OF):
            logger.warning(
                "run() goes on waiting: %s `perdure explain %s` tells more",
                sentence,
                handle.instance_id,
            )

    async def _obstacle_of(self, handle: Handle[Any]) -> InstanceHeldError | NotServedError:
        while True:
            await self._heard.wait()
            self._heard.clear()
            found = await self._find(handle)
            if found is not None:
                found.add_note(
                    "what was done so far is kept: run() with the instance id "
                    f"{handle.instance_id!r} goes on with it"
                )
                return found

    async def _find(self, handle: Handle[Any]) -> InstanceHeldError | NotServedError | None:
        store = self._core.store
        [root] = await store.read_instances([handle.instance_id])
        if root is None or root.status.is_terminal:
            return None
        rows = await read_tree(store, [root])
        for row in rows:
            if row.status is Status.PARKED or (
                row.status.is_held and row.instance_id in self._held
            ):
                return InstanceHeldError(row.instance_id, row.status, row.reason or "")
        for row in rows:
            unserved = await self._unserved(row) if row.status is Status.RUNNING else ""
            if unserved:
                return NotServedError(row.instance_id, unserved)
        return None

    async def _unserved(self, row: InstanceRow) -> str:
        return unserved_in(await self._gather(row))

    async def _gather(self, row: InstanceRow) -> Evidence:
        core = self._core
        return await gather_evidence(core.store, core.summaries, row, await core.live_workers())
