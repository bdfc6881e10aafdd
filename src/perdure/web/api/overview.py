"""Routes about the whole store: jobs, queues, workers, projections, definitions, changes."""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from starlette.responses import Response

from perdure.client.core import SEEN_WITHIN
from perdure.client.deciders.projections import ProjectionInfo
from perdure.client.reading.info import Json
from perdure.client.reading.lists import DeadJobQuery
from perdure.client.reading.overview import DeadJobInfo, QueueInfo, SessionInfo
from perdure.limits import BULK_MAX
from perdure.model.admin import StoreTotals
from perdure.model.builtins import RESERVED_PREFIX
from perdure.web.api.instances import AfterMark, Counted, Limit
from perdure.web.changes import changed
from perdure.web.cursors import open_cursor, sign_cursor
from perdure.web.operations import CheckedRequest, Nothing
from perdure.web.problems import RefusalError
from perdure.web.sse import StreamEvent

LIST = "dead jobs"
MAX_SEEN_S = 10 * 365 * 86_400
"""How long ago the last sign of life of a worker may be that is listed."""


class DeadJobsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead jobs; all conditions must hold."""

    activity: str | None = None
    tag: str | None = None
    instance_id: str | None = None
    prefix: str | None = None
    limit: Limit = 100
    after: AfterMark = None


class RetryAllBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead jobs are put back; at least one condition."""

    activity: str | None = None
    tag: str | None = None
    instance_id: str | None = None
    prefix: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=BULK_MAX)] = BULK_MAX
    """How many at most."""


class WorkersQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workers: those that gave a sign of life within so many seconds."""

    seen_within_s: Annotated[float, msgspec.Meta(gt=0, le=MAX_SEEN_S)] = SEEN_WITHIN.total_seconds()


class DeadJobList(msgspec.Struct, frozen=True):
    """A page of dead jobs."""

    items: list[DeadJobInfo]
    next: str | None


class CompleteBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result that a job is ended with."""

    value: Json


class FailBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a job is ended."""

    error: str


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


class DefinitionShown(msgspec.Struct, frozen=True, kw_only=True):
    """A definition, and who serves it."""

    kind: str
    name: str
    version: str
    tag: str
    workers: list[str]
    """Those that serve it; none: work for it waits."""
    ready: int
    later: int
    leased: int
    schema: Json = None
    """JSON Schema of an orchestration's arguments, where its code is at hand."""
    about: str = ""
    """How its docstring begins, where its code is at hand."""


class PauseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a projection is paused."""

    reason: str = ""


class ResumeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a projection goes on."""

    skip: bool = False
    """Leave out the event at which it is stuck, for good."""


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing more to say."""


# -------------------------------------------------------------------------- jobs


async def list_dead_jobs(ask: CheckedRequest[DeadJobsQuery, None]) -> DeadJobList:
    """List jobs that ran out of attempts, and effects that failed."""
    secret = await ask.cursor_secret()
    page = await ask.client.dead_jobs(
        limit=min(ask.query.limit, ask.site.settings.limits.page),
        after=open_cursor(secret, LIST, ask.query.after),
        **_which(ask.query),
    )
    return DeadJobList(page.items, sign_cursor(secret, LIST, page.next))


async def retry_dead_job(ask: CheckedRequest[Nothing, EmptyBody]) -> None:
    """Put a dead job back into its queue."""
    await ask.client.retry_dead_job(ask.path["key"])


async def retry_dead_jobs(ask: CheckedRequest[Nothing, RetryAllBody]) -> Counted:
    """Put many dead jobs back into their queues; without a condition none."""
    which = _which(ask.body)
    if not which:
        raise RefusalError(
            400, "empty_filter", "say which dead jobs: activity, tag, instance_id or prefix"
        )
    return Counted(await ask.client.retry_dead_jobs(limit=ask.body.limit, **which))


async def forget_dead_job(ask: CheckedRequest[Nothing, None]) -> None:
    """Remove a dead job for good."""
    await ask.client.forget_dead_job(ask.path["key"])


async def complete_job(ask: CheckedRequest[Nothing, CompleteBody]) -> None:
    """End a job by hand: its orchestration goes on with this value as the result."""
    await ask.client.complete_job(ask.path["key"], ask.body.value)


async def fail_job(ask: CheckedRequest[Nothing, FailBody]) -> None:
    """End a job by hand: its orchestration gets an error with this text."""
    await ask.client.fail_job(ask.path["key"], ask.body.error)


# ----------------------------------------------------------------------- overview


async def show_totals(ask: CheckedRequest[Nothing, None]) -> StoreTotals:
    """Tell how much there is in the whole store.

    It is counted anew, unless the last count was less than 50 times as long ago as it took.
    """
    return await ask.site.totals.get_latest(ask.client)


async def list_queues(ask: CheckedRequest[Nothing, None]) -> list[QueueInfo]:
    """Tell what waits for which definition, and who takes it.

    It is counted anew, unless the last count was less than 50 times as long ago as it took.
    """
    return await ask.queues()


async def list_workers(ask: CheckedRequest[WorkersQuery, None]) -> list[WorkerShown]:
    """List the workers that gave a sign of life lately."""
    return await workers_seen(ask, timedelta(seconds=ask.query.seen_within_s))


async def workers_seen(
    ask: CheckedRequest[Any, Any], within: timedelta = SEEN_WITHIN
) -> list[WorkerShown]:
    """Return the workers that gave a sign of life lately, and what they are busy with."""
    return [
        WorkerShown(
            worker_id=one.worker_id,
            host=one.host,
            pid=one.pid,
            started_at=one.started_at,
            seen_at=one.seen_at,
            definitions=sorted(
                _served(key) for key in one.definitions if not key.name.startswith(RESERVED_PREFIX)
            ),
            slots=[SlotsShown(*use) for use in one.slots],
            instances=one.instances,
            jobs=one.jobs,
            leases=[LeasesShown(_served(key), leased) for key, leased in one.leases],
            is_exact=one.is_exact,
        )
        for one in await ask.client.workers(seen_within=within)
    ]


async def list_sessions(ask: CheckedRequest[Nothing, None]) -> list[SessionInfo]:
    """Tell which worker has which session."""
    return await ask.client.sessions()


async def list_definitions(ask: CheckedRequest[Nothing, None]) -> list[DefinitionShown]:
    """List the definitions that live workers serve or work waits for."""
    workers: dict[ServedDefinition, list[str]] = {}
    for worker in await workers_seen(ask):
        for served in worker.definitions:
            workers.setdefault(served, []).append(worker.worker_id)
    waiting: dict[ServedDefinition, QueueInfo] = {}
    for queue in await ask.queues():
        key = ServedDefinition(queue.kind, queue.name, queue.version or "", queue.tag or "")
        if not queue.name.startswith(RESERVED_PREFIX):
            waiting[key] = queue
    found = []
    for served in sorted(workers.keys() | waiting.keys()):
        one = waiting.get(served)
        schema, about = _described(ask, served)
        found.append(
            DefinitionShown(
                kind=served.kind,
                name=served.name,
                version=served.version,
                tag=served.tag,
                workers=sorted(workers.get(served, ())),
                ready=0 if one is None else one.ready,
                later=0 if one is None else one.later,
                leased=0 if one is None else one.leased,
                schema=schema,
                about=about,
            )
        )
    return found


async def watch_changes(ask: CheckedRequest[Nothing, None]) -> Response:
    """Say, as server-sent events, when it may be worth looking again. Nothing else is in them."""
    return ask.stream(_looks(ask))


# --------------------------------------------------------------------- projections


async def list_projections(ask: CheckedRequest[Nothing, None]) -> list[ProjectionInfo]:
    """Tell how all projections and subscriptions stand."""
    return await ask.client.projections()


async def show_projection(ask: CheckedRequest[Nothing, None]) -> ProjectionInfo:
    """Tell how a projection or subscription stands."""
    return await ask.client.projection(ask.path["name"])


async def pause_projection(ask: CheckedRequest[Nothing, PauseBody]) -> None:
    """Let a projection handle no more events until it is resumed."""
    await ask.client.pause_projection(ask.path["name"], reason=ask.reason(ask.body.reason))


async def resume_projection(ask: CheckedRequest[Nothing, ResumeBody]) -> None:
    """Let a projection go on that was paused or is stuck."""
    await ask.client.resume_projection(ask.path["name"], skip=ask.body.skip)


async def rebuild_projection(ask: CheckedRequest[Nothing, EmptyBody]) -> None:
    """Let a projection remove what it has written and handle all events once more."""
    await ask.client.rebuild_projection(ask.path["name"])


async def forget_projection(ask: CheckedRequest[Nothing, None]) -> None:
    """Forget a projection or subscription that exists no more."""
    await ask.client.forget_projection(ask.path["name"])


# -------------------------------------------------------------------------- inside


def _which(query: DeadJobsQuery | RetryAllBody) -> DeadJobQuery:
    found: Any = {
        name: value
        for name in DeadJobQuery.__annotations__
        if (value := getattr(query, name)) is not None
    }
    which: DeadJobQuery = found
    return which


def _served(key: Any) -> ServedDefinition:
    is_activity = key.kind == "activity"
    return ServedDefinition(
        key.kind,
        key.name,
        "" if is_activity else key.variant,
        key.variant if is_activity else "",
    )


def _described(ask: CheckedRequest[Any, Any], served: ServedDefinition) -> tuple[Json, str]:
    """Return the schema of the arguments of an orchestration, and how its docstring begins."""
    beside = ask.client._core.beside
    if beside is None or served.kind != "orchestration":
        return None, ""
    found = beside.registry.orchestrations.get((served.name, served.version))
    if found is None:
        return None, ""
    about = (found.fn.__doc__ or "").strip().partition("\n")[0]
    return arguments_schema(found.fn), about


def arguments_schema(fn: Any) -> Json:
    """Return JSON Schema of a function's arguments, its context left out; None if they have types
    that it cannot say."""
    try:
        hints = typing.get_type_hints(fn)
        parameters = inspect.signature(fn).parameters
        taken = {
            name: one
            for name, one in parameters.items()
            if getattr(hints.get(name), "__name__", "") != "Context" and name != "ctx"
        }
        properties = {}
        components: dict[str, Any] = {}
        for name in taken:
            [schema], more = msgspec.json.schema_components(
                [hints.get(name, Any)], ref_template="#/$defs/{name}"
            )
            properties[name] = schema
            components |= more
    except (NameError, TypeError, ValueError):
        return None
    required = [name for name, one in taken.items() if one.default is inspect.Parameter.empty]
    found = {"type": "object", "properties": properties, "required": required}
    return found | ({"$defs": components} if components else {})


async def _looks(ask: CheckedRequest[Any, Any]) -> AsyncIterator[StreamEvent]:
    async for look in changed(ask.client):
        yield StreamEvent("changed", look)
        await asyncio.sleep(ask.site.pace.pause_s(ask.site.streams.open))
