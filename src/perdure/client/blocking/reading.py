"""Methods of `BlockingHandle`, which wait where those of `reading` are awaited.

Made from `client/histories/reading.py` by `tools/make_blocking.py`: change that, run this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.client.histories.history import History
from perdure.client.reading.info import ExecutionInfo, Json

if TYPE_CHECKING:
    from perdure.client.blocking.client import BlockingHandle


def executions(self: BlockingHandle[Any]) -> list[ExecutionInfo]:
    """Return the executions whose histories are there, oldest first."""
    return self._thread.run(self._handle.executions())


def history(
    self: BlockingHandle[Any],
    execution: int | None = None,
    *,
    after: int = 0,
    limit: int | None = None,
    kind: str | None = None,
    name: str | None = None,
    failures: bool = False,
) -> History:
    """Return what is recorded in an execution, in order: all of it, or what fits the conditions.

    With conditions the history is looked through in parts; what does not fit is not kept in memory.

    Args:
        execution: Which one, from 1; the current one if not given. One that was pruned is empty.
        after: Only events with a higher number.
        limit: How many at most; all if not given.
        kind: Only events of this kind, or of those that begin so: `activity` finds
            `activity_scheduled`, `activity_completed` and the like.
        name: Only events that are about this name or id, and those that answer them: of an
            activity, signal, child, key and so on.
        failures: Only events that tell of a failure or a refusal: also of an attempt of a call that
            has succeeded then.

    Raises:
        UsageError: There was no such execution, there is no such kind, or a number is not valid.
    """
    return self._thread.run(
        self._handle.history(
            execution, after=after, limit=limit, kind=kind, name=name, failures=failures
        )
    )


def export(self: BlockingHandle[Any], execution: int | None = None) -> list[dict[str, Json]]:
    """Return the history of an execution as `perdure export` writes it, with every argument and
    result, one object for each line: for `perdure.testing.replay`, or `perdure replay`.

    Args:
        execution: Which one, from 1; the current one if not given.

    Raises:
        InstanceNotFoundError: There is no such instance.
        UsageError: There was no such execution.
    """
    return self._thread.run(self._handle.export(execution))
