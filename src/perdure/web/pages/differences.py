"""What differs between two JSON values, by place."""

from __future__ import annotations

from typing import Any

MAX_DIFFERENCES = 200
"""How many are told."""


def differences(before: Any, after: Any) -> list[dict[str, Any]]:
    """Return what was added, removed and changed, each with its place as `order.lines[2].price`."""
    found: list[dict[str, Any]] = []
    _compare("", before, after, found)
    return found[:MAX_DIFFERENCES]


def _compare(place: str, before: Any, after: Any, found: list[dict[str, Any]]) -> None:
    if len(found) >= MAX_DIFFERENCES:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            _one(f"{place}.{key}" if place else str(key), key, before, after, found)
    elif isinstance(before, list) and isinstance(after, list):
        old, new = dict(enumerate(before)), dict(enumerate(after))
        for index in range(max(len(old), len(new))):
            _one(f"{place}[{index}]", index, old, new, found)
    elif before != after or type(before) is not type(after):
        found.append({"place": place, "kind": "changed", "before": before, "after": after})


def _one(place: str, key: Any, before: Any, after: Any, found: list[dict[str, Any]]) -> None:
    if key not in before:
        found.append({"place": place, "kind": "added", "before": None, "after": after[key]})
    elif key not in after:
        found.append({"place": place, "kind": "removed", "before": before[key], "after": None})
    else:
        _compare(place, before[key], after[key], found)
