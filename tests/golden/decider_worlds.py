"""What happens around each decider while its history is recorded.

The name of a world is the name of the file its history is kept in. Once that is recorded the world
is only documentation: the histories are replayed without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import definition_of
from perdure.authoring.registry import BEHAVIOUR
from perdure.core.deciders.answers import Answer, DirectInput
from perdure.core.deciders.execution import DeciderExecution
from perdure.core.guard import Guard
from perdure.core.identity import ExecutionId
from perdure.core.turn_builder import TurnTerms
from perdure.model.histories.events import (
    NULL,
    ActivityCompleted,
    ActivityFailed,
    Body,
    CancelRequested,
    ChildCompleted,
    ChildFailed,
    EffectRetried,
    Failure,
    InputTaken,
    MessageEvent,
    Started,
    StoredEvent,
    Terminated,
    read_event,
    write_event,
)
from perdure.model.instances import Stamp
from perdure.model.messages import Message
from tests.golden import decider_programs as programs

AnyDecider = type[Decider[Any, Any, Any, Any]]

START_MS = 1_800_000_000_000
INCARNATION = 7_700_000_078
CODE = "c0de"
GUARD = Guard(watch_calls=True)
OWN_CAUSES = ("effect:", "retried:", "dead:", "ended:")
"""Causes of inputs that are no messages: they follow from one."""


def new_execution(decider: AnyDecider, instance_id: str) -> DeciderExecution:
    """Return an execution that has not begun."""
    number = ExecutionId(instance_id, INCARNATION, 1)
    return DeciderExecution(definition_of(decider), number, CODE, GUARD)


def run_turn(
    execution: DeciderExecution,
    messages: Sequence[Message],
    direct: Sequence[DirectInput] = (),
    *,
    now_ms: int,
) -> tuple[Body, ...]:
    """Run one turn and return what it records."""
    stamp = Stamp(INCARNATION, 1, execution.last_seq + 1)
    terms = TurnTerms(stamp, 1, "w", 0, 0, lambda _: False, lease=7)
    execution.give(direct)
    return execution.run(messages, terms, now_ms=now_ms).events


def as_message(event: MessageEvent, at_ms: int, no: int = 1) -> Message:
    """Return an event as it came in: a timer's with the key it was kept under."""
    kind, body = write_event(event)
    timer_key = None
    if isinstance(event, InputTaken) and event.cause.startswith("timer:"):
        timer_key = f"key:{event.cause.removeprefix('timer:')}"
    return Message(no, at_ms, kind, body, timer_key=timer_key)


class DeciderWorld:
    """One instance and the outside world around it. Some time passes before everything."""

    def __init__(self, decider: AnyDecider, own_id: str) -> None:
        self.definition = definition_of(decider)
        self.instance_id = self.definition.stored_id(own_id)
        self.execution = new_execution(decider, self.instance_id)
        self.history: list[StoredEvent] = []
        self.now_ms = START_MS

    def take(self, *events: MessageEvent, direct: Sequence[DirectInput] = ()) -> None:
        """Run one turn."""
        self.now_ms += 7
        all_events = events if self.history else (self._start(), *events)
        messages = [as_message(each, self.now_ms, no) for no, each in enumerate(all_events, 1)]
        for kind, body in run_turn(self.execution, messages, direct, now_ms=self.now_ms):
            self.history.append(StoredEvent(len(self.history) + 1, kind, self.now_ms, body))

    def _start(self) -> Started:
        name = self.definition.name
        return Started(name=name, version="", behaviour=BEHAVIOUR, input=NULL)

    def execute(self, input: object, **facts: Any) -> Answer:
        """Give an input, as a client that waits."""
        tag, data = self.definition.inputs.encode(input)
        self.take(direct=[DirectInput(tag, data, **facts)])
        [answer] = self.execution.answers
        return answer

    def send(self, *inputs: object, cause: str = "client", **facts: Any) -> None:
        """Give inputs through the inbox."""
        tagged = [self.definition.inputs.encode(each) for each in inputs]
        self.take(
            *(InputTaken(tag=t, input=msgspec.Raw(d), cause=cause, **facts) for t, d in tagged)
        )

    def fire(self, key: str) -> None:
        """Let a timer fire."""
        [armed] = [
            event
            for event in map(self.event, range(len(self.history), 0, -1))
            if event.kind == "timer_armed" and event.key == key
        ][:1]
        self.now_ms = armed.due_ms
        self.take(InputTaken(tag=armed.tag, input=armed.input, cause=f"timer:{key}"))

    def event(self, seq: int) -> Any:
        """Return an event of the history."""
        stored = self.history[seq - 1]
        return read_event(stored.kind, stored.body)

    def asked(self, name: str) -> int:
        """Return the number of the first open effect or orchestration of a name."""
        return next(seq for seq in self.execution.open if self.event(seq).name == name)

    def complete(self, name: str, value: object = None) -> None:
        """Let an effect end well."""
        result = msgspec.Raw(json.dumps(value).encode())
        self.take(ActivityCompleted(schedule=self.asked(name), result=result))

    def fail(self, name: str) -> None:
        """Let an effect fail for good."""
        failures = (Failure("OSError", "no route", at_ms=1), Failure("Declined", "no", at_ms=2))
        self.take(ActivityFailed(schedule=self.asked(name), failures=failures, attempts=2))

    def retry(self, seq: int, value: object = None) -> None:
        """Let an effect that is dead return after all, or die again if there is no value."""
        effect = self.event(seq)
        retried = EffectRetried(
            effect=seq, activity=effect.name, returns_input=effect.returns_input, correlation="c-1"
        )
        if value is None:
            failures = (Failure("OSError", "no route", at_ms=1), Failure("Lost", "still", at_ms=2))
            facts = {"failures": failures, "attempts": 2, "input": effect.input}
        else:
            facts = {"result": msgspec.Raw(json.dumps(value).encode())}
        self.take(msgspec.structs.replace(retried, **facts))


