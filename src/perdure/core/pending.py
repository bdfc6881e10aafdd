"""What an execution waits for: requests that were made and have no answer yet."""

from __future__ import annotations

import asyncio
from typing import Any

from perdure.authoring.scope import AnyRequest, Place
from perdure.errors import ChildError
from perdure.model.events import (
    ActivityCompleted,
    ActivityFailed,
    AskedEvent,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    MessageEvent,
    SignalReceived,
    TimerScheduled,
)


class Ask:
    """Something the code asked for in a stretch. It gets its number when the stretch ends.

    One that is undone before that (a call made and cancelled at once) leaves no trace.
    """

    __slots__ = ("cancels", "event", "place", "seq", "undone")

    def __init__(
        self, event: AskedEvent, place: Place | None = None, cancels: Ask | None = None
    ) -> None:
        self.event = event
        self.place = place
        self.cancels = cancels
        self.seq: int | None = None
        self.undone = False


class PendingCall(Ask):
    """An activity, inline call, child or signal wait without an answer."""

    __slots__ = ("future", "request")

    def __init__(self, event: AskedEvent, request: AnyRequest, future: asyncio.Future[Any]) -> None:
        super().__init__(event, request.place)
        self.request = request
        self.future = future

    def result(self) -> Any:
        """Return the recorded value, decoded, or raise the recorded error."""
        answer: MessageEvent = self.future.result()
        request: Any = self.request
        match answer:
            case ActivityCompleted(result=raw) | ChildCompleted(result=raw):
                return request.decode(bytes(raw))
            case SignalReceived(value=raw):
                return request.decode(bytes(raw))
            case ActivityFailed(failures=failures):
                raise request.revive(request.label, failures)
            case ChildFailed(status=status, failure=failure):
                assert isinstance(self.event, ChildScheduled)
                raise ChildError(
                    self.event.instance_id,
                    status=status,
                    type_name=failure.type_name,
                    message=failure.message,
                    traceback_text=failure.traceback_text,
                )
        raise AssertionError(f"{answer!r} answers no call")


class PendingTimer(Ask):
    """A timer that has not fired."""

    __slots__ = ("handle",)

    def __init__(self, handle: asyncio.TimerHandle, due_ms: int, place: Place | None) -> None:
        super().__init__(TimerScheduled(due_ms=due_ms), place)
        self.handle = handle
