"""Methods of `BlockingHandle`, which wait where those of `stream_items` are awaited.

Made from `client/reading/stream_items.py` by `tools/make_blocking.py`: change that, run this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from perdure.authoring.stream import Stream
from perdure.client.reading.info import StreamInfo
from perdure.client.reading.item_reader import BlockingItemReader

if TYPE_CHECKING:
    from perdure.client.blocking.client import BlockingHandle
T = TypeVar("T")


def stream(
    self: BlockingHandle[Any], stream: Stream[T], /, *, after: int = 0
) -> BlockingItemReader[T]:
    """Return the items of a stream behind an index, then new ones as they come, to iterate over.

    Every reader sees each item once, in order. What an activity sent is shown at once; if the
    attempt does not succeed, the next item says from where on it is void, and so does the reader
    itself after its end. It ends when the instance has ended and all is read. A stream to which
    nothing was sent is empty.

    Args:
        stream: Its name and type.
        after: The index of the last item that is known; 0: from the first on.

    Raises:
        InstanceNotFoundError: While it is read: there is no such instance.
        PayloadError: While it is read: an item is not of the stream's type.
    """
    return BlockingItemReader(self._thread, self._handle.stream(stream, after=after))


def streams(self: BlockingHandle[Any]) -> list[StreamInfo]:
    """Return the streams that something was sent to, by name.

    Raises:
        InstanceNotFoundError: There is no such instance.
    """
    return self._thread.run(self._handle.streams())
