"""The page of one instance: the answer first, then what was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec

from perdure.authoring.deciders.decider_definition import SEPARATOR
from perdure.authoring.query import Query
from perdure.authoring.stream import Stream
from perdure.client.client import Client
from perdure.client.handle import Handle
from perdure.client.histories.event_texts import answered_by, subject_of
from perdure.client.histories.finding import (
    FAILED_ENDINGS,
    LOOKS,
    WantedEvents,
    look_through,
    read_subjects,
)
from perdure.client.histories.histories import key_of
from perdure.client.reading.as_json import as_json
from perdure.client.reading.info import HistoryEvent, InstanceInfo, Json
from perdure.client.reading.tallies import read_tally
from perdure.clock import to_datetime
from perdure.errors import EventsRemovedError, NotRegisteredError, PerdureError, UsageError
from perdure.limits import MAX_FAILURES_KEPT
from perdure.model.builtins import RESERVED_PREFIX
from perdure.model.histories.events import KINDS
from perdure.model.histories.paging import FOR_EACH
from perdure.web.access import now_utc
from perdure.web.api.deciders import definition_here, events_of, state_of
from perdure.web.api.instances import LIST
from perdure.web.cursors import open_cursor, sign_cursor
from perdure.web.operations import CheckedRequest
from perdure.web.pages.content import PageContent
from perdure.web.pages.differences import differences
from perdure.web.pages.instances import without_head
from perdure.web.pages.timeline import bars_of, drawn

Tab = Literal["timeline", "state", "history", "payload", "children", "jobs", "check", "streams"]

TIMELINE_EVENTS = 400
"""How much of a history, its newest part, is drawn."""
HISTORY_PAGE = 100
EVENTS_SHOWN = 50
ITEMS_SHOWN = 50
"""How many of the newest items of a stream are shown."""
PROMISES_SHOWN = 100
"""How many open promises are shown, the oldest."""


KIND_WORDS = tuple(sorted({kind.partition("_")[0] for kind in KINDS} | set(KINDS)))
"""What is offered to find events by their kind."""


class InstancePageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the page shows of the instance."""

    tab: Tab | None = None
    execution: int | None = None
    after: int = 0
    """History: behind this event."""
    full: bool = False
    """History: with everything that is recorded."""
    kind: str | None = None
    """History: events of this kind, or of those that begin so."""
    name: str | None = None
    """History: events that are about this, or answer what is."""
    failures: bool = False
    """History: events that tell of a failure."""
    at: int | None = None
    """Decider: the state after so many events. A query's answer: as of this event."""
    query: str | None = None
    """Input and outcome: a query that is answered there."""
    keep: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Timeline: the event that going back is to keep all up to."""
    page: str | None = None
    """Children: where the page before ended."""


async def show(ask: CheckedRequest[InstancePageQuery, None]) -> PageContent:
    """Return the page."""
    instance_id = ask.path["instance_id"]
    handle = ask.client.handle(instance_id)
    info = await handle.info()
    is_decider = info.kind == "decider"
    tab: Tab = ask.query.tab or ("state" if is_decider else "timeline")
    stats = await handle.stats()
    data: dict[str, Any] = {
        "info": info,
        "is_ended": info.status.is_terminal,
        "explanation": without_head(instance_id, await handle.explain()),
        "stats": stats,
        "tab": tab,
        "is_decider": is_decider,
        "may_start_alike": not is_decider and not info.name.startswith(RESERVED_PREFIX),
    }
    if info.name == FOR_EACH and (report := await handle.report()) is not None:
        data["tally"] = read_tally(report.value)
    drawing: dict[str, Any] = {}
    match tab:
        case "timeline":
            shown, picture = await _timeline(ask, handle, info, stats.events)
            data["timeline"] = shown
            data["keep"] = ask.query.keep
            drawing["picture"] = picture
        case "history":
            drawing["kinds"] = KIND_WORDS
            data["history"] = await _history(ask, handle)
        case "payload":
            data["kv"] = await handle.kv()
            data["report"] = await handle.report()
            data["view"] = None if is_decider else await _view(ask, handle, info)
        case "children":
            data["children"] = await _children(ask, info)
        case "streams":
            data["streams"] = await _streams(handle)
        case "jobs":
            data |= await _jobs(ask.client, handle, info, may_keep="write" in ask.access.scopes)
        case "check":
            data["has_code"] = ask.client._core.beside is not None
        case "state":
            data["decider"] = await _decider(ask, info)
    return PageContent(template="instance.html", title=instance_id, data=data, drawing=drawing)


async def _view(
    ask: CheckedRequest[InstancePageQuery, None], handle: Handle[Json], info: InstanceInfo
) -> dict[str, Any]:
    """Return what a query answers, if one is asked, and whether its code is here at all."""
    shown: dict[str, Any] = {
        "has_code": ask.client._core.find_code(info.name, info.version) is not None,
        "query": ask.query.query,
        "at": ask.query.at,
        "answer": None,
        "refused": "",
    }
    if shown["has_code"] and ask.query.query is not None:
        try:
            query: Query[Json] = Query(ask.query.query, Any)
            shown["answer"] = await handle.ask(query, at=ask.query.at)
        except PerdureError as error:
            shown["refused"] = str(error)
    return shown


async def _timeline(
    ask: CheckedRequest[InstancePageQuery, None],
    handle: Handle[Json],
    info: InstanceInfo,
    events: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    is_current = ask.query.execution in (None, info.execution)
    after = max(0, events - TIMELINE_EVENTS) if is_current else ask.query.after
    found = await handle.history(ask.query.execution, after=after, limit=TIMELINE_EVENTS)
    bars = bars_of(found)
    is_over = info.status.is_terminal or not is_current
    # Rounded, so that a page that shows nothing new stays the same.
    now = now_utc().replace(microsecond=0, second=0)
    picture = drawn(bars, now=max(now, found[-1].at) if found else now, is_over=is_over)
    shown = {
        "left_out": after,
        "rows": [
            {
                "seq": bar.seq,
                "kind": bar.kind,
                "label": bar.label,
                "start": bar.start,
                "end": bar.end,
                "state": bar.state,
                "failed_attempts": len(bar.failures),
            }
            for bar in bars
        ],
    }
    return shown, picture


async def _history(
    ask: CheckedRequest[InstancePageQuery, None], handle: Handle[Json]
) -> dict[str, Any]:
    query = ask.query
    problem, which = "", WantedEvents()
    try:
        which = WantedEvents(kind=query.kind, name=query.name, failures=query.failures)
    except UsageError as error:
        problem = str(error)
    found = await look_through(
        ask.client._core.store,
        handle.instance_id,
        which,
        query.execution,
        after=query.after,
        limit=HISTORY_PAGE,
        looks=LOOKS,
    )

    async def read(after: int, limit: int) -> Sequence[HistoryEvent]:
        return await handle.history(query.execution, after=after, limit=limit)

    items = found.events
    names = {} if query.full else await read_subjects(items, read)
    return {
        "execution": query.execution,
        "executions": await handle.executions(),
        "after": query.after,
        "full": query.full,
        "kind": query.kind,
        "name": query.name,
        "failures": query.failures,
        "is_filtered": bool(query.kind or query.name or query.failures),
        "problem": problem,
        "items": [] if problem else items,
        "lines": [] if query.full or problem else history_lines(items, names),
        "looked_upto": found.upto,
        "next": found.upto if found.has_more and not problem else None,
        "size": HISTORY_PAGE,
    }


def history_lines(events: Sequence[HistoryEvent], names: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return events in a few words each.

    Args:
        events: Which ones.
        names: What they, and those that they answer, are about.
    """
    return [
        {
            "seq": event.seq,
            "at": event.at,
            "kind": event.kind,
            "what": event.kind.replace("_", " "),
            "subject": subject_of(event, names),
            "answers": answered_by(event),
            "value": _value(event),
            "failed_before": failed_before(event),
        }
        for event in events
    ]


