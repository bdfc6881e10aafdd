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
from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from perdure.authoring.orchestration import Orchestration
from perdure.codec import ValueCodec
from perdure.core.guard import Guard
from perdure.core.identity import ExecutionId as ExecutionId
from perdure.core.orchestrations.calls import OpenCalls
from perdure.core.orchestrations.ending import ending
from perdure.core.orchestrations.mismatch import Code, matches, mismatch
from perdure.core.orchestrations.pending import Ask
from perdure.core.orchestrations.scope import ExecutionScope
from perdure.core.orchestrations.taken_over import TakenOver
from perdure.core.orchestrations.teardown import tear_down
from perdure.core.orchestrations.values import Values
from perdure.model.histories.digests import Digest
from perdure.model.histories.events import (
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
    PromiseMade,
    Reported,
    SignalReceived,
    Started,
    StoredEvent,
    Terminated,
    TimerFired,
    TimerScheduled,
    WentBack,
    write_event,
)
from perdure.model.histories.lineage import Lineage, Parent
from perdure.model.histories.rows import read_row

_BOUND = frozenset({Started, SignalReceived})
"""Messages that are recorded with something added: see `Execution._bind`."""

_ANSWERED: dict[type[Any], type[Any] | tuple[type[Any], ...]] = {
    ActivityCompleted: (ActivityScheduled, InlineScheduled),
    ActivityFailed: (ActivityScheduled, InlineScheduled),
    ChildCompleted: ChildScheduled,
    ChildFailed: ChildScheduled,
    TimerFired: TimerScheduled,
    DetachedStarted: DetachedScheduled,
    DetachedRefused: DetachedScheduled,
}
"""Of each answer, what it answers."""


