"""What a store holds, as consistent pictures, for the checker and for `doctor`.

All of it at once, for tests and small stores; or slice by slice: a slice has everything of the ids
of a range, as of one moment, and not much more than a bounded number of rows. What belongs to no
single id (keys, the feed, sessions) is looked at by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from perdure.model.admin import KvRow, ReportRow, SessionRow
from perdure.model.feeds import StoredSnapshot
from perdure.model.histories.events import StoredEvent
from perdure.model.instances import InstanceRow, LiveRow
from perdure.model.jobs import JobKey
from perdure.model.messages import Message
from perdure.model.turns import UniqueKey
from perdure.store.base import ExecutionKey, WaitingJob


class FedRow(NamedTuple):
    """An event as the feed refers to it."""

    execution: ExecutionKey
    seq: int
    tag: str


class SentRow(NamedTuple):
    """What was sent to a stream together, or a take-back, without what it says."""

    last_index: int
    items: int
    discards_from: int | None
    incarnation: int


@dataclass(slots=True)
class Contents:
    """Rows of one state of the database. Held in memory."""

    instances: dict[str, InstanceRow] = field(default_factory=dict)
    live: dict[str, LiveRow] = field(default_factory=dict)
    histories: dict[ExecutionKey, list[StoredEvent]] = field(default_factory=dict)
    inboxes: dict[str, list[Message]] = field(default_factory=dict)
    jobs: dict[str, list[WaitingJob]] = field(default_factory=dict)
    dead_jobs: dict[str, list[JobKey]] = field(default_factory=dict)
    kv: dict[str, dict[str, KvRow]] = field(default_factory=dict)
    reports: dict[str, ReportRow] = field(default_factory=dict)
    streams: dict[tuple[str, str], list[SentRow]] = field(default_factory=dict)
    """What was sent, by instance and stream, in the order of indexes."""
    stream_heads: dict[tuple[str, str], int] = field(default_factory=dict)
    """The next index of each stream."""
    sessions: list[SessionRow] = field(default_factory=list)
    receipts: dict[str, dict[str, bytes | None]] = field(default_factory=dict)
    """What inputs came to, by instance and id; None: not decided, or no input."""
    unique_keys: dict[UniqueKey, tuple[str, int]] = field(default_factory=dict)
    """The holder of a business key, with its incarnation."""
    snapshots: dict[ExecutionKey, StoredSnapshot] = field(default_factory=dict)
    feed: list[FedRow] = field(default_factory=list)
    """In the order of commits."""
    observations: dict[str, list[int]] = field(default_factory=dict)
    """Numbers of the observed inputs."""
    children: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The children that have not ended, with id and incarnation of the instance that waits. They
    may be of other slices."""


class SlicePlace(NamedTuple):
    """A place in the order of all ids."""

    part: int
    instance_id: str


class KeyPlace(NamedTuple):
    """A place in the order of all business keys."""

    part: int
    scope: str
    key: str


FIRST_PLACE = SlicePlace(-1, "")
"""Before every id."""

FIRST_KEY = KeyPlace(-1, "", "")
"""Before every key."""


class Slice(NamedTuple):
    """What there is of the ids of a range."""

    contents: Contents
    """Without keys and sessions, and without the bytes of inputs, outputs and snapshots."""
    end: SlicePlace | None
    """The last id of the range; None if none is behind it."""


class KeySlice(NamedTuple):
    """Some business keys, and the live rows of their holders."""

    contents: Contents
    end: KeyPlace | None
    """The last of them; None if none is behind it."""


class StrayEvent(NamedTuple):
    """An event that the feed has and no history."""

    instance_id: str
    execution: int
    seq: int


class TornSession(NamedTuple):
    """A session that is not as it must be."""

    session: str
    workers: int
    """How many workers run jobs of it; 0: it was used after its lease had run out."""


@runtime_checkable
class Inspectable(Protocol):
    """A store that can be read as a whole."""

    async def read_contents(self) -> Contents:
        """Return everything, as of one moment."""
        ...


@runtime_checkable
class Sliced(Protocol):
    """A store that can be read slice by slice."""

    async def read_slice(self, after: SlicePlace, before_part: int) -> Slice:
        """Return everything of some of the ids behind a place and of lower parts than one, as of
        one moment."""
        ...

    async def read_keys(self, after: KeyPlace) -> KeySlice:
        """Return some of the keys behind a place, as of one moment."""
        ...

    async def find_stray_feed(self, after: int, upto: int) -> list[StrayEvent]:
        """Return what the feed has between two positions and no history has."""
        ...

    async def find_torn_sessions(self) -> list[TornSession]:
        """Return the sessions that are not as they must be."""
        ...

    async def last_position(self) -> int:
        """Return the newest position of the feed, and give none as `feed_end` may: a role that may
        only read can check."""
        ...
