"""Methods of `Handle` for the streams of an instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from perdure.authoring.stream import Stream
from perdure.client.reading.info import StreamInfo, stream_of
from perdure.client.reading.item_reader import ItemReader, StoredStream, checked_stream
from perdure.client.reading.lists import check_count

if TYPE_CHECKING:
    from perdure.client.handle import Handle

T = TypeVar("T")


def stream(self: Handle[Any], stream: Stream[T], /, *, after: int = 0) -> ItemReader[T]:
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
    name = checked_stream(stream).name
    check_count("after", after, least=0)
    return ItemReader(StoredStream(self._core, self.instance_id, name), stream.codec, after)


async def streams(self: Handle[Any]) -> list[StreamInfo]:
    """Return the streams that something was sent to, by name.

    Raises:
        InstanceNotFoundError: There is no such instance.
    """
    heads = await self._core.store.streams.read_stream_heads(self.instance_id)
    if not heads:
        await self._row()
    return [stream_of(head) for head in heads]