class Execution:
    """A live coroutine and how far its history goes.

    Its parts: the `scope`, which is what the code sees, with the loop it runs on; and the `calls`,
    all that it has asked for.
    """

    __slots__ = (
        "__weakref__",
        "_code_now",
        "_code_then",
        "_digest",
        "_outer_loop",
        "_prefer",
        "calls",
        "cancel_reason",
        "execution",
        "guard",
        "has_chosen",
        "id",
        "instance_id",
        "last_seq",
        "lineage",
        "name",
        "open",
        "orchestration",
        "parent",
        "scope",
        "since_ms",
        "started_by",
        "taken_over",
        "terminal",
        "version",
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
        secret: bytes | None = None,
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
            secret: What tokens of promises are signed with; not needed to replay.
        """
        self.id = id
        self.instance_id = id.instance_id
        self.execution = id.execution
        self.orchestration = orchestration
        self.name = orchestration.name
        self.version = orchestration.version if version is None else version
        self.guard = guard
        self.calls = OpenCalls()
        self.open = self.calls.open
        """Everything without an answer, by the number of the event that asked for it."""
        self.scope = ExecutionScope(id, self.name, self.version, self.calls)
        self.scope.secret = secret
        self.parent: Parent | None = None
        self.lineage: Lineage | None = None
        self.last_seq = 0
        self.terminal: AskedEvent | Terminated | None = None
        """The last event, once there is one."""
        self.cancel_reason: str | None = None
        self.taken_over: TakenOver | None = None
        """What it began with, if it was reset or forked."""
        self.since_ms = 0
        """When the first execution of the instance started."""
        self.started_by = ""
        self.has_chosen = False
        """Whether the start left the version open, and it was chosen here since the last commit."""
        self._outer_loop: asyncio.AbstractEventLoop | None = None
        self._prefer = prefer
        self._code_now = code
        self._code_then = ""
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
        scope = self.scope
        scope.is_replaying = True
        for stored in history:
            if stored.kind == Patched.kind:
                self._know_patch(stored)
            elif stored.kind == PromiseMade.kind:
                self._know_promise(stored)
        position = 0
        try:
            while position < len(history):
                with self.entered():
                    position = self._replay_slice(history, position, is_enough)
                if position < len(history):
                    yield
        finally:
            scope.is_replaying = False
            scope.new_report = None
            if scope.values is not None:
                scope.values.changed.clear()

    def entered(self, outer_loop: asyncio.AbstractEventLoop | None = None) -> Self:
        """Return the execution, to be entered for the stretches of one turn: its loop is the
        running one there, and guarded. Not a generator: this runs for every turn.

        Args:
            outer_loop: The loop that runs now, if the caller knows it.

        Raises:
            NondeterminismError: On leaving, if the code did something that cannot be replayed, at
                any moment of the turn, even if it swallowed the error it got there.
        """
        self._outer_loop = outer_loop or asyncio._get_running_loop()
        return self

    def __enter__(self) -> None:
        self.scope.loop.enter(self._outer_loop)
        self.guard.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.guard.__exit__(kind, error, tb)
        self.scope.loop.__exit__(kind, error, tb)
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
        bound = self._bind(event) if type(event) in _BOUND else event
        if came is None or bound is not event:
            came = write_event(bound)
        feed, now_ms = self._digest.feed, self.scope.now_ms
        seq = self.last_seq = self.last_seq + 1
        feed(came.kind, now_ms, came.body)
        record.append(came)
        self._apply(bound, seq)
        asks = self._take_asks()
        for ask in asks:
            body = write_event(ask.event)
            seq += 1
            feed(body.kind, now_ms, body.body)
            record.append(body)
            self.calls.number(ask, seq, is_replaying=False)
        self.last_seq = seq
        return asks

    def accepts(self, event: MessageEvent) -> bool:
        """Return whether a message still means something: its call is open, or it cancels first."""
        answered = _ANSWERED.get(type(event))
        if answered is not None:
            ask = self.open.get(event.schedule)  # type: ignore[attr-defined]  # answers have one
            return ask is not None and isinstance(ask.event, answered)
        match event:
            case Started():
                return self.scope.root is None
            case CancelRequested():
                return self.cancel_reason is None
            case InputTaken():
                return False  # It was meant for a decider.
            case WentBack():
                return self.taken_over is not None and self.last_seq <= self.taken_over.cut
        return True

    def digest(self) -> bytes:
        """Return the hash over all events so far."""
        return self._digest.value()

    def tear_down(self) -> list[object]:
        """End the coroutine without a trace: nothing it does from now on is asked for.

        Returns coroutines that would not end. They must be kept: the garbage collector would run
        them again.
        """
        scope, loop = self.scope, self.scope.loop
        if loop.is_closed():
            return []
        # Silences the log of user code and its warnings: what runs from here on never happened.
        scope.is_replaying = True
        scope.begin_tearing()
        tasks, generators = loop.dismantle()
        undead: list[object] = []
        if tasks or generators:
            with loop, self.guard:
                undead = tear_down(tasks, generators, scope.begin_tearing)
        loop.forget()
        if not undead:
            # Nothing can run here any more, so the circle of scope, loop and context is opened: it
            # is freed now and not by the collector, which has enough to do.
            loop.release()
            del scope.context
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
        self.scope.now_ms = stored.at_ms
        self._record(stored)
        self._apply(event, stored.seq)
        returns = self.orchestration.definition.codec.returns
        for ask in self._take_asks():
            position = self._skip_patches(history, position + 1)
            recorded = history[position] if position < len(history) else None
            if recorded is None or not self._is_asked(ask, recorded, returns):
                raise self._mismatch(history, history[0].seq + position, ask)
            self._record(recorded)
            self.calls.number(ask, recorded.seq, is_replaying=True)
            if isinstance(ask.event, Reported):
                self.scope.set_report(bytes(ask.event.value))
        position += 1
        if position < len(history) and self.terminal is not None:
            raise self._mismatch(history, history[position].seq, None)
        return position

    def _is_asked(self, ask: Ask, recorded: StoredEvent, returns: ValueCodec[Any]) -> bool:
        if matches(ask, recorded, returns):
            return True
        return self.taken_over is not None and self.taken_over.matches(ask, recorded)

    def _know_patch(self, stored: StoredEvent) -> None:
        event = read_row(stored)
        assert isinstance(event, Patched)
        self.scope.patches[event.change] = True

    def _know_promise(self, stored: StoredEvent) -> None:
        event = read_row(stored)
        assert isinstance(event, PromiseMade)
        self.scope.promises[event.number] = event

    def _skip_patches(self, history: Sequence[StoredEvent], position: int) -> int:
        """Pass over recorded changes: what they say is known, and the code may be rid of them."""
        while position < len(history) and history[position].kind == Patched.kind:
            self._record(history[position])
            position += 1
        return position

    def _fits(self, event: MessageEvent) -> bool:
        if isinstance(event, SignalReceived) and event.wait is not None:
            waits = self.calls.waits.get(event.name)
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
            waits = self.calls.waits.get(event.name)
            if waits:
                return msgspec.structs.replace(event, wait=waits[0].seq)
        return event

    def _apply(self, event: MessageEvent, seq: int) -> None:
        scope, calls = self.scope, self.calls
        match event:
            case Started():
                self._begin(event)
            case (
                ActivityCompleted(schedule=schedule)
                | ActivityFailed(schedule=schedule)
                | ChildCompleted(schedule=schedule)
                | ChildFailed(schedule=schedule)
            ):
                calls.answer(schedule, event)
            case TimerFired(schedule=schedule):
                scope.loop.fire(calls.take_timer(schedule))
            case SignalReceived(wait=None):
                calls.keep_signal(seq, scope.now_ms, event)
            case SignalReceived(name=name, wait=wait):
                waiting = calls.waits[name].popleft()
                assert wait is not None
                calls.note_taken(event, waiting.request.place)
                calls.answer(wait, event)
            case CancelRequested(reason=reason):
                self.cancel_reason = reason
                assert scope.root is not None
                scope.root.cancel(reason)
            case Terminated():
                self.terminal = event
                return
            case WentBack():
                assert self.taken_over is not None
                self.taken_over.end(event, seq, calls)
                return
            case DetachedStarted(schedule=schedule) | DetachedRefused(schedule=schedule):
                calls.answer(schedule, event)
        assert scope.root is not None
        scope.loop.run_until(scope.root)

    def _begin(self, event: Started) -> None:
        scope = self.scope
        scope.parent = self.parent = event.parent
        scope.version = self.version = event.version
        self.lineage = event.lineage
        scope.slot = event.slot
        self.since_ms = event.since_ms or scope.now_ms
        self.started_by = event.started_by
        if event.kv:
            scope.values = Values(event.kv)
        report = bytes(event.report)
        scope.report = None if report == b"null" else report
        self._code_then = event.code
        if event.origin is not None:
            self.taken_over = TakenOver(event.origin, scope)
        # An empty context: what the worker's own code has set must not reach an orchestration.
        context = contextvars.Context()
        scope.root = scope.loop.start(self._main(bytes(event.input)), context)

    def asked_by(self, seq: int) -> ExecutionId:
        """Return the execution that has first asked for what is recorded as event number `seq`."""
        return self.id if self.taken_over is None else self.taken_over.asked_by(seq, self.id)

    async def _main(self, input: bytes) -> bytes:
        definition = self.orchestration.definition
        args, kwargs = definition.codec.decode(input)
        if definition.takes_context:
            args.insert(0, self.scope.context)
        definition.add_fresh_defaults(args, kwargs)
        result = await definition.fn(*args, **kwargs)
        return definition.codec.returns.encode(result, f"result of {self.name}")

    def _take_asks(self) -> list[Ask]:
        """Return what the code asked for since the last time, its end included."""
        asks = self.calls.take()
        scope, root = self.scope, self.scope.root
        if scope.sent_bytes:
            scope.sent_bytes = 0
        if root is not None and root.done() and self.terminal is None:
            last = ending(root, self.cancel_reason, scope.now_ms, self._preferred)
            self.terminal = last.event
            asks.append(last)
            scope.loop.report_lost()
            if isinstance(last.event, Completed):
                scope.report_swallowed()
        return asks

    def _preferred(self, name: str) -> str:
        return self.version if self._prefer is None else self._prefer(name)

    def _record(self, stored: StoredEvent) -> None:
        self.last_seq = stored.seq
        self._digest.feed(stored.kind, stored.at_ms, stored.body)

    def _mismatch(self, history: Sequence[StoredEvent], seq: int, ask: Ask | None) -> Exception:
        code = Code(self.name, self._code_then, self._code_now)
        return mismatch(self.instance_id, code, history, seq, ask)
