"""What was sent to streams and is not stored yet."""

from __future__ import annotations

from perdure.errors import LimitExceededError
from perdure.limits import MAX_UNFLUSHED_BYTES
from perdure.model.streams import ForwardedItems, SentItems


class Outbox:
    """Items by stream, in the order in which they were sent."""

    __slots__ = ("_items", "forwarded", "size")

    def __init__(self) -> None:
        self._items: dict[str, list[bytes]] = {}
        self.size = 0
        """How many bytes they have."""
        self.forwarded: list[ForwardedItems] = []
        """What goes to streams of other instances."""

    def add(self, stream: str, item: bytes) -> None:
        """Keep an item."""
        self._items.setdefault(stream, []).append(item)
        self.size += len(item)

    def take(self) -> tuple[SentItems, ...]:
        """Return what is there, and keep nothing."""
        taken, self._items, self.size = self._items, {}, 0
        return tuple([SentItems(stream, tuple(items)) for stream, items in taken.items()])


def refuse_too_much(stream: str, size: int, *, sender: str, advice: str) -> None:
    """Refuse an item that makes for too many bytes that are not stored.

    Raises:
        LimitExceededError: So it is.
    """
    if size > MAX_UNFLUSHED_BYTES:
        raise LimitExceededError(
            f"stream {stream!r}: the bytes that {sender} has sent and that are not stored yet",
            allowed=MAX_UNFLUSHED_BYTES,
            found=size,
            advice=advice,
        )
