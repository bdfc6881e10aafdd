"""Runs a decider on the bare core: no store, no worker, no real time.

`Desk` plays the outside world of one instance. What a turn says is done to plain dicts, as a store
does it to its tables, so that a test can see what would be there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import definition_of
from perdure.core.deciders.answers import Answer, DirectInput, InputOutcome
from perdure.core.deciders.execution import DeciderExecution
from perdure.core.deciders.turn import start_of
from perdure.core.guard import Guard
from perdure.core.identity import ExecutionId
from perdure.core.turn_builder import TurnTerms
from perdure.model.feeds import StoredSnapshot
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    ChildCompleted,
    ChildFailed,
    Event,
    Failure,
    InputTaken,
    MessageEvent,
    StoredEvent,
    read_event,
    write_event,
)
from perdure.model.instances import DefinitionKey, Stamp
from perdure.model.jobs import NewJob
from perdure.model.messages import Message
from perdure.model.turns import NewObservation, NewTimer, Turn
from tests.core.harness import CODE, GUARD, START_MS, raw, takes_nothing


class Desk:
    """One instance of a decider and the outside world around it."""

    def __init__(
        self,
        decider: type[Decider[Any, Any, Any, Any]],
        instance_id: str = "o-1",
        *,
        guard: Guard = GUARD,
    ) -> None:
        self.definition = definition_of(decider)
        self.id = ExecutionId(self.definition.stored_id(instance_id), 77, 1)
        self.guard = guard
        self.now_ms = START_MS
        self.takes: Callable[[DefinitionKey], bool] = takes_nothing
        self.history: list[StoredEvent] = []
        self.timers: dict[str, NewTimer] = {}
        self.jobs: dict[int, NewJob] = {}
        self.unique: str | None = None
        self.receipts: dict[str, bytes] = {}
        self.observations: list[NewObservation] = []
        self.feed: list[tuple[int, str]] = []
        self.snapshots: list[StoredSnapshot] = []
        self.turns: list[Turn] = []
        self.boundaries: list[int] = []
        self.execution = self.new()
        self._next_no = 1

    def new(self) -> DeciderExecution:
        return DeciderExecution(self.definition, self.id, CODE, self.guard)

    # ------------------------------------------------------------------ what goes in

    def execute(self, value: object, **options: Any) -> InputOutcome:
        """Decide an input directly; return the outcome or raise the error."""
        [answer] = self.execute_all(value, **options)
        if answer.error is not None:
            raise answer.error
        assert answer.outcome is not None
        return answer.outcome

    def execute_all(self, *values: object, **options: Any) -> Sequence[Answer]:
        """Decide inputs directly, in one turn."""
        execution = self.execution
        execution.give([self.direct(value, **options) for value in values])
        self.run(() if self.history else (self.start_message(),))
        return execution.answers

    def direct(self, value: object, **options: Any) -> DirectInput:
        return DirectInput(*self.definition.inputs.encode(value), **options)

    def send(self, *values: object, **options: Any) -> Turn:
        """Deliver inputs through the inbox, in one turn."""
        messages = [] if self.history else [self.start_message()]
        return self.run([*messages, *(self.sent(value, **options) for value in values)])

    def sent(self, value: object, **options: Any) -> Message:
        tag, data = self.definition.inputs.encode(value)
        taken = InputTaken(**{"tag": tag, "input": msgspec.Raw(data), "cause": "client", **options})
        return self.message(taken)

    def deliver(self, *events: MessageEvent, timer_key: str | None = None) -> Turn:
        return self.run([self.message(event, timer_key) for event in events])

    def complete(self, seq: int, value: object = None) -> Turn:
        return self.deliver(ActivityCompleted(schedule=seq, result=raw(value)))

    def return_input(self, seq: int, value: object) -> Turn:
        """Let an effect return an input, as a worker writes it."""
        tag, data = self.definition.inputs.encode(value)
        return self.complete(seq, {"tag": tag, "input": msgspec.json.decode(data)})

    def fail(self, seq: int, type_name: str = "ValueError", message: str = "no") -> Turn:
        failures = (Failure(type_name, message),)
        return self.deliver(ActivityFailed(schedule=seq, failures=failures, attempts=3))

    def end_child(self, seq: int, status: str = "completed") -> Turn:
        if status == "completed":
            return self.deliver(ChildCompleted(schedule=seq, result=raw("done")))
        return self.deliver(ChildFailed(schedule=seq, status=status, failure=Failure("E", "no")))

    def due(self, key: str) -> Message:
        """Return the message of a timer, which becomes due now."""
        timer = self.timers[key]
        self.now_ms = max(self.now_ms, timer.due_ms)
        return Message(self._no(), timer.due_ms, timer.kind, timer.body, 1, key)

    def fire(self, key: str) -> Turn:
        message = self.due(key)
        return self.run([message])

    def message(self, event: MessageEvent, timer_key: str | None = None) -> Message:
        kind, body = write_event(event)
        return Message(self._no(), self.now_ms, kind, body, timer_key=timer_key)

    def start_message(self) -> Message:
        new = start_of(
            self.definition.name, self.id.instance_id, None, incarnation=77, now_ms=self.now_ms
        )
        return Message(self._no(), self.now_ms, new.start_kind, new.start_body)

    def _no(self) -> int:
        self._next_no += 1
        return self._next_no - 1

    def run(self, messages: Sequence[Message]) -> Turn:
        """Run a turn and commit it."""
        stamp = Stamp(77, 1, self.execution.last_seq + 1)
        terms = TurnTerms(stamp, 1, "w", self._next_no, 0, self.takes, lease=7)
        turn = self.execution.run(messages, terms, now_ms=self.now_ms)
        self.turns.append(turn)
        self._commit(turn, messages)
        return turn

    def _commit(self, turn: Turn, messages: Sequence[Message]) -> None:
        self.receipts.update((one.input_id, one.outcome) for one in turn.receipts)
        self.observations += turn.observations
        if turn.vanishes:
            self.execution = self.new()
            return
        self._change_timers(turn, messages)
        for kind, body in turn.events:
            self.history.append(StoredEvent(len(self.history) + 1, kind, turn.now_ms, body))
        self._change_jobs(turn)
        if turn.unique is not None:
            self.unique = turn.unique.key
        first = len(self.history) - len(turn.events)
        self.feed += [(first + fed.index + 1, fed.tag) for fed in turn.feed]
        if turn.snapshot is not None:
            self.snapshots.append(StoredSnapshot(len(self.history), *turn.snapshot))
        self.boundaries.append(len(self.history))
        if turn.outcome is not None:
            self.timers.clear()
            self.jobs.clear()
            self.unique = None

    def _change_timers(self, turn: Turn, messages: Sequence[Message]) -> None:
        taken = {message.timer_key for message in messages if message.no in turn.consumed}
        for key in (*taken, *turn.timers_gone):
            self.timers.pop(key or "", None)
        for timer in turn.timers:
            assert timer.key not in self.timers, f"{timer.key} is set twice"
            self.timers[timer.key] = timer

    def _change_jobs(self, turn: Turn) -> None:
        for kind, body in turn.events:
            event = read_event(kind, body)
            if isinstance(event, ActivityCompleted | ActivityFailed):
                self.jobs.pop(event.schedule, None)
        self.jobs.update({job.seq: job for job in turn.jobs})
        for seq in turn.jobs_gone:
            self.jobs.pop(seq, None)

    # ------------------------------------------------------------- what can be seen

    @property
    def events(self) -> list[Event]:
        return [read_event(stored.kind, stored.body) for stored in self.history]

    @property
    def kinds(self) -> list[str]:
        return [stored.kind for stored in self.history]

    @property
    def tags(self) -> list[str]:
        """The tags of the domain events."""
        return [event.tag for event in self.events if event.kind == "event_recorded"]  # type: ignore[attr-defined]  # of that kind

    def last(self, kind: str) -> Any:
        """Return the newest event of a kind."""
        return next(event for event in reversed(self.events) if event.kind == kind)

    def seq_of(self, kind: str, nth: int = 0) -> int:
        """Return the number of an event of a kind; the first by default."""
        return [stored.seq for stored in self.history if stored.kind == kind][nth]

    @property
    def state(self) -> Any:
        return self.execution.state

    def replayed(self, upto: int | None = None) -> DeciderExecution:
        execution = self.new()
        execution.replay(self.history[:upto])
        return execution

    def restored(self, snapshot: StoredSnapshot) -> DeciderExecution:
        execution = self.new()
        assert execution.restore(snapshot)
        execution.replay(self.history[snapshot.seq :])
        return execution

    def reload(self) -> None:
        """Go on as if another process had loaded the instance."""
        self.execution = self.replayed()

    def check(self) -> None:
        """What is in memory is what a replay, and every snapshot, come to; and what is there in
        the store is what the execution thinks is there."""
        live = facts(self.execution)
        assert facts(self.replayed()) == live
        for snapshot in self.snapshots:
            assert facts(self.restored(snapshot)) == live
        if self.execution.notes.terminal is not None:
            return
        keyed = {key.removeprefix("key:") for key in self.timers if key.startswith("key:")}
        assert keyed == set(self.execution.timers)
        waiting = {seq for seq, call in self.execution.open.items() if call.waits_for}
        effects = {
            seq
            for seq, call in self.execution.open.items()
            if call.event.kind == "effect_scheduled"
        }
        assert set(self.jobs) == effects - waiting
        assert self.feed == [
            (stored.seq, tag)
            for (stored, tag) in zip(
                [s for s in self.history if s.kind == "event_recorded"], self.tags, strict=True
            )
        ]


def facts(execution: DeciderExecution) -> dict[str, Any]:
    """Return all that an execution knows, for comparisons."""
    return {
        "state": execution.state,
        "version": execution.fold.version,
        "last_seq": execution.last_seq,
        "digest": execution.digest(),
        "terminal": execution.notes.terminal,
        "is_closing": execution.notes.is_closing,
        "open": {
            seq: (
                write_event(call.event),
                call.at_ms,
                call.correlation,
                call.waits_for,
                call.begun_ms,
            )
            for seq, call in execution.open.items()
        },
        "effects": execution.notes.has_effects,
        "following": dict(execution.notes.following),
        "timers": dict(execution.timers),
        "next_due_ms": None if execution.notes.terminal else execution.notes.due_times.next_ms(),
        "since_ms": execution.since_ms,
        "started_by": execution.started_by,
    }
