"""A stream behind a server, read by long polls."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from perdure.client.remote.connection import ASK_WAIT_S
from perdure.clock import from_datetime
from perdure.model.streams import NOTHING_VOID, StoredItem, StreamPage

if TYPE_CHECKING:
    from perdure.client.remote.handle import RemoteHandle


class RemoteStream:
    """See `perdure.client.reading.item_reader.StreamSource`."""

    def __init__(self, handle: RemoteHandle[object], name: str) -> None:
        self._handle = handle
        self._name = name
        self._came: tuple[int, StreamPage] | None = None
        """What a wait has brought, and behind which index."""

    async def read(self, after: int) -> StreamPage:
        """Return what is behind an index."""
        came, self._came = self._came, None
        return came[1] if came is not None and came[0] == after else await self._ask(after, 0.0)

    async def wait(self, after: int) -> None:
        """Wait until there is something behind an index, or the instance has ended."""
        self._came = (after, await self._ask(after, ASK_WAIT_S))

    async def _ask(self, after: int, wait_s: float) -> StreamPage:
        told = await self._handle._get(
            "streams", self._name, after=after, wait=wait_s, wait_s=wait_s
        )
        items = [
            StoredItem(
                one["index"],
                from_datetime(datetime.fromisoformat(one["at"])),
                None if one["is_take_back"] else json.dumps(one["value"]).encode(),
                one["discards_from"],
                one["number"],
            )
            for one in told["items"]
        ]
        incarnation, has_ended = int(told["incarnation"]), told["has_ended"]
        return StreamPage(incarnation, has_ended, NOTHING_VOID, tuple(items), is_last=not items)
