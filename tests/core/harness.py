"""Runs orchestrations on the bare core: no store, no worker, no real time.

`Script` plays the outside world. It answers the calls of an execution as the test says and keeps the
history, which can be replayed here or, with `replay_elsewhere`, in another process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import BEHAVIOUR
from perdure.core.replay import Execution, ExecutionId
from perdure.core.turn import TurnTerms, run_turn
from perdure.model.events import (
    ActivityCompleted,
    ActivityFailed,
    CancelRequested,
    ChildCompleted,
    ChildFailed,
    Failure,
    MessageEvent,
    SignalReceived,
    Started,
    StoredEvent,
    TimerFired,
    read_event,
    write_event,
)
from perdure.model.instances import Stamp
from perdure.model.messages import Message
from perdure.model.turns import Turn

START_MS = 1_800_000_000_000
ID = ExecutionId("i-1", 77, 1)


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value, separators=(",", ":")).encode())


class Script:
    """One instance and the outside world around it."""

    def __init__(
        self, orchestration: Orchestration[..., Any], *args: Any, id: ExecutionId = ID, **kwargs: Any
    ) -> None:
        self.orchestration = orchestration
        self.execution = Execution(orchestration, id, "c0de")
        self.history: list[StoredEvent] = []
        self.turns: list[Turn] = []
        self.now_ms = START_MS
        self._next_no = 1
        input = orchestration.definition.codec.encode(args, kwargs)
        self.deliver(
            Started(
                name=orchestration.name,
                version=orchestration.version,
                behaviour=BEHAVIOUR,
                input=msgspec.Raw(input),
                code="c0de",
            )
        )

    def deliver(self, *events: MessageEvent) -> Turn:
        """Run one turn over these messages."""
        messages = []
        for event in events:
            kind, body = write_event(event)
            messages.append(Message(self._next_no, self.now_ms, kind, body))
            self._next_no += 1
        return self.deliver_messages(messages)

    def deliver_messages(self, messages: Sequence[Message]) -> Turn:
        stamp = Stamp(self.execution.id.incarnation, 1, self.execution.last_seq + 1)
        terms = TurnTerms(stamp, 1, "w", self._next_no, 0, lambda _: False)
        turn = run_turn(self.execution, messages, terms, now_ms=self.now_ms)
        for kind, body in turn.events:
            self.history.append(StoredEvent(len(self.history) + 1, kind, turn.now_ms, body))
        self.turns.append(turn)
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

    def fire(self, seq: int) -> Turn:
        self.now_ms = max(self.now_ms, self.event(seq).due_ms)
        return self.deliver(TimerFired(schedule=seq))

    def signal(self, name: str, value: object) -> Turn:
        return self.deliver(SignalReceived(name=name, value=raw(value)))

    def cancel(self, reason: str = "enough") -> Turn:
        return self.deliver(CancelRequested(reason=reason))

    # What the test can see.

    def event(self, seq: int) -> Any:
        stored = self.history[seq - 1]
        return read_event(stored.kind, stored.body)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.history]

    @property
    def open(self) -> list[int]:
        return list(self.execution.open)

    @property
    def result(self) -> Any:
        last = self.event(len(self.history))
        assert last.kind == "completed", last
        return json.loads(bytes(last.result))

    @property
    def failure(self) -> Failure:
        last = self.event(len(self.history))
        assert last.kind == "failed", last
        failure: Failure = last.failure
        return failure

    def answer_all(self, answer: Callable[[Any], object] | None = None) -> None:
        """Answer open calls, oldest first, until the orchestration ends or waits for a signal."""
        for _ in range(100_000):
            if self.execution.terminal is not None:
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
        else:
            self.complete(seq, value)

    def replayed(self, upto: int | None = None) -> Execution:
        """Replay the history (or its beginning) with a new execution."""
        execution = Execution(self.orchestration, self.execution.id, "c0de")
        execution.replay(self.history[:upto])
        return execution
