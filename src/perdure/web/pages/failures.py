"""The page of failures: instances that failed, grouped by what went wrong."""

from __future__ import annotations

from typing import Any

from perdure.client.reading.failure_groups import Trouble, grouped
from perdure.client.reading.info import InstanceInfo
from perdure.limits import PAGE_MAX
from perdure.web.operations import CheckedRequest, Nothing
from perdure.web.pages.content import PageContent
from perdure.web.pages.drawing import bar_chart

STEPS = 60
"""How many bars show when instances of a group failed."""


async def show(ask: CheckedRequest[Nothing, None]) -> PageContent:
    """Return the page: of the newest 500 that failed, and all that are blocked or parked."""
    failed = await ask.client.instances(status="failed", limit=PAGE_MAX)
    held = await ask.client.instances(status=["blocked", "parked"], limit=100)
    dead = await ask.client.dead_jobs(limit=100)
    groups = grouped(failed.items)
    return PageContent(
        template="failures.html",
        title="Failures",
        data={
            "groups": groups,
            "looked_at": len(failed.items),
            "has_more": failed.next is not None,
            "held": [
                {
                    "instance_id": one.instance_id,
                    "name": one.name,
                    "status": one.status,
                    "reason": one.reason or "",
                    "updated_at": one.updated_at,
                }
                for one in held.items
            ],
            "dead": dead.items,
            "has_more_dead": dead.next is not None,
        },
        drawing={"charts": when_failed(failed.items)},
    )


def when_failed(items: list[InstanceInfo]) -> dict[str, dict[str, Any]]:
    """Return for each group, by its fingerprint, a chart of when its instances failed. All have
    the same scale of time, from the first to the last failure that is looked at: a page that shows
    nothing new stays the same."""
    ended = {one.instance_id: one.ended_at for one in items if one.ended_at is not None}
    first, last = min(ended.values(), default=None), max(ended.values(), default=None)
    counts: dict[str, list[int]] = {}
    for one in items:
        bars = counts.setdefault(Trouble.of(one).fingerprint, [0] * STEPS)
        at = ended.get(one.instance_id)
        if at is not None and first is not None and last is not None:
            share = (at - first) / (last - first) if last > first else 1
            bars[round(share * (STEPS - 1))] += 1
    return {name: bar_chart({"failed": bars}) for name, bars in counts.items()}
