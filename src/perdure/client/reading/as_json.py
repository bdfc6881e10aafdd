"""What clients are told, as JSON: the same for every program that reads it.

The command line prints it and whatever serves it over a network sends it: fields under their own
names, points in time as ISO 8601 in UTC, lengths of time in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import msgspec

from perdure.codec import Json


def as_json(value: Any) -> Json:
    """Return something that a client returned, made of what JSON has.

    Args:
        value: A value of `perdure`'s own (what a method of a client or handle returns), or one
            that was stored as JSON.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Enum):
        return as_json(value.value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, datetime):
        return shown_time(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if is_dataclass(value):
        return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, msgspec.Struct):
        return {name: as_json(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: as_json(one) for name, one in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(name): as_json(one) for name, one in value.items()}
    return [as_json(one) for one in value]


def shown_time(at: datetime) -> str:
    """Return a point in time as ISO 8601, in UTC, to the millisecond."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
