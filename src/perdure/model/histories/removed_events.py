"""What a decider's history has in the place of events that were removed."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from perdure.model.histories.event_base import MessageEvent

PLACE = 2
"""Its number in the history: behind the start, where the removed events began."""


class EventsRemoved(MessageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """Stands for the events of a decider from its own number on that were removed, with all that
    they came to: a reader of the history goes on from here."""

    kind: ClassVar[str] = "events_removed"
    upto: int
    """The number of the last event that was removed; the next one in the history has the next."""
    version: int
    """How many of the decider's events were recorded until then."""
    schema: int
    """The `schema` of the code that folded them."""
    state: msgspec.Raw
    """What they fold to."""
    memory: msgspec.Raw
    """What else they say: what is open, which timers are armed, the hash over them."""
