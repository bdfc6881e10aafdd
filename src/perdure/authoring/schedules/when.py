"""Times of schedules: by a cron expression on the clock of a place, or at equal distances.

Everything here is arithmetic: the same on every machine with the same time zone data.

Clocks that are put forward and back are followed as Debian's cron does it. A time of day that is
left out is not skipped: `30 2 * * *` comes at 03:00 on that day. A time of day that comes twice
counts once, the first time. An expression with `*` in front of its minutes or hours is meant as a
distance, and comes at every such minute of real time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from perdure.clock import to_datetime
from perdure.durations import Duration, as_duration

LAST_MS = 64_060_588_800_000
"""The year 4000: no schedule looks further."""

FIELDS = 5
MAX_EVERY = timedelta(days=365_000)


@dataclass(frozen=True, slots=True)
class Cron:
    """Times by a cron expression on the clock of a place. Refuses what it cannot read, when made.

    Raises:
        ValueError: The expression cannot be read, never comes, or there is no such time zone.
    """

    expression: str
    """Minute, hour, day of month, month, day of week."""
    timezone: str = "UTC"
    """The name of a place's time zone, as in `Europe/Berlin`."""

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str) or not isinstance(self.timezone, str):
            raise ValueError(f"Cron takes texts, got {self.expression!r} and {self.timezone!r}")
        if len(self.expression.split()) != FIELDS:
            raise ValueError(
                f"cron expression {self.expression!r} has not five fields: minute, hour, day of "
                "month, month, day of week; for seconds use Every(timedelta(seconds=...))"
            )
        try:
            simulated = CronSim(self.expression, datetime(2000, 1, 1, tzinfo=UTC))
        except (CronSimError, AssertionError) as error:
            raise ValueError(
                f"cron expression {self.expression!r} cannot be read: {error}; write five fields, "
                'as in "0 2 * * *" for two o\'clock'
            ) from error
        if next(simulated, None) is None:
            raise ValueError(f"cron expression {self.expression!r} never comes")
        _zone(self.timezone)


@dataclass(frozen=True, slots=True, init=False)
class Every:
    """Times at equal distances, counted from 1970 and an offset: no drift, the same on every
    machine.

    Raises:
        ValueError: The period is not positive, longer than a thousand years, or not of whole
            milliseconds.
    """

    period: timedelta
    offset: timedelta

    def __init__(self, period: Duration, offset: Duration = 0) -> None:
        for what, value in (("period", period), ("offset", offset)):
            length = as_duration(what, value)
            if length % timedelta(milliseconds=1):
                raise ValueError(f"{what} of Every must be of whole milliseconds, got {value!r}")
            object.__setattr__(self, what, length)
        if self.period <= timedelta(0):
            raise ValueError(f"period of Every must be positive, got {self.period}")
        if self.period > MAX_EVERY:
            raise ValueError(
                f"period of Every is limited to {MAX_EVERY.days:,} days, got {self.period}"
            )


When: TypeAlias = Cron | Every
"""When a schedule starts something."""


class SlotTime(NamedTuple):
    """One time of a schedule."""

    at_ms: int
    text: str
    """In ISO form, on the clock of the place."""


def slot_text(at: datetime) -> str:
    """Return a time in ISO form."""
    return at.isoformat(timespec="milliseconds" if at.microsecond else "seconds")


def times_of(when: When, after_ms: int, except_on: Collection[date] = ()) -> Iterator[SlotTime]:
    """Return the times behind a time, in order, without those on some dates of the place."""
    if isinstance(when, Every):
        yield from _times_of_every(when, after_ms, except_on)
        return
    zone = _zone(when.timezone)
    minutes, hours, *_ = when.expression.split()
    is_distance = minutes.startswith("*") or hours.startswith("*")
    find = _distances if is_distance else _times_of_day
    while after_ms < LAST_MS:
        resume_ms = LAST_MS
        for local in find(when.expression, zone, after_ms):
            at_ms = _to_ms(local)
            if at_ms >= LAST_MS:
                return
            if local.date() in except_on:
                # The rest of the day is no matter, however much of it there is.
                resume_ms = max(_end_of_day(local.date(), zone) - 1, at_ms)
                break
            yield SlotTime(at_ms, slot_text(local))
        after_ms = resume_ms


def _times_of_day(expression: str, zone: tzinfo, after_ms: int) -> Iterator[datetime]:
    for local in CronSim(expression, to_datetime(after_ms).astimezone(zone)):
        if _to_ms(local) > after_ms:
            yield local
        # Or it is in the hour that comes twice: this was the first time.


def _distances(expression: str, zone: tzinfo, after_ms: int) -> Iterator[datetime]:
    """Return every minute of real time that fits, one stretch of an unmoved clock at a time.

    Across a move of the clock the library steps by whole hours: it would find a midnight that a
    place leaves out, and miss times where the clock is moved by half an hour.
    """
    stretch_ms = after_ms
    while True:
        offset = to_datetime(stretch_ms).astimezone(zone).utcoffset()
        assert offset is not None, "a time zone has one at every time"
        place = timezone(offset)
        moved_ms = None
        for local in CronSim(expression, to_datetime(after_ms).astimezone(place)):
            there = local.astimezone(zone)
            if there.utcoffset() != offset:
                moved_ms = _moved_ms(zone, offset, after_ms, _to_ms(local))
                break
            yield there
        if moved_ms is None:
            return
        # A time at the very move is in the stretch that begins there.
        stretch_ms, after_ms = moved_ms, moved_ms - 1


def _moved_ms(zone: tzinfo, offset: timedelta, from_ms: int, to_ms: int) -> int:
    """Return when the clock is moved between two times, of which only the first has an offset.

    If it is moved more than once, nothing that fits lies in between: whatever the offset, that
    would have been found before.
    """
    before, behind = from_ms // 1000, to_ms // 1000
    while behind - before > 1:
        middle = (before + behind) // 2
        if to_datetime(middle * 1000).astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            behind = middle
    return behind * 1000


def _times_of_every(every: Every, after_ms: int, except_on: Collection[date]) -> Iterator[SlotTime]:
    period_ms = every.period // timedelta(milliseconds=1)
    offset_ms = every.offset // timedelta(milliseconds=1)
    while True:
        at_ms = ((after_ms - offset_ms) // period_ms + 1) * period_ms + offset_ms
        if at_ms >= LAST_MS:
            return
        at = to_datetime(at_ms)
        if at.date() in except_on:
            after_ms = max(_end_of_day(at.date(), UTC) - 1, at_ms)
            continue
        yield SlotTime(at_ms, slot_text(at))
        after_ms = at_ms


def _end_of_day(day: date, zone: tzinfo) -> int:
    return _to_ms(datetime.combine(day + timedelta(days=1), time(), zone))


def _to_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo:
    """Return a time zone.

    Raises:
        ValueError: There is none of that name.
    """
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(
            f"there is no time zone {name!r} here: use a name such as 'Europe/Berlin'; if it is "
            "one, install the package tzdata"
        ) from error
