"""A cron expression in words, where it is of a usual kind; others are shown as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence

WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
FIELDS = 5

_NUMBERS = re.compile(r"\d+(,\d+)*")
_RANGE = re.compile(r"(\d+)-(\d+)")
_STEP = re.compile(r"\*/(\d+)")


def in_words(when: str) -> str:
    """Return when something is due in words; nothing if the expression says it as well.

    Args:
        when: As lists show it: five fields and a time zone behind them, if it is not UTC.
    """
    minute, hour, day, month, weekday, *zone = [*when.split(), *[""] * FIELDS][: FIELDS + 1]
    if when.startswith("every ") or not weekday:
        return ""
    parts = [_time(minute, hour), _weekdays(weekday), _days(day), _months(month)]
    if any(one is None for one in parts):
        return ""
    said = " ".join(one for one in parts if one)
    if said.startswith("at ") and weekday == day == month == "*":
        said = f"every day {said}"
    return said + (f" ({zone[0]})" if zone and zone[0] else "")


def _time(minute: str, hour: str) -> str | None:
    """Return the part of a day; None if it is of no usual kind."""
    if step := _STEP.fullmatch(minute):
        each = f"every {step[1]} minutes"
        if hour == "*":
            return each
        if hours := _RANGE.fullmatch(hour):
            return f"{each} from {int(hours[1]):02}:00 to {int(hours[2]):02}:59"
        return None
    if minute == "*":
        return "every minute" if hour == "*" else None
    if not minute.isdigit():
        return None
    past = int(minute)
    if hour == "*":
        return "every hour" if past == 0 else f"every hour at :{past:02}"
    if step := _STEP.fullmatch(hour):
        return f"every {step[1]} hours" + (f" at :{past:02}" if past else "")
    if _NUMBERS.fullmatch(hour):
        return "at " + _listed([f"{int(one):02}:{past:02}" for one in hour.split(",")])
    return None


def _weekdays(field: str) -> str | None:
    if field == "*":
        return ""
    named = re.sub(
        r"[A-Za-z]{3}", lambda one: str(_place(one[0], WEEKDAYS)), field.replace("?", "*")
    )
    if (span := _RANGE.fullmatch(named)) and int(span[2]) < len(WEEKDAYS):
        return f"from {WEEKDAYS[int(span[1])]} to {WEEKDAYS[int(span[2])]}"
    return _named(named, WEEKDAYS, "on ", first=0)


def _days(field: str) -> str | None:
    if field == "*":
        return ""
    if field == "L":
        return "on the last day of the month"
    if not _NUMBERS.fullmatch(field):
        return None
    days = field.split(",")
    return f"on day{'s' if len(days) > 1 else ''} {_listed(days)} of the month"


def _months(field: str) -> str | None:
    return "" if field == "*" else _named(field, MONTHS, "in ", first=1)


def _named(field: str, names: Sequence[str], word: str, *, first: int) -> str | None:
    if not _NUMBERS.fullmatch(field):
        return None
    places = [int(one) - first for one in field.split(",")]
    if not all(0 <= one < len(names) for one in places):
        return None
    return word + _listed([names[one] for one in places])


def _place(short: str, names: Sequence[str]) -> int:
    return next((n for n, name in enumerate(names) if name[:3].lower() == short.lower()), 99)


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
