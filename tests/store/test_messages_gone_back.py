"""A store that has gone back: a turn over messages that it has lost is not accepted (S47)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from perdure.model.histories.events import Body
from perdure.model.messages import digest_of
from perdure.model.turns import TurnReceipt, TurnStatus
from perdure.store.opening import open_store
from tests.contract.store_values import begun, message, next_turn


async def test_a_turn_over_messages_that_the_store_has_lost_is_refused(tmp_path: Path) -> None:
    """Its instance is as it was, so the stamp fits. Accepted, it would record what was never sent,
    and take away what has that number now."""
    path = tmp_path / "store.db"
    store = open_store(f"sqlite:///{path}")
    await store.open()
    stamp = await begun(store)
    with closing(sqlite3.connect(":memory:")) as saved, closing(sqlite3.connect(path)) as file:
        file.backup(saved)
        await store.deliver([message(text="lost")])
        [lost] = await store.read_inbox("i")
        saved.backup(file)
    await store.deliver([message(text="kept")])
    turn = next_turn(
        "i",
        stamp,
        events=(Body(lost.kind, lost.body),),
        consumed=(lost.no,),
        taken=digest_of([lost], {lost.no}),
        seen_no=lost.no,
    )

    receipts = await store.commit([turn])
    inbox = await store.read_inbox("i")
    await store.close()

    assert receipts == [TurnReceipt(TurnStatus.REFUSED)]
    assert len(inbox) == 1
