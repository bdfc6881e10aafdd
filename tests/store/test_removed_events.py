"""A process dies while events of a decider are removed: all of it happened, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.checking.invariants import check
from perdure.clock import ManualClock
from perdure.store.base import ExecutionKey
from perdure.store.opening import open_store
from tests.chaos.statements import DiedError
from tests.contract.test_removed_events import FAR, ID, fed, filled, numbers, removal

WHOLE = [*range(1, 10)]
RUN = (
    *("check_removal", "first_unread", "delete_removed_events", "delete_removed_feed"),
    *("insert_removed", "commit"),
)


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", RUN)
async def test_a_process_that_dies_at_any_statement_leaves_all_or_nothing(
    tmp_path: Path, dies_at: str, is_after: bool
) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    store: Any = open_store(url, clock=ManualClock())
    await store.open()
    stamp = await filled(store)
    connection = store._writer._connection
    run = type(connection).run.__get__(connection)
    is_dead = False

    def mortal(name: str, /, **params: Any) -> Any:
        nonlocal is_dead
        if is_dead and name != "rollback":
            raise DiedError("the process is dead")
        if name == dies_at:
            is_dead = True
            if is_after:
                run(name, **params)
            raise DiedError("the process dies")
        return run(name, **params)

    connection.run = mortal
    with pytest.raises(DiedError):
        await store.deciders.remove_events(removal(stamp), before_ms=FAR)
    del connection.run
    await store.close()

    again: Any = open_store(url, clock=ManualClock())
    await again.open()
    is_removed = dies_at == "commit" and is_after
    left = [1, 2, *range(6, 10)] if is_removed else WHOLE
    assert await numbers(again, stamp) == left
    assert await fed(again) == [seq for seq in left if seq > 2 - (not is_removed)]
    assert await again.deciders.remove_events(removal(stamp), before_ms=FAR) == (not is_removed)
    assert await numbers(again, stamp) == [1, 2, *range(6, 10)]
    assert await again.deciders.first_unread(ExecutionKey(ID, *stamp[:2])) is None
    assert not [one for one in await check(again) if one.invariant == "S33"]
    await again.close()
