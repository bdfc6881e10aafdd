"""Subscriptions: each event of a decider starts an orchestration, or is an input of a decider.

Exactly once per event: what is started and what is sent has an id that follows from the
subscription's name and the event's position, so a repetition changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Generic, TypeAlias, TypeVar, cast, overload

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import DeciderDefinition, definition_of
from perdure.authoring.deciders.feed import EventFilter, EventMeta
from perdure.authoring.deciders.projection import BATCH, READER_RETRY
from perdure.authoring.orchestration import Orchestration
from perdure.codec import check_id
from perdure.errors import DefinitionError
from perdure.model.options import Retry

E = TypeVar("E")
A = TypeVar("A")
I = TypeVar("I")  # noqa: E741 - the contract's letter for an input
Make: TypeAlias = Callable[[Any, EventMeta], Any]


class Subscription(Generic[E]):
    """What happens for each event. Handed to a worker beside its other definitions."""

    @overload
    def __init__(
        self,
        name: str,
        decider: type[Decider[Any, Any, Any, Any]],
        events: Sequence[type[E]],
        /,
        *,
        start: Orchestration[[E], Any],
        retry: Retry = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        decider: type[Decider[Any, Any, Any, Any]],
        events: Sequence[type[E]],
        /,
        *,
        start: tuple[Orchestration[[A], Any], Callable[[E, EventMeta], A | None]],
        retry: Retry = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        decider: type[Decider[Any, Any, Any, Any]],
        events: Sequence[type[E]],
        /,
        *,
        send: tuple[type[Decider[Any, I, Any, Any]], Callable[[E, EventMeta], I | None]],
        retry: Retry = ...,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        decider: Any,
        events: Sequence[Any],
        /,
        *,
        start: Any = None,
        send: Any = None,
        retry: Retry = READER_RETRY,
    ) -> None:
        """Say what happens.

        Args:
            name: What its position is kept under, and what the ids begin with.
            decider: Whose events.
            events: Which of them; an empty list: all.
            start: The orchestration to start, with the event as its one argument; or that and a
                function that makes the argument of the event, or None to start nothing.
            send: The decider to send to, and the function that makes its input of the event, or
                None to send nothing.
            retry: What to do when a function raises. When the attempts are used up the subscription
                is stuck there until a person resumes it.

        Raises:
            DefinitionError: It cannot work as written.
        """
        self.name = check_id("subscription name", name)
        self.batch = BATCH
        self.retry = retry
        self._decider = decider
        self._events = tuple(events)
        if (start is None) == (send is None):
            raise DefinitionError(
                f"subscription {name!r}: say either start=orchestration or send=(Decider, function)"
            )
        self.orchestration: Orchestration[..., Any] | None = None
        self._target: type[Decider[Any, Any, Any, Any]] | None = None
        self.make: Make | None = None
        """Makes what is started or sent of the event; None: it is the event itself."""
        if send is None:
            self.orchestration, self.make = _of_start(name, start)
        else:
            self._target, self.make = _of_send(name, send)

    def __repr__(self) -> str:
        return f"Subscription({self.name!r})"

    @cached_property
    def filter(self) -> EventFilter:
        """Which events it gets, and how they are read."""
        return EventFilter(f"subscription {self.name!r}", [self._decider], self._events)

    @cached_property
    def target(self) -> DeciderDefinition | None:
        """The decider that it sends to, if it does."""
        return None if self._target is None else definition_of(self._target)

    def check(self) -> None:
        """Refuse a subscription that cannot work.

        Raises:
            DefinitionError: Something does not fit; the text says what to change.
        """
        _ = self.filter, self.target


def _of_start(name: str, start: Any) -> tuple[Orchestration[..., Any], Make | None]:
    orchestration, make = start if isinstance(start, tuple) and len(start) == 2 else (start, None)
    is_fit = make is None or callable(make)
    if not isinstance(orchestration, Orchestration) or not is_fit:
        raise DefinitionError(
            f"subscription {name!r}: start={start!r} is neither an orchestration nor one with a "
            "function (orchestration, function)"
        )
    return orchestration, cast("Make | None", make)


def _of_send(name: str, send: Any) -> tuple[type[Decider[Any, Any, Any, Any]], Make]:
    if isinstance(send, tuple) and len(send) == 2:
        target, make = send
        if isinstance(target, type) and issubclass(target, Decider) and callable(make):
            return target, cast(Make, make)
    raise DefinitionError(
        f"subscription {name!r}: send={send!r} is not a decider's class and a function, such as "
        "(Stock, reserve)"
    )
