"""Updates that are applied without the inbox: one commit instead of three transactions.

Where an instance is in memory and no message waits for it, a request of this process is thought
over at once, and what comes of it is committed together with the receipt by which it counts as
delivered. The store accepts such a turn only if it knows of no message that the turn does not: so
nothing is overtaken, and a request that was given before is refused. Whatever is refused goes by
the inbox, under the same id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING

from perdure.core.orchestrations.execution import Execution
from perdure.model.histories.events import SignalReceived
from perdure.model.messages import Delivery, Message
from perdure.model.turns import Turn, with_more
from perdure.turns.direct.waiting_update import WaitingUpdate
from perdure.turns.hot import HotInstance
from perdure.turns.memory import Memory
from perdure.turns.watchdog import TurnTooLongError

if TYPE_CHECKING:
    from perdure.turns.way import TurnWay

MAX_AT_ONCE = 500
"""Requests that share a turn."""
SHY_FOR_S = 1.0
"""How long an instance is asked by its inbox after a turn of this sort was refused: other processes
move it, and what is in memory here would be dropped again and again."""
MAX_SHY = 1_000
"""Instances that this is remembered of."""


class DirectUpdates:
    """Applies requests to instances in memory.

    Args:
        way: Thinks, commits and hears.
        memory: Where instances are kept.
    """

    def __init__(self, way: TurnWay, memory: Memory) -> None:
        self._way = way
        self._memory = memory
        self._shy: dict[str, float] = {}

    async def take(self, delivery: Delivery) -> bool:
        """Apply a request at once, if that can be done; False: nothing is known to be written."""
        hot = self._memory.hot.get(delivery.instance_id)
        if hot is None or not self._may_take(hot):
            return False
        update_id = delivery.message_id
        assert update_id is not None, "an update has an id"
        if update_id in hot.updates or update_id in hot.updating:
            # Its caller gave up and asks again. By the inbox the store tells which one counts.
            return False
        waiting = WaitingUpdate(delivery, asyncio.get_running_loop().create_future())
        hot.updates[update_id] = waiting
        if not hot.is_ahead:
            self.think(hot)
        return await waiting.taken

    def think(self, hot: HotInstance) -> None:
        """Think over the requests that wait, unless messages must come before them."""
        waiting = list(hot.updates.items())
        asked, hot.updates = dict(waiting[:MAX_AT_ONCE]), dict(waiting[MAX_AT_ONCE:])
        if hot.has_mail or hot.was_sent:
            tell(asked.values(), is_taken=False)
            return
        messages = [Message(0, 0, one.delivery.kind, one.delivery.body) for one in asked.values()]
        try:
            turn = self._way.think(hot, messages)
        except (Exception, TurnTooLongError):
            # By the inbox the same trouble comes again, and holds the instance where it is seen.
            self._way.drop(hot)
            tell(asked.values(), is_taken=False)
            return
        # One that ended the execution has left those behind it alone. They are let go with it, and
        # not before: by the inbox they would overtake this turn, which would be refused.
        count = sum(event.kind == SignalReceived.kind for event in turn.events)
        came = list(asked.items())
        hot.updating = dict(came[:count])
        hot.updates = dict(came[count:]) | hot.updates
        arrived = tuple(hot.updating)
        self._way.commits.submit(hot, with_more(turn, arrived=arrived))

    def accepted(self, hot: HotInstance) -> None:
        """The turn of some requests was committed."""
        updating, hot.updating = hot.updating, {}
        tell(updating.values(), is_taken=True)

    def refused(self, turn: Turn) -> None:
        """A turn of requests was refused."""
        if turn.arrived:
            self._shy[turn.instance_id] = monotonic() + SHY_FOR_S
            while len(self._shy) > MAX_SHY:
                del self._shy[next(iter(self._shy))]

    def _may_take(self, hot: HotInstance) -> bool:
        execution = hot.execution
        if not isinstance(execution, Execution) or hot.start is not None:
            return False
        if hot.has_mail or hot.was_sent or hot.claim is not None:
            return False
        until_s = self._shy.get(execution.instance_id)
        if until_s is not None and monotonic() < until_s:
            return False
        self._shy.pop(execution.instance_id, None)
        return True


def tell(waiting: Iterable[WaitingUpdate], *, is_taken: bool) -> None:
    """Say of some requests what became of them."""
    for one in waiting:
        one.tell(is_taken=is_taken)
