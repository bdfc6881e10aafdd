"""Events as bytes: what the store keeps and never opens."""

from __future__ import annotations

from typing import NamedTuple


class StoredEvent(NamedTuple):
    """An event as the store keeps it: numbered from 1 within its execution."""

    seq: int
    kind: str
    at_ms: int
    body: bytes


class Body(NamedTuple):
    """An event or message as bytes, ready for the store, which never opens it."""

    kind: str
    body: bytes
