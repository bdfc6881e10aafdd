"""The state of a decider as the fold of its events.

Events are read in the shape the code has now (`upcast`). Code that cannot read or fold what is
recorded does not fit the history: that is a `NondeterminismError`, and the instance waits for code
that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.authoring.deciders.pure import PurePlace
from perdure.clock import to_datetime
from perdure.codec import JSON
from perdure.core.guard import Guard
from perdure.errors import EventsRemovedError, NondeterminismError, PayloadError, UsageError
from perdure.model.histories.events import (
    ChildScheduled,
    EffectScheduled,
    EventRecorded,
    EventsRemoved,
    InputSent,
    InputTaken,
    StoredEvent,
)
from perdure.model.histories.removed import find_removed, first_gap, last_number
from perdure.model.histories.rows import read_row


class Fold:
    """A state, and how many events are in it. Entered, where it runs code of the decider."""

    __slots__ = ("definition", "guard", "place", "state", "version")

    def __init__(self, definition: DeciderDefinition, guard: Guard) -> None:
        self.definition = definition
        self.guard = guard
        self.place = PurePlace(definition)
        self.version = 0
        with self.place, guard:
            self.state: Any = definition.decider.initial()
        self.refuse_violation()

    def refuse_violation(self) -> None:
        """Raise what the code did that cannot be repeated, even if it swallowed the error."""
        violation, self.guard.violation = self.guard.violation, None
        if violation is not None:
            raise violation

    def add(self, recorded: EventRecorded, seq: int) -> Any:
        """Fold a recorded event in, inside the place and the guard; return it as the code has it.

        Raises:
            NondeterminismError: The code cannot read it, or `evolve` fails.
        """
        definition = self.definition
        try:
            event = definition.read_event(recorded)
            self.state = definition.evolve(self.state, event)
        except NondeterminismError:
            raise
        except Exception as error:
            raise NondeterminismError(
                f"decider {definition.name!r} cannot fold event {seq}, {recorded.tag} in shape "
                f"{recorded.event_version}: {type(error).__name__}: {error}",
                seq=seq,
                recorded=recorded.tag,
            ) from error
        self.version += 1
        return event

    def begin_behind(self, removed: EventsRemoved) -> None:
        """Go on from what removed events came to, inside the place and the guard.

        Raises:
            NondeterminismError: The code cannot read it.
        """
        definition = self.definition
        try:
            self.state = definition.read_state(removed.schema, bytes(removed.state))
        except NondeterminismError:
            raise
        except Exception as error:
            raise NondeterminismError(
                f"decider {definition.name!r} cannot go on from events that were removed, up to "
                f"{removed.upto}: {type(error).__name__}: {error}",
                seq=removed.upto,
                recorded=removed.kind,
            ) from error
        self.version = removed.version

    def is_terminal(self) -> bool:
        """Return whether the state is terminal. Before the first event nothing can be complete.

        Raises:
            NondeterminismError: The code cannot tell.
        """
        if not self.version:
            return False
        try:
            return bool(self.definition.decider.is_terminal(self.state))
        except NondeterminismError:
            raise
        except Exception as error:
            raise NondeterminismError(
                f"is_terminal of decider {self.definition.name!r} failed at version "
                f"{self.version}: {type(error).__name__}: {error}"
            ) from error


def unbroken(
    definition: DeciderDefinition, history: Iterable[StoredEvent], *, after: int = 0
) -> Iterator[StoredEvent]:
    """Yield the events of a history that begins behind a number, as long as none is missing.

    A fold that left some out would be a state that never was, and versions would be those of
    other events.

    Raises:
        NondeterminismError: Some are missing, and nothing stands for them.
    """
    for stored in history:
        gap = first_gap([stored], after=after)
        if gap is not None:
            raise NondeterminismError(
                f"events {gap[0]} to {gap[1]} of an instance of decider {definition.name!r} are "
                "not in its history, and without them its state cannot be told: put them back "
                "from a backup",
                seq=stored.seq,
            )
        after = last_number(stored)
        yield stored


def fold_until(
    fold: Fold, history: Iterable[StoredEvent], last: int | None = None
) -> Iterator[tuple[int, Any]]:
    """Fold a whole history up to a version, or to its end, inside the place and the guard; yield
    each event as the code has it, with its version, once it is folded in.

    Raises:
        NondeterminismError: This code cannot read or fold it, or events are missing.
    """
    for stored in unbroken(fold.definition, history):
        if fold.version == last:
            return
        if stored.kind == EventsRemoved.kind:
            removed = read_row(stored)
            assert isinstance(removed, EventsRemoved)
            fold.begin_behind(removed)
        elif stored.kind == EventRecorded.kind:
            recorded = read_row(stored)
            assert isinstance(recorded, EventRecorded)
            event = fold.add(recorded, stored.seq)
            yield fold.version, event


def refuse_removed(history: Sequence[StoredEvent], after: int, what: str) -> int:
    """Return how many of the decider's events were removed from a history.

    Args:
        history: Of one instance, from its start on.
        after: Behind which version all are needed.
        what: What needs them.

    Raises:
        EventsRemovedError: Some of these were.
    """
    removed = find_removed(history)
    if removed is not None and after < removed.version:
        raise EventsRemovedError(what, kept_after=removed.version)
    return 0 if removed is None else removed.version


def state_at(
    definition: DeciderDefinition,
    history: Sequence[StoredEvent],
    guard: Guard,
    *,
    at: int | None = None,
) -> tuple[Any, int]:
    """Return the state after so many events, after all by default, and the version it is of.

    Raises:
        UsageError: The instance has not so many.
        EventsRemovedError: Events that it takes were removed.
        NondeterminismError: This code cannot read or fold them.
    """
    if at is not None and at < 0:
        raise UsageError(f"at={at}: a version is 0, before the first event, or more")
    if at:
        refuse_removed(history, at, f"at={at}: the state after {at} events")
    fold = Fold(definition, guard)
    with fold.place, guard:
        for _ in fold_until(fold, history, at):
            pass
    fold.refuse_violation()
    if at is not None and fold.version < at:
        raise UsageError(f"at={at}: the instance is at version {fold.version}")
    return fold.state, fold.version


# -------------------------------------------------------------- the history, for people


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainEvent:
    """One event of a decider's instance, and where it came from."""

    version: int
    """Its number among the events of the instance, from 1."""
    seq: int
    """Its number in the history, which has more in it."""
    at: datetime
    tag: str
    event: Any
    cause: str
    """Who gave the input: client, timer:KEY, effect:SEQ, dead:SEQ, ended:SEQ, decider:ID, ..."""
    input_tag: str
    input: Any
    """The input that was accepted; as JSON if the code no longer has such an input."""
    input_id: str
    correlation: str
    effects: tuple[str, ...]
    """Names of the activities that the same decision asked for."""
    sent: tuple[str, ...]
    """Instances that it sent an input to."""
    started: tuple[str, ...]
    """Orchestrations that it started."""


