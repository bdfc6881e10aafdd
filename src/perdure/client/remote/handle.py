"""One instance, seen over HTTP."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from time import monotonic
from typing import Any, TypeVar

import msgspec

from perdure.authoring.key import key_codec, key_name
from perdure.authoring.query import AskedQuery, Query
from perdure.authoring.signal import Signal
from perdure.authoring.stream import Stream
from perdure.authoring.update import AskedUpdate
from perdure.client.acting.update_requests import UpdateRequest, checked_request
from perdure.client.handle import Handle
from perdure.client.histories.finding import WantedEvents
from perdure.client.histories.history import History
from perdure.client.histories.moving import OrchestrationVersion, check_move
from perdure.client.histories.points import Point, check_point, point_parts
from perdure.client.histories.resetting import ResetPlan
from perdure.client.reading.info import (
    ExecutionInfo,
    HistoryEvent,
    InstanceInfo,
    InstanceTree,
    JobInfo,
    Json,
    Progress,
    Report,
    StreamInfo,
)
from perdure.client.reading.item_reader import ItemReader, checked_stream
from perdure.client.reading.lists import check_count
from perdure.client.remote.connection import ASK_WAIT_S, RemoteConnection, encoded, read
from perdure.client.remote.streams import RemoteStream
from perdure.client.remote.values import shown_or_none
from perdure.codec import ValueCodec, check_id
from perdure.durations import Duration, as_duration
from perdure.errors import (
    InstanceCancelledError,
    InstanceFailedError,
    InstanceHeldError,
    InstanceNotFoundError,
    InstanceTerminatedError,
    ResultTimeoutError,
    UsageError,
)
from perdure.ids import fresh_name
from perdure.limits import PAGE_MAX
from perdure.model.admin import DeletedCounts, InstanceStats
from perdure.model.instances import Status
from perdure.model.options import IfHeld, check_if_held

T = TypeVar("T")
A = TypeVar("A")
R_co = TypeVar("R_co", covariant=True)


class RemoteHandle(Handle[R_co]):
    """One instance of a store behind a server."""

    def __init__(
        self,
        connection: RemoteConnection,
        instance_id: str,
        codec: ValueCodec[Any],
        moves_to: OrchestrationVersion | None = None,
    ) -> None:
        self.instance_id = instance_id
        self._connection = connection
        self._codec = codec
        self._moves_to = moves_to

    # --------------------------------------------------------------------- waiting

    async def result(
        self,
        *,
        timeout: Duration | None = None,  # noqa: ASYNC109 - as in Handle
        if_held: IfHeld = "warn",
    ) -> R_co:
        """Wait for the end and return the result; see `Handle.result`.

        That an instance is held is seen with each request: at once, and then twice a minute.
        """
        check_if_held(if_held)
        waiting = WaitLimit(timeout)
        is_first = True
        while True:
            wait_s, is_first = (0.0 if is_first else waiting.next_s()), False
            told = await self._get("result", wait=wait_s, wait_s=wait_s)
            match Status(told["status"]):
                case Status.COMPLETED:
                    found: R_co = self._codec.decode(json.dumps(told["result"]).encode())
                    return found
                case Status.FAILED:
                    raise InstanceFailedError(self.instance_id, **told["error"])
                case Status.CANCELLED:
                    raise InstanceCancelledError(self.instance_id, told["error"]["message"])
                case Status.TERMINATED:
                    raise InstanceTerminatedError(self.instance_id, told["error"]["message"])
                case Status.BLOCKED | Status.PARKED if if_held == "raise":
                    raise InstanceHeldError(self.instance_id, told["status"], await self._reason())
                case Status.BLOCKED | Status.PARKED if if_held == "warn":
                    await self._warn_held()
                    if_held = "wait"
            if waiting.is_over():
                self._refuse_late(waiting, told["explanation"] or await self.explain(), "result")

    async def _reason(self) -> str:
        return (await self.info()).reason or ""

    async def report(self) -> Report | None:
        """Return what the instance says of its progress; see `Handle.report`."""
        found: Report | None = read(Report | None, await self._get("report"))
        return found

    async def wait_report(
        self,
        *,
        after: int = 0,
        timeout: Duration | None = None,  # noqa: ASYNC109 - as in Handle
    ) -> Report | None:
        """Wait for a report that is newer; see `Handle.wait_report`."""
        check_count("after", after, least=0)
        waiting = WaitLimit(timeout)
        while True:
            # Before the report: what is said after this look is not missed.
            has_ended = (await self.info()).status.is_terminal
            wait_s = 0.0 if has_ended else waiting.next_s()
            told = await self._get("report", after=after, wait=wait_s, wait_s=wait_s)
            found: Report | None = read(Report | None, told)
            if found is not None and found.version > after:
                return found
            if has_ended:
                return None
            what = "report" if after == 0 else f"report after version {after}"
            if waiting.is_over():
                self._refuse_late(waiting, await self.explain(), what)

    def stream(self, stream: Stream[T], /, *, after: int = 0) -> ItemReader[T]:
        """Return the items of a stream behind an index; see `Handle.stream`."""
        check_count("after", after, least=0)
        return ItemReader(RemoteStream(self, checked_stream(stream).name), stream.codec, after)

    async def streams(self) -> list[StreamInfo]:
        """Return the streams that something was sent to; see `Handle.streams`."""
        found: list[StreamInfo] = read(list[StreamInfo], await self._get("streams"))
        return found

    async def kv(self, key: Any = None, type: Any = Any, /) -> Any:
        """Return what the instance keeps; see `Handle.kv`."""
        wanted = None if key is None else key_name(key)
        kept = await self._get("kv")
        if wanted is None:
            return dict(sorted(kept.items()))
        return _decoded(key_codec(key, type), kept[wanted]) if wanted in kept else None

    async def wait_kv(
        self,
        key: Any,
        type: Any = Any,
        /,
        *,
        after: int = 0,
        timeout: Duration | None = None,  # noqa: ASYNC109 - as in Handle
    ) -> Any:
        """Wait until the instance keeps a value under a key; see `Handle.wait_kv`."""
        wanted = key_name(key)
        check_count("after", after, least=0)
        waiting = WaitLimit(timeout)
        while True:
            wait_s = waiting.next_s()
            told = await self._get("kv", wanted, wait=wait_s, wait_s=wait_s, after=after)
            if told["is_set"]:
                return _decoded(key_codec(key, type), told["value"])
            if told["has_ended"]:
                return None
            if waiting.is_over():
                what = f"value under key {wanted!r}"
                self._refuse_late(waiting, await self.explain(), what)

    # ---------------------------------------------------------------------- asking

    async def info(self) -> InstanceInfo:
        """Return where the instance stands."""
        found: InstanceInfo = read(InstanceInfo, await self._get())
        return found

    async def explain(self) -> str:
        """Return one sentence on what it waits for; see `Handle.explain`."""
        told = await self._get("explain")
        return str(told["explanation"])

    async def executions(self) -> list[ExecutionInfo]:
        """Return the executions whose histories are there, oldest first."""
        found: list[ExecutionInfo] = read(list[ExecutionInfo], await self._get("executions"))
        return found

    async def history(
        self,
        execution: int | None = None,
        *,
        after: int = 0,
        limit: int | None = None,
        kind: str | None = None,
        name: str | None = None,
        failures: bool = False,
    ) -> History:
        """Return what is recorded in an execution, in order; see `Handle.history`."""
        which = asdict(WantedEvents(kind=kind, name=name, failures=failures))
        check_count("after", after, least=0)
        if limit is not None:
            check_count("limit", limit, least=1)
        if execution is not None:
            check_count("execution", execution, least=1)
        found = History()
        following: int | None = after
        while following is not None and (limit is None or len(found) < limit):
            size = PAGE_MAX if limit is None else min(limit - len(found), PAGE_MAX)
            told = await self._get(
                "history", execution=execution, after=following, limit=size, **which
            )
            found += read(list[HistoryEvent], told["items"])
            following = told["next"]
        return found

    async def export(self, execution: int | None = None) -> list[dict[str, Json]]:
        """Return the history of an execution as `perdure export` writes it; see `Handle.export`."""
        if execution is not None:
            check_count("execution", execution, least=1)
        head: dict[str, Json] = {}
        events: list[dict[str, Json]] = []
        following: int | None = 0
        while following is not None:
            told = await self._get("export", execution=execution, after=following, limit=PAGE_MAX)
            if head and head["incarnation"] != told["head"]["incarnation"]:
                # Deleted and started anew meanwhile: another history.
                events, following, execution = [], 0, None
                head = {}
                continue
            head = head or told["head"]
            execution = head["execution"]
            events += told["events"]
            following = told["next"]
        return [{**head, "events": len(events)}, *events]

    async def tree(self, *, calls: bool = True) -> InstanceTree:
        """Return the instance with all that it started and called; see `Handle.tree`."""
        found: InstanceTree = read(InstanceTree, await self._get("tree", calls=calls))
        return found

    async def stats(self) -> InstanceStats:
        """Return how much is stored for the instance."""
        found: InstanceStats = read(InstanceStats, await self._get("stats"))
        return found

    async def jobs(self) -> list[JobInfo]:
        """Return the calls of activities that have not ended; see `Handle.jobs`."""
        found: list[JobInfo] = read(list[JobInfo], await self._get("jobs"))
        return found

    async def progress(self) -> list[Progress]:
        """Return what the running activities said of their progress."""
        found: list[Progress] = read(list[Progress], await self._get("progress"))
        return found

    # ---------------------------------------------------------------------- telling

    async def send(self, signal: Signal[T], value: T, /, *, message_id: str | None = None) -> None:
        """Send a signal; see `Handle.send`."""
        if not isinstance(signal, Signal):
            raise UsageError(f'{signal!r} is not a signal: make one with Signal("name", type)')
        raw = signal.codec.encode(value, f"signal {signal.name!r}")
        await self._post(
            "signals",
            name=signal.name,
            value=encoded(raw),
            # Always one: a request that is sent again after a fault must not count twice.
            message_id=fresh_name() if message_id is None else check_id("message id", message_id),
        )

    async def update(
        self,
        update: AskedUpdate[T, A],
        value: T,
        /,
        *,
        update_id: str | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109 - as in Handle
    ) -> A:
        """Ask the instance, and wait for the answer; see `Handle.update`."""
        # Its id is made here: a request that is sent again after a fault must not count twice.
        asked = checked_request(self.instance_id, update, value, update_id=update_id)
        waiting = WaitLimit(update.options.timeout if timeout is None else timeout)
        return await self._ask_until_answered(update, asked, waiting, "updates")

    async def _ask_until_answered(
        self,
        update: AskedUpdate[Any, A],
        asked: UpdateRequest,
        waiting: WaitLimit,
        route: str,
        **more: Any,
    ) -> A:
        """Send a request again and again until its answer has come."""
        while True:
            wait_s = waiting.next_s()
            told = await self._connection.post(
                *("instances", self.instance_id, route),
                wait_s=wait_s,
                name=asked.name,
                value=encoded(asked.value),
                update_id=asked.update_id,
                wait=wait_s,
                **more,
            )
            if told["is_answered"]:
                answer: A = _decoded(update.answers_codec, told["answer"])
                return answer
            if waiting.is_over():
                what = f"answer to update {asked.name!r}"
                self._refuse_late(waiting, await self._explain_if_there(), what)

    async def _explain_if_there(self) -> str:
        """Return what the instance waits for; one that is still to be started may not be there."""
        try:
            return await self.explain()
        except InstanceNotFoundError:
            return f"instance {self.instance_id!r} was not started in time"

    async def ask(self, query: AskedQuery[T], /, *, at: int | None = None) -> T:
        """Compute a view of the orchestration's variables, where the server has its code; see
        `Handle.ask`."""
        if not isinstance(query, Query):
            raise UsageError(f'{query!r} is not a query: make one with Query("name", type)')
        told = await self._get("queries", query.name, at=at)
        answer: T = _decoded(query.codec, told["answer"])
        return answer

    async def cancel(self, reason: str = "") -> None:
        """Ask the instance to stop; see `Handle.cancel`."""
        await self._post("cancel", reason=reason)

    async def terminate(self, reason: str = "") -> None:
        """Stop the instance now; see `Handle.terminate`."""
        await self._post("terminate", reason=reason)

    async def restart(self) -> None:
        """Start an instance that has ended again; see `Handle.restart`."""
        await self._post("restart")

    async def plan(self, point: Point | None = None, /) -> ResetPlan:
        """Return what `reset` would do, with the code that the server has; see `Handle.plan`."""
        told = await self._post("plan", **await self._parts(point))
        return msgspec.convert(told, ResetPlan)

    async def reset(self, point: Point | None = None, /, *, reason: str = "") -> None:
        """Go on from an earlier point; see `Handle.reset`."""
        await self._post("reset", reason=reason, **await self._parts(point))

    async def fork(self, instance_id: str, point: Point | None = None, /) -> Handle[R_co]:
        """Start another instance from a point of this one; see `Handle.fork`."""
        new_id = check_id("instance id", instance_id)
        await self._post("fork", instance_id=new_id, **await self._parts(point))
        return RemoteHandle(self._connection, new_id, self._codec)

    async def _parts(self, point: Point | None) -> dict[str, Any]:
        """Return a point and the version to go on with, as the HTTP API takes them."""
        parts = point_parts(check_point(point))
        if self._moves_to is None:
            return parts
        check_move(self.instance_id, (await self.info()).name, self._moves_to)
        return {**parts, "version": self._moves_to.version}

    async def unpark(self) -> bool:
        """Let a parked or blocked instance be tried again; see `Handle.unpark`."""
        told = await self._post("unpark")
        return bool(told["was_held"])

    async def delete(self, *, force: bool = False) -> DeletedCounts:
        """Delete the instance and everything below it; see `Client.delete`."""
        path = ("instances", self.instance_id)
        return DeletedCounts(**await self._connection.ask("DELETE", path, query={"force": force}))

    async def prune(self, *, keep_last: int = 1, before: datetime | None = None) -> DeletedCounts:
        """Remove the histories of earlier executions; see `Handle.prune`."""
        told = await self._post(
            "prune",
            keep_last=check_count("keep_last", keep_last, least=1),
            before=shown_or_none("before", before),
        )
        return DeletedCounts(**told)

    # ------------------------------------------------------------------ inside

    async def _get(self, *path: str, wait_s: float = 0.0, **query: Any) -> Json:
        return await self._connection.get(
            "instances", self.instance_id, *path, wait_s=wait_s, **query
        )

    async def _post(self, action: str, **body: Any) -> Json:
        return await self._connection.post("instances", self.instance_id, action, **body)

    def _refuse_late(self, waiting: WaitLimit, explanation: str, what: str) -> None:
        if waiting.is_over():
            assert waiting.limit is not None
            raise ResultTimeoutError(self.instance_id, waiting.limit, explanation, what=what)


class WaitLimit:
    """How long a caller still waits."""

    def __init__(self, given: Duration | None) -> None:
        self.limit = None if given is None else as_duration("timeout", given)
        self._until_s = None if self.limit is None else monotonic() + self.limit.total_seconds()

    def next_s(self) -> float:
        """Return how long the next request is to wait."""
        if self._until_s is None:
            return ASK_WAIT_S
        return min(max(self._until_s - monotonic(), 0.0), ASK_WAIT_S)

    def is_over(self) -> bool:
        """Return whether the caller waits no longer."""
        return self._until_s is not None and monotonic() >= self._until_s


def _decoded(codec: ValueCodec[Any], value: Json) -> Any:
    return codec.decode(json.dumps(value).encode())
