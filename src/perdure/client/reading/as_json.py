"""What clients are told, as JSON: the same for every program that reads it.

The command line prints it and whatever serves it over a network sends it: fields under their own
names, points in time as ISO 8601 in UTC, lengths of time in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any

import msgspec

from perdure.codec import Json

_AS_THEY_ARE = frozenset({type(None), bool, int, float, str})
"""Types of which JSON has its own. Values of other types that are made of these are converted."""


def as_json(value: Any) -> Json:
    """Return something that a client returned, made of what JSON has.

    Args:
        value: A value of `perdure`'s own (what a method of a client or handle returns), or one
            that was stored as JSON.
    """
    kind: Any = type(value)
    if kind in _AS_THEY_ARE:
        found: Json = value
        return found
    names = _fields_of(kind)
    if names is not None:
        return {
            # Most are plain: a call for each costs more than all else here.
            name: one if type(one := getattr(value, name)) in _AS_THEY_ARE else as_json(one)
            for name in names
        }
    if isinstance(value, Enum):
        return as_json(value.value)
    if isinstance(value, datetime):
        return shown_time(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): as_json(one) for name, one in value.items()}
    return [as_json(one) for one in value]


@cache
def _fields_of(kind: type) -> tuple[str, ...] | None:
    """Return the names of what a value has under names; None if it is no such value."""
    if is_dataclass(kind):
        return tuple(one.name for one in fields(kind))
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return tuple(kind._fields)
    return None


def shown_time(at: datetime) -> str:
    """Return a point in time as ISO 8601, in UTC, to the millisecond."""
    there = at if at.tzinfo is UTC else at.astimezone(UTC)
    return f"{there.isoformat(timespec='milliseconds').removesuffix('+00:00')}Z"
