"""Routes about the whole store: jobs, queues, workers, projections, definitions, changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from starlette.responses import Response

from perdure.client.core import SEEN_WITHIN
from perdure.client.deciders.projections import ProjectionInfo
from perdure.client.reading.info import Json
from perdure.client.reading.lists import DeadJobQuery
from perdure.client.reading.overview import DeadJobInfo, QueueInfo, SessionInfo
from perdure.client.reading.served import ServedDefinition, WorkerShown, shown_worker
from perdure.limits import BULK_MAX
from perdure.model.admin import StoreTotals
from perdure.model.builtins import RESERVED_PREFIX
from perdure.web.api.describing import DescribedCode, described
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
    docs: str = ""
    """Its docstring."""
    signature: str = ""
    """What it takes and returns; of a decider its inputs, events and refusals."""
    place: str = ""
    """The file and line where it is written."""


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
    return [shown_worker(one) for one in await ask.client.workers(seen_within=within)]


async def list_sessions(ask: CheckedRequest[Nothing, None]) -> list[SessionInfo]:
    """Tell which worker has which session."""
    return await ask.client.sessions()


async def list_definitions(ask: CheckedRequest[Nothing, None]) -> list[DefinitionShown]:
    """List the definitions that live workers serve or work waits for."""
    return await definitions_seen(ask)


async def definitions_seen(ask: CheckedRequest[Any, Any]) -> list[DefinitionShown]:
    """Return the definitions that live workers serve or work waits for."""
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
        code = _described(ask, served)
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
                schema=code.schema,
                about=code.about,
                docs=code.docs,
                signature=code.signature,
                place=code.place,
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


def _described(ask: CheckedRequest[Any, Any], served: ServedDefinition) -> DescribedCode:
    beside = ask.client._core.beside
    if beside is None:
        return DescribedCode()
    return described(beside.registry, served.kind, served.name, served.version)


async def _looks(ask: CheckedRequest[Any, Any]) -> AsyncIterator[StreamEvent]:
    async for look in changed(ask.client):
        yield StreamEvent("changed", look)
        await asyncio.sleep(ask.site.pace.pause_s(ask.site.streams.open))
