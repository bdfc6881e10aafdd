"""Messages that were sent inside transactions of users, on their way to the inboxes: in order, and
in nobody's way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import asyncpg
import pytest

from perdure.clock import ManualClock
from perdure.model.hints import Hint
from perdure.model.instances import part_of
from perdure.model.messages import Delivery
from perdure.store.base import TurnLease
from perdure.store.epoch import Epoch
from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import PostgresConnection
from perdure.store.postgres.lane import Lane
from perdure.store.postgres.notifications import Notifications
from perdure.store.postgres.store import PostgresStore
from perdure.store.postgres.within import arrivals as arrivals_module
from perdure.store.postgres.within.arrivals import (
    MOST_WAITS,
    Arrivals,
    Moved,
    let_arrive,
    put_on_the_way,
)
from perdure.store.sql.commits.batch import Operation, Transaction
from tests.contract.store_values import (
    LEASE_MS,
    accepted,
    begun,
    claim,
    message,
    new_instance,
    turn_of,
)
from tests.engine.stage import until
from tests.sizes import WITHIN_S

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

MAKE = """
INSERT INTO perdure.live (part, instance_id, incarnation, execution, next_seq, lease,
    lease_until_ms, last_no, last_at_ms, last_commit, attempts)
VALUES ($1, $2, 0, 0, 0, 0, 0, 0, 0, 0, 0)
"""
SIGNALS = """
SELECT instance_id, body FROM perdure.inbox WHERE kind = 'signal' ORDER BY instance_id, no
"""


def to(instance_id: str, body: bytes = b"null") -> Delivery:
    return Delivery(instance_id=instance_id, kind="signal", body=body, if_absent="buffer")


class Desk:
    """Moves arrivals with a lane, one transaction after another, and keeps what came of each."""

    def __init__(self, address: Address) -> None:
        self.lane = Lane(address, clock=ManualClock(), epoch=Epoch(), stirred=lambda hints: None)
        self.holder = PostgresConnection(address)
        self.arrivals = Arrivals(address, Notifications(address, own=""), self._work)
        self.results: list[Moved] = []

    async def _work(self, run: Callable[[Transaction], Any], **_: object) -> Any:
        [result] = await asyncio.to_thread(self.lane.execute, [Operation(run)])
        self.results.append(result)
        return result

    def send(self, *sent: Delivery) -> None:
        self.lane.execute([Operation(lambda t: put_on_the_way(t, sent))])

    def move(self) -> list[Moved]:
        """Move what can be; return what came of each transaction."""
        self.results = []
        asyncio.run(self.arrivals._move_all())
        return self.results

    def signals(self) -> list[tuple[Any, ...]]:
        return self.holder.run_own(SIGNALS, ())

    def left(self) -> int:
        [(count,)] = self.holder.run_own("SELECT count(*) FROM perdure.arrivals", ())
        return int(count)

    def close(self) -> None:
        self.holder.close()
        self.lane.close()


@pytest.fixture
def desk(postgres_url: str) -> Iterator[Desk]:
    desk = Desk(Address.parse(postgres_url))
    yield desk
    desk.close()


@pytest.fixture
def after(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that has another called once, after a statement."""

    def arrange(name: str, other: Callable[[], Any]) -> None:
        run = PostgresConnection.run

        def run_and_let_in(
            self: PostgresConnection, asked: str, /, **params: Any
        ) -> list[tuple[Any, ...]]:
            found = run(self, asked, **params)
            if asked == name:
                monkeypatch.setattr(PostgresConnection, "run", run)
                other()
            return found

        monkeypatch.setattr(PostgresConnection, "run", run_and_let_in)

    return arrange


# -------------------------------------------------------------------------- one mover


@pytest.mark.parametrize("moved_by", ["a worker", "its sender"])
def test_a_message_on_its_way_to_an_instance_that_begins_and_is_locked_meanwhile_is_not_lost(
    desk: Desk, after: Callable[..., None], postgres_url: str, moved_by: str
) -> None:
    there = Lane(
        Address.parse(postgres_url), clock=ManualClock(), epoch=Epoch(), stirred=lambda hints: None
    )
    desk.send(to("i"))

    def begin_and_lock() -> None:
        there.execute([new_instance("i")])
        desk.holder.run_script("BEGIN; SELECT 1 FROM perdure.live FOR UPDATE")

    def move() -> None:
        if moved_by == "a worker":
            desk.move()
        else:
            desk.lane.execute([Operation(lambda t: let_arrive(t, "i"))])

    after("find_arrivals" if moved_by == "a worker" else "take_arrivals", begin_and_lock)

    move()
    on_the_way = desk.left()
    desk.holder.run_script("ROLLBACK")
    move()
    there.close()

    assert on_the_way == 1
    assert desk.signals() == [("i", b"null")]


@pytest.mark.parametrize("is_freed", [False, True], ids=["locked", "freed meanwhile"])
def test_many_messages_on_their_way_to_a_locked_instance_hold_up_no_others_and_keep_their_order(
    desk: Desk, after: Callable[..., None], monkeypatch: pytest.MonkeyPatch, is_freed: bool
) -> None:
    monkeypatch.setattr(arrivals_module, "AT_ONCE", 2)
    monkeypatch.setattr(arrivals_module, "MOST_LOOKS", 3)
    desk.lane.execute([new_instance("i"), new_instance("j")])
    many = [to("i", b"%d" % number) for number in range(10, 30)]
    desk.send(*many, to("j", b"4"))
    desk.holder.run_script("BEGIN; SELECT 1 FROM perdure.live WHERE instance_id = 'i' FOR UPDATE")
    if is_freed:
        after("find_arrivals", lambda: desk.holder.run_script("ROLLBACK"))

    desk.lane.execute([Operation(desk.arrivals._move)])
    moved = desk.signals()
    if not is_freed:
        desk.holder.run_script("ROLLBACK")
    desk.move()

    assert moved == [("j", b"4")]
    assert desk.signals() == [*(("i", one.body) for one in many), ("j", b"4")]


