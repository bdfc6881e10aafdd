"""Turns on their way to the store: all that were run in one pass of the loop go together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from perdure.errors import RowError, StoreError
from perdure.model.turns import Turn, TurnReceipt, TurnStatus
from perdure.store.base import Store
from perdure.worker.background import Background
from perdure.worker.hot import HotInstance

logger = logging.getLogger(__name__)

Answer: TypeAlias = Callable[[HotInstance, Turn, TurnReceipt | RowError], None]
"""Hears what became of a turn: the store's receipt, or the error of a value it cannot store."""


FLUSH_AT = 50
"""Turns of one pass that are sent without waiting for its end: the store writes them while the loop
computes on."""


class CommitQueue:
    """Collects turns and commits them in batches."""

    def __init__(self, store: Store, background: Background, answer: Answer) -> None:
        self._store = store
        self._background = background
        self._answer = answer
        self._waiting: list[tuple[HotInstance, Turn]] = []

    def submit(self, hot: HotInstance, turn: Turn) -> None:
        """Commit a turn with the others of this pass of the loop."""
        hot.is_committing = True
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append((hot, turn))
        if len(self._waiting) >= FLUSH_AT:
            self.flush()

    def flush(self) -> None:
        """Send what waits now."""
        if self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                receipts = self._store.commit([turn for _, turn in batch])
            except StoreError as error:
                self._unanswered(batch, error)
            else:
                self._background.spawn(self._hear(batch, receipts))

    async def _hear(
        self, batch: list[tuple[HotInstance, Turn]], answer: Awaitable[list[TurnReceipt]]
    ) -> None:
        try:
            receipts = await answer
        except RowError as error:
            if len(batch) == 1:
                self._answer(*batch[0], error)
                return
            # One of them holds a value that the database refuses. Commit ids make it safe to send
            # those that were accepted again.
            for one in batch:
                await self._hear([one], self._store.commit([one[1]]))
        except StoreError as error:
            self._unanswered(batch, error)
        else:
            for (hot, turn), receipt in zip(batch, receipts, strict=True):
                self._answer(hot, turn, receipt)

    def _unanswered(self, batch: list[tuple[HotInstance, Turn]], error: StoreError) -> None:
        """The store is damaged or closed and will never answer: the coroutines are dropped, and
        whoever has the store next goes on from what it holds."""
        logger.error(
            "turns could not be committed: %s",
            error,
            extra={"turns": len(batch), "worker_id": batch[0][1].worker_id},
        )
        for hot, turn in batch:
            self._answer(hot, turn, TurnReceipt(TurnStatus.REFUSED))
