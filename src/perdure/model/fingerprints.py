"""Short digests of what was given under an id, to tell later whether the same is given again.

There is one for each field. Fields that only one side has are passed over: code that came in
between may have added one with a default, and a caller that gives JSON may leave such out.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

TAG = "$tag"
"""Stands for the kind of what was given, among its fields."""

Fingerprint: TypeAlias = Mapping[str, str]

_encoder = msgspec.json.Encoder(order="deterministic")


def fingerprint(tag: str, data: bytes) -> dict[str, str]:
    """Return what a receipt keeps of something that was given as JSON."""
    value: Any = msgspec.json.decode(data)
    fields = value if isinstance(value, dict) else {"value": value}
    return {TAG: _digest(tag), **{name: _digest(part) for name, part in fields.items()}}


def differing_fields(kept: Fingerprint, now: Fingerprint) -> list[str]:
    """Return in which fields what is given now differs from what was given first."""
    return [name for name in kept if name in now and kept[name] != now[name]]


def _digest(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has one sort of numbers.
    return blake2b(_encoder.encode(value), digest_size=6).hexdigest()
