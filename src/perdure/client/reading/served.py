"""Workers as programs are told of them: the same by `perdure workers --json` and over HTTP.

What every worker takes, perdure's own, is not among it.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from perdure.client.reading.overview import WorkerInfo
from perdure.model.builtins import RESERVED_PREFIX
from perdure.model.instances import DefinitionKey


class ServedDefinition(msgspec.Struct, frozen=True, order=True):
    """What a worker takes."""

    kind: str
    name: str
    version: str = ""
    """Of an orchestration."""
    tag: str = ""
    """Of an activity."""


class LeasesShown(msgspec.Struct, frozen=True):
    """How many leases a worker holds on the turns or jobs of a definition."""

    definition: ServedDefinition
    leased: int


class SlotsShown(msgspec.Struct, frozen=True):
    """The slots of one kind at a worker, and how many were in use at its last sign of life."""

    kind: str
    """`async`, `threaded` or `process`."""
    slots: int
    running: int
    waiting: int
    """Jobs that the worker has claimed and that wait for a slot."""


class WorkerShown(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that lives."""

    worker_id: str
    host: str
    pid: int
    started_at: datetime
    seen_at: datetime
    definitions: list[ServedDefinition]
    slots: list[SlotsShown]
    """Its slots for activities by kind."""
    instances: int
    """How many instances it has under a lease now."""
    jobs: int
    """How many jobs it has under a lease now."""
    leases: list[LeasesShown]
    """These leases by definition."""
    is_exact: bool
    """Whether all leases were counted; if not, there are at least so many."""


def shown_worker(one: WorkerInfo) -> WorkerShown:
    """Return a worker as programs are told of it."""
    own = {_served(key) for key in one.definitions if not key.name.startswith(RESERVED_PREFIX)}
    return WorkerShown(
        worker_id=one.worker_id,
        host=one.host,
        pid=one.pid,
        started_at=one.started_at,
        seen_at=one.seen_at,
        definitions=sorted(own),
        slots=[SlotsShown(*use) for use in one.slots],
        instances=one.instances,
        jobs=one.jobs,
        leases=[LeasesShown(_served(key), leased) for key, leased in one.leases],
        is_exact=one.is_exact,
    )


def _served(key: DefinitionKey) -> ServedDefinition:
    is_activity = key.kind == "activity"
    return ServedDefinition(
        key.kind,
        key.name,
        "" if is_activity else key.variant,
        key.variant if is_activity else "",
    )
