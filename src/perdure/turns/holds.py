"""Blocking and parking: stop trying an instance, say why, and keep everything it has.

Why is kept with the instance, for those who may see its values. The log says where and of what
class the trouble is. It is counted, and told to who waits, when the store has taken the hold.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from perdure.errors import NondeterminismError, RowError
from perdure.model.instances import DefinitionKey, Status
from perdure.model.turns import NOBODY, ClaimedTurn, Hold, Turn
from perdure.store.base import Store
from perdure.turns.background import Background
from perdure.turns.coverage import Coverage
from perdure.turns.surroundings import Surroundings

logger = logging.getLogger(__name__)


class Holds:
    """Holds instances whose turns cannot be run or stored."""

    def __init__(
        self,
        store: Store,
        coverage: Coverage,
        definitions: Mapping[int, DefinitionKey],
        background: Background,
        around: Surroundings,
    ) -> None:
        self._store = store
        self._coverage = coverage
        self._definitions = definitions
        self._background = background
        self._metrics = around.metrics
        self._endings = around.endings

    def block(self, claim: ClaimedTurn, error: NondeterminismError) -> None:
        """The code does not fit the history: wait for other code."""
        definition = self._definitions[claim.definition_no]
        hold = _hold(claim, Status.BLOCKED, self._coverage.tried_as(definition), str(error))
        logger.error(
            "instance %r (%s) is blocked: %s; info().reason tells more",
            claim.instance_id,
            shown_definition(definition),
            _shown(error),
            extra={
                **self._metrics.facts_of_hold(hold, definition),
                "attempt": claim.attempts,
                "event": error.seq,
                "place": error.place,
            },
        )
        self._background.spawn(self._write(hold, definition))

    def park(self, claim: ClaimedTurn, why: str, cause: str) -> None:
        """No code can go on with it: wait for an operator.

        Args:
            claim: The turn.
            why: Kept with the instance; may show values.
            cause: The same without values, for the log: a class, or a few words.
        """
        definition = self._definitions[claim.definition_no]
        hold = _hold(claim, Status.PARKED, NOBODY, why)
        logger.error(
            "instance %r (%s) is parked: %s; info().reason tells more",
            claim.instance_id,
            shown_definition(definition),
            cause,
            extra={**self._metrics.facts_of_hold(hold, definition), "attempt": claim.attempts},
        )
        self._background.spawn(self._write(hold, definition))

    def park_unstorable(self, turn: Turn, definition: DefinitionKey, error: RowError) -> None:
        """The database refuses a value of this turn for good."""
        why = f"the store refused its turn: {error}"
        hold = Hold(turn.instance_id, turn.stamp, turn.lease, Status.PARKED, NOBODY, why)
        logger.error(
            "instance %r (%s) is parked: the store refused its turn; info().reason tells more",
            turn.instance_id,
            shown_definition(definition),
            extra=self._metrics.facts_of_hold(hold, definition),
        )
        self._background.spawn(self._write(hold, definition))

    async def _write(self, hold: Hold, definition: DefinitionKey) -> None:
        [is_held] = await self._store.hold([hold])
        if is_held:
            self._metrics.held(definition.name, hold.status)
            self._endings.tell_hold(hold.instance_id, hold.status, hold.reason)


def _shown(error: NondeterminismError) -> str:
    """Return what the log may say of code that does not fit. Only the text of a call that cannot be
    replayed shows no values: it has a place, and is at no event."""
    if error.seq is None and error.place is not None:
        return str(error)
    event = "" if error.seq is None else f" at event {error.seq}"
    where = "" if error.place is None else f", asked for at {error.place}"
    return f"its code does not fit its history{event}{where}"


def shown_definition(definition: DefinitionKey) -> str:
    """Return a definition as log lines name it."""
    return " ".join(filter(None, (definition.name, definition.variant)))


def _hold(claim: ClaimedTurn, status: Status, blocked_by: str, why: str) -> Hold:
    return Hold(claim.instance_id, claim.stamp, claim.lease, status, blocked_by, why)
