"""Values of the client as JSON, with masked fields."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from perdure.client.reading.as_json import as_json

MASK = "•••"
"""What is shown instead of a masked value."""

_SHORT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
"""Made once: most answers are small, and making it takes half as long as using it."""


def shown(value: object, mask: Collection[str]) -> Any:
    """Return a value of the client as it is sent: made of what JSON has, with masked fields."""
    found = as_json(value)
    return masked(found, {name.lower() for name in mask}) if mask else found


def masked(value: Any, names: Collection[str]) -> Any:
    """Return a plain value in which the fields of these names, in lower case, are hidden."""
    if isinstance(value, dict):
        return {
            key: MASK if str(key).lower() in names else masked(one, names)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [masked(one, names) for one in value]
    return value


def dump(value: object, *, indent: int | None = None) -> bytes:
    """Write a plain value as JSON in UTF-8."""
    text = (
        _SHORT.encode(value)
        if indent is None
        else json.dumps(value, ensure_ascii=False, indent=indent)
    )
    try:
        return text.encode()
    except UnicodeEncodeError:
        # A lone surrogate from old data: as an escape it can be written.
        separators = (",", ":") if indent is None else None
        return json.dumps(value, separators=separators, indent=indent).encode()
