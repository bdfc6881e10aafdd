"""The part of a store that streams use.

What is said in `perdure.store.streams` is not repeated here.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.model.jobs import StreamAppend
from perdure.model.streams import StreamHead, StreamPage, StreamPlace
from perdure.store.base import PATIENCE_S, NotPermittedError
from perdure.store.observer import Observer
from perdure.store.observing import observable
from perdure.store.sql.access import StoreAccess
from perdure.store.sql.commits import streams
from perdure.store.streams import StreamStore


@observable(StreamStore)
class SqlStreams:
    """See `perdure.store.streams.StreamStore`."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    @property
    def observer(self) -> Observer | None:
        """Who is told of each operation."""
        return self._store.observer

    async def append_streams(self, appends: Sequence[StreamAppend]) -> list[bool]:
        """Store what running jobs sent."""
        if not appends:
            return []
        appending = streams.StreamAppending(appends)
        return await self._store.tell(lambda t: appending.run(t.connection, now_ms=t.now_ms))

    async def take_back(self, instance_id: str) -> bool:
        """Remove what is void of an instance's streams."""
        try:
            await self._store.tell(
                lambda t: streams.take_back(t.connection, instance_id, now_ms=t.now_ms),
                patience_s=PATIENCE_S,
            )
        except NotPermittedError:
            return False
        return True

    async def read_stream(
        self, instance_id: str, stream: str, *, after: int, limit: int
    ) -> StreamPage | None:
        """Return what counts of a stream behind an index."""
        return await self._store.read(
            lambda c: streams.read_stream(c, instance_id, stream, after=after, limit=limit)
        )

    async def find_stream_news(self, places: Sequence[StreamPlace]) -> list[bool]:
        """Tell for each place whether there is anything behind it, or to be taken back."""
        return (
            await self._store.read(lambda c: streams.find_stream_news(c, places)) if places else []
        )

    async def read_stream_heads(self, instance_id: str) -> list[StreamHead]:
        """Return the streams of an instance."""
        return await self._store.read(lambda c: streams.read_stream_heads(c, instance_id))