def test_a_message_that_cannot_be_read_keeps_back_what_follows_to_its_instance_and_nothing_else(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.send(to("i", b"1"))
    desk.holder.run_own("UPDATE perdure.arrivals SET body = 'nonsense'", ())
    desk.send(to("i", b"2"), to("j", b"3"))

    with caplog.at_level(logging.WARNING):
        desk.move()
        desk.move()
    moved = desk.signals()
    desk.holder.run_own("DELETE FROM perdure.arrivals WHERE body = 'nonsense'", ())
    desk.move()

    assert moved == [("j", b"3")]
    assert desk.signals() == [("i", b"2"), ("j", b"3")]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "cannot be read" in said[0]


def test_instances_that_open_transactions_are_about_to_start_are_waited_for_a_few_at_a_time(
    desk: Desk,
) -> None:
    ids = [f"new-{number:02}" for number in range(3 * MOST_WAITS)]
    desk.holder.run_script("BEGIN")
    for instance_id in ids:
        desk.holder.run_own(MAKE, (part_of(instance_id), instance_id))
    desk.send(*(to(instance_id) for instance_id in ids), to("last"))

    found_out = desk.move()
    moved = desk.signals()
    known = desk.move()
    desk.holder.run_script("ROLLBACK")
    while desk.left():
        desk.move()

    assert moved == [("last", b"null")]
    assert [one.waits for one in found_out] == [MOST_WAITS, MOST_WAITS, MOST_WAITS, 0]
    # Each alone, and those for which it was longest ago; then all the others, without waiting.
    assert [one.waits for one in known] == [*[1] * MOST_WAITS, 0]
    assert [one for one, _ in desk.signals()] == ["last", *ids]


# ------------------------------------------------------------------ beside everything else


@pytest.fixture
async def postgres_store(postgres_url: str, clock: ManualClock) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(Address.parse(postgres_url), clock=clock)
    await store.open()
    yield store
    await store.close()


async def send(url: str, *sent: Delivery) -> None:
    def put() -> None:
        lane = Lane(
            Address.parse(url), clock=ManualClock(), epoch=Epoch(), stirred=lambda hints: None
        )
        lane.execute([Operation(lambda t: put_on_the_way(t, sent))])
        lane.close()

    await asyncio.to_thread(put)


@asynccontextmanager
async def about_to_start(raw: Connection, instance_id: str) -> AsyncIterator[None]:
    """A transaction of a user's that has started an instance, and stays open."""
    transaction = raw.transaction()
    await transaction.start()
    await raw.execute(MAKE, part_of(instance_id), instance_id)
    async with asyncio.timeout(WITHIN_S):
        yield
    await transaction.rollback()


async def test_who_moves_messages_keeps_nobody_waiting_who_claims_renews_or_commits(
    postgres_store: PostgresStore,
    raw: Connection,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = postgres_store
    monkeypatch.setattr(arrivals_module, "LOCK_SHORTLY", "10min")
    await store.start([new_instance("i")])
    for other in ("j", "k"):
        await begun(store, other)

    async with about_to_start(raw, "new"):
        await send(postgres_url, to("new"))
        [claimed] = await claim(store)
        lease = TurnLease(claimed.instance_id, claimed.lease)
        lost = await store.renew([lease], [], lease_ms=LEASE_MS)
        await accepted(store, turn_of(claimed))
        delivered = await store.deliver([message("j"), message("k")])
        is_moving = store._arrivals._moving is not None and not store._arrivals._moving.done()

    assert lost == ([], [])
    assert delivered == ["delivered", "delivered"]
    assert is_moving


async def test_a_claim_that_did_not_wait_is_told_when_messages_were_moved(
    postgres_store: PostgresStore,
    raw: Connection,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = postgres_store
    monkeypatch.setattr(arrivals_module, "LOCK_SHORTLY", "10min")
    monkeypatch.setattr(arrivals_module, "CLAIM_WITHIN_S", 0)
    before = store.change_count(Hint.WORK)
    async with about_to_start(raw, "new"):
        await send(postgres_url, to("new"))
        assert await claim(store) == []
        await until(lambda: store._arrivals._moving is not None)

    await until(lambda: store.change_count(Hint.WORK) > before)
    async with asyncio.timeout(WITHIN_S):
        await until(lambda: store.read_inbox("new"))


async def test_a_sender_whose_instance_is_locked_waits_for_its_message_and_holds_up_no_other(
    postgres_store: PostgresStore, raw: Connection, postgres_url: str
) -> None:
    store = postgres_store
    await begun(store, "i")
    await begun(store, "j")
    async with raw.transaction(), asyncio.timeout(WITHIN_S):
        await raw.execute("SELECT FROM perdure.live WHERE instance_id = 'i' FOR UPDATE")
        await send(postgres_url, to("i"), to("j"))
        arriving = asyncio.ensure_future(store._arrivals.arrive("i", "3"))

        assert await store._arrivals.arrive("j", "3")
        assert not arriving.done()

    assert await arriving
    assert [one.kind for one in await store.read_inbox("i")] == ["signal"]
