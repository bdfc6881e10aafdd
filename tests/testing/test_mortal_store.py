from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.store.opening import open_store
from perdure.testing.mortal_store import CommitCount, MortalStore


async def test_no_operation_of_a_dead_worker_reaches_a_part_of_the_store() -> None:
    store = open_store("sqlite://:memory:")
    await store.open()
    mortal: Any = MortalStore(store, CommitCount())

    assert await mortal.admin.totals() == await store.admin.totals()
    mortal.die()
    with pytest.raises(asyncio.CancelledError):
        await mortal.admin.totals()
    await store.close()

    assert mortal.asked == 1
    assert mortal.is_quiet
