"""What is refused by a store whose rows are spread over several databases.

There is none yet. One that only says so is enough to see that nobody believes in a transaction that
it could not have.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, transaction
from perdure.authoring.registry import Registry
from perdure.clock import ManualClock
from perdure.errors import UsageError
from perdure.jobs.within import Transactions
from perdure.store.base import Store
from perdure.store.opening import open_store


@transaction
def book(connection: Any, order: str) -> str:
    return order


def spread(store: Store) -> None:
    store.is_one_database = False


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "postgresql://127.0.0.1/perdure"])
def test_what_is_there_is_one_database(url: str) -> None:
    assert open_store(url, clock=ManualClock()).is_one_database


async def test_a_user_transaction_cannot_be_that_of_several_databases(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async with Client(f"sqlite:///{path}") as client:
        spread(client._core.store)
        with (
            closing(sqlite3.connect(path)) as connection,
            pytest.raises(UsageError, match="spread over several databases"),
        ):
            client.within(connection)


def test_a_transaction_is_not_run_on_several_databases() -> None:
    store = open_store("sqlite:///:memory:")
    spread(store)

    with pytest.raises(UsageError, match="transaction 'book' needs a store that is one database"):
        Transactions(store, Registry([book]), settled=lambda job, end: None)
