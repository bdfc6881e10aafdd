"""Shadow replays: a sample of instances is replayed when it ends or leaves memory.

Hot instances are never replayed, so code that cannot be would be noticed only after a crash. In
development and tests every instance is replayed.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from perdure.core.replay import Execution
from perdure.errors import NondeterminismError
from perdure.model.events import StoredEvent, UnreadableEventError
from perdure.store.base import ExecutionKey, Store
from perdure.telemetry import error_facts
from perdure.worker.background import Background
from perdure.worker.watchdog import TurnTooLongError

logger = logging.getLogger(__name__)


class ShadowReplays:
    """Replays histories that were written live, and reports those that do not fit."""

    def __init__(
        self,
        store: Store,
        rate: float,
        background: Background,
        replay: Callable[[Execution, list[StoredEvent]], None],
    ) -> None:
        self.mismatches = 0
        self._store = store
        self._rate = rate
        self._background = background
        self._replay = replay

    def maybe(self, execution: Execution, make: Callable[[], Execution]) -> None:
        """Replay an execution that ends or leaves memory, if the lot falls on it.

        Args:
            execution: The one that ran live.
            make: Returns a new execution of the same instance.
        """
        if self._rate and (self._rate >= 1 or random.random() < self._rate):
            self._background.spawn(self._run(execution, make))

    async def _run(self, execution: Execution, make: Callable[[], Execution]) -> None:
        [history] = await self._store.read_histories([ExecutionKey(*execution.id)])
        facts = {
            "instance_id": execution.instance_id,
            "execution": execution.execution,
            "definition": execution.name,
            "version": execution.version,
        }
        shadow = make()
        try:
            self._replay(shadow, history[: execution.last_seq])
        except NondeterminismError as error:
            self.mismatches += 1
            # Without its text, which shows values.
            logger.error(
                "this code cannot be replayed (event %s, %s); a crash would have blocked the "
                "instance",
                error.seq,
                error.place or "where it ended",
                extra={**facts, "event": error.seq, "place": error.place},
            )
        except (UnreadableEventError, TurnTooLongError) as error:
            logger.error("a shadow replay failed", extra={**facts, **error_facts(error)})
        finally:
            shadow.tear_down()
