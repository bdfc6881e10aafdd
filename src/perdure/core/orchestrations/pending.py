"""What an execution waits for: requests that were made and have no answer yet."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType
from typing import Any, NamedTuple

import msgspec

from perdure.authoring.failures import revive_child_error
from perdure.authoring.scope import ActivityRequest, AnyRequest, InlineRequest, Place
from perdure.core.orchestrations.loop import DurableLoop
from perdure.errors import AlreadyExistsError
from perdure.model.histories.events import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    AskedEvent,
    ChildCancelled,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    DetachedRefused,
    DetachedScheduled,
    DetachedStarted,
    InlineScheduled,
    MessageEvent,
    SignalAwaited,
    SignalReceived,
    SignalWaitCancelled,
    TimerCancelled,
    TimerScheduled,
    UpdateAnswered,
)
from perdure.model.updates import UPDATE_PREFIX, UpdateBody


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
    """An activity, inline call, child, detached start or signal wait without an answer."""

    __slots__ = ("future", "request")

    def __init__(self, event: AskedEvent, request: AnyRequest, future: asyncio.Future[Any]) -> None:
        # Not by way of `super`: one is made for every call.
        self.event = event
        self.place = request.place
        self.cancels = None
        self.seq = None
        self.undone = False
        self.request = request
        self.future = future

    def result(self) -> Any:
        """Return the recorded value, decoded, or raise the recorded error."""
        answer: MessageEvent = self.future.result()
        request: Any = self.request
        match answer:
            case ActivityCompleted(result=raw) | ChildCompleted(result=raw):
                return request.decode(bytes(raw))
            case SignalReceived(rejected=None, value=raw):
                return request.decode(bytes(raw))
            case SignalReceived(rejected=str(reason)):
                raise request.reject(reason)
            case ActivityFailed():
                raise request.revive(answer)
            case ChildFailed(status=status, failure=failure):
                assert isinstance(self.event, ChildScheduled)
                if request.revive is not None:
                    raise request.revive(self.event.instance_id, answer)
                raise revive_child_error(self.event.instance_id, status, failure)
            case DetachedStarted():
                assert isinstance(self.event, DetachedScheduled)
                return request.refer(self.event.instance_id)
            case DetachedRefused():
                assert isinstance(self.event, DetachedScheduled)
                taken = self.event.instance_id
                advice = f"use another id, or reach who has it with ctx.ref({taken!r})"
                raise AlreadyExistsError(taken, "and was not started again", advice=advice)
        raise AssertionError(f"{answer!r} answers no call")


class Answering(Ask):
    """The answer to an update, or its refusal."""

    __slots__ = ("taken",)

    def __init__(self, event: UpdateAnswered, place: Place | None, taken: TakenUpdate) -> None:
        super().__init__(event, place)
        self.taken = taken


class TakenUpdate(NamedTuple):
    """An update that the code has taken and not answered yet."""

    name: str
    update_id: str
    value: bytes
    place: Place
    """Where it was taken."""


def taken_update(signal: SignalReceived, place: Place) -> TakenUpdate | None:
    """Return a signal that the code takes as the update that it is; None: it is a mere signal."""
    if not signal.name.startswith(UPDATE_PREFIX):
        return None
    body = msgspec.json.decode(signal.value, type=UpdateBody)
    name = signal.name.removeprefix(UPDATE_PREFIX)
    return TakenUpdate(name, body.id, bytes(body.value), place)


class PendingTimer(Ask):
    """A timer that has not fired."""

    __slots__ = ("handle",)

    def __init__(self, handle: asyncio.TimerHandle, due_ms: int, place: Place | None) -> None:
        super().__init__(TimerScheduled(due_ms=due_ms), place)
        self.handle = handle


def job_event(request: ActivityRequest | InlineRequest, now_ms: int) -> AskedEvent:
    """Return what is recorded of a call that a worker runs as a job."""
    if isinstance(request, InlineRequest):
        return InlineScheduled(name=request.label, input=msgspec.Raw(request.input))
    deadline_ms, start_within_ms = request.deadline_ms, request.start_within_ms
    return ActivityScheduled(
        name=request.label,
        input=msgspec.Raw(request.input),
        tag=request.tag,
        session=request.session,
        deadline_ms=None if deadline_ms is None else now_ms + deadline_ms,
        start_by_ms=None if start_within_ms is None else now_ms + start_within_ms,
    )


def begun_again(call: PendingCall, now_ms: int, child_id: str | None) -> AskedEvent:
    """Return an open call as it is after going back: its time begins anew, a child has a new id."""
    event, request = call.event, call.request
    match event:
        case ActivityScheduled():
            assert isinstance(request, ActivityRequest)
            fresh = job_event(request, now_ms)
            assert isinstance(fresh, ActivityScheduled)
            return msgspec.structs.replace(
                event, deadline_ms=fresh.deadline_ms, start_by_ms=fresh.start_by_ms
            )
        case ChildScheduled():
            return (
                event if child_id is None else msgspec.structs.replace(event, instance_id=child_id)
            )
    return event


def cancellation(event: AskedEvent, seq: int) -> AskedEvent:
    """Return what is recorded when the code gives up what it asked for as event number `seq`."""
    match event:
        case ActivityScheduled() | InlineScheduled():
            return ActivityCancelled(schedule=seq)
        case ChildScheduled():
            return ChildCancelled(schedule=seq)
        case SignalAwaited():
            return SignalWaitCancelled(schedule=seq)
        case TimerScheduled():
            return TimerCancelled(schedule=seq)
    raise AssertionError(f"{event!r} cannot be given up")


def user_place() -> Place | None:
    """Return the innermost line outside asyncio and perdure, for what has no call of its own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not _RUN:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _NOT_THE_USERS:
            return Place(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return None


_RUN = DurableLoop.run_until.__code__
"""What is further out is not the orchestration's code."""

_NOT_THE_USERS = ("asyncio", "perdure", "collections", "_collections_abc")
"""Packages whose lines are not the user's; the last two have what makes `ctx.kv` a dict."""
