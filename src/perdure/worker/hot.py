"""Instances in memory between turns.

A hot instance is a live coroutine with the stamp it fits. It is not leased: whoever commits first
wins, and a commit whose stamp no longer fits is refused and its coroutine dropped. Between a turn
and the store's answer the coroutine is ahead of the store; nothing more is applied to it then.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator

from perdure.core.replay import Execution
from perdure.model.instances import Stamp
from perdure.model.jobs import JobEnd
from perdure.model.turns import ClaimedTurn
from perdure.worker.tally import Tally

ALARM_AT_UNDEAD = 100
"""At every multiple of this number of coroutines that will not end an error is logged."""

logger = logging.getLogger(__name__)


class HotInstance:
    """A live coroutine, the stamp it fits, and what waits for its next turn."""

    __slots__ = (
        "claim",
        "execution",
        "has_mail",
        "is_committing",
        "results",
        "seen_no",
        "stamp",
        "tally",
    )

    def __init__(self, execution: Execution, stamp: Stamp, seen_no: int) -> None:
        self.execution = execution
        self.stamp = stamp
        self.seen_no = seen_no
        self.is_committing = False
        self.has_mail = False
        """Whether messages wait in the store. Results go there too then, behind them, until a claim
        has brought them all."""
        self.results: list[JobEnd] = []
        """Ends of local jobs that came while a turn was being committed."""
        self.claim: ClaimedTurn | None = None
        """A claim that came while a turn was being committed."""
        self.tally = Tally()


class HotInstances:
    """The most recently used instances of a worker, up to a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._instances: OrderedDict[str, HotInstance] = OrderedDict()
        self.undead: list[object] = []
        """Coroutines that would not end when torn down. They are kept for ever: the collector would
        resume them outside any turn, where their calls are not durable."""

    def __len__(self) -> int:
        return len(self._instances)

    def __iter__(self) -> Iterator[HotInstance]:
        return iter(self._instances.values())

    def get(self, instance_id: str) -> HotInstance | None:
        """Return an instance if it is in memory, and count it as used."""
        hot = self._instances.get(instance_id)
        if hot is not None:
            self._instances.move_to_end(instance_id)
        return hot

    def put(self, hot: HotInstance) -> None:
        """Keep an instance."""
        known = self._instances.get(hot.execution.instance_id)
        assert known is None or known is hot, "an instance is hot twice"
        self._instances[hot.execution.instance_id] = hot

    def drop(self, hot: HotInstance) -> None:
        """Forget an instance and end its coroutine without a trace."""
        if self._instances.get(hot.execution.instance_id) is hot:
            del self._instances[hot.execution.instance_id]
        for coroutine in hot.execution.tear_down():
            self.undead.append(coroutine)
            if len(self.undead) % ALARM_AT_UNDEAD == 1:
                logger.error(
                    "an orchestration catches everything and would not end; it is kept in memory",
                    extra={
                        "instance_id": hot.execution.instance_id,
                        "execution": hot.execution.execution,
                        "definition": hot.execution.name,
                        "version": hot.execution.version,
                        "kept": len(self.undead),
                    },
                )

    def surplus(self) -> list[HotInstance]:
        """Return the least recently used idle instances beyond the limit."""
        excess = len(self._instances) - self._limit
        found: list[HotInstance] = []
        if excess > 0:
            for hot in self._instances.values():
                if len(found) == excess:
                    break
                if not hot.is_committing and not hot.results and hot.claim is None:
                    found.append(hot)
        return found
