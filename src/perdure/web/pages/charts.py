"""The page of charts: what was started and what ended lately, how long it took, what waits now.

It is drawn from the newest instances of a window, a bounded number of them, and says so where there
are more. Nothing is kept between two requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Literal, get_args

import msgspec

from perdure.client.client import Client
from perdure.client.reading.info import InstanceInfo
from perdure.client.reading.lists import InstanceQuery
from perdure.client.reading.overview import QueueInfo
from perdure.errors import UsageError
from perdure.limits import PAGE_MAX
from perdure.model.builtins import RESERVED_PREFIX
from perdure.model.instances import Status
from perdure.telemetry.snapshots import Distribution
from perdure.web.access import now_utc
from perdure.web.operations import CheckedRequest
from perdure.web.pages.content import PageContent
from perdure.web.pages.drawing import bar_chart, line_chart
from perdure.web.pages.instances import COUNT_WITHIN_S, read_words
from perdure.web.pages.records import bound_of, quantile

Window = Literal["15m", "1h", "6h", "24h", "7d"]
WINDOWS: dict[Window, timedelta] = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
}
assert set(WINDOWS) == set(get_args(Window))

STEPS = 60
"""How many bars a window has."""
SAMPLE = 2_000
"""How many instances are looked at; the newest."""
PAGES_MAX = 8
"""How many pages of a list are read for them."""
ROWS = 8
"""How many queues and operations are shown, those with the most first."""
STORE_TIMES = "perdure_store_operation_duration_seconds"


class ChartsPageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is drawn."""

    window: Window = "1h"
    q: str = ""
    """Filter words, as on the page of instances."""


async def show(ask: CheckedRequest[ChartsPageQuery, None]) -> PageContent:
    """Return the page."""
    length = WINDOWS[ask.query.window]
    step = length / STEPS
    # Whole steps: a page that shows nothing new stays the same.
    step_s = step.total_seconds()
    end = datetime.fromtimestamp(ceil(now_utc().timestamp() / step_s) * step_s, UTC)
    start = end - length
    problem, found, is_sample = "", list[InstanceInfo](), False
    try:
        found, is_sample = await newest(ask.client, read_words(ask.query.q), start)
    except UsageError as error:
        problem = str(error)
    since = found[-1].created_at if is_sample and found else start
    lately = Lately(start, step, found)
    totals = await ask.site.totals.get(ask.client, within_s=COUNT_WITHIN_S)
    return PageContent(
        template="charts.html",
        title="Charts",
        data={
            "window": ask.query.window,
            "q": ask.query.q,
            "problem": problem,
            "start": start,
            "end": end,
            "since": since,
            "looked_at": len(found),
            "is_sample": is_sample,
            "starts": lately.starts,
            "ends": lately.ends,
            "took": lately.took,
            "overall": lately.overall,
            "queues": _busiest(await ask.queues()),
            "operations": operations(ask.client),
            "totals": totals,
        },
        drawing={
            "windows": tuple(WINDOWS),
            "starts_chart": bar_chart({"running": lately.starts}),
            "ends_chart": bar_chart(lately.ends),
            "took_chart": line_chart(lately.took),
        },
    )


async def newest(
    client: Client, which: InstanceQuery, start: datetime
) -> tuple[list[InstanceInfo], bool]:
    """Return the newest instances since a time, and whether there are older ones since then."""
    after: str | None = None
    found: list[InstanceInfo] = []
    asked: Any = {**which, "created_after": max(start, which.get("created_after") or start)}
    # A page may be short and not be the last: each looks at so many instances and no more.
    for _ in range(PAGES_MAX):
        page = await client.instances(limit=PAGE_MAX, after=after, **asked)
        found += page.items
        after = page.next
        if after is None:
            return found, False
        if len(found) >= SAMPLE:
            break
    return found, True


class Lately:
    """Instances of a window, counted by the step in which they were started or ended."""

    def __init__(self, start: datetime, step: timedelta, found: Sequence[InstanceInfo]) -> None:
        self.starts = [0] * STEPS
        ended = {str(one.status) for one in found if one.ended_at is not None}
        self.ends = {status.value: [0] * STEPS for status in Status if status in ended}
        lengths: list[list[float]] = [[] for _ in range(STEPS)]
        for one in found:
            self.starts[_step(one.created_at, start, step)] += 1
            if one.ended_at is None:
                continue
            place = _step(one.ended_at, start, step)
            self.ends[one.status.value][place] += 1
            lengths[place].append((one.ended_at - one.created_at).total_seconds())
        self.took: dict[str, list[float | None]] = {
            "p50": [quantile(some, 0.5) for some in lengths],
            "p95": [quantile(some, 0.95) for some in lengths],
        }
        """Seconds from start to end, of those that ended in each step; None: none did."""
        every = [length for some in lengths for length in some]
        self.overall = {"p50": quantile(every, 0.5), "p95": quantile(every, 0.95)}


def _step(at: datetime, start: datetime, step: timedelta) -> int:
    # A clock that differs from the store's must not lead out of the picture.
    return min(STEPS - 1, max(0, int((at - start) / step)))


def _busiest(queues: Sequence[QueueInfo]) -> list[dict[str, Any]]:
    """Return the queues with most to do, by what is ready and since when."""
    found = [
        one
        for one in queues
        if not one.name.startswith(RESERVED_PREFIX) and (one.ready or one.leased or one.later)
    ]
    found.sort(key=lambda one: (-one.ready, one.name))
    return [
        {
            "kind": one.kind,
            "name": one.name,
            "tag": one.tag,
            "ready": one.ready,
            "running": one.leased,
            "later": one.later,
            "oldest_ready_at": one.oldest_ready_at,
        }
        for one in found[:ROWS]
    ]


def operations(client: Client) -> list[dict[str, Any]]:
    """Return which operations of the store took this process longest, the slowest first."""
    family = client.telemetry.snapshot().family(STORE_TIMES)
    found: dict[str, Distribution] = {}
    for (operation, *_), sample in family.samples.items():
        if isinstance(sample, Distribution):
            before = found.get(operation)
            found[operation] = sample if before is None else sample.plus(before)
    slowest = sorted((-bound_of(one, 0.95), name) for name, one in found.items())
    return [{"operation": name, "p95": -p95} for p95, name in slowest[:ROWS]]
