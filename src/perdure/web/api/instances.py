"""Routes that look at instances."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from starlette.responses import Response

from perdure.client.handle import Handle
from perdure.client.histories.finding import (
    LOOKS,
    FoundEvents,
    WantedEvents,
    look_through,
)
from perdure.client.histories.recorded import read_execution, write_mappings
from perdure.client.histories.replay_check import ReplayCheck, check_replay
from perdure.client.reading.info import (
    ExecutionInfo,
    HistoryEvent,
    InstanceInfo,
    InstanceTree,
    JobInfo,
    Json,
    MessageInfo,
    Progress,
    Report,
)
from perdure.client.reading.lists import InstanceQuery
from perdure.errors import OutcomeError, ResultTimeoutError
from perdure.model.admin import InstanceStats
from perdure.model.instances import Status
from perdure.web.changes import changed
from perdure.web.cursors import open_cursor, sign_cursor
from perdure.web.operations import CheckedRequest, Nothing
from perdure.web.problems import RefusalError
from perdure.web.sse import StreamEvent

LIST = "instances"
DEFAULT_PAGE = 100
FULL_PAGE_MAX = 50
"""The largest page with inputs and outputs, each of which may have megabytes."""
HISTORY_PAGE = 200

Limit = Annotated[int, msgspec.Meta(ge=1, description="How many at most; 500 is the most.")]
AfterMark = Annotated[
    str | None, msgspec.Meta(description="The `next` of the page before; none for the first.")
]


class InstancesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which instances; all conditions must hold."""

    status: tuple[str, ...] | None = None
    name: str | None = None
    version: str | None = None
    prefix: str | None = None
    ids: tuple[str, ...] | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    ended_before: datetime | None = None
    parent: str | None = None
    tag: str | None = None
    roots_only: bool = False
    waits: str | None = None
    """Running, and waiting for this: signal, update, promise, activity, child, timer, or a name."""
    payloads: bool = False
    """With inputs and outputs; then 50 at most."""
    limit: Limit = DEFAULT_PAGE
    after: AfterMark = None


class CountQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which instances are counted."""

    status: tuple[str, ...] | None = None
    name: str | None = None
    version: str | None = None
    prefix: str | None = None
    ids: tuple[str, ...] | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    ended_before: datetime | None = None
    parent: str | None = None
    tag: str | None = None
    roots_only: bool = False


class InstanceList(msgspec.Struct, frozen=True):
    """A page of instances, newest first."""

    items: list[InstanceInfo]
    next: str | None


class Counted(msgspec.Struct, frozen=True):
    """How many there are."""

    count: int


class Explanation(msgspec.Struct, frozen=True):
    """One sentence on an instance."""

    explanation: str


class ExportQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of a history."""

    execution: int | None = None
    after: int = 0
    limit: Limit = HISTORY_PAGE


