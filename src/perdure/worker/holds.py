"""Blocking and parking: stop trying an instance, say why, and keep everything it has."""

from __future__ import annotations

import logging

from perdure.errors import NondeterminismError, RowError
from perdure.model.instances import Status
from perdure.model.turns import ClaimedTurn, Hold, Turn
from perdure.store.base import Store
from perdure.worker.background import Background

logger = logging.getLogger(__name__)

NOBODY = "*"
"""In place of a code digest: no code may try this instance until an operator says so."""


class Holds:
    """Holds instances whose turns cannot be run or stored."""

    def __init__(self, store: Store, background: Background) -> None:
        self._store = store
        self._background = background

    def block(self, claim: ClaimedTurn, code: str, error: NondeterminismError) -> None:
        """The code does not fit the history: wait for other code."""
        logger.error("an instance is blocked:\n%s", error, extra={"instance_id": claim.instance_id})
        self._hold(claim, Status.BLOCKED, code, str(error))

    def park(self, claim: ClaimedTurn, why: str) -> None:
        """No code can go on with it: wait for an operator."""
        logger.error("an instance is parked: %s", why, extra={"instance_id": claim.instance_id})
        self._hold(claim, Status.PARKED, NOBODY, why)

    async def park_unstorable(self, turn: Turn, error: RowError) -> None:
        """The database refuses a value of this turn for good."""
        why = f"the store refused its turn: {error}"
        logger.error("an instance is parked: %s", why, extra={"instance_id": turn.instance_id})
        hold = Hold(turn.instance_id, turn.stamp, turn.lease, Status.PARKED, NOBODY, why)
        await self._store.hold([hold])

    def _hold(self, claim: ClaimedTurn, status: Status, blocked_by: str, why: str) -> None:
        hold = Hold(claim.instance_id, claim.stamp, claim.lease, status, blocked_by, why)
        self._background.spawn(self._write(hold))

    async def _write(self, hold: Hold) -> None:
        await self._store.hold([hold])
