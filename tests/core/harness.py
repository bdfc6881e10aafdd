"""Runs orchestrations on the bare core: no store, no worker, no real time.

`Script` plays the outside world. It answers the calls of an execution as the test says and keeps
the history, which can be replayed here or, with `elsewhere`, in another process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import BEHAVIOUR
from perdure.core.guard import Guard
from perdure.core.orchestrations.execution import Execution, ExecutionId
from perdure.core.orchestrations.turn import run_turn
from perdure.core.turn_builder import TurnTerms
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    Body,
    CancelRequested,
    ChildCompleted,
    ChildFailed,
    DetachedRefused,
    DetachedStarted,
    Event,
    Failed,
    Failure,
    MessageEvent,
    SignalReceived,
    Started,
    StoredEvent,
    Terminated,
    TimerFired,
    read_event,
    write_event,
)
from perdure.model.instances import DefinitionKey, Stamp
from perdure.model.messages import Message
from perdure.model.turns import Turn, has_more

START_MS = 1_800_000_000_000
ID = ExecutionId("i-1", 77, 1)
GUARD = Guard(watch_calls=True)
CODE = "c0de"
SECRET = b"the secret of a store, 32 bytes!"
"""What tokens of promises are signed with."""

executions: list[Execution] = []
"""Everything made by the running test; a fixture tears it down."""


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value, separators=(",", ":")).encode())


def new_execution(
    orchestration: Orchestration[..., Any],
    *,
    id: ExecutionId = ID,
    code: str = CODE,
    guard: Guard = GUARD,
    version: str | None = None,
    prefer: Callable[[str], str] | None = None,
) -> Execution:
    execution = Execution(
        orchestration, id, code, guard, version=version, prefer=prefer, secret=SECRET
    )
    executions.append(execution)
    return execution


def takes_nothing(_: DefinitionKey) -> bool:
    return False


class Script:
    """One instance and the outside world around it."""

    def __init__(
        self,
        orchestration: Orchestration[..., Any],
        *args: Any,
        id: ExecutionId = ID,
        guard: Guard = GUARD,
        version: str | None = None,
        prefer: Callable[[str], str] | None = None,
        started: Mapping[str, Any] | None = None,
        unread: Sequence[MessageEvent] = (),
        **kwargs: Any,
    ) -> None:
        """Begin.

        Args:
            orchestration: The code.
            args: Its arguments.
            id: Which execution of which instance.
            guard: Watches it.
            version: The version that the worker puts on record, if not that of the code.
            prefer: To which version a plain continue-as-new goes.
            started: Further fields of the start message.
            unread: Messages that are there before the first turn.
            kwargs: Further arguments.
        """
        self.orchestration = orchestration
        self.guard = guard
        self.execution = new_execution(
            orchestration, id=id, guard=guard, version=version, prefer=prefer
        )
        self.history: list[StoredEvent] = []
        self.turns: list[Turn] = []
        self.boundaries: list[int] = []
        """How long the history was after each turn."""
        self.now_ms = START_MS
        self.takes: Callable[[DefinitionKey], bool] = takes_nothing
        self._next_no = 1
        encoded = orchestration.definition.codec.encode(args, kwargs)
        fields = {
            "name": orchestration.name,
            "version": orchestration.version,
            "behaviour": BEHAVIOUR,
            "input": msgspec.Raw(encoded),
        }
        self.deliver(Started(**{**fields, **(started or {})}), *unread)

    def continued(self, by: Orchestration[..., Any] | None = None) -> Script:
        """Begin the next execution, as the commit of the last turn has it."""
        continued = self.turns[-1].continued
        assert continued is not None, "it has not continued as new"
        start = read_event(*continued.start)
        unread = [read_event(kind, body) for _, kind, body in continued.unread]
        old = self.execution.id
        return Script(
            by or self.orchestration,
            id=old._replace(execution=old.execution + 1),
            guard=self.guard,
            started={field: getattr(start, field) for field in start.__struct_fields__},
            unread=[event for event in unread if isinstance(event, MessageEvent)],
        )

    def deliver(self, *events: MessageEvent, timer_key: str | None = None) -> Turn:
        """Run one turn over these messages."""
        return self.deliver_messages([self.message(event, timer_key) for event in events])

    def message(self, event: MessageEvent, timer_key: str | None = None) -> Message:
        kind, body = write_event(event)
        self._next_no += 1
        return Message(self._next_no - 1, self.now_ms, kind, body, timer_key=timer_key)

    def deliver_messages(self, messages: Sequence[Message]) -> Turn:
        _, incarnation, number = self.execution.id
        stamp = Stamp(incarnation, number, self.execution.last_seq + 1)
        terms = TurnTerms(stamp, 1, "w", self._next_no, 0, self.takes, lease=7)
        turn = run_turn(self.execution, messages, terms, now_ms=self.now_ms)
        assert not (turn.is_plain and has_more(turn))
        for kind, body in turn.events:
            self.history.append(StoredEvent(len(self.history) + 1, kind, turn.now_ms, body))
        self.turns.append(turn)
        self.boundaries.append(len(self.history))
        return turn

    # What the outside world can do; a call is named by the number of the event that asked for it.

    def complete(self, seq: int, value: object = None) -> Turn:
        return self.deliver(ActivityCompleted(schedule=seq, result=raw(value)))

    def fail(self, seq: int, type_name: str = "ValueError", message: str = "no") -> Turn:
        return self.deliver(ActivityFailed(schedule=seq, failures=(Failure(type_name, message),)))

    def child_completes(self, seq: int, value: object = None) -> Turn:
        return self.deliver(ChildCompleted(schedule=seq, result=raw(value)))

    def child_fails(self, seq: int, status: str = "failed") -> Turn:
        return self.deliver(
            ChildFailed(schedule=seq, status=status, failure=Failure("ValueError", "no"))
        )

    def detached_starts(self, seq: int) -> Turn:
        return self.deliver(DetachedStarted(schedule=seq))

    def detached_is_refused(self, seq: int) -> Turn:
        taken = Failure("AlreadyExistsError", "the id is taken")
        return self.deliver(DetachedRefused(schedule=seq, failure=taken))

    def fire(self, seq: int | None = None) -> Turn:
        """Fire a timer, by default the one that is due next."""
        if seq is None:
            timers = [seq for seq in self.open if self.event(seq).kind == "timer_scheduled"]
            seq = min(timers, key=lambda seq: (self.event(seq).due_ms, seq))
        self.now_ms = max(self.now_ms, self.event(seq).due_ms)
        return self.deliver(TimerFired(schedule=seq))

    def signal(self, name: str, value: object) -> Turn:
        return self.deliver(SignalReceived(name=name, value=raw(value)))

    def cancel(self, reason: str = "enough") -> Turn:
        return self.deliver(CancelRequested(reason=reason))

    def terminate(self, reason: str = "stop") -> Turn:
        return self.deliver(Terminated(reason=reason))

    # The same in terms of `programs.say`: a call is named by the word, the answer is the word
    # in capitals.

    def say(self, *words: str) -> None:
        for word in words:
            self.complete(self.asked(word), word.upper())

    def say_together(self, *words: str) -> Turn:
        """Answer several calls in one turn."""
        answers = [
            ActivityCompleted(schedule=self.asked(word), result=raw(word.upper())) for word in words
        ]
        return self.deliver(*answers)

    def refuse(self, word: str) -> None:
        self.fail(self.asked(word))

    def asked(self, word: str) -> int:
        for seq in self.open:
            event = self.event(seq)
            if hasattr(event, "input") and json.loads(bytes(event.input)) == {"word": word}:
                return seq
        raise AssertionError(f"nobody waits for {word!r}: {self.words}")

    # What the test can see.

    def event(self, seq: int) -> Any:
        stored = self.history[seq - 1]
        return read_event(stored.kind, stored.body)

    @property
    def events(self) -> list[Event]:
        return [self.event(seq) for seq in range(1, len(self.history) + 1)]

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.history]

    @property
    def open(self) -> list[int]:
        return list(self.execution.open)

    @property
    def words(self) -> list[str]:
        """The words of the open calls of `say`, in the order of asking."""
        inputs = [getattr(self.event(seq), "input", None) for seq in self.open]
        return [json.loads(bytes(given)).get("word") for given in inputs if given is not None]

    @property
    def has_ended(self) -> bool:
        return self.execution.terminal is not None

    @property
    def result(self) -> Any:
        last = self.event(len(self.history))
        assert last.kind == "completed", last
        return json.loads(bytes(last.result))

    @property
    def next_input(self) -> Any:
        """The arguments that it continued with."""
        last = self.event(len(self.history))
        assert last.kind == "continued_as_new", last
        return json.loads(bytes(last.input))

    @property
    def values(self) -> dict[str, Any]:
        """What it keeps by key."""
        kept = self.execution.scope.kv
        return {key: json.loads(bytes(kept[key].value)) for key in sorted(kept)}

    @property
    def report(self) -> Any:
        """What it says of itself."""
        report = self.execution.scope.report
        return None if report is None else json.loads(report)

    @property
    def failure(self) -> Failure:
        last = self.event(len(self.history))
        assert last.kind == "failed", last
        failure: Failure = last.failure
        return failure

    def answer_all(self, answer: Callable[[Any], object] | None = None) -> None:
        """Answer open calls, oldest first, until the orchestration ends or waits for a signal."""
        for _ in range(100_000):
            if self.has_ended:
                return
            waiting = [seq for seq in self.open if self.event(seq).kind != "signal_awaited"]
            if not waiting:
                return
            self.answer(waiting[0], answer)

    def answer(self, seq: int, answer: Callable[[Any], object] | None = None) -> None:
        """Answer one open call: timers fire, everything else returns what `answer` says."""
        event = self.event(seq)
        if event.kind == "timer_scheduled":
            self.fire(seq)
            return
        value = seq if answer is None else answer(event)
        if event.kind == "child_scheduled":
            self.child_completes(seq, value)
        elif event.kind == "detached_scheduled":
            self.detached_starts(seq)
        else:
            self.complete(seq, value)

    # Replay.

    def replayed(
        self,
        upto: int | None = None,
        *,
        by: Orchestration[..., Any] | None = None,
        code: str = CODE,
    ) -> Execution:
        """Replay the history (or its beginning) with a new execution, perhaps of other code."""
        execution = new_execution(
            by or self.orchestration, id=self.execution.id, code=code, guard=self.guard
        )
        execution.replay(self.history[:upto])
        return execution

    def check_every_beginning(self) -> None:
        """Replay up to each turn, and go on from there: the rest must come out the same (S10)."""
        for length in self.boundaries:
            execution = self.replayed(length)
            assert_same(go_on(execution, self.history[length:]), self.history[length:])
            assert execution.digest() == self.execution.digest()
            assert list(execution.open) == self.open
            assert execution.scope.kv == self.execution.scope.kv
            assert execution.scope.report == self.execution.scope.report


def go_on(execution: Execution, rest: Sequence[StoredEvent]) -> list[Body]:
    """Give a replayed execution the messages of the rest of its history; return what it records."""
    record: list[Body] = []
    with execution.entered():
        for message, at_ms in _messages(rest):
            execution.scope.now_ms = at_ms
            execution.advance(message, record)
    return record


def _messages(history: Sequence[StoredEvent]) -> Iterator[tuple[MessageEvent, int]]:
    for stored in history:
        event = read_event(stored.kind, stored.body)
        if isinstance(event, SignalReceived):
            event = msgspec.structs.replace(event, wait=None)  # as it was before it was recorded
        if isinstance(event, MessageEvent):
            yield event, stored.at_ms


def assert_same(record: Sequence[Body], history: Sequence[StoredEvent]) -> None:
    assert [event.kind for event in record] == [event.kind for event in history]
    for ours, theirs in zip(record, history, strict=True):
        if ours.kind != Failed.kind:  # holds a traceback
            assert ours.body == theirs.body
