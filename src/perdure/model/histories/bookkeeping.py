"""What an execution of a decider must know besides its state, as it is stored."""

from __future__ import annotations

import msgspec

from perdure.model.histories.lineage import Parent


class KeptCall(msgspec.Struct, frozen=True, array_like=True):
    """An open call in a snapshot."""

    seq: int
    kind: str
    body: str
    at_ms: int
    correlation: str
    waits_for: int
    begun_ms: int


class Bookkeeping(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that an execution must know besides its state, as a snapshot keeps it."""

    open: tuple[KeptCall, ...]
    timers: dict[str, int]
    digest: str
    now_ms: int
    since_ms: int
    started_by: str
    parent: Parent | None = None
    correlation: str = ""
    key: str | None = None
