"""Run an orchestration against its history, and on from there.

Live and replay are one path. A message event is applied, then the loop runs until nothing is ready;
what the code asked for in that stretch is matched against the history while there is history, and
appended to it after. So a history reads: message, what it caused, next message; and two racing
calls are won by the same one at every replay.

A mismatch raises `NondeterminismError` and changes nothing: the caller drops the execution.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import logging
import random
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from hashlib import blake2b
from types import FrameType
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from perdure.authoring.context import Context
from perdure.authoring.failures import describe
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.scope import (
    ActivityRequest,
    AnyRequest,
    ChildRequest,
    InlineRequest,
    Pending,
    Place,
    SignalRequest,
)
from perdure.clock import to_datetime
from perdure.codec import MAX_ID_BYTES
from perdure.core.guard import Guard
from perdure.core.loop import DurableLoop
from perdure.core.mismatch import Code, mismatch
from perdure.core.pending import Ask, PendingCall, PendingTimer
from perdure.core.teardown import TornDownError, tear_down
from perdure.errors import LimitExceededError, PayloadError
from perdure.model.events import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    AskedEvent,
    Body,
    Cancelled,
    CancelRequested,
    ChildCancelled,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    Completed,
    Event,
    Failed,
    InlineScheduled,
    MessageEvent,
    Parent,
    SignalAwaited,
    SignalReceived,
    SignalTaken,
    SignalWaitCancelled,
    Started,
    StoredEvent,
    Terminated,
    TimerCancelled,
    TimerFired,
    TimerScheduled,
    read_event,
    write_event,
)

MAX_OPEN_CALLS = 100_000
"""How many calls, timers and waits one execution may have open."""

logger = logging.getLogger(__name__)


class ExecutionId(NamedTuple):
    """One execution of one instance."""

    instance_id: str
    incarnation: int
    execution: int


class Execution:
    """A live coroutine, its loop, and how far its history goes."""

    def __init__(
        self,
        orchestration: Orchestration[..., Any],
        id: ExecutionId,
        code: str,
        guard: Guard,
    ) -> None:
        self.orchestration = orchestration
        self.id = id
        self.instance_id = id.instance_id
        self.execution = id.execution
        self.name = orchestration.name
        self.version = orchestration.version
        self.parent: Parent | None = None
        self.context = Context(self)
        self.is_replaying = False
        self.guard = guard
        self.now_ms = 0
        self.last_seq = 0
        self.open: dict[int, Ask] = {}
        """Everything without an answer, by the number of the event that asked for it."""
        self.terminal: AskedEvent | Terminated | None = None
        """The last event, once there is one."""
        self.cancel_reason: str | None = None
        self._code_now = code
        self._code_then = ""
        self._loop = DurableLoop(self, self)  # type: ignore[abstract]  # refused ones: a table
        self._root: asyncio.Task[Any] | None = None
        self._numbers = 0
        self._children = 0
        self._uuids = 0
        self._asks: list[Ask] = []
        self._timers: dict[int, PendingTimer] = {}
        self._due: list[tuple[int, int, str]] = []
        self._waits: dict[str, deque[PendingCall]] = {}
        self._kept: dict[str, deque[tuple[int, SignalReceived]]] = {}
        self._digest = blake2b(digest_size=16)
        self._torn = 0

    # -------------------------------------------------------------- both paths

    def replay(self, history: Sequence[StoredEvent]) -> None:
        """Run over recorded events.

        Raises:
            NondeterminismError: The code asks for something else than what is recorded.
            UnreadableEventError: A stored event is damaged or of an unknown kind.
        """
        self.is_replaying = True
        try:
            with self.entered():
                position = 0
                while position < len(history):
                    position = self._replay_stretch(history, position)
        finally:
            self.is_replaying = False

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make the execution's loop the running one, guarded, for the stretches of one turn.

        Raises:
            NondeterminismError: The code did something that cannot be replayed, at any moment of
                the turn, even if it swallowed the error it got there.
        """
        with self._loop.entered(), self.guard:
            yield
        if self.guard.violation is not None:
            raise self.guard.violation

    def advance(self, event: MessageEvent, record: list[Body]) -> list[Ask]:
        """Apply a message that has no record yet, inside `entered()` and at `now_ms`.

        Adds the event and what follows from it to the record; returns what the code asked for,
        numbered.
        """
        event = self._bind(event)
        record.append(self._append(event))
        self._apply(event, self.last_seq)
        asks = self._take_asks()
        for ask in asks:
            record.append(self._append(ask.event))
            self._number(ask, self.last_seq)
        return asks

    def accepts(self, event: MessageEvent) -> bool:
        """Tell whether a message still means something: its call is open, its cancel the first."""
        match event:
            case Started():
                return self._root is None
            case ActivityCompleted(schedule=schedule) | ActivityFailed(schedule=schedule):
                return isinstance(self._open_event(schedule), ActivityScheduled | InlineScheduled)
            case ChildCompleted(schedule=schedule) | ChildFailed(schedule=schedule):
                return isinstance(self._open_event(schedule), ChildScheduled)
            case TimerFired(schedule=schedule):
                return isinstance(self._open_event(schedule), TimerScheduled)
            case CancelRequested():
                return self.cancel_reason is None
        return True

    def digest(self) -> bytes:
        """Return the hash over all events so far."""
        return self._digest.digest()

    def next_due_ms(self) -> int | None:
        """Return when the next open timer becomes due."""
        due = self._due
        while due:
            due_ms, seq, _ = due[0]
            if seq in self.open:
                return due_ms
            heapq.heappop(due)
        return None

    def next_due_key(self) -> str:
        """Return the key of the timer that `next_due_ms` speaks of."""
        return self._due[0][2]

    def tear_down(self) -> list[object]:
        """End the coroutine without a trace: nothing it does from now on is asked for.

        Returns coroutines that would not end. They must be kept: the garbage collector would run
        them again.
        """
        if self._loop.is_closed():
            return []
        # Silences the log of user code and its warnings: what runs from here on never happened.
        self.is_replaying = True
        self._begin_tearing()
        tasks, generators = self._loop.dismantle()
        with self._loop.entered(), self.guard:
            undead = tear_down(tasks, generators, self._begin_tearing)
        self._loop.forget()
        return undead

    # ------------------------------------------------------------ the stretches

    def _replay_stretch(self, history: Sequence[StoredEvent], position: int) -> int:
        """Apply the message at a position and match what follows; return the next message's."""
        stored = history[position]
        event = read_event(stored.kind, stored.body)
        if not isinstance(event, MessageEvent) or not self._fits(event):
            raise self._mismatch(history, stored.seq, None)
        self.now_ms = stored.at_ms
        self._record(stored)
        self._apply(event, stored.seq)
        for ask in self._take_asks():
            position += 1
            recorded = history[position] if position < len(history) else None
            if recorded is None or not self._matches(ask, recorded):
                raise self._mismatch(history, history[0].seq + position, ask)
            self._record(recorded)
            self._number(ask, recorded.seq)
        position += 1
        if position < len(history) and self.terminal is not None:
            raise self._mismatch(history, history[position].seq, None)
        return position

    def _fits(self, event: MessageEvent) -> bool:
        if isinstance(event, SignalReceived) and event.wait is not None:
            waits = self._waits.get(event.name)
            return bool(waits) and waits is not None and waits[0].seq == event.wait
        return self.accepts(event)

    def _bind(self, event: MessageEvent) -> MessageEvent:
        """Put on record which wait gets a signal (the oldest), and which code begins."""
        if isinstance(event, Started):
            return msgspec.structs.replace(event, code=self._code_now)
        if isinstance(event, SignalReceived):
            waits = self._waits.get(event.name)
            if waits:
                return msgspec.structs.replace(event, wait=waits[0].seq)
        return event

    def _apply(self, event: MessageEvent, seq: int) -> None:
        match event:
            case Started():
                self._begin(event)
            case (
                ActivityCompleted(schedule=schedule)
                | ActivityFailed(schedule=schedule)
                | ChildCompleted(schedule=schedule)
                | ChildFailed(schedule=schedule)
            ):
                self._answer(schedule, event)
            case TimerFired(schedule=schedule):
                timer = self.open.pop(schedule)
                assert isinstance(timer, PendingTimer)
                del self._timers[id(timer.handle)]
                self._loop.fire(timer.handle)
            case SignalReceived(name=name, wait=None):
                self._kept.setdefault(name, deque()).append((seq, event))
            case SignalReceived(name=name, wait=wait):
                self._waits[name].popleft()
                assert wait is not None
                self._answer(wait, event)
            case CancelRequested(reason=reason):
                self.cancel_reason = reason
                assert self._root is not None
                self._root.cancel(reason)
            case Terminated():
                self.terminal = event
                return
        assert self._root is not None
        self._loop.run_until(self._root)

    def _begin(self, event: Started) -> None:
        self.parent = event.parent
        self._code_then = event.code
        # An empty context: what the worker's own code has set must not reach an orchestration.
        context = contextvars.Context()
        self._root = self._loop.start(self._main(bytes(event.input)), context)

    async def _main(self, input: bytes) -> bytes:
        definition = self.orchestration.definition
        args, kwargs = definition.codec.decode(input)
        if definition.takes_context:
            args.insert(0, self.context)
        result = await definition.fn(*args, **kwargs)
        return definition.codec.returns.encode(result, f"result of {self.name}")

    def _answer(self, schedule: int, event: MessageEvent) -> None:
        pending = self.open.pop(schedule)
        assert isinstance(pending, PendingCall)
        if not pending.future.done():
            pending.future.set_result(event)

    def _take_asks(self) -> list[Ask]:
        """Return what the code asked for since the last time, its end included."""
        asks = [ask for ask in self._asks if not ask.undone]
        self._asks.clear()
        if self._root is not None and self._root.done() and self.terminal is None:
            self.terminal = self._end(self._root)
            asks.append(Ask(self.terminal))
            self._loop.report_lost()
        return asks

    def _end(self, root: asyncio.Task[Any]) -> AskedEvent:
        try:
            return Completed(result=msgspec.Raw(root.result()))
        except asyncio.CancelledError as error:
            if self.cancel_reason is not None:
                return Cancelled(reason=self.cancel_reason)
            return Failed(failure=describe(error, at_ms=self.now_ms))
        except BaseException as error:
            return Failed(failure=describe(error, at_ms=self.now_ms))

    def _number(self, ask: Ask, seq: int) -> None:
        """Make an ask part of the record under its number."""
        ask.seq = seq
        event = ask.event
        if isinstance(ask, PendingCall):
            if isinstance(event, SignalTaken):
                return
            self.open[seq] = ask
            if isinstance(event, SignalAwaited):
                self._waits.setdefault(event.name, deque()).append(ask)
            elif isinstance(event, ActivityScheduled) and event.deadline_ms is not None:
                heapq.heappush(self._due, (event.deadline_ms, seq, f"deadline:{seq}"))
        elif isinstance(ask, PendingTimer):
            assert isinstance(event, TimerScheduled)
            self.open[seq] = ask
            heapq.heappush(self._due, (event.due_ms, seq, f"timer:{seq}"))

    def _append(self, event: Event) -> Body:
        self.last_seq += 1
        written = write_event(event)
        self._feed(written.kind, self.now_ms, written.body)
        return written

    def _record(self, stored: StoredEvent) -> None:
        self.last_seq = stored.seq
        self._feed(stored.kind, stored.at_ms, stored.body)

    def _feed(self, kind: str, at_ms: int, body: bytes) -> None:
        self._digest.update(b"%b\0%d\0%b\0" % (kind.encode(), at_ms, body))

    # ------------------------------------------------------ the determinism check

    def _matches(self, ask: Ask, stored: StoredEvent) -> bool:
        asked = ask.event
        if stored.kind != asked.kind:
            return False
        recorded = read_event(stored.kind, stored.body)
        if recorded == asked:
            return True
        match recorded, asked:
            case Failed(failure=then), Failed(failure=now):
                # Messages and tracebacks may hold addresses and line numbers.
                return then.type_name == now.type_name
            case Completed(result=then), Completed(result=now):
                returns = self.orchestration.definition.codec.returns
                return returns.same(bytes(then), bytes(now))
            case (
                ActivityScheduled() | InlineScheduled() | ChildScheduled(),
                ActivityScheduled() | InlineScheduled() | ChildScheduled(),
            ):
                return self._same_call(ask, recorded, asked)
        return False

    def _same_call(self, ask: Ask, recorded: Any, asked: Any) -> bool:
        """Compare two calls: the recorded input may lack what has a default today, and a deadline
        is an option, which may change."""
        assert isinstance(ask, PendingCall)
        request: Any = ask.request
        aligned = msgspec.structs.replace(recorded, input=asked.input)
        if isinstance(asked, ActivityScheduled):
            aligned = msgspec.structs.replace(aligned, deadline_ms=asked.deadline_ms)
        if aligned != asked:
            return False
        if recorded.input != asked.input:
            try:
                if not request.same_input(bytes(recorded.input), bytes(asked.input)):
                    return False
            except PayloadError:
                return False
        # What is on record counts, also for the timer that the deadline became.
        ask.event = recorded
        return True

    def _mismatch(self, history: Sequence[StoredEvent], seq: int, ask: Ask | None) -> Exception:
        code = Code(self.name, self._code_then, self._code_now)
        return mismatch(self.instance_id, code, history, seq, ask)

    def _open_event(self, schedule: int) -> AskedEvent | None:
        ask = self.open.get(schedule)
        return None if ask is None else ask.event

    # ------------------------------------------- what calls ask for (authoring.Scope)

    def ask(self, request: AnyRequest) -> Pending:
        """Make a request; it gets its number when the stretch ends."""
        future = self._loop.create_future()
        if self._is_in_vain():
            return PendingCall(SignalAwaited(name=request.label), request, future)
        self._refuse_too_many()
        event: AskedEvent
        match request:
            case ActivityRequest():
                deadline_ms = request.deadline_ms
                event = ActivityScheduled(
                    name=request.label,
                    input=msgspec.Raw(request.input),
                    tag=request.tag,
                    session=request.session,
                    deadline_ms=None if deadline_ms is None else self.now_ms + deadline_ms,
                )
            case InlineRequest():
                event = InlineScheduled(name=request.label, input=msgspec.Raw(request.input))
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
        cancelled: AskedEvent
        match pending.event:
            case ActivityScheduled() | InlineScheduled():
                cancelled = ActivityCancelled(schedule=pending.seq)
            case ChildScheduled():
                cancelled = ChildCancelled(schedule=pending.seq)
            case SignalAwaited(name=name):
                self._waits[name].remove(pending)
                cancelled = SignalWaitCancelled(schedule=pending.seq)
            case _:
                raise AssertionError(f"{pending.event!r} cannot be given up")
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
            instance_id=request.instance_id or self._child_id(self._children),
            input=msgspec.Raw(request.input),
            on_parent_close=request.on_parent_close,
        )

    def _child_id(self, number: int) -> str:
        """Return an id that no other execution or incarnation of this instance makes."""
        mark = blake2b(b"%d %d" % (self.id.incarnation, self.execution), digest_size=3).hexdigest()
        child_id = f"{self.instance_id}/{mark}.{number}"
        if len(child_id.encode()) > MAX_ID_BYTES:
            whole = blake2b(child_id.encode(), digest_size=16).hexdigest()
            child_id = f"{child_id[:20]}/{whole}"
        return child_id

    def child_incarnation(self, seq: int) -> int:
        """Return the incarnation of the child that event number `seq` starts."""
        text = b"%d %d %d" % (self.id.incarnation, self.execution, seq)
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 1

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
        seed = b"uuid %s %d" % (self._seed(), self._uuids)
        return UUID(bytes=blake2b(seed, digest_size=16).digest(), version=4)

    def make_random(self) -> random.Random:
        """Return this execution's random numbers."""
        seed = blake2b(b"random %s" % self._seed(), digest_size=16).digest()
        return random.Random(int.from_bytes(seed, "big"))

    def _seed(self) -> bytes:
        return b"%s %d %d" % (self.instance_id.encode(), self.id.incarnation, self.execution)

    # ------------------------------------------- what the loop tells (loop.LoopOwner)

    def timer_set(self, timer: asyncio.TimerHandle, due_ms: int) -> None:
        """Ask for a timer."""
        if self._is_in_vain():
            return
        self._refuse_too_many()
        pending = PendingTimer(timer, due_ms, _user_place())
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
            cancelled = TimerCancelled(schedule=pending.seq)
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


def _user_place() -> Place | None:
    """Return the innermost line outside asyncio and perdure, for a timer."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not _RUN:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in ("asyncio", "perdure"):
            return Place(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return None


_RUN = DurableLoop.run_until.__code__
