"""What clients are told about instances."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from perdure.clock import to_datetime
from perdure.model.events import StoredEvent
from perdure.model.instances import InstanceRow, Status

Json: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceInfo:
    """Where an instance stands."""

    instance_id: str
    name: str
    version: str
    status: Status
    execution: int
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    parent_id: str | None
    input: Json
    """Its arguments by name, as stored."""
    output: Json
    """What it returned, as stored; or the failure it ended with."""
    reason: str | None
    """Why it is blocked or parked, or was cancelled or terminated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """One recorded fact."""

    seq: int
    kind: str
    at: datetime
    data: dict[str, Json]
    """What is recorded; of a row that cannot be read, its text as `damaged`."""


def info_of(row: InstanceRow) -> InstanceInfo:
    """Return a stored row as people see it."""
    return InstanceInfo(
        instance_id=row.instance_id,
        name=row.name,
        version=row.version,
        status=row.status,
        execution=row.execution,
        created_at=to_datetime(row.created_ms),
        updated_at=to_datetime(row.updated_ms),
        ended_at=None if row.ended_ms is None else to_datetime(row.ended_ms),
        parent_id=row.parent_id,
        input=json.loads(row.input),
        output=None if row.output is None else json.loads(row.output),
        reason=row.reason,
    )


def event_of(stored: StoredEvent) -> HistoryEvent:
    """Return a stored event as people see it."""
    return HistoryEvent(
        seq=stored.seq,
        kind=stored.kind,
        at=to_datetime(stored.at_ms),
        data=_data_of(stored),
    )


def _data_of(stored: StoredEvent) -> dict[str, Json]:
    try:
        data: dict[str, Json] = json.loads(stored.body)
    except ValueError:
        return {"damaged": stored.body.decode("utf-8", "replace")}
    return data
