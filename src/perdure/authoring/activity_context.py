"""What a running activity can know and do."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from perdure.durations import Duration
from perdure.errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


class ActivityContext(Protocol):
    """What a running activity can know and do. Fetch it with `activity_context()`, or take it as
    the first parameter, named `ctx` and annotated with this type."""

    # ------------------------------------------------------------ who and what

    @property
    def instance_id(self) -> str:
        """The instance that made the call."""
        ...

    @property
    def execution(self) -> int:
        """Which execution of the instance made it, from 1."""
        ...

    @property
    def orchestration(self) -> str:
        """The name of the orchestration that made it, or of the decider whose effect it is."""
        ...

    @property
    def orchestration_version(self) -> str:
        """The version that the instance is recorded with; empty for a decider."""
        ...

    @property
    def activity(self) -> str:
        """The activity's name."""
        ...

    @property
    def tag(self) -> str | None:
        """The tag that the call was made with."""
        ...

    @property
    def session(self) -> str | None:
        """The session that the call belongs to."""
        ...

    @property
    def worker_id(self) -> str:
        """The worker that runs it."""
        ...

    @property
    def attempt(self) -> int:
        """Which run of this call this is, from 1."""
        ...

    @property
    def idempotency_key(self) -> str:
        """A string that is equal in all attempts of this call and unlike any other call's."""
        ...

    @property
    def scheduled_at(self) -> datetime:
        """When the call was made."""
        ...

    @property
    def deadline(self) -> datetime | None:
        """When this attempt must have ended: the sooner of its timeout and the call's deadline."""
        ...

    # --------------------------------------------------------------- being stopped

    @property
    def is_cancelled(self) -> bool:
        """Whether the result is not waited for any more."""
        ...

    async def cancelled(self) -> None:
        """Wait until the result is not waited for any more.

        For code beside the activity's own: that is cancelled by itself, like any asyncio task.
        """
        ...

    def wait_cancelled(self, timeout: Duration | None = None) -> bool:
        """Block until the result is not waited for any more, or the time is over; return which.

        For activities that are not async: a pause that a cancellation ends.
        """
        ...

    # ------------------------------------------------------------ saying something

    def heartbeat(self, details: object = None) -> None:
        """Say that the work goes on; raises `asyncio.CancelledError` when it was cancelled.

        Args:
            details: How far it has come, for the next attempt if this one does not end well. None:
                as said before. Written now and then; the newest is never lost unless the worker is.
        """
        ...

    @overload
    def last_details(self, kind: None = None, /) -> Any: ...
    @overload
    def last_details(self, kind: TypeForm[T], /) -> T | None: ...
    def last_details(self, kind: Any = None, /) -> Any:
        """Return what the last heartbeat of an earlier attempt said, as a value of this type; None
        if there was none. Without a type it is plain JSON."""
        ...

    def progress(self, value: object) -> None:
        """Show how far the work has come, to clients that look at the instance."""
        ...

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that knows the instance, the execution, the activity and the attempt."""
        ...

    # ------------------------------------------------------------- having something

    def resource(self, kind: type[T], /) -> T:
        """Return the resource of this type that was handed to the worker."""
        ...

    @property
    def client(self) -> Any:
        """The worker's own client: `client: Client = ctx.client` in an async activity, and
        `client: BlockingClient = ctx.client` in one that runs in a thread."""
        ...


current_activity: ContextVar[ActivityContext] = ContextVar("perdure_activity")


def activity_context() -> ActivityContext:
    """Return the context of the activity that runs here."""
    try:
        return current_activity.get()
    except LookupError:
        raise UsageError("no activity runs here: activity_context() works inside one") from None
