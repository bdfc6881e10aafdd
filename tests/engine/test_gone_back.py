"""A store that has gone back: what processes remember of it is not used (S47)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from perdure import Accepted, Rejected
from perdure.checking.invariants import check
from perdure.errors import StoreCorruptError
from perdure.model.messages import Message
from perdure.model.turns import Turn, TurnReceipt
from tests.engine.accounts import Account, Deposit, Withdraw, movements
from tests.engine.stage import Gate, Stage


@contextmanager
def lost(stage: Stage) -> Iterator[None]:
    """Have what is committed inside be lost: a backup is put back in place."""
    path = stage.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(":memory:")) as saved, closing(sqlite3.connect(path)) as file:
        file.backup(saved)
        yield
        saved.backup(file)


@pytest.mark.sqlite_only("a backup is put back in place")
async def test_a_state_that_the_store_has_lost_decides_nothing(stage: Stage) -> None:
    """Another process has come to the same number of events."""
    first, second = await stage.client(), await stage.client()
    await first.execute(Account, Deposit("a", 100))
    with lost(stage):
        await first.execute(Account, Deposit("a", 50))
    await second.execute(Account, Withdraw("a", 100))

    answer = await first.execute(Account, Withdraw("a", 150))

    assert isinstance(answer, Rejected)
    assert await movements(second, "a") == [100, -100]
    assert await check(second._core.store) == []


@pytest.mark.sqlite_only("a backup is put back in place")
async def test_a_state_that_the_store_has_lost_rejects_nothing(stage: Stage) -> None:
    first, second = await stage.client(), await stage.client()
    await first.execute(Account, Deposit("a", 100))
    with lost(stage):
        await first.execute(Account, Withdraw("a", 100))
    await second.execute(Account, Deposit("a", 1))

    answer = await first.execute(Account, Withdraw("a", 50))

    assert isinstance(answer, Accepted)
    assert await movements(second, "a") == [100, 1, -50]


@pytest.mark.sqlite_only("a backup is put back in place")
async def test_messages_that_the_store_has_lost_are_not_taken_without_the_input_they_came_before(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller has its input decided behind what was sent before, and gives up while that is read.
    So nothing but the messages is decided, in a turn that has no lease."""
    client = await stage.client()
    await client.execute(Account, Deposit("a", 100))
    store = client._core.store
    read_inbox, commit = store.read_inbox, store.commit
    reading, committing = Gate(), Gate()

    async def read(instance_id: str) -> Sequence[Message]:
        await reading.pass_through()
        return await read_inbox(instance_id)

    async def write(turns: Sequence[Turn]) -> list[TurnReceipt]:
        await committing.pass_through()
        return await commit(turns)

    monkeypatch.setattr(store, "read_inbox", read)
    monkeypatch.setattr(store, "commit", write)
    with lost(stage):
        await client.send(Account, Deposit("a", 50))
        asking = asyncio.ensure_future(client.execute(Account, Withdraw("a", 10)))
        await reading.reached()
        asking.cancel()
        await asyncio.wait([asking])
        reading.opened.set()
        await committing.reached()
    committing.opened.set()
    await client._core.turns()._background.drain()

    assert await movements(client, "a") == [100]
    assert await check(client._core.store) == []


async def test_states_that_were_read_before_the_store_has_gone_back_are_let_go(
    stage: Stage,
) -> None:
    client = await stage.client()
    for account in "abc":
        await client.execute(Account, Deposit(account, 100))
    hot = client._core.turns().hot
    assert len(hot) == 3

    for identity in ("before", "after"):
        client._core.store.epoch.meet(identity)
    await client.execute(Account, Deposit("a", 50))

    assert [one.execution.instance_id for one in hot] == ["account:a"]
    assert await movements(client, "a") == [100, 50]


SCRIPT: list[Deposit | Withdraw] = [
    Deposit("a", 100),
    Withdraw("a", 30),
    Deposit("b", 50),
    Withdraw("a", 60),
    Withdraw("b", 50),
    Deposit("a", 5),
    Withdraw("a", 15),
    Withdraw("b", 1),
]


@pytest.mark.sqlite_only("a backup is put back in place")
@pytest.mark.parametrize("lost_one", range(len(SCRIPT)))
async def test_whatever_commit_is_lost_what_is_told_afterwards_is_stored(
    stage: Stage, lost_one: int
) -> None:
    """Two processes take turns, so that one of them remembers what the store has lost."""
    clients = [await stage.client(), await stage.client()]
    told: list[tuple[Deposit | Withdraw, object]] = []
    for number, one in enumerate([*SCRIPT, *SCRIPT]):
        client = clients[number % 2]
        if number == lost_one:
            with lost(stage):
                await client.execute(Account, one)
        else:
            told.append((one, await client.execute(Account, one)))

    moved: dict[str, list[int]] = {"a": [], "b": []}
    for one, answer in told:
        amount = one.amount if isinstance(one, Deposit) else -one.amount
        if sum(moved[one.account]) + amount < 0:
            assert answer == Rejected("too little")
        else:
            moved[one.account].append(amount)
            assert isinstance(answer, Accepted)
            assert answer.state == sum(moved[one.account])
    assert {name: await movements(clients[0], name) for name in moved} == moved
    assert await check(clients[1]._core.store) == []


@pytest.mark.sqlite_only("a file is put in the place of the one that is open")
@pytest.mark.parametrize("is_removed", [False, True], ids=["replaced", "removed"])
async def test_nothing_is_told_to_be_written_to_a_file_that_is_no_longer_there(
    stage: Stage, tmp_path: Path, is_removed: bool
) -> None:
    client = await stage.client()
    await client.execute(Account, Deposit("a", 100))
    path = Path(stage.url.removeprefix("sqlite:///"))
    backup = tmp_path / "backup.db"
    with closing(sqlite3.connect(backup)) as copy, closing(sqlite3.connect(path)) as file:
        file.backup(copy)
    old = tmp_path / "old.db"
    os.rename(path, old)
    if not is_removed:
        os.rename(backup, path)

    with pytest.raises(StoreCorruptError, match="was replaced or removed while it was open"):
        await client.execute(Account, Deposit("a", 50))
    with pytest.raises(StoreCorruptError, match="was replaced or removed while it was open"):
        await movements(client, "a")

    # What follows looks at the file that was open.
    os.rename(old, path)
    assert await movements(client, "a") == [100]
