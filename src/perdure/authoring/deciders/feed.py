"""Which events of deciders a projection or subscription gets, and how stored ones are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import (
    SEPARATOR,
    DeciderDefinition,
    definition_of,
)
from perdure.clock import to_datetime
from perdure.codec import JSON, Json, show
from perdure.errors import DefinitionError
from perdure.model.builtins import RESERVED_PREFIX
from perdure.model.feeds import FeedEvent
from perdure.model.histories.events import EventRecorded, UnreadableEventError
from perdure.model.histories.rows import read_row


@dataclass(frozen=True, slots=True)
class EventMeta:
    """Where an event comes from."""

    position: int
    """Its place in the order of all events; rises, with gaps. The same at every repetition, so it
    can serve to recognise one."""
    decider: str
    instance_id: str
    """As the decider gives it."""
    seq: int
    """Its number in the history of its instance."""
    time: datetime
    """When it was decided, in UTC."""
    version: int
    """Its number among the events of its instance, from 1."""
    cause: str
    """Who gave the input that it follows from: client, timer:KEY, effect:SEQ, decider:ID, ..."""
    correlation: str
    """What that input belongs to, in the words of its sender."""


@dataclass(frozen=True, slots=True)
class RecordedJson:
    """An event of any decider as it is recorded: JSON, since its class need not be here."""

    tag: str
    value: Json
    shape: int = 1
    """Which `event_version` its decider had when it was recorded."""


class EventFilter:
    """Some events of some deciders, or all events of all."""

    def __init__(
        self,
        where: str,
        deciders: Sequence[type[Decider[Any, Any, Any, Any]]] | Literal["all"],
        events: Sequence[Any],
    ) -> None:
        """Work it out.

        Args:
            where: Whose it is, for messages.
            deciders: Whose events; "all": of every decider, as `RecordedJson`.
            events: Which of them; none named: all.

        Raises:
            DefinitionError: A decider is none, or an event is none of theirs.
        """
        self._is_of_all = deciders == "all"
        if self._is_of_all and events:
            raise DefinitionError(
                f"{where} reads of all deciders, whose events it gets as JSON: leave out events, "
                "and look at event.tag"
            )
        classes = () if isinstance(deciders, str) else deciders
        definitions = [definition_of(decider) for decider in classes]
        self._definitions = {definition.name: definition for definition in definitions}
        self._is_picky = bool(events)
        self._wanted = {
            one.name: {event for event in events if one.events.member_of(event) is not None}
            for one in definitions
        }
        for event in events:
            if not any(event in wanted for wanted in self._wanted.values()):
                known = sorted({tag for one in definitions for tag in one.events.tags})
                raise DefinitionError(
                    f"{where}: {show(event)} is no event of {', '.join(self._definitions)} (those "
                    f"have: {', '.join(known)})"
                )
        self.deciders = tuple(sorted(self._definitions))
        """Names of the deciders; none: all."""
        self.tags = _stored_tags(definitions, events)
        """Tags that are looked for; none: all, and what is not wanted is left out when read."""

    def read(self, stored: FeedEvent) -> tuple[Any, EventMeta] | None:
        """Return an event as its decider would write it now; None if it is not wanted.

        Raises:
            PayloadError: This code cannot read it.
            UnreadableEventError: This version of perdure cannot.
        """
        if self._is_of_all and stored.decider.startswith(RESERVED_PREFIX):
            return None  # One of perdure's own.
        try:
            recorded = read_row(stored.stored)
        except UnreadableEventError as error:
            raise error.under(f"instance {stored.instance_id!r}") from error
        assert isinstance(recorded, EventRecorded), "only recorded events are in the feed"
        event: Any
        if self._is_of_all:
            value = JSON.decode(bytes(recorded.event))
            event = RecordedJson(recorded.tag, value, recorded.event_version)
        else:
            event = self._definitions[stored.decider].read_event(recorded)
            if self._is_picky and type(event) not in self._wanted[stored.decider]:
                return None
        return event, EventMeta(
            stored.pos,
            stored.decider,
            stored.instance_id.removeprefix(f"{stored.decider}{SEPARATOR}"),
            stored.stored.seq,
            to_datetime(stored.stored.at_ms),
            stored.version,
            stored.cause,
            stored.correlation,
        )


def _stored_tags(
    definitions: Sequence[DeciderDefinition], events: Sequence[Any]
) -> tuple[str, ...]:
    """Return the tags that wanted events are stored under."""
    if not events or any(one.cls.upcast is not Decider.upcast for one in definitions):
        # An event of any tag may become a wanted one.
        return ()
    found = (one.events.member_of(event) for one in definitions for event in events)
    return tuple(sorted({member.tag for member in found if member is not None}))
