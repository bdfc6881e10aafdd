"""An instance on its way into memory: its past was read, and is being replayed in slices.

It is not in memory yet: what comes for it meanwhile goes to the store, or waits there, as while its
past is read. So it is found out afterwards whether it has come into memory another way.
"""

from __future__ import annotations

from perdure.model.instances import Stamp
from perdure.turns.any_execution import AnyExecution
from perdure.turns.executions import Executions
from perdure.turns.hot import HotInstance
from perdure.turns.loading.pasts import Past


class ColdInstance:
    """An execution that does not fit its stamp yet."""

    def __init__(
        self,
        execution: AnyExecution,
        stamp: Stamp,
        past: Past,
        executions: Executions,
    ) -> None:
        self._execution = execution
        self._stamp = stamp
        self._past = past
        self._pace = executions.pace
        self._slices = executions.replaying(execution, past)

    def replay_slice(self) -> bool:
        """Replay one slice; return whether it was the last.

        Raises:
            NondeterminismError, UnreadableEventError, TurnTooLongError: It cannot be replayed, and
                is dropped.
        """
        try:
            return next(self._slices, self) is self
        except BaseException:
            self.drop()
            raise

    async def finish(self) -> bool:
        """Replay the rest while others get their turns; return whether that was done.

        Raises:
            NondeterminismError, UnreadableEventError, TurnTooLongError: It cannot be replayed, and
                is dropped.
        """
        try:
            return await self._pace.finish(self._slices)
        except BaseException:
            self.drop()
            raise

    def arrived(self, *, seen_no: int) -> HotInstance:
        """Return it as an instance for the memory, once all is replayed.

        Args:
            seen_no: The number of the newest message that the claim of it has seen.
        """
        hot = HotInstance(self._execution, self._stamp, seen_no)
        hot.tally.read(self._past.history)
        return hot

    def drop(self) -> None:
        """End it without a trace."""
        self._slices.close()
        self._execution.tear_down()
