"""Callers that wait for the commit of a start, each with its patience."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from perdure.errors import StoreError, StoreUnavailableError
from perdure.model.turns import TurnStatus
from perdure.store.trouble import unanswered
from perdure.turns.direct.patience import Patience


class AwaitedStarts:
    """Futures by commit id.

    Args:
        trouble: Returns what keeps the store from writing.
    """

    def __init__(self, trouble: Callable[[], StoreUnavailableError | None]) -> None:
        self._trouble = trouble
        self._awaited: dict[int, tuple[asyncio.Future[TurnStatus], int]] = {}
        self._patience = Patience()

    def expect(
        self, commit_id: int, instance_id: str, patience_s: float
    ) -> asyncio.Future[TurnStatus]:
        """Return a future for what becomes of a start.

        After `patience_s` it raises `StoreUnavailableError`: what is on its way to the store cannot
        be called back, so the start may still come about.
        """
        answer: asyncio.Future[TurnStatus] = asyncio.get_running_loop().create_future()
        lose = partial(self._lose_patience, commit_id, instance_id, patience_s)
        self._awaited[commit_id] = (answer, self._patience.begin(patience_s, lose))
        return answer

    def tell(self, commit_id: int, what: TurnStatus | StoreError) -> None:
        """The store has answered."""
        answer, waiting = self._awaited.pop(commit_id, (None, 0))
        if answer is None:
            return
        self._patience.end(waiting)
        if answer.done():
            return
        if isinstance(what, StoreError):
            answer.set_exception(what)
        else:
            answer.set_result(what)

    def _lose_patience(self, commit_id: int, instance_id: str, patience_s: float) -> None:
        answer, _ = self._awaited.pop(commit_id)
        if not answer.done():
            trouble = self._trouble()
            text = (
                f"the store has not answered within {patience_s:g} s"
                f"{'' if trouble is None else f' ({trouble})'}; {instance_id!r} may still be "
                "started: start it again under the same id to find out"
            )
            answer.set_exception(unanswered(text, trouble))
