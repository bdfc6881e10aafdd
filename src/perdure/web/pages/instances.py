"""The page of instances: search, counts, and for each a sentence on what it does now."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec

from perdure.client.reading.explain import explain
from perdure.client.reading.filters import FILTER_WORDS, parse_filter
from perdure.client.reading.info import InstanceInfo, JobInfo, job_of
from perdure.client.reading.lists import InstanceQuery
from perdure.errors import PerdureError, UsageError
from perdure.model.instances import Status
from perdure.web.access import now_utc
from perdure.web.api.instances import LIST
from perdure.web.api.overview import definitions_seen
from perdure.web.cursors import open_cursor, sign_cursor
from perdure.web.operations import CheckedRequest
from perdure.web.pages.content import PageContent
from perdure.web.pages.starts import Starts, read_starts
from perdure.web.pages.views import VIEWS, first_command

PAGE = 50
COUNT_WITHIN_S = 0.5
"""How long the page waits for its numbers; it says that they are not known yet, and shows them when
it is loaded anew."""
JOBS_SHOWN = 3
"""How many open jobs of an instance are among its evidence."""
JUST_NOW = timedelta(seconds=1)
FEW = 10
EXPLAIN_WITHIN_S = 2.0
"""How long the page waits for its sentences; a very long history may take longer."""


MEANINGS = {
    Status.RUNNING: "It goes on by itself: a worker thinks a turn whenever something has come.",
    Status.BLOCKED: "The code of a worker does not fit its history. Every worker tries it once; it "
    "goes on with one whose code fits.",
    Status.PARKED: "Nobody tries it until a person lets it go on, with Unpark on its page.",
    Status.COMPLETED: "Its code has returned.",
    Status.FAILED: "An exception left its code. What was done stays done; it can be started again, "
    "or go back to an earlier point.",
    Status.CANCELLED: "It was asked to stop, and its code has cleaned up.",
    Status.TERMINATED: "It was stopped at once; its code was not asked.",
}
"""What each status means, for people."""


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
    is_new = not (problem or items or following or which or query.after)
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
            "first_command": first_command(await definitions_seen(ask)) if is_new else "",
        },
        drawing={
            "words": FILTER_WORDS,
            "starts_chart": starts and starts.chart(),
            "views": VIEWS,
            "meanings": MEANINGS,
        },
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
    sentences, jobs = await _evidence(ask, worth_explaining(items, now_utc()))
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
            "updated_at": one.updated_at,
            "jobs": jobs.get(one.instance_id, []),
        }
        for one in items
    ]


def worth_explaining(items: list[InstanceInfo], now: datetime) -> list[InstanceInfo]:
    """Return those that have not ended. Of many that have just been started, none: on a busy store
    they have ended before it is read what they do."""
    live = [one for one in items if not one.status.is_terminal]
    older = [one for one in live if now - one.created_at > JUST_NOW]
    return live if len(live) - len(older) <= FEW else older


async def _evidence(
    ask: CheckedRequest[Any, Any], items: list[InstanceInfo]
) -> tuple[dict[str, str], dict[str, list[JobInfo]]]:
    """Return what those do that have not ended, and their open jobs, as far as known soon."""
    found: dict[str, str] = {}
    jobs: dict[str, list[JobInfo]] = {}

    async def find(one: InstanceInfo) -> None:
        try:
            evidence = await ask.client.handle(one.instance_id)._evidence()
        except PerdureError:
            return  # It was deleted meanwhile.
        found[one.instance_id] = without_head(one.instance_id, explain(evidence))
        jobs[one.instance_id] = [job_of(job) for job in evidence.jobs[:JOBS_SHOWN]]

    tasks = [asyncio.ensure_future(find(one)) for one in items]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=EXPLAIN_WITHIN_S)
    finally:  # Also when the page itself is given up.
        for task in tasks:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return found, jobs


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
