"""A schedule as it is stored: plain data that any worker can read, whatever code it has."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Literal, TypeAlias
from zoneinfo import TZPATH

from perdure.authoring.schedules.when import Cron, Every, SlotTime, When, times_of

Overlap: TypeAlias = Literal["skip", "queue", "cancel", "terminate", "allow"]
Missed: TypeAlias = Literal["none", "latest", "all"]

FIRST_LOOK_MS = 60_000
"""How far back the newest slot is looked for at first; twice as far each time after that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhenSpec:
    """One `Cron`, or one `Every`."""

    cron: str = ""
    zone: str = "UTC"
    period_ms: int = 0
    offset_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """What is started when."""

    orchestration: str
    version: str
    """Of the orchestration in the code that has the schedule."""
    pinned: str = ""
    """The version to start; empty: the worker that begins an instance chooses."""
    input: str
    """The arguments, as the orchestration's codec wrote them."""
    whens: tuple[WhenSpec, ...]
    overlap: Overlap = "skip"
    missed: Missed = "latest"
    within_ms: int = 86_400_000
    jitter_ms: int = 0
    starts_ms: int | None = None
    ends_ms: int | None = None
    except_on: tuple[str, ...] = ()
    zone_data: str = ""
    """Which edition of the time zones the process had that made this."""

    def is_same(self, other: ScheduleSpec | None) -> bool:
        """Return whether another says the same; editions of time zones are no difference."""
        return other is not None and replace(other, zone_data=self.zone_data) == self


def when_spec(when: When) -> WhenSpec:
    """Return a `Cron` or `Every` as it is stored."""
    if isinstance(when, Cron):
        return WhenSpec(cron=when.expression, zone=when.timezone)
    unit = timedelta(milliseconds=1)
    return WhenSpec(period_ms=when.period // unit, offset_ms=when.offset // unit)


@lru_cache(maxsize=10_000)
def _when(spec: WhenSpec) -> When:
    if spec.cron:
        return Cron(spec.cron, spec.zone)
    return Every(timedelta(milliseconds=spec.period_ms), timedelta(milliseconds=spec.offset_ms))


def describe_when(spec: WhenSpec) -> str:
    """Return a time in words for lists: the expression and its place, or the distance."""
    if spec.cron:
        return spec.cron if spec.zone == "UTC" else f"{spec.cron} {spec.zone}"
    offset = f" + {_length(spec.offset_ms)}" if spec.offset_ms else ""
    return f"every {_length(spec.period_ms)}{offset}"


_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def _length(length_ms: int) -> str:
    """Return a length of time in full: 1 h 30 m."""
    words = []
    for unit, size_ms in _UNITS:
        count, length_ms = divmod(length_ms, size_ms)
        if count:
            words.append(f"{count} {unit}")
    return " ".join(words) or "0 s"


def slots_after(spec: ScheduleSpec, after_ms: int) -> Iterator[SlotTime]:
    """Return the slots behind a time, in order, each time once."""
    if spec.starts_ms is not None:
        after_ms = max(after_ms, spec.starts_ms - 1)
    days = frozenset(map(date.fromisoformat, spec.except_on)) if spec.except_on else ()
    found = [times_of(_when(when), after_ms, days) for when in spec.whens]
    last_ms = None
    # Stable: of two that are due at once the first of the schedule's list says how it is written.
    merged = found[0] if len(found) == 1 else heapq.merge(*found, key=lambda one: one.at_ms)
    for slot in merged:
        if spec.ends_ms is not None and slot.at_ms >= spec.ends_ms:
            return
        if slot.at_ms != last_ms:
            last_ms = slot.at_ms
            yield slot


def newest_slot(spec: ScheduleSpec, after_ms: int, until_ms: int) -> SlotTime | None:
    """Return the last slot behind a time and not behind another.

    Looks further and further back, so that it costs little how ever many slots there were.
    """
    look_ms = FIRST_LOOK_MS
    while True:
        from_ms = max(after_ms, until_ms - look_ms)
        newest = None
        for slot in slots_after(spec, from_ms):
            if slot.at_ms > until_ms:
                break
            newest = slot
        if newest is not None or from_ms <= after_ms:
            return newest
        look_ms *= 2


def jitter_of(name: str, slot: SlotTime, spec: ScheduleSpec) -> int:
    """Return by how much a start comes after its slot, the same on every worker."""
    if not spec.jitter_ms:
        return 0
    digest = blake2b(f"{name}@{slot.text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % (spec.jitter_ms + 1)


@lru_cache(maxsize=1)
def zone_data() -> str:
    """Return which edition of the time zones is here, as far as that is told."""
    for folder in TZPATH:
        try:
            with Path(folder, "tzdata.zi").open() as file:
                return file.readline().removeprefix("# version").strip()
        except OSError:
            continue
    return ""
