"""Bringing instances in memory to what is stored: only what is missing is read and folded.

Where others decide on the same instances, what is in memory is often a turn or two behind. A look
at its row before it decides costs one small question, with those of all that came while the one
before was asked; a turn in vain would cost a commit, and reading everything anew.

A look also waits for a commit that is under way, for a while: the callers that wait for that come
next, and share the look and the commit after it. And what is looked at then has no longer to wait
behind a commit of our own, in which time others are faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.blocked import is_held
from perdure.model.instances import LiveRow
from perdure.model.turns import NOBODY
from perdure.store.base import Store
from perdure.store.locked_turns import KnownInstance, News
from perdure.turns.background import Background
from perdure.turns.executions import Executions
from perdure.turns.hot import HotInstance
from perdure.turns.loading.pasts import Past
from perdure.turns.watchdog import TurnTooLongError

if TYPE_CHECKING:
    from perdure.turns.direct.direct_turns import DirectTurns
    from perdure.turns.way import TurnWay

MAX_BATCH = 200
"""Instances that are looked at together."""
GATHER_FOR_S = 0.02
"""How long a look waits for a commit: some answers need none, and the disk may be full."""
CLOCKS_DIFFER_MS = 1_000
"""How far the clocks of two processes may be apart: each knows the store's by answers that take
their time."""


class CatchingUp:
    """Looks at instances that are about to decide, many with one question."""

    def __init__(
        self,
        store: Store,
        executions: Executions,
        background: Background,
        way: TurnWay,
        direct: DirectTurns,
    ) -> None:
        """Prepare.

        Args:
            store: Where the instances are.
            executions: Replay what is missing.
            background: Runs what nothing awaits.
            way: Gives up instances that the store could not be asked about.
            direct: Hears what is new of the others, which are idle again.
        """
        self._store = store
        self._executions = executions
        self._background = background
        self._way = way
        self._direct = direct
        self._wanted: list[HotInstance] = []
        self._is_looking = False

    def look(self, hot: HotInstance) -> None:
        """Have an instance looked at. Until that is done nothing is applied to it."""
        hot.run_ahead()
        self._wanted.append(hot)
        if not self._is_looking:
            self._is_looking = True
            self._background.spawn(self._look_at_wanted())

    async def _look_at_wanted(self) -> None:
        """Ask one question after another, each for all that came meanwhile."""
        try:
            while self._wanted:
                await self._way.commits.settled(GATHER_FOR_S)
                batch, self._wanted = self._wanted[:MAX_BATCH], self._wanted[MAX_BATCH:]
                await self._read(batch)
        finally:
            self._is_looking = False

    async def _read(self, batch: list[HotInstance]) -> None:
        try:
            found = await self._store.read_news([known_as(hot) for hot in batch])
        except Exception as error:
            for hot in batch:
                hot.become_idle()
                self._way.give_up(hot, error)
            return
        for hot, news in zip(batch, found, strict=True):
            hot.become_idle()
            self._direct.looked(hot, news)

    def catch_up(self, hot: HotInstance, news: News) -> bool:
        """Bring an instance to what is stored of it; False: it has to be read anew, if it is there.

        Raises:
            NondeterminismError, UnreadableEventError, TurnTooLongError: The code does not fit what
                others have recorded; what is in memory is spoiled.
        """
        live, events = news.live, news.events
        if live is None or events is None or live.blocked_by == NOBODY:
            return False
        if live.stamp != hot.stamp:
            self._executions.replay(hot.execution, Past(events))
            hot.stamp = live.stamp
            hot.seen_no = live.last_no
            hot.tally.read(events)
            hot.was_sent = hot.was_sent or may_have_mail(live, now_ms=self._store.clock())
        return True


UNFIT = (Exception, TurnTooLongError)
"""What comes of replaying on code that does not fit."""


def known_as(hot: HotInstance) -> KnownInstance:
    """Return what is remembered of an instance."""
    return KnownInstance(hot.execution.instance_id, hot.stamp)


def may_have_mail(live: LiveRow, *, now_ms: int) -> bool:
    """Return whether messages may wait. What is held is not ready, whatever waits for it; what has
    no history yet has its start in the inbox. What is ready by a clock that is a little ahead of
    ours is: a turn that has not seen its messages would count as having seen them."""
    is_due = live.wake_at_ms is not None and live.wake_at_ms <= now_ms + CLOCKS_DIFFER_MS
    return is_due or is_held(live.blocked_by) or bool(live.lease) or live.stamp.next_seq == 1
