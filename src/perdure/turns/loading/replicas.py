"""Replicas: an execution replayed beside the live one, asked for a view, and thrown away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from perdure.authoring.orchestration import Orchestration
from perdure.core.identity import ExecutionId
from perdure.model.histories.events import StoredEvent
from perdure.turns.executions import Executions
from perdure.turns.loading.pasts import Past


class Viewed(NamedTuple):
    """What came of asking for a view."""

    answer: bytes | None
    """As JSON; None if the code has handed over no such view by then."""
    names: tuple[str, ...]
    """The queries that it has handed over a view for."""


class Replicas:
    """Replays histories for callers. Nothing is written, and the live coroutine is not touched.

    Args:
        executions: Run user code.
    """

    def __init__(self, executions: Executions) -> None:
        self._executions = executions

    async def view(
        self,
        orchestration: Orchestration[..., Any],
        execution_id: ExecutionId,
        version: str,
        history: Sequence[StoredEvent],
        query: str,
    ) -> Viewed:
        """Return what a view of a replayed execution answers.

        Args:
            orchestration: Its code.
            execution_id: Whose history it is.
            version: The version on record.
            history: As far as it is to be replayed.
            query: Which view.

        Raises:
            NondeterminismError, UnreadableEventError, TurnTooLongError: It cannot be replayed.
        """
        replica = self._executions.new(orchestration, execution_id, version=version)
        try:
            await self._executions.replay_beside(replica, Past(list(history)))
            views = replica.scope.views
            if query not in views:
                return Viewed(None, tuple(sorted(views)))
            with replica.entered():
                return Viewed(views[query](), tuple(sorted(views)))
        finally:
            replica.tear_down()
