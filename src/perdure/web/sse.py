"""Server-sent events: named JSON values, a sign of life, and a limit on open streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from typing import Any, NamedTuple

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from perdure.client.reading.item_reader import ItemReader
from perdure.clock import to_datetime
from perdure.web.problems import RefusalError, document_of
from perdure.web.rates import Openings
from perdure.web.values import dump, shown

SIGN_OF_LIFE_S = 15.0
"""How long a stream is silent at most: proxies end what seems dead."""


class StreamEvent(NamedTuple):
    """One event of a stream."""

    event: str
    data: object
    number: int | None = None
    """Where to go on after a cut: a browser sends it back as `Last-Event-ID`."""


async def item_events(reader: ItemReader[Any]) -> AsyncIterator[StreamEvent]:
    """Return the items of a stream as events: `item`, `discard` for what is void, and `end`."""
    while (stored := await reader.next_stored()) is not None:
        if stored.body is None:
            yield StreamEvent("discard", {"from": stored.discards_from}, stored.index)
        else:
            value, at = json.loads(stored.body), to_datetime(stored.at_ms)
            item = {"index": stored.index, "value": value, "at": at}
            if stored.number is not None:
                item["number"] = stored.number
            yield StreamEvent("item", item, stored.index)
    yield StreamEvent("end", None)


def sse(
    events: AsyncIterator[StreamEvent] | ItemReader[Any],
    *,
    mask: Collection[str] = (),
    streams: Openings | None = None,
) -> StreamingResponse:
    """Return an answer that sends events as they come.

    Args:
        events: What to send; the stream ends with them. Of `handle.stream(...)` each item is an
            event `item` with its index as id, what is void an event `discard`, and the last one
            is `end`.
        mask: Names of fields whose values are not shown.
        streams: Counts the open ones, and limits them.

    Raises:
        RefusalError: Too many streams are open.
    """
    if streams is not None and not streams.enter():
        raise RefusalError(
            503,
            "too_many_streams",
            "too many streams are open; ask with wait= instead",
            {"Retry-After": "5"},
        )
    sent = item_events(events) if isinstance(events, ItemReader) else events
    return _Counted(
        streams,
        _written(sent, mask),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


class _Counted(StreamingResponse):
    """A stream that is counted until it has ended, also if nothing of it was ever read."""

    def __init__(
        self, streams: Openings | None, content: AsyncIterator[bytes], **rest: Any
    ) -> None:
        super().__init__(content, **rest)
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._streams is not None:
                self._streams.leave()


async def _written(
    events: AsyncIterator[StreamEvent], mask: Collection[str]
) -> AsyncIterator[bytes]:
    coming: asyncio.Task[StreamEvent] | None = None
    try:
        yield b": perdure\n\n"
        while True:
            coming = coming or asyncio.ensure_future(anext(events))  # type: ignore[arg-type, unused-ignore]
            done, _ = await asyncio.wait([coming], timeout=SIGN_OF_LIFE_S)
            if not done:
                yield b": still here\n\n"
                continue
            try:
                sent = coming.result()
            except StopAsyncIteration:
                return
            except Exception as error:
                yield _text(StreamEvent("problem", document_of(error)[0]), mask)
                return
            coming = None
            yield _text(sent, mask)
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


def _text(sent: StreamEvent, mask: Collection[str]) -> bytes:
    number = b"" if sent.number is None else f"id: {sent.number}\n".encode()
    return number + f"event: {sent.event}\ndata: ".encode() + dump(shown(sent.data, mask)) + b"\n\n"
