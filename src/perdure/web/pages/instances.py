"""The page of instances: search, counts, and for each a sentence on what it does now."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec

from perdure.client.reading.filters import FILTER_WORDS, parse_filter
from perdure.client.reading.info import InstanceInfo
from perdure.client.reading.lists import InstanceQuery
from perdure.errors import PerdureError, UsageError
from perdure.model.instances import Status
from perdure.web.access import now_utc
from perdure.web.api.instances import LIST
from perdure.web.cursors import open_cursor, sign_cursor
from perdure.web.operations import CheckedRequest
from perdure.web.pages.content import PageContent
from perdure.web.pages.starts import Starts, read_starts

PAGE = 50
COUNT_WITHIN_S = 0.5
"""How long the page waits for its numbers; it says that they are not known yet, and shows them when
it is loaded anew."""
JUST_NOW = timedelta(seconds=1)
FEW = 10
EXPLAIN_WITHIN_S = 2.0
"""How long the page waits for its sentences; a very long history may take longer."""


class ListPageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the page shows."""

    q: str = ""
    """Filter words; a single word without a colon is how an id begins."""
    children: bool = False
    after: str | None = None


async def show(ask: CheckedRequest[ListPageQuery, None]) -> PageContent:
    """Return the page."""
    query = ask.query
    problem, items, following = "", [], None
    which: InstanceQuery = {}
    listed: Any = {}
    try:
        which = read_words(query.q)
    except UsageError as error:
        problem = str(error)
    if not problem:
        secret = await ask.cursor_secret()
        after = open_cursor(secret, LIST, query.after)
        listed = which if query.children or "parent" in which else {**which, "roots_only": True}
        page = await ask.client.instances(limit=PAGE, after=after, **listed)
        items = await _rows(ask, page.items)
        following = sign_cursor(secret, LIST, page.next)
    totals = await ask.site.totals.get(ask.client, within_s=COUNT_WITHIN_S)
    starts = None if problem or query.after else await _starts(ask, listed)
    return PageContent(
        template="instances.html",
        title="Instances",
        data={
            "q": query.q,
            "children": query.children,
            "after": query.after,
            "problem": problem,
            # What is done to all that match is done to what is listed, and to no child besides.
            "where": listed if which else {},
            "counts": {
                status.value: totals and totals.instances.get(status, 0) for status in Status
            },
            "dead_jobs": totals and totals.dead_jobs,
            "starts": starts,
            "items": items,
            "next": following,
        },
        drawing={"words": FILTER_WORDS, "starts_chart": starts and starts.chart()},
    )


async def _starts(ask: CheckedRequest[ListPageQuery, None], listed: InstanceQuery) -> Starts | None:
    """Return when those that match were started; None if that is not known soon, or would take a
    look into histories."""
    if "waits" in listed:
        return None
    kept = ask.site.starts.of((ask.query.q, ask.query.children))
    found = await kept.get(lambda: read_starts(ask.client, listed), within_s=COUNT_WITHIN_S)
    return found if found is not None and any(found.started) else None


def read_words(text: str) -> InstanceQuery:
    """Return the conditions that were typed. A single word alone is how an id begins.

    Raises:
        UsageError: A word is not known.
    """
    words = text.split()
    if len(words) == 1 and ":" not in text:
        text = f"prefix:{words[0]}"
    return parse_filter(text, now=now_utc())


async def _rows(ask: CheckedRequest[Any, Any], items: list[InstanceInfo]) -> list[dict[str, Any]]:
    sentences = await _sentences(ask, worth_explaining(items, now_utc()))
    return [
        {
            "instance_id": one.instance_id,
            "kind": one.kind,
            "name": one.name,
            "version": one.version,
            "status": one.status,
            "created_at": one.created_at,
            "ended_at": one.ended_at,
            "parent_id": one.parent_id,
            "unclaimed": one.unclaimed,
            "now": sentences.get(one.instance_id) or outcome_sentence(one),
        }
        for one in items
    ]


def worth_explaining(items: list[InstanceInfo], now: datetime) -> list[InstanceInfo]:
    """Return those that have not ended. Of many that have just been started, none: on a busy store
    they have ended before it is read what they do."""
    live = [one for one in items if not one.status.is_terminal]
    older = [one for one in live if now - one.created_at > JUST_NOW]
    return live if len(live) - len(older) <= FEW else older


async def _sentences(ask: CheckedRequest[Any, Any], items: list[InstanceInfo]) -> dict[str, str]:
    """Return what those do that have not ended, as far as it is known soon."""
    found: dict[str, str] = {}

    async def explain(one: InstanceInfo) -> None:
        try:
            text = await ask.client.handle(one.instance_id).explain()
        except PerdureError:
            return  # It was deleted meanwhile.
        found[one.instance_id] = without_head(one.instance_id, text)

    tasks = [asyncio.ensure_future(explain(one)) for one in items]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=EXPLAIN_WITHIN_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return found


def without_head(instance_id: str, sentence: str) -> str:
    """Return what a sentence says of an instance, without which one it is."""
    return sentence.removeprefix(instance_id).partition(") ")[2] or sentence


def outcome_sentence(one: InstanceInfo) -> str:
    """Return how an instance ended, in a few words."""
    if one.unclaimed:
        return f"cannot move: {one.unclaimed}, which no live worker has"
    if one.status is Status.FAILED and isinstance(one.output, dict):
        return f"{one.output.get('type_name', '')}: {one.output.get('message', '')}"
    if one.reason:
        return f"{one.status}: {one.reason}"
    return str(one.status)
