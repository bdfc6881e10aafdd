"""Turns that are thought under the lock of their instance, where others keep being faster.

The store has them thought while it keeps the instance as it is, on the loop as any turn: see
`perdure.store.locked_turns`. So such a turn is never in vain, and processes that decide on the same
instance take turns in the order in which they came. What waits here meanwhile goes into the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from perdure.errors import StoreError
from perdure.model.instances import LiveRow
from perdure.model.turns import Turn, TurnReceipt, TurnStatus
from perdure.store.base import Store
from perdure.store.locked_turns import HOLD_FOR_S, LockedTurn, News
from perdure.turns.background import Background
from perdure.turns.hot import HotInstance
from perdure.turns.loading.catching_up import known_as, may_have_mail

if TYPE_CHECKING:
    from perdure.turns.direct.direct_turns import DirectTurns
    from perdure.turns.way import TurnWay

logger = logging.getLogger(__name__)

Consequence: TypeAlias = Callable[[], None]
"""What follows, once the lock is let go, if there is no turn to commit."""


class AskedTurn:
    """An instance whose turn is to be thought, and what came of it."""

    __slots__ = ("hot", "locked", "then", "turn")

    def __init__(self, hot: HotInstance) -> None:
        self.hot = hot
        self.locked: LockedTurn | None = None
        self.turn: Turn | None = None
        """What was thought, in time or not."""
        self.then: Consequence | None = None


class LockedTurns:
    """Hands instances to the store to have their turns thought and committed."""

    def __init__(
        self,
        store: Store,
        background: Background,
        way: TurnWay,
        direct: DirectTurns,
    ) -> None:
        """Prepare.

        Args:
            store: Locks and commits.
            background: Runs what nothing awaits.
            way: Hears what became of turns, and gives up instances without one.
            direct: Thinks them.
        """
        self._store = store
        self._background = background
        self._way = way
        self._direct = direct
        self._contention = direct.contention
        self._waiting: list[AskedTurn] = []

    def submit(self, hot: HotInstance) -> None:
        """Have a turn of an instance thought. Until it is answered nothing is applied to it."""
        hot.run_ahead()
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(AskedTurn(hot))

    def flush(self) -> None:
        """Send what waits now."""
        if not self._waiting:
            return
        batch, self._waiting = self._waiting, []
        for one in batch:
            one.locked = LockedTurn(
                known_as(one.hot),
                partial(self._think_one, one),
                wants_inbox=partial(self._wants_inbox, one.hot),
            )
        try:
            answer = self._store.commit_locked([one.locked for one in batch if one.locked])
        except StoreError as error:
            for one in batch:
                one.hot.become_idle()
                self._way.give_up(one.hot, error)
        else:
            self._background.spawn(self._hear_batch(batch, answer))

    def _wants_inbox(self, hot: HotInstance, live: LiveRow) -> bool:
        """Return whether messages come before the inputs. On the thread that writes."""
        if hot.was_sent or hot.has_mail:
            return True
        return live.stamp != hot.stamp and may_have_mail(live, now_ms=self._store.clock())

    def _think_one(self, one: AskedTurn, news: News) -> Turn | None:
        """Think a turn while the store waits."""
        is_overtaken = news.live is None or news.live.stamp != one.hot.stamp
        self._contention.locked(one.hot.execution.instance_id, is_overtaken=is_overtaken)
        thought = self._direct.think_locked(one.hot, news)
        if isinstance(thought, Turn):
            one.turn = thought
        else:
            one.then = thought
        return one.turn

    async def _hear_batch(
        self, batch: Sequence[AskedTurn], answer: Awaitable[list[TurnReceipt | None]]
    ) -> None:
        for one, receipt in zip(batch, await answer, strict=True):
            self._hear_one(one, receipt)

    def _hear_one(self, one: AskedTurn, receipt: TurnReceipt | None) -> None:
        hot = one.hot
        if one.turn is not None:
            if receipt is None:
                # It was thought too late, so it never happened.
                self._say_slow(hot)
                receipt = TurnReceipt(TurnStatus.REFUSED)
            self._way.heard_commit(hot, one.turn, receipt)
            return
        hot.become_idle()
        if one.then is not None:
            one.then()
        elif receipt is not None and receipt.error is not None:
            self._way.give_up(hot, receipt.error)
        else:
            self._direct.think(hot)

    def _say_slow(self, hot: HotInstance) -> None:
        execution = hot.execution
        self._contention.too_slow(execution.instance_id)
        logger.warning(
            "others decide on %s too, and its turn took longer than %g s: it is left to chance who "
            "is faster; move long work into an activity",
            execution.instance_id,
            HOLD_FOR_S,
            extra={"instance_id": execution.instance_id, "definition": execution.name},
        )