def domain_history(
    definition: DeciderDefinition, history: Sequence[StoredEvent], *, after: int = 0
) -> list[DomainEvent]:
    """Return the events of an instance behind a version with all that is known of them.

    Raises:
        PayloadError: This code cannot read one of them.
        EventsRemovedError: Some were removed.
        NondeterminismError: Some are missing.
    """
    found: list[DomainEvent] = []
    version = refuse_removed(history, after, f"the list of events behind version {after}")
    for taken, asked in _decisions(unbroken(definition, history)):
        effects = tuple(e.name for _, e in asked if isinstance(e, EffectScheduled))
        sent = tuple(e.instance_id for _, e in asked if isinstance(e, InputSent))
        started = tuple(e.instance_id for _, e in asked if isinstance(e, ChildScheduled))
        given = _read_input(definition, taken) if asked else None
        for stored, event in asked:
            if not isinstance(event, EventRecorded):
                continue
            version += 1
            if version > after:
                found.append(
                    DomainEvent(
                        version=version,
                        seq=stored.seq,
                        at=to_datetime(stored.at_ms),
                        tag=event.tag,
                        event=definition.read_event(event),
                        cause=taken.cause,
                        input_tag=taken.tag,
                        input=given,
                        input_id=taken.input_id,
                        correlation=taken.correlation,
                        effects=effects,
                        sent=sent,
                        started=started,
                    )
                )
    return found


def _read_input(definition: DeciderDefinition, taken: InputTaken) -> Any:
    """Return an input as the code has it, or as JSON if the code no longer has such an input."""
    try:
        return definition.inputs.decode(taken.tag, bytes(taken.input))
    except PayloadError:
        return JSON.decode(bytes(taken.input))


def _decisions(
    history: Iterable[StoredEvent],
) -> Iterator[tuple[InputTaken, list[tuple[StoredEvent, Any]]]]:
    """Return each input that was taken, and what was recorded after it until the next one."""
    taken: InputTaken | None = None
    asked: list[tuple[StoredEvent, Any]] = []
    for stored in history:
        event = read_row(stored)
        if isinstance(event, InputTaken):
            if taken is not None:
                yield taken, asked
            taken, asked = event, []
        else:
            asked.append((stored, event))
    if taken is not None:
        yield taken, asked


def transitions(
    definition: DeciderDefinition,
    history: Sequence[StoredEvent],
    guard: Guard,
    *,
    name_of: Callable[[Any], str],
    after: int = 0,
) -> list[tuple[str, str, str]]:
    """Return which input led from which state to which, for each that was accepted.

    Args:
        definition: The decider.
        history: Of one instance.
        guard: Watches `evolve`.
        name_of: Names a state.
        after: Only of events behind this version.

    Raises:
        EventsRemovedError: Some of these were removed.
        NondeterminismError: This code cannot read or fold them, or some are missing.
    """
    refuse_removed(history, after, f"what led on from version {after}")
    removed = find_removed(history)
    fold = Fold(definition, guard)
    found: list[tuple[str, str, str]] = []
    with fold.place, guard:
        if removed is not None:
            fold.begin_behind(removed)
        for taken, asked in _decisions(unbroken(definition, history)):
            before = name_of(fold.state)
            events = [(s, e) for s, e in asked if isinstance(e, EventRecorded)]
            for stored, event in events:
                fold.add(event, stored.seq)
            if events and fold.version > after:
                found.append((before, taken.tag, name_of(fold.state)))
    fold.refuse_violation()
    return found


def state_name(state: Any) -> str:
    """Return what to call a state: its `status` if it has one, else its class."""
    status = getattr(state, "status", None)
    if status is None:
        return type(state).__name__
    return str(getattr(status, "value", status))
