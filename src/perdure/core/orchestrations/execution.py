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
from collections import deque
from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from perdure.authoring.orchestration import Orchestration
from perdure.core.guard import Guard
from perdure.core.identity import ExecutionId as ExecutionId
from perdure.core.orchestrations.asking import Asking
from perdure.core.orchestrations.ending import ending
from perdure.core.orchestrations.mismatch import Code, matches, mismatch
from perdure.core.orchestrations.pending import Ask, PendingCall, PendingTimer
from perdure.core.orchestrations.teardown import tear_down
from perdure.core.orchestrations.values import Values
from perdure.model.digests import Digest
from perdure.model.events import (
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    AskedEvent,
    Body,
    CancelRequested,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    Completed,
    DetachedRefused,
    DetachedScheduled,
    DetachedStarted,
    InlineScheduled,
    InputTaken,
    MessageEvent,
    Patched,
    Reported,
    SignalAwaited,
    SignalReceived,
    SignalTaken,
    Started,
    StoredEvent,
    Terminated,
    TimerFired,
    TimerScheduled,
    write_event,
)
from perdure.model.rows import read_row


class Execution(Asking):
    """A live coroutine, its loop, and how far its history goes."""

    __slots__ = (
        "_code_now",
        "_code_then",
        "_digest",
        "_due",
        "_outer_loop",
        "_prefer",
        "_starts",
        "cancel_reason",
        "guard",
        "has_chosen",
        "last_seq",
        "orchestration",
        "since_ms",
        "started_by",
        "terminal",
    )

    def __init__(
        self,
        orchestration: Orchestration[..., Any],
        id: ExecutionId,
        code: str,
        guard: Guard,
        *,
        version: str | None = None,
        prefer: Callable[[str], str] | None = None,
    ) -> None:
        """Make an execution that has not begun.

        Args:
            orchestration: The code.
            id: Which execution this is.
            code: Digest of the code.
            guard: Watches the stretches.
            version: The version on record, or the one to put there; that of the code if not given.
            prefer: Tells to which version of a name an execution goes on that continues as new and
                does not say it; the one it has if not given.
        """
        chosen = orchestration.version if version is None else version
        super().__init__(id, orchestration.name, chosen)
        self.orchestration = orchestration
        self.guard = guard
        self.last_seq = 0
        self.terminal: AskedEvent | Terminated | None = None
        """The last event, once there is one."""
        self.cancel_reason: str | None = None
        self.since_ms = 0
        """When the first execution of the instance started."""
        self.started_by = ""
        self.has_chosen = False
        """Whether the start left the version open, and it was chosen here since the last commit."""
        self._outer_loop: asyncio.AbstractEventLoop | None = None
        self._prefer = prefer
        self._code_now = code
        self._code_then = ""
        self._due: list[tuple[int, int]] = []
        self._starts: list[tuple[int, int]] = []
        self._digest = Digest()

    # -------------------------------------------------------------- both paths

    def replay(self, history: Sequence[StoredEvent]) -> None:
        """Run over recorded events.

        Raises:
            NondeterminismError: The code asks for something else than what is recorded.
            UnreadableEventError: A stored event is damaged or of an unknown kind.
        """
        for _ in self.replaying(history, is_enough=lambda: False):
            pass

    def replaying(
        self, history: Sequence[StoredEvent], is_enough: Callable[[], bool]
    ) -> Generator[None, None, None]:
        """Run over recorded events, and yield between two stretches whenever it is enough for now.

        Between slices others may run. One that is not run to its end is closed before the execution
        is torn down.

        Raises:
            NondeterminismError, UnreadableEventError: As `replay`.
        """
        self.is_replaying = True
        for stored in history:
            if stored.kind == Patched.kind:
                self._know_patch(stored)
        position = 0
        try:
            while position < len(history):
                with self.entered():
                    position = self._replay_slice(history, position, is_enough)
                if position < len(history):
                    yield
        finally:
            self.is_replaying = False
            self.new_report = None
            if self.values is not None:
                self.values.changed.clear()

    def entered(self, outer_loop: asyncio.AbstractEventLoop | None = None) -> Self:
        """Return the execution, to be entered for the stretches of one turn: its loop is the
        running one there, and guarded. Not a generator: this runs for every turn.

        Args:
            outer_loop: The loop that runs now, if somebody knows it.

        Raises:
            NondeterminismError: On leaving, if the code did something that cannot be replayed, at
                any moment of the turn, even if it swallowed the error it got there.
        """
        self._outer_loop = outer_loop or asyncio._get_running_loop()
        return self

    def __enter__(self) -> None:
        self._loop.enter(self._outer_loop)
        self.guard.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.guard.__exit__(kind, error, tb)
        self._loop.__exit__(kind, error, tb)
        if error is None and self.guard.violation is not None:
            raise self.guard.violation

    def advance(
        self, event: MessageEvent, record: list[Body], came: Body | None = None
    ) -> list[Ask]:
        """Apply a message that has no record yet, inside `entered()` and at `now_ms`.

        Adds the event and what follows from it to the record; returns what the code asked for,
        numbered.

        Args:
            event: The message.
            record: The events of the turn.
            came: The message as bytes, which are recorded as they are unless something is added.
        """
        bound = self._bind(event)
        if came is None or bound is not event:
            came = write_event(bound)
        record.append(self._append(came))
        self._apply(bound, self.last_seq)
        asks = self._take_asks()
        for ask in asks:
            record.append(self._append(write_event(ask.event)))
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
            case DetachedStarted(schedule=schedule) | DetachedRefused(schedule=schedule):
                return isinstance(self._open_event(schedule), DetachedScheduled)
            case InputTaken():
                return False  # It was meant for a decider.
        return True

    def digest(self) -> bytes:
        """Return the hash over all events so far."""
        return self._digest.value()

    def next_due_ms(self) -> int | None:
        """Return when the next open timer becomes due."""
        due_ms = self._first_open(self._due) if self._due else None
        if self._starts:
            start_by_ms = self._first_open(self._starts)
            if due_ms is None or (start_by_ms is not None and start_by_ms < due_ms):
                return start_by_ms
        return due_ms

    def _first_open(self, due: list[tuple[int, int]]) -> int | None:
        while due:
            due_ms, seq = due[0]
            if seq in self.open:
                return due_ms
            heapq.heappop(due)
        return None

    def await_start(self, start_by_ms: int, seq: int) -> None:
        """Count the timer of a job that must be started in time."""
        heapq.heappush(self._starts, (start_by_ms, seq))

    def woken_in_vain(self) -> None:
        """Forget a start timer that is due and brought no message.

        The store removes it when a worker takes the job, and nobody tells the owner.
        """
        due_ms = self._first_open(self._starts)
        if due_ms is not None and due_ms <= self.now_ms:
            while self._starts and self._starts[0][0] == due_ms:
                heapq.heappop(self._starts)

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
        undead: list[object] = []
        if tasks or generators:
            with self._loop, self.guard:
                undead = tear_down(tasks, generators, self._begin_tearing)
        self._loop.forget()
        if not undead:
            # Nothing can run here any more, so the circle of execution, loop and context is opened:
            # it is freed now and not by the collector, which has enough to do.
            self._loop.release()
            del self.context
        return undead

    # ------------------------------------------------------------ the stretches

    def _replay_slice(
        self, history: Sequence[StoredEvent], position: int, is_enough: Callable[[], bool]
    ) -> int:
        """Replay from a position on until it is enough; return the next one."""
        while position < len(history):
            position = self._replay_stretch(history, position)
            if is_enough():
                break
        return position

    def _replay_stretch(self, history: Sequence[StoredEvent], position: int) -> int:
        """Apply the message at a position and match what follows; return the next message's."""
        stored = history[position]
        event = read_row(stored)
        if isinstance(event, Patched):
            self._record(stored)
            return position + 1
        if not isinstance(event, MessageEvent) or not self._fits(event):
            raise self._mismatch(history, stored.seq, None)
        self.now_ms = stored.at_ms
        self._record(stored)
        self._apply(event, stored.seq)
        returns = self.orchestration.definition.codec.returns
        for ask in self._take_asks():
            position = self._skip_patches(history, position + 1)
            recorded = history[position] if position < len(history) else None
            if recorded is None or not matches(ask, recorded, returns):
                raise self._mismatch(history, history[0].seq + position, ask)
            self._record(recorded)
            self._number(ask, recorded.seq)
            if isinstance(ask.event, Reported):
                self._set_report(bytes(ask.event.value))
        position += 1
        if position < len(history) and self.terminal is not None:
            raise self._mismatch(history, history[position].seq, None)
        return position

    def _know_patch(self, stored: StoredEvent) -> None:
        event = read_row(stored)
        assert isinstance(event, Patched)
        self._patches[event.change] = True

    def _skip_patches(self, history: Sequence[StoredEvent], position: int) -> int:
        """Pass over recorded changes: what they say is known, and the code may be rid of them."""
        while position < len(history) and history[position].kind == Patched.kind:
            self._record(history[position])
            position += 1
        return position

    def _fits(self, event: MessageEvent) -> bool:
        if isinstance(event, SignalReceived) and event.wait is not None:
            waits = self._waits.get(event.name)
            return bool(waits) and waits is not None and waits[0].seq == event.wait
        return self.accepts(event)

    def _bind(self, event: MessageEvent) -> MessageEvent:
        """Put on record which wait gets a signal (the oldest), and which code and version begin."""
        if isinstance(event, Started):
            if not event.version:
                self.has_chosen = True
                event = msgspec.structs.replace(event, version=self.version)
            is_known = event.code == self._code_now
            return event if is_known else msgspec.structs.replace(event, code=self._code_now)
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
                self._kept.setdefault(name, deque()).append((seq, self.now_ms, event))
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
            case DetachedStarted(schedule=schedule) | DetachedRefused(schedule=schedule):
                self._answer(schedule, event)
        assert self._root is not None
        self._loop.run_until(self._root)

    def _begin(self, event: Started) -> None:
        self.parent = event.parent
        self.lineage = event.lineage
        self.version = event.version
        self.since_ms = event.since_ms or self.now_ms
        self.started_by = event.started_by
        if event.kv:
            self.values = Values(event.kv)
        report = bytes(event.report)
        self.report = None if report == b"null" else report
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
        self._answered_asks = 0
        if self._root is not None and self._root.done() and self.terminal is None:
            last = ending(self._root, self.cancel_reason, self.now_ms, self._preferred)
            self.terminal = last.event
            asks.append(last)
            self._loop.report_lost()
            if isinstance(last.event, Completed):
                self._report_swallowed()
        return asks

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
            elif isinstance(event, ActivityScheduled):
                if event.deadline_ms is not None:
                    heapq.heappush(self._due, (event.deadline_ms, seq))
                if event.start_by_ms is not None and self.is_replaying:
                    # Whether it has a timer, or was started long ago, is not recorded.
                    self.await_start(event.start_by_ms, seq)
        elif isinstance(ask, PendingTimer):
            assert isinstance(event, TimerScheduled)
            self.open[seq] = ask
            heapq.heappush(self._due, (event.due_ms, seq))

    def _preferred(self, name: str) -> str:
        return self.version if self._prefer is None else self._prefer(name)

    def _append(self, body: Body) -> Body:
        self.last_seq += 1
        self._digest.feed(body.kind, self.now_ms, body.body)
        return body

    def _record(self, stored: StoredEvent) -> None:
        self.last_seq = stored.seq
        self._digest.feed(stored.kind, stored.at_ms, stored.body)

    def _mismatch(self, history: Sequence[StoredEvent], seq: int, ask: Ask | None) -> Exception:
        code = Code(self.name, self._code_then, self._code_now)
        return mismatch(self.instance_id, code, history, seq, ask)

    def _open_event(self, schedule: int) -> AskedEvent | None:
        ask = self.open.get(schedule)
        return None if ask is None else ask.event
