"""Beginning an execution with events of another one: what a reset or a fork writes."""

from __future__ import annotations

from typing import NamedTuple

from perdure.model.histories.events import Body, StoredEvent
from perdure.model.messages import CarriedMessage


class RestoredValue(NamedTuple):
    """What is under a key after going back; None: nothing."""

    key: str
    value: bytes | None
    updated_ms: int


class Rewind(NamedTuple):
    """The beginning of an execution that takes over a part of a history."""

    prefix: tuple[StoredEvent, ...]
    """Its first events, with the times they were recorded at; none if it starts over."""
    first: Body
    """The message that its first turn takes: that it went back, or the start."""
    answer: CarriedMessage | None
    """A message that had been taken behind the prefix and is kept. It comes next."""
    unread: tuple[CarriedMessage, ...]
    """Signals that had come behind the prefix, in order. They come before those in the inbox."""
    kv: tuple[RestoredValue, ...] = ()
    """What changes under its keys."""
    report: bytes | None = None
    """What the instance reports then, as JSON; None: as before."""
    reason: str = ""
    """What its row says: that it was reset, and why."""
    reopened: tuple[int, ...] = ()
    """Schedule numbers of the calls that are made again: what they sent to streams is void."""
    heard: tuple[str, ...] = ()
    """Of an instance that has ended: under which ids the updates came that it had taken. What else
    came went with its inbox, and may be sent again."""
    unkept: tuple[str, ...] = ()
    """The same: under which ids promises are kept that it had made and not heard of."""
    digest: bytes | None = None
    """Of an instance that has ended: the hash that it ended with, which must be the stored one."""
