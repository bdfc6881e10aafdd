"""Turns on their way to the store: all that were run in one pass of the loop go together."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from perdure.errors import StoreError
from perdure.model.turns import Turn, TurnReceipt, TurnStatus
from perdure.store.base import Store
from perdure.turns.background import Background
from perdure.turns.hot import HotInstance

if TYPE_CHECKING:
    from perdure.turns.way import TurnWay

FLUSH_AT = 50
"""Turns of one pass that are sent without waiting for its end: the store writes them while the loop
computes on."""


class CommitQueue:
    """Collects turns and commits them in batches."""

    def __init__(self, store: Store, background: Background, way: TurnWay) -> None:
        """Prepare.

        Args:
            store: Where turns are committed.
            background: Waits for the answers.
            way: Hears them.
        """
        self._store = store
        self._background = background
        self._way = way
        self._waiting: list[tuple[HotInstance, Turn]] = []
        self._sent: asyncio.Future[list[TurnReceipt]] | None = None
        """The answer to what was sent last, which may be there."""

    async def settled(self, within_s: float) -> None:
        """Wait until what was sent last is answered, but not longer than that."""
        if self._sent is not None and not self._sent.done():
            await asyncio.wait([self._sent], timeout=within_s)

    def submit(self, hot: HotInstance, turn: Turn) -> None:
        """Commit a turn with the others of this pass of the loop."""
        hot.run_ahead()
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
                self._unsent(batch, error)
            else:
                self._sent = receipts = asyncio.ensure_future(receipts)
                self._background.hear_answer(receipts, partial(self._heard_batch, batch))

    def _heard_batch(
        self, batch: list[tuple[HotInstance, Turn]], receipts: list[TurnReceipt]
    ) -> None:
        for (hot, turn), receipt in zip(batch, receipts, strict=True):
            self._way.heard_commit(hot, turn, receipt)

    def _unsent(self, batch: list[tuple[HotInstance, Turn]], error: StoreError) -> None:
        """The store is closed and will never answer."""
        for hot, turn in batch:
            self._way.heard_commit(hot, turn, TurnReceipt(TurnStatus.FAILED, error=error))
