"""Shadow replays: a sample of instances is replayed when it ends or leaves memory.

Hot instances are never replayed, so code that cannot be would be noticed only after a crash. In
development and tests every instance is replayed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from perdure.core.deciders.execution import DeciderExecution
from perdure.core.orchestrations.execution import Execution
from perdure.errors import NondeterminismError
from perdure.ids import chance
from perdure.model.histories.events import UnreadableEventError
from perdure.model.histories.removed import last_number
from perdure.store.base import ExecutionKey, Store
from perdure.telemetry import error_facts, shown_error
from perdure.turns.any_execution import AnyExecution
from perdure.turns.background import Background
from perdure.turns.executions import Executions
from perdure.turns.loading.pasts import Past
from perdure.turns.watchdog import TurnTooLongError

logger = logging.getLogger(__name__)

NOT_PURE = "the events of this decider fold to another state than it had: its evolve is not pure"


class ShadowReplays:
    """Replays histories that were written live, and reports those that do not fit."""

    def __init__(
        self,
        store: Store,
        rate: float,
        background: Background,
        executions: Executions,
        unfit: Callable[[str, NondeterminismError], None],
    ) -> None:
        self.mismatches = 0
        self._unfit = unfit
        self._store = store
        self._rate = rate
        self._background = background
        self._executions = executions

    def maybe(self, execution: AnyExecution) -> None:
        """Replay an execution that ends or leaves memory, if the lot falls on it."""
        if self._rate and (self._rate >= 1 or chance() < self._rate):
            self._background.spawn(self._run(execution))

    async def _run(self, execution: AnyExecution) -> None:
        [found] = await self._store.read_histories([ExecutionKey(*execution.id)])
        history = [stored for stored in found if stored.seq <= execution.last_seq]
        if not history or last_number(history[-1]) != execution.last_seq:
            # It was deleted meanwhile, or pruned: what is left tells nothing.
            return
        facts = {
            "instance_id": execution.instance_id,
            "execution": execution.execution,
            "definition": execution.name,
            "version": execution.version,
        }
        if isinstance(execution, Execution):
            for lost in execution.scope.lost:
                self._unfit(execution.instance_id, NondeterminismError(lost))
        shadow = self._executions.again(execution)
        try:
            await self._executions.replay_beside(shadow, Past(history))
            self._compare(execution, shadow, facts)
        except NondeterminismError as error:
            self.mismatches += 1
            self._unfit(execution.instance_id, error)
            # Without its text, which shows values.
            logger.error(
                "the code of %s cannot be replayed (event %s, %s); a crash would have blocked "
                "instance %r",
                execution.name,
                error.seq,
                error.place or "where it ended",
                execution.instance_id,
                extra={**facts, "event": error.seq, "place": error.place},
            )
        except (UnreadableEventError, TurnTooLongError) as error:
            logger.error(
                "a shadow replay of instance %r (%s) failed: %s",
                execution.instance_id,
                execution.name,
                shown_error(error),
                extra={**facts, **error_facts(error)},
            )
        finally:
            shadow.tear_down()

    def _compare(
        self, execution: AnyExecution, shadow: AnyExecution, facts: dict[str, object]
    ) -> None:
        """Report a decider whose state is not the fold of its events."""
        if isinstance(execution, DeciderExecution) and isinstance(shadow, DeciderExecution):
            codec = execution.definition.state
            if codec.encode(execution.state, "state") != codec.encode(shadow.state, "state"):
                self.mismatches += 1
                self._unfit(execution.instance_id, NondeterminismError(NOT_PURE))
                logger.error(
                    "the events of instance %r fold to another state than it had: evolve of "
                    "decider %r is not pure",
                    execution.instance_id,
                    execution.name,
                    extra=facts,
                )
