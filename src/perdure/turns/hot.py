"""Instances in memory between turns.

A hot instance is a live coroutine, or a decider's state, with the stamp it fits. It is not leased:
whoever commits first wins, and a commit whose stamp no longer fits is refused and its coroutine
dropped. Between a turn and the store's answer the coroutine is ahead of the store; nothing more is
applied to it then.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping

from perdure.model.instances import NewInstance, Stamp
from perdure.model.jobs import JobEnd
from perdure.model.turns import ClaimedTurn
from perdure.turns.any_execution import AnyExecution
from perdure.turns.tally import Tally
from perdure.turns.waiting_input import Asked

ALARM_AT_UNDEAD = 100
"""At every multiple of this number of coroutines that will not end an error is logged."""

logger = logging.getLogger(__name__)


class HotInstance:
    """A live coroutine or state, the stamp it fits, and what waits for its next turn."""

    __slots__ = (
        "asked",
        "claim",
        "execution",
        "has_mail",
        "inputs",
        "is_committing",
        "results",
        "seen_no",
        "stamp",
        "start",
        "taken_keys",
        "tally",
        "was_sent",
    )

    def __init__(self, execution: AnyExecution, stamp: Stamp, seen_no: int) -> None:
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
        self.start: NewInstance | None = None
        """How a decider's instance begins that nobody has started yet."""
        self.inputs: list[Asked] | None = None
        """Inputs of `execute` for the next turn. None as long as there was none: most have none."""
        self.asked: list[Asked] | None = None
        """Those of the turn that is being committed."""
        self.taken_keys: Mapping[str, str] = {}
        """Business keys that the turn being committed knew others to have, with who has them."""
        self.was_sent = False
        """Whether this process has sent it something that an `execute` must not overtake."""
        self.tally = Tally()

    def has_inputs(self) -> bool:
        """Tell whether somebody still waits for an input of the next turn to be decided."""
        return any(one.input is not None and not one.is_over for one in self.inputs or ())

    def take_inputs(self, *, with_messages: bool) -> list[Asked]:
        """Take the inputs for a turn that is about to run; none as long as a message that their
        callers have sent before may still be missing. One that must be alone is."""
        inputs = self.inputs
        if not inputs or self.was_sent or self.has_mail:
            return []
        waiting = [one for one in inputs if not one.is_over]
        alone = [one for one in waiting if one.is_alone]
        if alone:
            waiting = [one for one in waiting if not one.is_alone]
            # Who only wants the inbox to be read is no company.
            if not with_messages and all(one.input is None for one in waiting):
                waiting.append(alone.pop(0))
        self.inputs = alone or None
        self.asked = waiting
        return waiting

    def take_asked(self) -> list[Asked]:
        """Take those whose turn has been answered by the store."""
        asked, self.asked = self.asked, None
        return asked or []


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
        """Forget an instance and end its coroutine without a trace. Inputs come again."""
        inputs, hot.inputs = hot.inputs, None
        for one in (*hot.take_asked(), *(inputs or ())):
            one.tell(None)
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
                if not (hot.is_committing or hot.results or hot.inputs or hot.claim is not None):
                    found.append(hot)
        return found
