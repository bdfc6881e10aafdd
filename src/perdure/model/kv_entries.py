"""Values under keys, as a start takes them over. They are part of histories."""

from __future__ import annotations

import msgspec


class KvEntry(msgspec.Struct, frozen=True, gc=False):
    """A value that an instance keeps under a key, and when it was set."""

    key: str
    value: msgspec.Raw
    updated_ms: int
