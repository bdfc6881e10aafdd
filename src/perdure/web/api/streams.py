"""Routes that read the streams of instances."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import msgspec
from starlette.responses import Response

from perdure.authoring.stream import Stream
from perdure.client.reading.info import Json, StreamInfo
from perdure.client.reading.item_reader import StoredStream
from perdure.client.reading.lists import check_count
from perdure.clock import to_datetime
from perdure.model.streams import StreamPage
from perdure.web.api.instances import handle_of, last_event, wait_limit
from perdure.web.operations import CheckedRequest, Nothing
from perdure.web.sse import item_events


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which items, and how long to wait for one, in seconds."""

    after: Annotated[int, msgspec.Meta(ge=0, description="The index of the last known item.")] = 0
    wait: Annotated[float, msgspec.Meta(ge=0)] = 0


class ReadItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a stream, or a take-back."""

    index: int
    at: datetime
    is_take_back: bool = False
    """Whether it has no value, and only says what is void."""
    value: Json = None
    discards_from: int | None = None
    """Of a take-back: items from this index on that came before it are void."""
    number: int | None = None
    """Of a result of a `for_each`: of which item it is."""


class ItemPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some items of a stream, in order."""

    items: list[ReadItem]
    has_ended: bool
    """Whether the instance has ended: what is not here is behind the last index, or never comes."""
    incarnation: str
    """Which instance of the id it is: one that is restarted begins new streams."""


async def list_streams(ask: CheckedRequest[Nothing, None]) -> list[StreamInfo]:
    """List the streams that an instance or its activities have sent to."""
    return await handle_of(ask).streams()


async def read_stream(ask: CheckedRequest[StreamQuery, None]) -> ItemPage | Response:
    """Return items of a stream behind an index; wait up to so many seconds for one."""
    stream: Stream[Any] = Stream(ask.path["stream"], Any)
    handle, after = handle_of(ask), ask.query.after
    if ask.wants_stream:
        await handle.info()
        reader = handle.stream(stream, after=last_event(ask, after))
        return ask.stream(item_events(reader))
    source = StoredStream(ask.client._core, handle.instance_id, stream.name)
    page = await source.read(check_count("after", after, least=0))
    if not page.items and not page.has_ended and ask.query.wait:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_limit(ask, ask.query.wait).total_seconds()):
                await source.wait(after)
        page = await source.read(after)
    return _shown(page)


def _shown(page: StreamPage) -> ItemPage:
    items = [
        ReadItem(
            index=stored.index,
            at=to_datetime(stored.at_ms),
            is_take_back=stored.body is None,
            value=None if stored.body is None else json.loads(stored.body),
            discards_from=stored.discards_from,
            number=stored.number,
        )
        for stored in page.items
    ]
    return ItemPage(items=items, has_ended=page.has_ended, incarnation=str(page.incarnation))
