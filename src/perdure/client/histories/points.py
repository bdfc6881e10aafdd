"""Places in a history that an instance goes back to, as callers name them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from perdure.authoring.activity import Activity
from perdure.authoring.orchestration import Orchestration
from perdure.codec import ValueCodec, check_id
from perdure.core.rewinding import Cut, cut_at
from perdure.errors import UsageError
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    DetachedScheduled,
    Event,
    InlineScheduled,
    StoredEvent,
    read_event,
)

T = TypeVar("T")

Side = Literal["before", "after", "event"]
_CALLS = ActivityScheduled | InlineScheduled | ChildScheduled | DetachedScheduled
_ANSWERS = ActivityCompleted | ActivityFailed | ChildCompleted | ChildFailed


@dataclass(frozen=True)
class Point:
    """A place in a history: what is kept of it, and with what the code goes on from there."""

    text: str
    """The place in words."""
    side: Side = "event"
    name: str = ""
    """Which call; of an event nothing."""
    number: int = -1
    """Which of the calls of that name, counted as in a list; or the number of the event."""
    result: bytes | None = None
    """What the call returns in place of what is recorded, as JSON; None: that."""


class After(Point, Generic[T]):
    """Behind the result of a call. In two steps, so that a checker compares the value with the
    activity's own type."""

    def __init__(self, name: str, number: int, codec: ValueCodec[Any]) -> None:
        super().__init__(_text("after", name, number), "after", name, number)
        object.__setattr__(self, "_codec", codec)

    def returning(self, value: T, /) -> Point:
        """Return the same place, with another result than the recorded one.

        Raises:
            PayloadError: The value is not of the type that the call returns.
        """
        codec: ValueCodec[Any] = self.__dict__["_codec"]
        result = codec.encode(value, f"result of {self.name}")
        return Point(
            f"{self.text}, returning another value", "after", self.name, self.number, result
        )


def before(call: Activity[..., Any] | Orchestration[..., Any], /, *, nth: int = -1) -> Point:
    """Before a call was made: it is made again, and so is everything behind it.

    Args:
        call: The activity or orchestration that was called.
        nth: Which of its calls, counted as in a list: 0 is the first, -1 the last.
    """
    return before_named(_name_of(call), nth)


def before_named(name: str, nth: int = -1) -> Point:
    """Before a call of an activity or orchestration that is known by its name alone."""
    check_id("name of a call", name)
    return Point(_text("before", name, _checked_nth(nth)), "before", name, nth)


def after(call: Activity[..., T] | Orchestration[..., T], /, *, nth: int = -1) -> After[T]:
    """Behind the result of a call: that is kept, or edited with `.returning(value)`, and the code
    goes on with it.

    Args:
        call: The activity or orchestration that was called.
        nth: Which of its calls, counted as in a list: 0 is the first, -1 the last.
    """
    return After(_name_of(call), _checked_nth(nth), call.definition.codec.returns)


def after_named(name: str, nth: int = -1, result: bytes | None = None) -> Point:
    """Behind the result of a call that is known by its name alone."""
    check_id("name of a call", name)
    edited = "" if result is None else ", returning another value"
    return Point(_text("after", name, _checked_nth(nth)) + edited, "after", name, nth, result)


def at_event(number: int, /) -> Point:
    """As of an event: what happened up to it is kept, this one included.

    Args:
        number: As the history counts, from 1.
    """
    if type(number) is not int or number < 1:
        raise UsageError(
            f"at_event takes the number of an event, an int of at least 1, got {number!r}: "
            "handle.history() shows them"
        )
    return Point(f"at event {number}", "event", "", number)


def check_point(point: object) -> Point | None:
    """Return a point, or raise a `UsageError` for what is none."""
    if point is not None and not isinstance(point, Point):
        raise UsageError(
            f"{point!r} is no point of a history: use before(call), after(call) or at_event(n) of "
            "perdure.repair"
        )
    return point


def find_cut(
    point: Point, history: Sequence[StoredEvent], instance_id: str, *, waiting: int
) -> Cut:
    """Return how much of a history a point keeps.

    Args:
        point: Where to.
        history: Of the present execution.
        instance_id: Whose.
        waiting: How many events at its end are not recorded yet: no code has answered to them.

    Raises:
        UsageError: There is no such place in it.
    """
    if point.side == "event":
        if point.number > len(history):
            raise UsageError(
                f"instance {instance_id!r} has no event {point.number}: its present execution has "
                f"{len(history)}"
            )
        if point.number > len(history) - waiting:
            return Cut(point.number - 1, point.number)
        return cut_at(history, point.number)
    seq = _find_call(point, history, instance_id)
    if point.side == "before":
        return cut_at(history, seq - 1)
    answer = next((one.seq for one in history[seq:] if _answered(_event(one)) == seq), None)
    if answer is None:
        raise UsageError(
            f"instance {instance_id!r} has no result of {point.name!r} yet (event {seq}): go back "
            f"to before({point.name}), or name an earlier call with nth="
        )
    return Cut(answer - 1, answer, point.result)


def _find_call(point: Point, history: Sequence[StoredEvent], instance_id: str) -> int:
    made = [
        stored.seq
        for stored in history
        if isinstance(event := _event(stored), _CALLS) and event.name == point.name
    ]
    try:
        return made[point.number]
    except IndexError:
        times = {0: "was not called", 1: "was called once"}
        called = times.get(len(made), f"was called {len(made)} times")
        raise UsageError(
            f"{point.text}: {point.name!r} {called} in the present execution of instance "
            f"{instance_id!r}; nth counts from 0, and -1 is the last call"
        ) from None


def _event(stored: StoredEvent) -> Event:
    return read_event(stored.kind, stored.body)


def _answered(event: Event) -> int | None:
    return event.schedule if isinstance(event, _ANSWERS) else None


def _name_of(call: object) -> str:
    if not isinstance(call, Activity | Orchestration):
        raise UsageError(
            f"{call!r} is neither an activity nor an orchestration: a point is before or after a "
            "call of one, or at_event(n)"
        )
    return call.name


def _checked_nth(nth: int) -> int:
    if type(nth) is not int:
        raise UsageError(f"nth must be an int, 0 for the first call and -1 for the last: {nth!r}")
    return nth


def _text(side: str, name: str, nth: int) -> str:
    return f"{side} {name}" if nth == -1 else f"{side} {name}, call {nth}"


# ------------------------------------------------------------- in words and as JSON


def chosen_point(
    *, before: str | None, after: str | None, event: int | None, nth: int, result: bytes | None
) -> Point | None:
    """Return the point that a person or a program named by its parts; None: no part was given.

    Raises:
        UsageError: The parts do not make one point.
    """
    given = [part for part in (before, after, event) if part is not None]
    if len(given) > 1:
        raise UsageError("a point is before a call, after one, or at an event: name one of them")
    if result is not None and after is None:
        raise UsageError("another result can be given to a call alone: name it with after")
    if before is not None:
        return before_named(before, nth)
    if after is not None:
        return after_named(after, nth, result)
    if event is not None:
        return at_event(event)
    return None


def point_parts(point: Point | None) -> dict[str, Any]:
    """Return the parts of a point, as the HTTP API takes them."""
    if point is None:
        return {}
    if point.side == "event":
        return {"event": point.number}
    parts: dict[str, Any] = {point.side: point.name, "nth": point.number}
    if point.result is not None:
        parts["returning"] = json.loads(point.result)
    return parts
