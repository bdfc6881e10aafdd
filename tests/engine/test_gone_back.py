"""A store that has gone back: what processes remember of it is not used (S47)."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from perdure import Rejected
from perdure.testing.invariants import check
from tests.engine.accounts import Account, Deposit, Withdraw, movements
from tests.engine.stage import Stage


@pytest.mark.sqlite_only("a backup is put back in place")
async def test_a_state_that_the_store_has_lost_decides_nothing(stage: Stage) -> None:
    """A backup was put back, and another process has come to the same number of events."""
    first, second = await stage.client(), await stage.client()
    await first.execute(Account, Deposit("a", 100))
    path = stage.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(":memory:")) as saved, closing(sqlite3.connect(path)) as file:
        file.backup(saved)
        await first.execute(Account, Deposit("a", 50))
        saved.backup(file)
    await second.execute(Account, Withdraw("a", 100))

    answer = await first.execute(Account, Withdraw("a", 150))

    assert isinstance(answer, Rejected)
    assert await movements(second, "a") == [100, -100]
    assert await check(second.store) == []
