"""What was sent to streams and is not stored yet."""

from __future__ import annotations

from perdure.errors import LimitExceededError
from perdure.limits import MAX_UNFLUSHED_BYTES
from perdure.model.streams import ForwardedItems, SentItems


class Outbox:
    """Items by stream, in the order in which they were sent."""

    __slots__ = ("_items", "_stretches", "forwarded", "size")

    def __init__(self) -> None:
        self._items: dict[str, list[bytes]] = {}
        self._stretches: list[SentItems] = []
        self.size = 0
        """How many bytes they have."""
        self.forwarded: list[ForwardedItems] = []
        """What goes to streams of other instances."""

    def add(self, stream: str, item: bytes) -> None:
        """Keep an item."""
        self._items.setdefault(stream, []).append(item)
        self.size += len(item)

    def end_stretch(self, seq: int) -> None:
        """Note with which message the stretch began that sent what came since the last one."""
        taken, self._items = self._items, {}
        self._stretches += [SentItems(one, tuple(items), seq) for one, items in taken.items()]

    def take(self) -> tuple[SentItems, ...]:
        """Return what is there, and keep nothing."""
        taken, self._items, self.size = self._items, {}, 0
        stretches, self._stretches = self._stretches, []
        return (*stretches, *[SentItems(one, tuple(items)) for one, items in taken.items()])


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
