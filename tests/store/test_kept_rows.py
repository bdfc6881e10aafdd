"""A writer remembers the rows it wrote last, and is never wrong because of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perdure.model.turns import TurnStatus
from perdure.store.sqlite.store import SqliteStore
from perdure.testing.store_values import (
    SCHEDULED,
    accepted,
    begun,
    ended,
    message,
    next_turn,
)

ACCEPTED, REFUSED, TAKEN = TurnStatus.ACCEPTED, TurnStatus.REFUSED, TurnStatus.TAKEN


async def _together(store: SqliteStore, operations: Sequence[Any]) -> list[Any]:
    """Write operations of any kind as one transaction."""
    before = store.counters.transactions
    assert store._batcher is not None
    results = await store._batcher.submit(operations)
    assert store.counters.transactions == before + 1
    return results


# ------------------------------------------------------------------- starts


async def test_an_instance_that_begins_and_ends_at_once_takes_earlier_messages_along(
    store: SqliteStore,
) -> None:
    stamp = await begun(store, "other")
    await store.deliver([message("i", if_absent="buffer")])
    await accepted(store, next_turn("other", stamp, events=(SCHEDULED,)))

    await ended(store, "i")

    assert await store.read_live("i") is None
    assert await store.read_inbox("i") == []
