"""The pages of the whole store: jobs and queues, workers, schedules, projections."""

from __future__ import annotations

import msgspec

from perdure.model.builtins import RESERVED_PREFIX
from perdure.web.api import overview as api
from perdure.web.cursors import open_cursor, sign_cursor
from perdure.web.operations import CheckedRequest, Nothing
from perdure.web.pages.content import PageContent


class QueuesPageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead jobs the page shows."""

    activity: str | None = None
    after: str | None = None


async def queues(ask: CheckedRequest[QueuesPageQuery, None]) -> PageContent:
    """Return the page of jobs and queues."""
    found = [one for one in await ask.queues() if not one.name.startswith(RESERVED_PREFIX)]
    secret = await ask.cursor_secret()
    dead = await ask.client.dead_jobs(
        limit=50,
        after=open_cursor(secret, api.LIST, ask.query.after),
        activity=ask.query.activity,
    )
    return PageContent(
        template="queues.html",
        title="Jobs and queues",
        data={
            "jobs": [one for one in found if one.kind in ("activity", "inline")],
            "turns": [one for one in found if one.kind not in ("activity", "inline")],
            "activity": ask.query.activity,
            "dead": dead.items,
            "next": sign_cursor(secret, api.LIST, dead.next),
            "sessions": await ask.client.sessions(),
        },
    )


async def workers(ask: CheckedRequest[Nothing, None]) -> PageContent:
    """Return the page of workers, with what no worker takes at its head."""
    unserved = [
        one for one in await ask.queues() if one.unclaimed is not None and (one.ready or one.later)
    ]
    return PageContent(
        template="workers.html",
        title="Workers",
        data={"workers": await api.workers_seen(ask), "unserved": unserved},
    )


async def schedules(ask: CheckedRequest[Nothing, None]) -> PageContent:
    """Return the page of schedules."""
    return PageContent(
        template="schedules.html",
        title="Schedules",
        data={"schedules": await ask.client.schedules()},
    )


async def projections(ask: CheckedRequest[Nothing, None]) -> PageContent:
    """Return the page of projections and subscriptions."""
    return PageContent(
        template="projections.html",
        title="Projections",
        data={"projections": await ask.client.projections()},
    )