def failed_before(event: HistoryEvent) -> str:
    """Return how many attempts failed before the one that returned; of very many some are kept."""
    failures = event.data.get("failures")
    if not isinstance(failures, list) or event.kind.endswith(FAILED_ENDINGS):
        return ""
    more = " or more" if len(failures) >= MAX_FAILURES_KEPT else ""
    return f"after {len(failures)}{more} failed" if failures else ""


def _value(event: HistoryEvent) -> Json:
    data = event.data
    failures = data.get("failures") or [data.get("failure")]
    if isinstance(failures[-1], dict) and "result" not in data:
        return f"{failures[-1].get('type_name')}: {failures[-1].get('message')}"
    if isinstance(data.get("due_ms"), int):
        return f"due {as_json(to_datetime(data['due_ms']))}"
    for name in ("result", "value", "event", "input", "reason", "damaged"):
        if data.get(name) not in (None, ""):
            return data[name]
    return ""


async def _children(
    ask: CheckedRequest[InstancePageQuery, None], info: InstanceInfo
) -> dict[str, Any]:
    secret = await ask.cursor_secret()
    after = open_cursor(secret, LIST, ask.query.page)
    page = await ask.client.instances(parent=info.instance_id, limit=HISTORY_PAGE, after=after)
    return {
        "items": [
            {
                "instance_id": one.instance_id,
                "name": one.name,
                "version": one.version,
                "status": one.status,
                "created_at": one.created_at,
                "ended_at": one.ended_at,
            }
            for one in page.items
        ],
        "next": sign_cursor(secret, LIST, page.next),
    }


