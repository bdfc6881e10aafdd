"""The strip above the list of instances: when those that match were started, and which failed.

It is drawn from one page of the list, the newest. If all of the last hour are on it, it shows the
hour; else the time since the oldest of them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any

import msgspec

from perdure.client.client import Client
from perdure.client.reading.lists import InstanceQuery
from perdure.limits import PAGE_MAX
from perdure.model.instances import Status
from perdure.web.access import now_utc
from perdure.web.pages.drawing import bar_chart

STEPS = 60
HOUR = timedelta(hours=1)


class Starts(msgspec.Struct, frozen=True, kw_only=True):
    """Starts by step of time."""

    start: datetime
    end: datetime
    started: tuple[int, ...]
    failed: tuple[int, ...]
    """How many of them have failed since."""
    is_sample: bool
    """Whether there are older ones in the hour, or since the time that was asked for."""

    def chart(self) -> dict[str, Any]:
        """Return the bars, failures below."""
        others = [every - bad for every, bad in zip(self.started, self.failed, strict=True)]
        return bar_chart({"failed": self.failed, "running": others})


async def read_starts(client: Client, which: InstanceQuery) -> Starts:
    """Return when those that match were started: since the time in the filter, or for an hour."""
    now = now_utc()
    since = which.get("created_after") or now - HOUR
    asked: Any = {**which, "created_after": since}
    page = await client.instances(limit=PAGE_MAX, **asked)
    is_sample = page.next is not None and bool(page.items)
    start = page.items[-1].created_at if is_sample else since
    step_s = max((now - start).total_seconds(), 1.0) / STEPS
    # Whole steps: a page that shows nothing new stays the same.
    end = datetime.fromtimestamp(ceil(now.timestamp() / step_s) * step_s, UTC)
    start = end - timedelta(seconds=step_s * STEPS)
    started, failed = [0] * STEPS, [0] * STEPS
    for one in page.items:
        # A clock that differs from the store's must not lead out of the picture.
        place = int((one.created_at - start).total_seconds() / step_s)
        place = min(STEPS - 1, max(0, place))
        started[place] += 1
        failed[place] += one.status is Status.FAILED
    return Starts(
        start=start,
        end=end,
        started=tuple(started),
        failed=tuple(failed),
        is_sample=is_sample,
    )
