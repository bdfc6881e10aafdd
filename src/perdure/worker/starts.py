"""Callers that wait for the commit of a start, each with its patience.

One timer for all of them: a timer per start would cost as much as a tenth of the start.
"""

from __future__ import annotations

import asyncio

from perdure.errors import RowError, StoreUnavailableError
from perdure.model.turns import TurnStatus


class AwaitedStarts:
    """Futures by commit id, oldest first."""

    def __init__(self) -> None:
        self._awaited: dict[int, tuple[asyncio.Future[TurnStatus], float, str]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def expect(
        self, commit_id: int, instance_id: str, patience_s: float
    ) -> asyncio.Future[TurnStatus]:
        """Return a future for what becomes of a start.

        After `patience_s` it raises `StoreUnavailableError`: what is on its way to the store cannot
        be called back, so the start may still come about.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[TurnStatus] = loop.create_future()
        until_s = loop.time() + patience_s
        text = (
            f"the store has not answered within {patience_s:g} s; {instance_id!r} may still be "
            "started: start it again under the same id to find out"
        )
        self._awaited[commit_id] = (answer, until_s, text)
        if self._timer is None:
            self._timer = loop.call_at(until_s, self._lose_patience)
        return answer

    def tell(self, commit_id: int, what: TurnStatus | RowError) -> None:
        """The store has answered."""
        answer, *_ = self._awaited.pop(commit_id, (None,))
        if answer is None or answer.done():
            return
        if isinstance(what, RowError):
            answer.set_exception(what)
        else:
            answer.set_result(what)

    def _lose_patience(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for commit_id, (answer, until_s, text) in list(self._awaited.items()):
            if until_s > loop.time():
                self._timer = loop.call_at(until_s, self._lose_patience)
                return
            del self._awaited[commit_id]
            if not answer.done():
                answer.set_exception(StoreUnavailableError(text))