class HistoryQuery(ExportQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of a history, and which events of it; all conditions must hold."""

    kind: str | None = None
    """Their kind, or how it begins: `activity` for `activity_scheduled` and the like."""
    name: str | None = None
    """What they are about, or the call is that they answer."""
    failures: bool = False
    """Whether they tell of a failure or a refusal."""


class HistoryPage(msgspec.Struct, frozen=True):
    """A part of a history, in order."""

    items: list[HistoryEvent]
    next: int | None
    """What to give as `after` for the next part. With conditions, a part may have few events, or
    none, and yet not be the last: one answer looks at 20,000 events."""


class ExportPage(msgspec.Struct, frozen=True):
    """A part of an export, in order."""

    head: dict[str, Json]
    events: list[dict[str, Json]]
    next: int | None
    """What to give as `after` for the next part."""


class ReplayBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which execution is replayed."""

    execution: int | None = None


class TreeQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tree shows."""

    calls: bool = True


class WaitQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait, in seconds."""

    wait: Annotated[float, msgspec.Meta(ge=0)] = 0


class ReportQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which report, and how long to wait for it, in seconds."""

    after: Annotated[int, msgspec.Meta(ge=0)] = 0
    wait: Annotated[float, msgspec.Meta(ge=0)] = 0


class KeptQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait for a value, in seconds, and after which time it must have been set, in
    milliseconds since 1970."""

    wait: Annotated[float, msgspec.Meta(ge=0)] = 0
    after: Annotated[int, msgspec.Meta(ge=0)] = 0


class KeptValue(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance keeps under a key."""

    is_set: bool
    value: Json = None
    has_ended: bool
    """Whether the instance has ended, and sets nothing more."""


class FailureShown(msgspec.Struct, frozen=True):
    """Why an instance did not return. Its traceback is in the history."""

    type_name: str
    message: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an instance ended; `running` if it has not."""

    instance_id: str
    status: Status
    result: Json = None
    error: FailureShown | None = None
    explanation: str | None = None
    """What one that has not ended waits for."""


# ------------------------------------------------------------------------ lists


async def list_instances(ask: CheckedRequest[InstancesQuery, None]) -> InstanceList:
    """List instances, newest first."""
    query = ask.query
    limits = ask.site.settings.limits
    size = min(query.limit, limits.page, FULL_PAGE_MAX if query.payloads else limits.page)
    secret = await ask.cursor_secret()
    page = await ask.client.instances(
        limit=size, after=open_cursor(secret, LIST, query.after), **conditions(query)
    )
    items = page.items
    if not query.payloads:
        items = [replace(item, input=None, output=None) for item in items]
    return InstanceList(items, sign_cursor(secret, LIST, page.next))


async def count_instances(ask: CheckedRequest[CountQuery, None]) -> Counted:
    """Count instances."""
    return Counted(await ask.client.count(**conditions(ask.query)))


def conditions(query: InstancesQuery | CountQuery) -> InstanceQuery:
    """Return the conditions of a query as the client takes them."""
    found: Any = {
        name: value
        for name in InstanceQuery.__annotations__
        # A count has not all conditions of a list.
        if (value := getattr(query, name, None)) not in (None, False)
    }
    which: InstanceQuery = found
    return which


# --------------------------------------------------------------------- one of them


async def show_instance(ask: CheckedRequest[Nothing, None]) -> InstanceInfo:
    """Tell where an instance stands."""
    return await handle_of(ask).info()


async def explain_instance(ask: CheckedRequest[Nothing, None]) -> Explanation:
    """Tell in one sentence what an instance waits for, since when, and why nothing moves."""
    return Explanation(await handle_of(ask).explain())


async def read_history(ask: CheckedRequest[HistoryQuery, None]) -> HistoryPage | Response:
    """Return the events of an execution, a page at a time; or all, and each new one as it comes."""
    if ask.wants_stream:
        await events_of_part(ask, limit=1)
        return ask.stream(_new_events(ask))
    size = min(ask.query.limit, ask.site.settings.limits.page)
    found = await events_of_part(ask, limit=size)
    return HistoryPage(found.events, found.upto if found.has_more else None)


async def events_of_part(
    ask: CheckedRequest[HistoryQuery, None], *, limit: int, after: int | None = None
) -> FoundEvents:
    """Return the events that a request asks for, as far as one request looks.

    Args:
        ask: The request.
        limit: How many at most.
        after: Events behind this one; as the request says if not given.
    """
    query = ask.query
    return await look_through(
        ask.client._core.store,
        ask.path["instance_id"],
        WantedEvents(kind=query.kind, name=query.name, failures=query.failures),
        query.execution,
        after=query.after if after is None else after,
        limit=limit,
        looks=LOOKS,
    )


async def export_history(ask: CheckedRequest[ExportQuery, None]) -> ExportPage:
    """Return the history of an execution as `perdure export` writes it, a page at a time.

    The head is the first line, once `events` is set to how many there are; events are the others.
    Bodies of events are as they are stored: what is masked elsewhere is left out here as a whole.
    """
    query, settings = ask.query, ask.site.settings
    if settings.mask:
        raise RefusalError(
            403, "masked", "this server hides some fields, and an export has whole bodies"
        )
    size = min(query.limit, settings.limits.page)
    found = await read_execution(
        ask.client._core.store,
        ask.path["instance_id"],
        query.execution,
        after=query.after,
        limit=size + 1,
    )
    head, *events = write_mappings(found)
    shown = events[:size]
    del head["events"]
    return ExportPage(head, shown, int(shown[-1]["seq"]) if len(events) > size else None)


async def check_code(ask: CheckedRequest[Nothing, ReplayBody]) -> ReplayCheck:
    """Replay the history with the code beside this server, and tell whether it fits.

    Nothing is written, and no activity runs.
    """
    return await check_replay(ask.client, ask.path["instance_id"], ask.body.execution)


async def list_executions(ask: CheckedRequest[Nothing, None]) -> list[ExecutionInfo]:
    """List the executions of an instance whose histories are there, oldest first."""
    return await handle_of(ask).executions()


async def show_tree(ask: CheckedRequest[TreeQuery, None]) -> InstanceTree:
    """Return an instance with all that it started and called."""
    return await handle_of(ask).tree(calls=ask.query.calls)


async def list_jobs(ask: CheckedRequest[Nothing, None]) -> list[JobInfo]:
    """List the calls of activities of an instance that have not ended."""
    return await handle_of(ask).jobs()


async def show_progress(ask: CheckedRequest[Nothing, None]) -> list[Progress]:
    """Tell what the running activities of an instance said of their progress."""
    return await handle_of(ask).progress()


async def show_stats(ask: CheckedRequest[Nothing, None]) -> InstanceStats:
    """Tell how much is stored for an instance."""
    return await handle_of(ask).stats()


async def list_kv(ask: CheckedRequest[Nothing, None]) -> dict[str, Json]:
    """Return what an instance keeps, by key."""
    return await handle_of(ask).kv()


async def wait_kv(ask: CheckedRequest[KeptQuery, None]) -> KeptValue:
    """Return what an instance keeps under a key; wait up to so many seconds for it."""
    handle, key = handle_of(ask), ask.path["key"]
    # Before the value: what is set after this look is waited for, or found by the next request.
    has_ended = (await handle.info()).status.is_terminal
    if ask.query.wait and not has_ended:
        with suppress(ResultTimeoutError):
            limit = wait_limit(ask, ask.query.wait)
            value = await handle.wait_kv(key, after=ask.query.after, timeout=limit)
            if ask.query.after and value is not None:
                return KeptValue(is_set=True, value=value, has_ended=has_ended)
    if ask.query.after:
        return KeptValue(is_set=False, has_ended=has_ended)
    kept = await handle.kv()
    return KeptValue(is_set=key in kept, value=kept.get(key), has_ended=has_ended)


async def list_inbox(ask: CheckedRequest[Nothing, None]) -> list[MessageInfo]:
    """List the messages and timers of an instance that no turn has taken yet."""
    return await ask.client.inbox(ask.path["instance_id"])


async def wait_result(ask: CheckedRequest[WaitQuery, None]) -> Outcome | Response:
    """Return how an instance ended; wait up to so many seconds for that."""
    if ask.wants_stream:
        await handle_of(ask).info()
        return ask.stream(_end(ask))
    return await _outcome(ask, ask.query.wait)


async def wait_report(ask: CheckedRequest[ReportQuery, None]) -> Report | Response | None:
    """Return what an instance says of its progress; wait for a newer one than `after`."""
    handle = handle_of(ask)
    if ask.wants_stream:
        await handle.info()
        return ask.stream(_reports(ask))
    found = await handle.report()
    if found is not None and found.version > ask.query.after:
        return found
    if not ask.query.wait:
        return None if ask.query.after else found
    try:
        return await handle.wait_report(
            after=ask.query.after, timeout=wait_limit(ask, ask.query.wait)
        )
    except ResultTimeoutError:
        return None


def handle_of(ask: CheckedRequest[Any, Any]) -> Handle[Json]:
    """Return the handle of the instance that the path names."""
    return ask.client.handle(ask.path["instance_id"])


def wait_limit(ask: CheckedRequest[Any, Any], wait_s: float) -> timedelta:
    """Return how long a request may wait."""
    return timedelta(seconds=min(wait_s, ask.site.settings.limits.wait_s))


# ------------------------------------------------------------------------- inside


async def _outcome(ask: CheckedRequest[Any, Any], wait_s: float | None) -> Outcome:
    handle = handle_of(ask)
    instance_id = handle.instance_id
    if wait_s == 0:
        info = await handle.info()
        if not info.status.is_terminal:
            explanation = await handle.explain()
            return Outcome(instance_id=instance_id, status=info.status, explanation=explanation)
        if info.status is Status.COMPLETED:
            return Outcome(instance_id=instance_id, status=info.status, result=info.output)
    try:
        timeout = wait_limit(ask, wait_s) if wait_s else None
        result = await handle.result(timeout=timeout, if_held="wait")
    except OutcomeError as error:
        info = await handle.info()
        shown = FailureShown(error.type_name, error.message)
        return Outcome(instance_id=instance_id, status=info.status, error=shown)
    except ResultTimeoutError:
        info = await handle.info()
        if info.status.is_terminal:
            return await _outcome(ask, None)
        explanation = await handle.explain()
        return Outcome(instance_id=instance_id, status=info.status, explanation=explanation)
    return Outcome(instance_id=instance_id, status=Status.COMPLETED, result=result)


async def _end(ask: CheckedRequest[Any, Any]) -> AsyncIterator[StreamEvent]:
    yield StreamEvent("result", await _outcome(ask, None))


async def _reports(ask: CheckedRequest[ReportQuery, None]) -> AsyncIterator[StreamEvent]:
    after = last_event(ask, ask.query.after)
    while (found := await handle_of(ask).wait_report(after=after)) is not None:
        after = found.version
        yield StreamEvent("report", found, after)
    yield StreamEvent("end", None)


async def _new_events(ask: CheckedRequest[HistoryQuery, None]) -> AsyncIterator[StreamEvent]:
    """Return the events of the execution that is asked for, or of the current one, to its end."""
    handle = handle_of(ask)
    after = last_event(ask, ask.query.after)
    execution = ask.query.execution or (await handle.info()).execution
    of_one = replace(ask, query=msgspec.structs.replace(ask.query, execution=execution))
    async for _ in changed(ask.client):
        # Before the events: what is recorded after this look is not missed.
        info = await handle.info()
        has_more = True
        while has_more:
            found = await events_of_part(of_one, limit=HISTORY_PAGE, after=after)
            for event in found.events:
                yield StreamEvent("event", event, event.seq)
            after, has_more = found.upto, found.has_more
        if info.status.is_terminal or info.execution > execution:
            yield StreamEvent("end", None)
            return


def last_event(ask: CheckedRequest[Any, Any], after: int) -> int:
    """Return where a stream goes on: a browser that was cut off says what it saw last."""
    seen = ask.request.headers.get("last-event-id", "")
    if not seen:
        return after
    if not seen.isdigit():
        raise RefusalError(400, "invalid_query", f"Last-Event-ID {seen[:40]!r} is no number")
    return max(after, int(seen))