class GoldenDecider(NamedTuple):
    """A history to record."""

    name: str
    program: str
    """The decider that recorded it, by its name in the module."""
    replayed_by: tuple[str, ...]
    """Further deciders that must fold it."""
    record: Callable[[], DeciderWorld]


GOLDEN_DECIDERS: dict[str, GoldenDecider] = {}
Play = Callable[[DeciderWorld], None]


def golden(
    program: AnyDecider, own_id: str, *, replayed_by: tuple[str, ...] = ()
) -> Callable[[Play], Play]:
    """Register what happens around a decider."""

    def add(play: Play) -> Play:
        def record() -> DeciderWorld:
            world = DeciderWorld(program, own_id)
            play(world)
            return world

        name = play.__name__
        GOLDEN_DECIDERS[name] = GoldenDecider(name, program.__name__, replayed_by, record)
        return play

    return add


PLACE = programs.Place("o-1", Decimal("129.00"), email="ada@example.org")
PAID = {"tag": "Paid", "input": {"order_id": "o-1", "reference": "ref-1"}}


@golden(programs.Stock, "chair")
def inputs_are_accepted_with_a_reply_and_rejected(world: DeciderWorld) -> None:
    world.execute(programs.Reserve("chair", 4), input_id="req-1", correlation="cart-7")
    world.send(programs.Reserve("chair", 7), programs.Reserve("chair", 6), input_id="")
    assert world.execute(programs.Reserve("chair", 1)).outcome is not None


@golden(programs.Order, "o-1")
def an_order_is_paid_and_shipped(world: DeciderWorld) -> None:
    world.execute(PLACE, input_id="req-1")
    world.complete("charge", PAID)
    world.complete("write")
    world.take(ChildCompleted(schedule=world.asked("ship"), result=msgspec.Raw(b'"o-1"')))
    world.complete("write")


@golden(programs.Order, "o-1")
def an_order_expires_after_reminders(world: DeciderWorld) -> None:
    world.send(PLACE, cause="decider:cart:7")
    world.fire("remind")
    world.fire("remind")
    world.complete("write")
    world.fail("write")
    world.fire("expire")
    world.complete("charge", PAID)


@golden(programs.Order, "o-1")
def an_effect_fails_for_good(world: DeciderWorld) -> None:
    world.execute(PLACE)
    world.fail("charge")


@golden(programs.Order, "o-1")
def a_started_orchestration_fails(world: DeciderWorld) -> None:
    world.execute(PLACE)
    world.complete("charge", PAID)
    failure = Failure("ValueError", "no van", at_ms=3)
    ended = ChildFailed(schedule=world.asked("ship"), status="failed", failure=failure)
    world.take(ended)


@golden(programs.Order, "o-1")
def an_order_is_open(world: DeciderWorld) -> None:
    world.send(PLACE, PLACE, cause="projection:carts")
    world.fire("remind")


@golden(programs.Order, "o-2")
def an_order_waits_for_payment_and_is_cancelled(world: DeciderWorld) -> None:
    world.execute(programs.Place("o-2", Decimal(7)), cause="orchestration:checkout-1")
    world.take(CancelRequested(reason="enough"))


@golden(programs.Order, "o-2")
def an_order_waits_for_payment_and_is_terminated(world: DeciderWorld) -> None:
    world.execute(programs.Place("o-2", Decimal(7)))
    world.take(Terminated(reason="at once"))


@golden(programs.Counter, "c-1", replayed_by=("CounterInUnits",))
def events_are_read_in_another_shape_later(world: DeciderWorld) -> None:
    world.execute(programs.Add("c-1", 2))
    world.execute(programs.Add("c-1", 5))
    world.fire("end")


@golden(programs.CounterInUnits, "c-1")
def events_are_written_in_a_second_shape(world: DeciderWorld) -> None:
    world.send(programs.Add("c-1", 2), programs.Add("c-1", 5))


@golden(programs.Parcel, "p-1")
def a_dead_effect_is_retried_dies_again_and_returns_at_last(world: DeciderWorld) -> None:
    world.execute(programs.Post("p-1"), correlation="c-1")
    seq = world.asked("post")
    world.fail("post")
    world.retry(seq)
    world.retry(seq, {"tag": "Posted", "input": {"parcel_id": "p-1", "number": "77"}})
