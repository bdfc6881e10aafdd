"""Methods of `Handle` that read what is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.client.histories.finding import WantedEvents, look_through
from perdure.client.histories.histories import execution_key
from perdure.client.histories.history import History
from perdure.client.histories.recorded import read_execution, write_mappings
from perdure.client.reading.info import ExecutionInfo, Json, event_of, execution_of
from perdure.client.reading.lists import check_count

if TYPE_CHECKING:
    from perdure.client.handle import Handle


async def executions(self: Handle[Any]) -> list[ExecutionInfo]:
    """Return the executions whose histories are there, oldest first."""
    rows = await self._core.store.admin.read_executions(self.instance_id)
    if not rows:
        await self._row()
    return [execution_of(row) for row in rows]


async def history(
    self: Handle[Any],
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
    which = WantedEvents(kind=kind, name=name, failures=failures)
    if not which.is_empty:
        found = await look_through(
            self._core.store, self.instance_id, which, execution, after=after, limit=limit
        )
        return History(found.events)
    row = await self._row()
    check_count("after", after, least=0)
    if limit is not None:
        check_count("limit", limit, least=1)
    key = execution_key(row, execution)
    [events] = await self._core.store.read_histories([key], after_seq=after, limit=limit)
    return History(event_of(stored) for stored in events)


async def export(self: Handle[Any], execution: int | None = None) -> list[dict[str, Json]]:
    """Return the history of an execution as `perdure export` writes it, with every argument and
    result, one object for each line: for `perdure.testing.replay`, or `perdure replay`.

    Args:
        execution: Which one, from 1; the current one if not given.

    Raises:
        InstanceNotFoundError: There is no such instance.
        UsageError: There was no such execution.
    """
    found = await read_execution(self._core.store, self.instance_id, execution)
    return list(write_mappings(found))
