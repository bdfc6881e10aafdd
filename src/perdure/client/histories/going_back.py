"""Methods of `Handle` by which an instance goes on from an earlier point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.client.histories.points import Point, check_point
from perdure.client.histories.resetting import ResetPlan
from perdure.codec import check_text

if TYPE_CHECKING:
    from perdure.client.handle import Handle


async def plan(self: Handle[Any], point: Point | None = None, /) -> ResetPlan:
    """Return what `reset` would do: what is kept, what runs again, and, where the code is here,
    whether it fits. Writes nothing.

    Raises:
        InstanceNotFoundError: There is no such instance.
        UsageError: It cannot be reset, or has no such point.
    """
    return await self._core.plan_reset(self.instance_id, check_point(point), self._moves_to)


async def reset(self: Handle[Any], point: Point | None = None, /, *, reason: str = "") -> None:
    """Go on from an earlier point, with the code that workers have today.

    The next execution begins with what happened up to the point. What was open there is open
    again, calls behind it are made again, and signals that came since come again. An instance
    that has ended is running again. It stays on its version, unless the handle was made with
    another one: `client.handle(instance_id, orchestration.with_options(version="2.0.0"))`.

    Args:
        point: Where to, by `before`, `after` or `at_event` of `perdure.repair`. Not given: just
            before what it failed at, or before it was asked to stop.
        reason: Why, for its row and its history.

    Raises:
        InstanceNotFoundError: There is no such instance.
        InstanceRunningError: It has not ended, and no point was given.
        UsageError: It is a decider's, or has no such point, or the handle was made with a version
            of another orchestration.
    """
    checked = check_text("reason", reason)
    await self._core.reset(self.instance_id, check_point(point), checked, moves_to=self._moves_to)
