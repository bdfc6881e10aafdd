"""A history as bars: one row per call, timer, wait or child, and long silences cut out.

What is drawn is made of what is recorded: when a call was asked for, when attempts began and
failed, when it ended. Before the first attempt it waits in its queue, between two it backs off; an
attempt whose beginning is not on record began at once. The sizes are numbers for SVG attributes,
since the pages allow no styles of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from perdure.client.reading.info import HistoryEvent
from perdure.clock import to_datetime
from perdure.durations import shown_duration

WIDTH = 1000
ROW = 26
TOP = 24
GAP_FACTOR = 8.0
"""A silence that is so many times longer than the others together is drawn short."""
GAP_WIDTH = 60
LABEL = 230
FOOT = 22
"""Where the lengths of what was cut out are written."""

OPENING = {
    "activity_scheduled": "activity",
    "inline_scheduled": "activity",
    "effect_scheduled": "effect",
    "timer_scheduled": "timer",
    "signal_awaited": "signal",
    "child_scheduled": "child",
    "detached_scheduled": "child",
}
POINTS = {
    "signal_received": "signal",
    "cancel_requested": "cancel",
    "event_recorded": "event",
    "input_taken": "input",
}


class FailedAttempt(NamedTuple):
    """An attempt that failed."""

    began: datetime | None
    """None: not on record."""
    at: datetime
    text: str


@dataclass(slots=True, kw_only=True)
class Bar:
    """One row of a timeline."""

    seq: int
    kind: str
    label: str
    start: datetime
    end: datetime | None = None
    state: str = "open"
    """open, done, failed or cancelled"""
    failures: list[FailedAttempt] = field(default_factory=list)
    began: datetime | None = None
    """When the last attempt began; None: not on record."""
    child: str = ""
    is_point: bool = False


def bars_of(events: Sequence[HistoryEvent]) -> list[Bar]:
    """Return the rows of a timeline, in order."""
    found: dict[int, Bar] = {}
    for event in events:
        data = event.data
        if event.kind in OPENING:
            found[event.seq] = Bar(
                seq=event.seq,
                kind=OPENING[event.kind],
                label=_label(event),
                start=event.at,
                child=str(data.get("instance_id", "")),
            )
        elif event.kind in POINTS and not data.get("wait"):
            found[event.seq] = Bar(
                seq=event.seq,
                kind=POINTS[event.kind],
                label=_label(event),
                start=event.at,
                end=event.at,
                state="done",
                is_point=True,
            )
        asked = data.get("schedule") or data.get("wait") or data.get("effect")
        bar = found.get(asked) if isinstance(asked, int) else None
        if bar is not None:
            _end(bar, event)
    return list(found.values())


def drawn(bars: Sequence[Bar], *, now: datetime, is_over: bool) -> dict[str, Any]:
    """Return a timeline with its places: rows, ticks and cuts."""
    if not bars:
        return {"rows": [], "ticks": [], "height": 0, "width": WIDTH}
    last = max(bar.end or (bar.start if is_over else now) for bar in bars)
    times = {bar.start for bar in bars} | {last}
    times |= {bar.end for bar in bars if bar.end is not None}
    times |= {one.at for bar in bars for one in bar.failures}
    times |= {one.began for bar in bars for one in bar.failures if one.began is not None}
    times |= {bar.began for bar in bars if bar.began is not None}
    scale = Scale(sorted(times))
    rows = [_row(bar, number, scale, last) for number, bar in enumerate(bars)]
    height = TOP + ROW * len(rows) + (FOOT if scale.cuts else 8)
    return {
        "rows": rows,
        "cuts": scale.cuts,
        "start": min(times),
        "end": last,
        "height": height,
        "width": WIDTH,
        "label": LABEL,
    }


class Scale:
    """Where a time is drawn. Long silences are cut to a fixed width."""

    def __init__(self, times: Sequence[datetime]) -> None:
        self.cuts: list[dict[str, Any]] = []
        self._places: list[tuple[datetime, float]] = []
        steps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
        total = sum(steps)
        # What is all there is, is not cut.
        least_s = 0.05 if len(steps) > 1 else total
        long = [step > GAP_FACTOR * max(total - step, least_s) for step in steps]
        room = WIDTH - LABEL - 10 - GAP_WIDTH * sum(long)
        busy = sum(step for step, is_long in zip(steps, long, strict=True) if not is_long) or 1.0
        x = float(LABEL)
        self._places.append((times[0], x))
        for later, step, is_long in zip(times[1:], steps, long, strict=True):
            if is_long:
                text = shown_duration(later - self._places[-1][0])
                self.cuts.append({"x": round(x + GAP_WIDTH / 2, 1), "text": text})
            x += GAP_WIDTH if is_long else step / busy * room
            self._places.append((later, x))

    def x(self, at: datetime) -> float:
        """Return where a time that is known is drawn."""
        return round(next((x for time, x in self._places if time >= at), self._places[-1][1]), 1)


def _row(bar: Bar, number: int, scale: Scale, last: datetime) -> dict[str, Any]:
    segments = [
        {
            "x": (x := scale.x(start)),
            "width": max(2.0, round(scale.x(stop) - x, 1)),
            "state": state,
            "text": text,
        }
        for start, stop, state, text in _stretches(bar, last)
    ]
    return {
        "seq": bar.seq,
        "kind": bar.kind,
        "label": bar.label,
        "state": bar.state,
        "child": bar.child if bar.kind == "child" else "",
        "y": TOP + ROW * number,
        "segments": segments,
        "is_point": bar.is_point,
        "took": "" if bar.is_point or bar.end is None else shown_duration(bar.end - bar.start),
    }


def _stretches(bar: Bar, last: datetime) -> Iterator[tuple[datetime, datetime, str, str]]:
    """Return what a row went through: from when, until when, how it is drawn, in words."""
    at = bar.start
    idle = ("waits", "waited in its queue")
    for number, failed in enumerate(bar.failures, start=1):
        if failed.began is not None and failed.began > at:
            yield at, failed.began, *idle
            at = failed.began
        yield at, failed.at, "failed", f"attempt {number}: {failed.text}"
        at = failed.at
        idle = ("backs-off", "backed off")
    if bar.began is not None and bar.began > at:
        yield at, bar.began, *idle
        at = bar.began
    yield at, bar.end or last, bar.state, f"attempt {len(bar.failures) + 1}"


def _end(bar: Bar, event: HistoryEvent) -> None:
    bar.end = event.at
    bar.state = "done"
    bar.began = _time(event.data.get("began_ms"))
    failures = [
        FailedAttempt(
            _time(one.get("began_ms")),
            to_datetime(one["at_ms"]),
            f"{one.get('type_name')}: {one.get('message')}",
        )
        for one in event.data.get("failures") or ()
        if isinstance(one, dict) and one.get("at_ms")
    ]
    if event.kind.endswith(("_failed", "_refused")):
        bar.state = "failed"
        # The last failure is the end itself.
        bar.began = failures[-1].began if failures else None
        failures = failures[:-1]
    elif event.kind.endswith("_cancelled"):
        bar.state = "cancelled"
    # A clock that went back must not draw backwards.
    at, bar.failures = bar.start, []
    for one in failures:
        if at <= one.at <= event.at:
            is_later = one.began is not None and at <= one.began <= one.at
            bar.failures.append(one if is_later else one._replace(began=None))
            at = one.at
    if bar.began is not None and not at <= bar.began <= event.at:
        bar.began = None


def _time(ms: object) -> datetime | None:
    return to_datetime(ms) if isinstance(ms, int) and ms > 0 else None


def _label(event: HistoryEvent) -> str:
    data = event.data
    if event.kind == "timer_scheduled":
        due_ms = data.get("due_ms")
        if not isinstance(due_ms, int):
            return "timer"
        return f"timer of {shown_duration(to_datetime(due_ms) - event.at)}"
    if event.kind == "cancel_requested":
        return "cancel requested"
    return str(data.get("name") or data.get("tag") or data.get("instance_id") or event.kind)
