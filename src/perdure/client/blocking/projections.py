"""Methods of `BlockingClient`, which wait where those of `projections` are awaited.

Made from `client/deciders/projections.py` by `tools/make_blocking.py`: change that, run this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.client.deciders.projections import ProjectionInfo

if TYPE_CHECKING:
    from perdure.client.blocking.client import BlockingClient


def projections(self: BlockingClient) -> list[ProjectionInfo]:
    """Return how all projections and subscriptions stand that a worker has ever run here, by
    name."""
    return self._thread.run(self._client.projections())


def projection(self: BlockingClient, name: str, /) -> ProjectionInfo:
    """Return how a projection or subscription stands.

    Raises:
        NotRegisteredError: No worker has ever run one of that name.
    """
    return self._thread.run(self._client.projection(name))


def pause_projection(self: BlockingClient, name: str, /, *, reason: str = "") -> None:
    """Let a projection handle no more events until it is resumed.

    Raises:
        NotRegisteredError: No worker has ever run one of that name.
    """
    self._thread.run(self._client.pause_projection(name, reason=reason))


def resume_projection(self: BlockingClient, name: str, /, *, skip: bool = False) -> None:
    """Let a projection go on that was paused or is stuck.

    Args:
        name: Which one.
        skip: Whether to leave out the event at which it is stuck, for good. Otherwise that one
            is tried again.

    Raises:
        NotRegisteredError: No worker has ever run one of that name.
        UsageError: An event is to be skipped, and it is not stuck at any.
    """
    self._thread.run(self._client.resume_projection(name, skip=skip))


def rebuild_projection(self: BlockingClient, name: str, /) -> None:
    """Let a projection remove what it has written and handle all events once more.

    The worker that reads calls its `reset()` first; without one the projection gets stuck
    before any event. A subscription starts and sends nothing again that the store still knows.
    Events of instances that were deleted meanwhile are gone.

    Raises:
        NotRegisteredError: No worker has ever run one of that name.
    """
    self._thread.run(self._client.rebuild_projection(name))


def forget_projection(self: BlockingClient, name: str, /) -> None:
    """Forget a projection or subscription that exists no more, and how far it had come.

    Tables of a `SqlProjection` and what else it has written stay. Handed to a worker again, it
    begins with the first event.

    Raises:
        NotRegisteredError: No worker has ever run one of that name.
        UsageError: A living worker has it; the error says which.
    """
    self._thread.run(self._client.forget_projection(name))
