"""Lengths of time: as code gives them (a timedelta, or a number of seconds), and as people write
and read them (`1h30m`, `3 h 12 m`)."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TypeAlias

from perdure.errors import OptionError, UsageError

Duration: TypeAlias = timedelta | float
"""What may be given where a length of time is meant: a timedelta, or a number of seconds."""

MAX_DURATION = timedelta(days=36_500)
"""The longest that can be said: what is longer does not fit into dates."""


class DurationField:
    """A field of options that is given as a duration, and read as a timedelta.

    It tells type checkers so, and brings the default. Objects hold plain timedeltas: a dataclass
    with slots puts its own members in place of this, and converts what it was given.
    """

    def __init__(self, default: timedelta) -> None:
        self._default = default

    def __get__(self, instance: object, owner: object = None, /) -> timedelta:
        return self._default

    def __set__(self, instance: object, value: Duration, /) -> None:
        raise AssertionError("a dataclass with slots has put its own member here")


class OptionalDurationField:
    """The same, where None may be given too."""

    def __init__(self, default: timedelta | None) -> None:
        self._default = default

    def __get__(self, instance: object, owner: object = None, /) -> timedelta | None:
        return self._default

    def __set__(self, instance: object, value: Duration | None, /) -> None:
        raise AssertionError("a dataclass with slots has put its own member here")


_UNITS_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_PIECE = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


def as_duration(what: str, value: object) -> timedelta:
    """Return a length of time that was given.

    Args:
        what: Which option it is, for the error.
        value: A timedelta, or a number of seconds.

    Raises:
        OptionError: It is neither, or is longer than can be said.
    """
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise OptionError(
            f"{what} must be a timedelta or a number of seconds, got {value!r}; say "
            f"{what}=timedelta(minutes=5) or {what}=300, for example"
        )
    if abs(value) > MAX_DURATION.total_seconds():
        raise OptionError(
            f"{what} is limited to {MAX_DURATION.days} days, got {value!r} seconds"
            + ("; None means without end" if value > 0 else "")
        )
    return timedelta(seconds=value)


def as_positive(what: str, value: object) -> timedelta:
    """Return a length of time that was given, which must be longer than nothing.

    Raises:
        OptionError: It is not one.
    """
    length = as_duration(what, value)
    if length <= timedelta(0):
        raise OptionError(f"{what} must be positive, got {value}")
    return length


def parse_duration(text: str, *, what: str = "duration") -> timedelta:
    """Return a length of time that a person wrote.

    Args:
        text: Numbers with units, one behind the other: `500ms`, `30s`, `1h30m`, `2d`.
        what: What it is for, for the error.

    Raises:
        UsageError: It is not one.
    """
    pieces = _PIECE.findall(text)
    if not pieces or "".join(f"{number}{unit}" for number, unit in pieces) != text:
        raise UsageError(
            f"{what} {text!r} is not a length of time: write a number and a unit (ms, s, m, h, d "
            "or w), as in 30s, 1h30m or 2d"
        )
    total_ms = sum(float(number) * _UNITS_MS[unit] for number, unit in pieces)
    if total_ms > MAX_DURATION / timedelta(milliseconds=1):
        raise UsageError(f"{what} {text!r} is longer than {MAX_DURATION.days} days")
    return timedelta(milliseconds=total_ms)


def shown_duration(length: timedelta) -> str:
    """Return a length of time for people: its two largest units."""
    ms = round(length / timedelta(milliseconds=1))
    if abs(ms) < 1_000:
        return f"{ms} ms"
    if abs(ms) < 10_000:
        return f"{ms / 1_000:.1f} s"
    sign, seconds = "-" * (ms < 0), abs(ms) // 1_000
    for unit, size, less, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60)):
        if seconds >= size:
            rest = seconds % size // part
            return f"{sign}{seconds // size} {unit}" + (f" {rest} {less}" if rest else "")
    if seconds >= 60:
        return f"{sign}{seconds // 60} m" + (f" {seconds % 60} s" if seconds % 60 else "")
    return f"{sign}{seconds} s"
