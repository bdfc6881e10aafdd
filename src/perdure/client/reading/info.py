"""What clients are told about instances."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import msgspec

from perdure.client.reading.display import ShownTable, instances_table, objects_table
from perdure.clock import to_datetime
from perdure.codec import Json as Json
from perdure.codec import by_position_and_name, value_codec
from perdure.core.deciders.turn import KEYED
from perdure.model.admin import ExecutionRow, ReportRow, RunningJob
from perdure.model.histories.events import LAST_KINDS, StoredEvent
from perdure.model.instances import DefinitionKey, InstanceRow, Status
from perdure.model.messages import Message
from perdure.model.streams import StreamHead
from perdure.store.base import WaitingJob

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceInfo:
    """Where an instance stands."""

    instance_id: str
    kind: str
    """orchestration or decider"""
    name: str
    version: str
    """Empty as long as no worker has chosen one: it was started by name. A decider has none."""
    status: Status
    execution: int
    """Which generation runs, from 1; continue-as-new begins the next."""
    created_at: datetime
    """When it was started."""
    updated_at: datetime
    """When its last turn was committed; in lists, when it last changed status or execution."""
    ended_at: datetime | None
    parent_id: str | None
    input: Json
    """Its arguments by name, as stored. Those that were given by position to a definition that the
    caller had by name only are under their numbers, from 0."""
    output: Json
    """What it returned, as stored; or the failure it ended with."""
    reason: str | None
    """Why it is blocked or parked, or was cancelled or terminated."""
    unclaimed: str | None = None
    """What a worker needs to take its next turn, if no live worker has it."""

    def _repr_html_(self) -> str:
        return instances_table(self.instance_id, [self]).html()

    def __rich__(self) -> Any:
        return instances_table(self.instance_id, [self]).rich()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """One recorded fact."""

    seq: int
    kind: str
    at: datetime
    data: dict[str, Json]
    """What is recorded; of a row that cannot be read, its text as `damaged`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionInfo:
    """One generation of an instance, as its history tells."""

    execution: int
    started_at: datetime
    updated_at: datetime
    """When its newest event was recorded."""
    events: int
    ended_as: str | None
    """The kind of the event that ended it (`continued_as_new`, `completed`, ...), or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTree:
    """An instance, the ones it started and waits for, and the deciders it called, to any depth.

    No instance is in it twice.
    """

    info: InstanceInfo
    children: tuple[InstanceTree, ...]
    """What it started, oldest first."""
    calls: tuple[InstanceTree, ...]
    """The deciders it gave inputs to, in the order of the calls, as the histories of its newest 100
    executions tell, without those that were pruned. One that several called is below one of them
    only."""

    def __len__(self) -> int:
        """How many instances are in it."""
        return 1 + sum(len(node) for node in (*self.children, *self.calls))


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream of an instance, and how far it has come."""

    name: str
    items: int
    """How many there are that count."""
    last_index: int
    """The index of the newest, or of the take-back that followed."""
    at: datetime | None
    """When the newest was stored; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an instance says of its progress."""

    value: Json
    """As stored; None if it took its report back."""
    version: int
    """Rises by one with every turn that reports."""
    at: datetime

    @overload
    def read(self, type: type[T], /) -> T: ...
    @overload
    def read(self, type: TypeForm[T], /) -> T: ...
    def read(self, type: Any, /) -> Any:
        """Return the value decoded by a type.

        Raises:
            PayloadError: The value is not of that type.
        """
        return value_codec(type).decode(msgspec.json.encode(self.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """A job of an instance that has not ended: a call of an activity, queued or running."""

    key: str
    """Names it for `complete_job`, `fail_job` and outside systems; the same in all attempts."""
    seq: int
    """Number of the event that asked for it."""
    activity: str
    tag: str | None
    attempt: int
    """Which attempt runs or comes next, from 1."""
    worker_id: str | None
    """Who runs it; None while it waits."""
    created_at: datetime
    visible_at: datetime
    """When it may be taken; of a running one, when its lease ends."""
    misfit: str = ""
    """Why the code of the worker that had it last cannot take its arguments; it waits for a worker
    whose code can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a running activity said of its progress."""

    key: str
    activity: str
    tag: str | None
    attempt: int
    worker_id: str | None
    value: Json
    """What it said last; None if it only gave a sign of life."""
    at: datetime | None
    """When."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageInfo:
    """A message or timer in an inbox that no turn has taken yet."""

    no: int
    """Names it for `drop_message`."""
    kind: str
    at: datetime
    """When it arrived; of a timer, when it is due."""
    timer_key: str | None
    """Of a timer: the key that its decider gave it; `timer:4` and the like for those that perdure
    sets itself."""
    data: dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPart(Generic[T]):
    """A part of a list."""

    items: list[T]
    next: str | None
    """Hand this over as `after=` to get the next part; None if this is the last. A part may be
    shorter than was asked for, and yet not be the last."""

    def _repr_html_(self) -> str:
        return self._shown().html()

    def __rich__(self) -> Any:
        return self._shown().rich()

    def _shown(self) -> ShownTable:
        count = f"{len(self.items):,}{'' if self.next is None else ', and more behind them'}"
        if self.items and isinstance(self.items[0], InstanceInfo):
            infos: list[Any] = self.items
            return instances_table(count, infos)
        return objects_table(count, self.items)


def info_of(row: InstanceRow, *, last_at_ms: int = 0, unclaimed: str | None = None) -> InstanceInfo:
    """Return a stored row as people see it.

    Args:
        row: As the store has it, which writes it when the status or execution changes.
        last_at_ms: When its newest event was recorded, if that is known.
        unclaimed: What no worker serves.
    """
    return InstanceInfo(
        instance_id=row.instance_id,
        kind=row.kind,
        name=row.name,
        version=row.version,
        status=row.status,
        execution=row.execution,
        created_at=to_datetime(row.created_ms),
        updated_at=to_datetime(max(row.updated_ms, last_at_ms)),
        ended_at=None if row.ended_ms is None else to_datetime(row.ended_ms),
        parent_id=row.parent_id,
        input=_shown(row.input),
        output=None if row.output is None else json.loads(row.output),
        reason=row.reason,
        unclaimed=unclaimed,
    )


def _shown(input: bytes) -> Json:
    """Return stored arguments as people see them."""
    stored = json.loads(input)
    if type(stored) is not dict:
        return stored
    by_position, by_name = by_position_and_name(stored)
    return {str(place): value for place, value in enumerate(by_position)} | by_name


def event_of(stored: StoredEvent) -> HistoryEvent:
    """Return a stored event as people see it."""
    return HistoryEvent(
        seq=stored.seq,
        kind=stored.kind,
        at=to_datetime(stored.at_ms),
        data=_data_of(stored.body),
    )


def execution_of(row: ExecutionRow) -> ExecutionInfo:
    """Return a stored execution as people see it."""
    return ExecutionInfo(
        execution=row.execution,
        started_at=to_datetime(row.first_at_ms),
        updated_at=to_datetime(row.last_at_ms),
        events=row.events,
        ended_as=row.last_kind if row.last_kind in LAST_KINDS else None,
    )


def stream_of(head: StreamHead) -> StreamInfo:
    """Return a stream as people see it."""
    at = to_datetime(head.at_ms) if head.items else None
    return StreamInfo(head.stream, head.items, head.last_index, at)


def report_of(row: ReportRow | None) -> Report | None:
    """Return a stored report as people see it."""
    if row is None:
        return None
    return Report(value=json.loads(row.value), version=row.version, at=to_datetime(row.updated_ms))


def job_of(job: WaitingJob) -> JobInfo:
    """Return a stored job as people see it."""
    is_waiting = job.worker_id is None
    return JobInfo(
        key=job.key.idempotency_key,
        seq=job.key.seq,
        activity=job.queue.name,
        tag=tag_of(job.queue),
        attempt=job.attempt + 1 if is_waiting else job.attempt,
        worker_id=job.worker_id,
        created_at=to_datetime(job.created_ms),
        visible_at=to_datetime(job.visible_at_ms),
        misfit=job.misfit,
    )


def progress_of(job: RunningJob) -> Progress:
    """Return the stored progress of a job as people see it."""
    return Progress(
        key=job.key.idempotency_key,
        activity=job.queue.name,
        tag=tag_of(job.queue),
        attempt=job.attempt,
        worker_id=job.worker_id,
        value=None if job.progress is None else json.loads(job.progress),
        at=None if job.beat_ms is None else to_datetime(job.beat_ms),
    )


def message_of(message: Message) -> MessageInfo:
    """Return a stored message as people see it."""
    return MessageInfo(
        no=message.no,
        kind=message.kind,
        at=to_datetime(message.effective_at_ms),
        timer_key=None if message.timer_key is None else message.timer_key.removeprefix(KEYED),
        data=_data_of(message.body),
    )


def tag_of(queue: DefinitionKey) -> str | None:
    """Return the tag of an activity's queue."""
    return queue.variant or None if queue.kind == "activity" else None


def _data_of(body: bytes) -> dict[str, Json]:
    try:
        data: dict[str, Json] = json.loads(body)
    except ValueError:
        return {"damaged": body.decode("utf-8", "replace")}
    return data
