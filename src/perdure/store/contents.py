"""Everything a store holds, as one consistent picture, for the checker and for `doctor`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from perdure.model.admin import KvRow, ReportRow, SessionRow
from perdure.model.events import StoredEvent
from perdure.model.feeds import StoredSnapshot
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


@dataclass(slots=True)
class Contents:
    """All rows of one state of the database. Held in memory: meant for stores that fit."""

    instances: dict[str, InstanceRow] = field(default_factory=dict)
    live: dict[str, LiveRow] = field(default_factory=dict)
    histories: dict[ExecutionKey, list[StoredEvent]] = field(default_factory=dict)
    inboxes: dict[str, list[Message]] = field(default_factory=dict)
    jobs: dict[str, list[WaitingJob]] = field(default_factory=dict)
    dead_jobs: dict[str, list[JobKey]] = field(default_factory=dict)
    kv: dict[str, dict[str, KvRow]] = field(default_factory=dict)
    reports: dict[str, ReportRow] = field(default_factory=dict)
    sessions: list[SessionRow] = field(default_factory=list)
    receipts: dict[str, dict[str, bytes | None]] = field(default_factory=dict)
    """What inputs came to, by instance and id; None: not decided, or no input."""
    unique_keys: dict[UniqueKey, tuple[str, int]] = field(default_factory=dict)
    """Who has a business key, with its incarnation."""
    snapshots: dict[ExecutionKey, StoredSnapshot] = field(default_factory=dict)
    feed: list[FedRow] = field(default_factory=list)
    """In the order of commits."""
    observations: dict[str, list[int]] = field(default_factory=dict)
    """Numbers of the observed inputs."""


@runtime_checkable
class Inspectable(Protocol):
    """A store that can be read as a whole."""

    async def read_contents(self) -> Contents:
        """Return everything, as of one moment."""
        ...
