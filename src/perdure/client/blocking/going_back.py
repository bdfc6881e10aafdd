"""Methods of `BlockingHandle`, which wait where those of `going_back` are awaited.

Made from `client/histories/going_back.py` by `tools/make_blocking.py`: change that, run this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.client.histories.points import Point
from perdure.client.histories.resetting import ResetPlan

if TYPE_CHECKING:
    from perdure.client.blocking.client import BlockingHandle


def plan(self: BlockingHandle[Any], point: Point | None = None, /) -> ResetPlan:
    """Return what `reset` would do: what is kept, what runs again, and, where the code is here,
    whether it fits. Writes nothing.

    Raises:
        InstanceNotFoundError: There is no such instance.
        UsageError: It cannot be reset, or has no such point.
    """
    return self._thread.run(self._handle.plan(point))


def reset(self: BlockingHandle[Any], point: Point | None = None, /, *, reason: str = "") -> None:
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
    self._thread.run(self._handle.reset(point, reason=reason))
