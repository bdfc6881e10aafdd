"""What the code of an execution asks for: its side towards calls, tasks and timers.

Calls find it as the scope of the running loop; the loop tells it of timers. Whatever is asked for
becomes an ask, which gets a number when the stretch ends. An execution that was torn down asks for
nothing any more.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from perdure.authoring.context import Context
from perdure.authoring.scope import (
    ActivityRequest,
    AnyRequest,
    ChildRequest,
    InlineRequest,
    Pending,
    SignalRequest,
)
from perdure.clock import to_datetime
from perdure.core.identity import ExecutionId, child_id, made_random, made_uuid
from perdure.core.loop import DurableLoop
from perdure.core.pending import (
    Ask,
    PendingCall,
    PendingTimer,
    cancellation,
    job_event,
    user_place,
)
from perdure.core.teardown import TornDownError
from perdure.errors import LimitExceededError
from perdure.model.events import (
    AskedEvent,
    ChildScheduled,
    Parent,
    SignalAwaited,
    SignalReceived,
    SignalTaken,
)

MAX_OPEN_CALLS = 100_000
"""How many calls, timers and waits one execution may have open."""

logger = logging.getLogger(__name__)


class Asking:
    """Collects what the code of one execution asks for."""

    def __init__(self, id: ExecutionId, name: str, version: str) -> None:
        self.id = id
        self.instance_id = id.instance_id
        self.execution = id.execution
        self.name = name
        self.version = version
        self.parent: Parent | None = None
        self.context = Context(self)
        self.is_replaying = False
        self.now_ms = 0
        self.open: dict[int, Ask] = {}
        """Everything without an answer, by the number of the event that asked for it."""
        self._loop = DurableLoop(self, self)  # type: ignore[abstract]  # refused ones: a table
        self._numbers = 0
        self._children = 0
        self._uuids = 0
        self._asks: list[Ask] = []
        self._timers: dict[int, PendingTimer] = {}
        self._waits: dict[str, deque[PendingCall]] = {}
        self._kept: dict[str, deque[tuple[int, SignalReceived]]] = {}
        self._torn = 0

    # ------------------------------------------- what calls ask for (authoring.Scope)

    def ask(self, request: AnyRequest) -> Pending:
        """Make a request; it gets its number when the stretch ends."""
        future = self._loop.create_future()
        if self._is_in_vain():
            return PendingCall(SignalAwaited(name=request.label), request, future)
        self._refuse_too_many()
        event: AskedEvent
        match request:
            case ActivityRequest() | InlineRequest():
                event = job_event(request, self.now_ms)
            case ChildRequest():
                event = self._child_event(request)
            case SignalRequest():
                event = self._signal_event(request, future)
        pending = PendingCall(event, request, future)
        self._asks.append(pending)
        return pending

    def give_up(self, pending: Pending) -> None:
        """Undo a request, or put its cancellation on record."""
        assert isinstance(pending, PendingCall)
        if self._torn or pending.undone or isinstance(pending.event, SignalTaken):
            return
        pending.undone = pending.seq is None
        if pending.seq is None or self.open.pop(pending.seq, None) is None:
            return
        if isinstance(pending.event, SignalAwaited):
            self._waits[pending.event.name].remove(pending)
        cancelled = cancellation(pending.event, pending.seq)
        self._asks.append(Ask(cancelled, pending.place, cancels=pending))

    def _signal_event(self, request: SignalRequest, future: asyncio.Future[Any]) -> AskedEvent:
        kept = self._kept.get(request.label)
        if not kept:
            return SignalAwaited(name=request.label)
        seq, signal = kept.popleft()
        future.set_result(signal)
        return SignalTaken(name=request.label, signal=seq)

    def _child_event(self, request: ChildRequest) -> ChildScheduled:
        self._children += 1
        return ChildScheduled(
            name=request.label,
            version=request.version,
            instance_id=request.instance_id or child_id(self.id, self._children),
            input=msgspec.Raw(request.input),
            on_parent_close=request.on_parent_close,
        )

    def settled(self) -> asyncio.Future[None]:
        """Return a future that is done when nothing else can run on without a message."""
        return self._loop.settled()

    def next_number(self) -> int:
        """Return the next creation number."""
        self._numbers += 1
        return self._numbers

    def now(self) -> datetime:
        """Return the latest recorded time."""
        return to_datetime(self.now_ms)

    def make_uuid(self) -> UUID:
        """Return the next id of this execution's own series."""
        self._uuids += 1
        return made_uuid(self.id, self._uuids)

    def make_random(self) -> random.Random:
        """Return this execution's random numbers."""
        return made_random(self.id)

    # ------------------------------------------- what the loop tells (loop.LoopOwner)

    def timer_set(self, timer: asyncio.TimerHandle, due_ms: int) -> None:
        """Ask for a timer."""
        if self._is_in_vain():
            return
        self._refuse_too_many()
        pending = PendingTimer(timer, due_ms, user_place())
        self._timers[id(timer)] = pending
        self._asks.append(pending)

    def timer_cancelled(self, timer: asyncio.TimerHandle) -> None:
        """Undo a timer, or put its cancellation on record; nothing if it fired."""
        pending = self._timers.pop(id(timer), None)
        if pending is None or self._torn:
            return
        if pending.seq is None:
            pending.undone = True
        elif self.open.pop(pending.seq, None) is not None:
            cancelled = cancellation(pending.event, pending.seq)
            self._asks.append(Ask(cancelled, pending.place, cancels=pending))

    def lost_exception(self, context: dict[str, Any]) -> None:
        """Log what failed where nobody awaits it."""
        if not self._torn and not self.is_replaying:
            logger.error(
                "an orchestration left an exception unawaited",
                exc_info=context.get("exception"),
                extra={"instance_id": self.instance_id, "definition": self.name},
            )

    # ----------------------------------------------------------------- teardown

    def _begin_tearing(self) -> None:
        self._torn = 1

    def _is_in_vain(self) -> bool:
        """Tell whether the execution is torn down: nothing will ever be answered.

        Raises:
            TornDownError: At the first call after each throw. The later ones wait for ever, so that
                a loop which catches everything stops.
        """
        if self._torn == 1:
            self._torn = 2
            raise TornDownError
        return self._torn > 0

    def _refuse_too_many(self) -> None:
        found = len(self.open) + len(self._asks) + 1
        if found > MAX_OPEN_CALLS:
            raise LimitExceededError(
                "open calls of one instance",
                allowed=MAX_OPEN_CALLS,
                found=found,
                advice="spread the work over children",
            )
