"""Turns on their way to the store: all that were run in one pass of the loop go together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from perdure.errors import StoreError
from perdure.model.turns import Turn, TurnReceipt, TurnStatus
from perdure.store.base import Store
from perdure.turns.background import Background
from perdure.turns.hot import HotInstance

Heard: TypeAlias = Callable[[HotInstance, Turn, TurnReceipt], None]
"""Hears what became of a turn."""


FLUSH_AT = 50
"""Turns of one pass that are sent without waiting for its end: the store writes them while the loop
computes on."""


class CommitQueue:
    """Collects turns and commits them in batches."""

    def __init__(self, store: Store, background: Background, *, heard: Heard) -> None:
        self._store = store
        self._background = background
        self._heard = heard
        self._waiting: list[tuple[HotInstance, Turn]] = []

    def submit(self, hot: HotInstance, turn: Turn) -> None:
        """Commit a turn with the others of this pass of the loop."""
        hot.is_ahead = True
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
                self._background.hear(receipts, partial(self._hear, batch))

    def _hear(self, batch: list[tuple[HotInstance, Turn]], receipts: list[TurnReceipt]) -> None:
        for (hot, turn), receipt in zip(batch, receipts, strict=True):
            self._heard(hot, turn, receipt)

    def _unsent(self, batch: list[tuple[HotInstance, Turn]], error: StoreError) -> None:
        """The store is closed and will never answer."""
        for hot, turn in batch:
            self._heard(hot, turn, TurnReceipt(TurnStatus.FAILED, error=error))
