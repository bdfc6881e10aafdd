"""The part of the store's contract that streams use.

Indexes of a stream are given in the order of commits, and never twice. What an orchestration sent
counts from its turn's commit on. What an attempt of an activity sent counts as long as it has the
job, and for good when the end of the job says so. All else is *void*: it is not read any more, and
a *take-back* tells those who have read it, as soon as anything looks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perdure.model.jobs import StreamAppend
from perdure.model.streams import StreamHead, StreamPage, StreamPlace


class StreamStore(Protocol):
    """What instances and their activities say while they work."""

    async def append_streams(self, appends: Sequence[StreamAppend]) -> list[bool]:
        """Store what running jobs sent. False: its lease is lost, and nothing was stored.

        The first of an attempt takes back what earlier ones sent.
        """
        ...

    async def take_back(self, instance_id: str) -> bool:
        """Remove what is void of an instance's streams, and put take-backs in its place. False:
        this client may only read the database, and nothing was done.

        What still counts behind the first void item of a stream gets new indexes, in its order,
        behind the take-back.
        """
        ...

    async def read_stream(
        self, instance_id: str, stream: str, *, after: int, limit: int
    ) -> StreamPage | None:
        """Return what counts of a stream behind an index, as of one moment; None: there is no such
        instance.

        Args:
            instance_id: Whose.
            stream: Its name.
            after: The index of the last item that is known.
            limit: How many rows at most; a row is what was sent together.
        """
        ...

    async def find_stream_news(self, places: Sequence[StreamPlace]) -> list[bool]:
        """Tell for each place whether there is anything behind it, or to be taken back."""
        ...

    async def read_stream_heads(self, instance_id: str) -> list[StreamHead]:
        """Return the streams of an instance, by name."""
        ...
