"""A history as text of Mermaid: one bar for each call, timer, wait or child.

Only the text: GitHub and others draw it. Names come from users, so whatever has a meaning in such a
text is left out of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from perdure.client.reading.info import HistoryEvent, InstanceInfo
from perdure.clock import from_datetime

_STATES = {"open": "active, ", "done": "done, ", "failed": "crit, ", "cancelled": "done, "}
_MEANINGFUL = re.compile(r"[^\w .()/@+-]+")


def gantt(info: InstanceInfo, events: Sequence[HistoryEvent], *, now: datetime) -> str:
    """Return the newest events of an instance as a chart of bars."""
    from perdure.web.pages.timeline import bars_of  # late: the web is needed for this alone

    lines = [
        "gantt",
        f"    title {_plain(info.instance_id)} ({_plain(info.name)}) {info.status}",
        "    dateFormat x",
        "    axisFormat %H:%M:%S",
    ]
    last = info.ended_at or now
    section = ""
    for bar in sorted(bars_of(events), key=lambda one: (one.kind, one.seq)):
        if bar.kind != section:
            section = bar.kind
            lines.append(f"    section {section}")
        state = "milestone, " if bar.is_point else _STATES[bar.state]
        start_ms, end_ms = from_datetime(bar.start), from_datetime(bar.end or max(last, bar.start))
        lines.append(f"    {_plain(bar.label)} :{state}e{bar.seq}, {start_ms}, {end_ms}")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Return a name without what Mermaid would take for more than a name."""
    return _MEANINGFUL.sub(" ", text).strip() or "unnamed"
