"""Reading a stream: what is there, then what comes, until the instance has ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, Protocol, TypeVar

from perdure.authoring.stream import Item, Stream
from perdure.client.blocking.loop_thread import LoopThread
from perdure.client.core import ClientCore
from perdure.clock import to_datetime
from perdure.codec import ValueCodec
from perdure.errors import InstanceNotFoundError, UsageError
from perdure.model.streams import NOTHING_VOID, StoredItem, StreamPage, StreamPlace

T = TypeVar("T")

LOOK_AGAIN_S = 0.5
"""How long a reader that may write nothing waits, if there is something void."""

PAGE_ROWS = 16
"""How many rows are read at once; a row is what was sent together."""


class StreamSource(Protocol):
    """Where the items of one stream come from."""

    async def read(self, after: int) -> StreamPage:
        """Return what counts behind an index, as of one moment.

        Something is void in the stream only if it cannot be taken back from here.

        Raises:
            InstanceNotFoundError: There is no such instance.
        """
        ...

    async def wait(self, after: int) -> None:
        """Wait until there may be something behind an index, or the instance has ended."""
        ...


class StoredStream:
    """A stream in the store."""

    def __init__(self, core: ClientCore, instance_id: str, name: str) -> None:
        self._core = core
        self._instance_id = instance_id
        self._name = name
        self._only_reads = False
        """Whether the database lets this client take nothing back."""

    async def read(self, after: int) -> StreamPage:
        """See `StreamSource`. What is void is taken back first, where that is allowed."""
        store = self._core.store
        while True:
            page = await store.streams.read_stream(
                self._instance_id, self._name, after=after, limit=PAGE_ROWS
            )
            if page is None:
                raise InstanceNotFoundError(self._instance_id)
            if self._only_reads or not page.has_void:
                return page
            self._only_reads = not await store.streams.take_back(self._instance_id)

    async def wait(self, after: int) -> None:
        """See `StreamSource`."""
        if self._only_reads:
            # What is void is news for as long as it is there.
            await asyncio.sleep(LOOK_AGAIN_S)
        await self._core.wait_sent(StreamPlace(self._instance_id, self._name, after))


class ItemReader(AsyncIterator[Item[T]], Generic[T]):
    """The items of a stream behind an index, then new ones as they come: for `async for`.

    Ends when the instance has ended and all is read. One that is restarted begins new streams: a
    reader of the old ones ends there.
    """

    discards_from: int | None = None
    """After the end: items from this index on are void, and nothing came that could say so."""

    waits = True
    """Set it to False to end with what is there now."""

    def __init__(self, source: StreamSource, codec: ValueCodec[T], after: int) -> None:
        self._source = source
        self._codec = codec
        self._after = after
        """Up to where it has read."""
        self._shown = after
        """The highest index that its caller has and that stands, or a higher one."""
        self._page: deque[StoredItem] = deque()
        self._void = NOTHING_VOID
        """What is void and known to be, because it was left out."""
        self._incarnation: int | None = None
        self._is_over = False

    def __aiter__(self) -> ItemReader[T]:
        return self

    async def __anext__(self) -> Item[T]:
        while (stored := await self.next_stored()) is not None:
            if stored.body is None:
                self._keep(stored.discards_from)
                continue
            discards_from, self.discards_from = self.discards_from, None
            value, at = self._codec.decode(stored.body), to_datetime(stored.at_ms)
            return Item(stored.index, value, at, discards_from, stored.number)
        raise StopAsyncIteration

    async def next_stored(self) -> StoredItem | None:
        """Return the next item or take-back, as soon as there is one; None at the end."""
        while True:
            while self._page:
                stored = self._page.popleft()
                self._after = stored.index
                if stored.body is not None:
                    self._shown = stored.index
                    return stored
                assert stored.discards_from is not None, "a take-back says from where on"
                if stored.discards_from <= self._shown:
                    self._shown = stored.discards_from - 1
                    return stored
            if self._is_over:
                return None
            await self._read_on()

    async def _read_on(self) -> None:
        """Read more, if there is more; else wait for it."""
        page = await self._source.read(self._after)
        if self._incarnation is None:
            self._incarnation = page.incarnation
        if page.incarnation != self._incarnation:
            self._is_over = True
            return
        void, self._void = self._void, page.void
        if page.void != void and 0 < page.void.first_index <= self._shown:
            # It stays in the store. What was shown from there on is read again without it.
            first = page.void.first_index
            self._page.append(StoredItem(first - 1, 0, None, first))
            return
        self._page.extend(page.items)
        if page.items:
            return
        if page.has_ended or not self.waits:
            self._is_over = True
        else:
            await self._source.wait(self._after)

    def _keep(self, discards_from: int | None) -> None:
        """Say with the next item what is void."""
        assert discards_from is not None, "a take-back says from where on"
        before = self.discards_from
        self.discards_from = discards_from if before is None else min(before, discards_from)


class BlockingItemReader(Generic[T]):
    """The items of a stream behind an index, then new ones as they come: for `for`."""

    def __init__(self, thread: LoopThread, reader: ItemReader[T]) -> None:
        self._thread = thread
        self._reader = reader

    @property
    def discards_from(self) -> int | None:
        """After the end: items from this index on are void, and nothing came that could say so."""
        return self._reader.discards_from

    @property
    def waits(self) -> bool:
        """Set it to False to end with what is there now."""
        return self._reader.waits

    @waits.setter
    def waits(self, waits: bool) -> None:
        self._reader.waits = waits

    def __iter__(self) -> BlockingItemReader[T]:
        return self

    def __next__(self) -> Item[T]:
        found = self._thread.run(self._next())
        if found is None:
            raise StopIteration
        return found

    async def _next(self) -> Item[T] | None:
        async for item in self._reader:
            return item
        return None


def checked_stream(stream: Stream[T]) -> Stream[T]:
    """Return what is a stream.

    Raises:
        UsageError: It is none.
    """
    if not isinstance(stream, Stream):
        raise UsageError(
            f"stream() was given {type(stream).__name__} {stream!r}: give it the Stream itself, or "
            'make one of its name and type, as in Stream("tokens", str)'
        )
    return stream
