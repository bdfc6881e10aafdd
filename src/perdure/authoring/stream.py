"""Streams: what an instance or an activity says while it works, for any reader, by index."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload, runtime_checkable

from perdure.authoring.activity_context import current_activity
from perdure.authoring.scope import current_scope
from perdure.codec import ValueCodec, check_id
from perdure.errors import LimitExceededError, UsageError
from perdure.limits import MAX_ITEM_BYTES

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Item(Generic[T_co]):
    """One item of a stream, as a reader gets it."""

    index: int
    """Rises, with gaps; never given twice. What `after=` takes, and the `id:` of a server-sent
    event."""
    value: T_co
    at: datetime
    """When it was stored."""
    discards_from: int | None = None
    """Items from this index on, which came before this one, are void: the activity that sent them
    was begun again or given up. What of them still counts comes again. None: nothing is void."""
    number: int | None = None
    """Of a result of a `for_each`: of which item it is, counted from 0 as its failures are. None:
    it is no such result."""


@runtime_checkable
class SendingActivity(Protocol):
    """A running activity that can send items."""

    def send_item(self, stream: str, item: bytes) -> None:
        """Send an item to a stream."""
        ...

    async def flush_items(self) -> None:
        """Wait until what was sent is stored."""
        ...


def _activity_here() -> SendingActivity | None:
    activity = current_activity.get(None)
    return activity if isinstance(activity, SendingActivity) else None


class Stream(Generic[T]):
    """A name and a type, shared by those who send and those who read.

    Sent by an orchestration, an item is stored once, with the turn that sent it. Sent by an
    activity, it is seen at once and counts for good when the attempt has succeeded; what an attempt
    sent that did not is taken back.
    """

    # Invariant in T on purpose, as a signal is.

    @overload
    def __init__(self, name: str, type: type[T], /) -> None: ...
    @overload
    def __init__(self, name: str, type: TypeForm[T], /) -> None: ...
    def __init__(self, name: str, type: Any, /) -> None:
        self.name = check_id("stream name", name)
        self.type = type

    @cached_property
    def codec(self) -> ValueCodec[T]:
        """How its items are stored."""
        return ValueCodec(self.type, where=f"stream {self.name!r}")

    def send(self, value: T, /) -> None:
        """Send an item, inside an orchestration or an activity. Any thread of an activity may.

        In an orchestration it is stored with the turn's commit, exactly once. In an activity it is
        stored soon, together with others, and is void if the attempt does not succeed.

        Raises:
            PayloadError: The value is not of the stream's type.
            LimitExceededError: It is too large, or too much was sent that is not stored yet.
            UsageError: No orchestration and no activity runs here.
        """
        sender = current_scope() or _activity_here()
        if sender is None:
            raise UsageError(
                f"stream {self.name!r}: nothing can be sent here; send(...) works inside an "
                "orchestration or an activity, and handle.stream(...) reads"
            )
        item = self.codec.encode(value, f"stream {self.name!r}")
        if len(item) > MAX_ITEM_BYTES:
            raise LimitExceededError(
                f"stream {self.name!r}: the size in bytes of an item",
                allowed=MAX_ITEM_BYTES,
                found=len(item),
                advice="send it in parts, or keep the data in a file or a bucket and send where "
                "it is",
            )
        sender.send_item(self.name, item)

    async def flush(self) -> None:
        """Wait until all that this activity sent, to any stream, is stored.

        Raises:
            UsageError: No async activity runs here.
        """
        activity = _activity_here() if current_scope() is None else None
        if activity is None:
            raise UsageError(
                f"stream {self.name!r}: flush() works inside an async activity; an orchestration "
                "stores what it sent with its turn"
            )
        await activity.flush_items()

    def __repr__(self) -> str:
        return f"Stream({self.name!r}, {self.type!r})"