async def _streams(handle: Handle[Json]) -> list[dict[str, Any]]:
    """Return the streams of an instance, each with its newest items."""
    found = []
    for one in await handle.streams():
        stream: Stream[Json] = Stream(one.name, Any)
        reader = handle.stream(stream, after=max(0, one.last_index - ITEMS_SHOWN))
        reader.waits = False
        items = [
            {"index": item.index, "value": item.value, "at": item.at, "number": item.number}
            async for item in reader
        ]
        found.append(
            {"name": one.name, "items": one.items, "newest": items, "last": one.last_index}
        )
    return found


async def _jobs(
    client: Client, handle: Handle[Json], info: InstanceInfo, *, may_keep: bool
) -> dict[str, Any]:
    dead = await client.dead_jobs(instance_id=handle.instance_id, limit=HISTORY_PAGE)
    progress = {one.key: one for one in await handle.progress()}
    return {
        "jobs": await handle.jobs(),
        "progress": progress,
        "dead": dead.items,
        "inbox": await client.inbox(handle.instance_id),
    } | await _promises(client, info, is_shown=may_keep)


async def _promises(client: Client, info: InstanceInfo, *, is_shown: bool) -> dict[str, Any]:
    """Return the promises that are open, oldest first, and how many more there are. Those who may
    not keep them are not given their tokens."""
    [row] = await client._core.store.read_instances([info.instance_id])
    if row is None or row.status.is_terminal:
        return {"promises": [], "more_promises": 0}
    found = (await client._core.summaries.read(client._core.store, key_of(row))).promises
    shown = [
        {
            "seq": seq,
            "name": made.name,
            "at": to_datetime(at_ms),
            "token": made.token if is_shown else "",
        }
        for seq, at_ms, made in islice(found.values(), PROMISES_SHOWN)
    ]
    return {"promises": shown, "more_promises": len(found) - len(shown)}


async def _decider(
    ask: CheckedRequest[InstancePageQuery, None], info: InstanceInfo
) -> dict[str, Any]:
    own_id = info.instance_id[len(info.name) + len(SEPARATOR) :]
    inner: CheckedRequest[Any, Any] = CheckedRequest(
        ask.site,
        ask.request,
        ask.access,
        {"decider": info.name, "instance_id": own_id},
        ask.query,
        None,
    )
    shown: dict[str, Any] = {"name": info.name, "own_id": own_id, "state": None, "missing": ""}
    shown["removed"] = 0
    at = ask.query.at
    after = max(0, (at or 0) - EVENTS_SHOWN // 2) if at is not None else ask.query.after
    try:
        events = await events_of(inner, after, EVENTS_SHOWN + 1)
    except EventsRemovedError as error:
        after = shown["removed"] = error.kept_after
        at = None if at is None else max(at, after)
        events = await events_of(inner, after, EVENTS_SHOWN + 1)
    shown["events"] = events[:EVENTS_SHOWN]
    shown["after"] = after
    shown["next"] = events[EVENTS_SHOWN - 1].version if len(events) > EVENTS_SHOWN else None
    if at is None and shown["next"] is None:
        at = events[-1].version if events else 0
    shown["at"] = at
    shown["last"] = {"tag": "", "value": {}}
    if events:
        shown["last"] = {"tag": events[-1].input_tag, "value": events[-1].input}
    try:
        shown["inputs"] = definition_here(inner).inputs.tags
        state = await state_of(inner, at)
        shown["state"] = state
        has_before = at is not None and at > shown["removed"]
        before = await state_of(inner, (at or 0) - 1) if has_before else None
        shown["differences"] = differences(before, state) if has_before else []
        shown["has_code"] = True
    except NotRegisteredError as error:
        shown["missing"] = str(error)
        shown["differences"] = []
        shown["has_code"] = False
    return shown
