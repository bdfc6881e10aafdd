"""Streams: what instances and their activities say while they work, for readers by index."""

from __future__ import annotations

from typing import NamedTuple


class SentItems(NamedTuple):
    """What was sent to one stream, in order, each item as JSON."""

    stream: str
    items: tuple[bytes, ...]
    seq: int = 0
    """In a turn, the number of the message that the code answered by sending it: what is behind a
    reset's point is void. 0: the first event of the turn, or it is an activity's."""
    numbers: tuple[int, ...] = ()
    """Of results of a `for_each`: of which items they are. Empty: they are no such results."""


class ForwardedItems(NamedTuple):
    """What one instance sent to a stream of another, in order, each item as JSON. It is dropped if
    that one has ended, or has left the execution that is named."""

    instance_id: str
    incarnation: int
    stream: str
    items: tuple[bytes, ...]
    execution: int = 0
    """Of the call for which it was sent; 0: any."""
    seq: int = 0
    """The number of that call: if a reset makes it again, the items are void. 0: not known."""
    numbers: tuple[int, ...] = ()
    """As in `SentItems`."""


class StreamPlace(NamedTuple):
    """How far a reader of a stream has come."""

    instance_id: str
    stream: str
    after: int
    """The index of the last item that it has seen."""


class StoredItem(NamedTuple):
    """An item as it is stored, or a take-back."""

    index: int  # type: ignore[assignment]  # hides a method of tuple that is not needed here
    at_ms: int
    body: bytes | None
    """As JSON; None: it takes back, and has no value."""
    discards_from: int | None = None
    """Of a take-back: what has this index or a higher one, below its own, is void."""
    number: int | None = None
    """Of a result of a `for_each`: of which item it is."""


class VoidItems(NamedTuple):
    """Items of a stream that count no more and were not taken back yet."""

    first_index: int
    rows: int
    """What was sent together is a row."""


NOTHING_VOID = VoidItems(0, 0)


class StreamPage(NamedTuple):
    """Some items behind an index, and what was known of their instance at that moment."""

    incarnation: int
    has_ended: bool
    void: VoidItems
    items: tuple[StoredItem, ...]
    is_last: bool
    """Whether there are no more."""

    @property
    def has_void(self) -> bool:
        """Whether there is something to be taken back."""
        return self.void.rows > 0


class StreamHead(NamedTuple):
    """A stream of an instance: how far it has come, and when something was sent last."""

    stream: str
    last_index: int
    """Of its newest item, or of the take-back that followed."""
    items: int
    """How many there are that count."""
    at_ms: int
