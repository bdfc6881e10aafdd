"""Two processes that write to PostgreSQL at the same moment, step by step.

What the second one does happens at a chosen point inside the transaction of the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from perdure.clock import ManualClock
from perdure.errors import StoreUnavailableError
from perdure.model.instances import Status, part_of
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.turns import TurnStatus
from perdure.store.batching import LATER
from perdure.store.epoch import Epoch
from perdure.store.opening import open_store
from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import PostgresConnection, connect
from perdure.store.postgres.lane import Lane
from tests.contract.store_values import COMPLETED, STARTED, first_turn, new_instance, outcome

Lanes = tuple[Lane, Lane]
MESSAGE = Delivery(instance_id="i", kind="signal", body=b"null", if_absent="buffer")
MAKE = """
INSERT INTO perdure.live (part, instance_id, incarnation, execution, next_seq, lease,
    lease_until_ms, last_no, last_at_ms, last_commit, attempts)
VALUES ($1, $2, 0, 0, 0, 0, 0, 0, 0, 0, 0)
"""


def to(instance_id: str, body: bytes) -> Delivery:
    return Delivery(instance_id=instance_id, kind="signal", body=body, if_absent="buffer")


@pytest.fixture
def lanes(postgres_url: str) -> Iterator[Lanes]:
    address = Address.parse(postgres_url)
    clock = ManualClock()
    both = (
        Lane(address, clock=clock, epoch=Epoch(), stirred=lambda hints: None),
        Lane(address, clock=clock, epoch=Epoch(), stirred=lambda hints: None),
    )
    yield both
    for lane in both:
        lane.close()


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Return a function that has another called once, after so many loads of rows."""

    def arrange(other: Callable[[], Any], *, loads: int = 1) -> list[Any]:
        load, results, left = PostgresConnection.load, [], [None] * loads

        def load_and_let_in(
            self: PostgresConnection, asked: Sequence[tuple[str, str]]
        ) -> list[str]:
            found = load(self, asked)
            left.pop()
            if left:
                return found
            monkeypatch.setattr(PostgresConnection, "load", load)
            results.append(other())
            return found

        monkeypatch.setattr(PostgresConnection, "load", load_and_let_in)
        return results

    return arrange


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


def live_rows(lane: Lane) -> list[tuple[Any, ...]]:
    assert lane._connection is not None
    return lane._connection.run_own("SELECT instance_id FROM perdure.live", ())


def test_a_message_to_an_instance_that_is_just_being_started_is_delivered(
    lanes: Lanes, between: Callable[..., list[Any]]
) -> None:
    here, there = lanes
    started = between(lambda: there.execute([new_instance()]))

    found = here.execute([MESSAGE])
    again = here.execute([MESSAGE])

    assert started == [[None]]
    assert (found, again) == ([LATER], [DeliveryStatus.DELIVERED])


@pytest.mark.parametrize("loads", [1, 2])
def test_a_message_to_an_instance_that_begins_and_ends_meanwhile_is_told_so(
    lanes: Lanes, between: Callable[..., list[Any]], loads: int
) -> None:
    here, there = lanes
    start = new_instance()
    done = first_turn(start, events=(STARTED, COMPLETED), outcome=outcome(Status.COMPLETED))
    ended = between(lambda: there.execute([done]), loads=loads)

    status = here.execute([MESSAGE])

    assert [receipt.status for [receipt] in ended] == [TurnStatus.ACCEPTED]
    assert status == [DeliveryStatus.ENDED]
    assert live_rows(here) == []


def test_an_instance_that_begins_and_ends_takes_the_message_that_came_meanwhile_with_it(
    lanes: Lanes, between: Callable[..., list[Any]]
) -> None:
    here, there = lanes
    start = new_instance()
    done = first_turn(start, events=(STARTED, COMPLETED), outcome=outcome(Status.COMPLETED))
    sent = between(lambda: there.execute([MESSAGE]))

    [receipt] = here.execute([done])

    assert sent == [[DeliveryStatus.BUFFERED]]
    assert receipt.status is TurnStatus.ACCEPTED
    assert live_rows(here) == []


def test_two_that_start_the_same_id_at_once_agree_on_who_did(
    lanes: Lanes, between: Callable[..., list[Any]]
) -> None:
    here, there = lanes
    first, second = new_instance(), new_instance()
    started = between(lambda: there.execute([first]))

    [row] = here.execute([second])

    assert started == [[None]]
    assert row.incarnation == first.incarnation


def test_two_that_buffer_a_message_for_the_same_id_at_once_both_do(
    lanes: Lanes, between: Callable[..., list[Any]]
) -> None:
    here, there = lanes
    sent = between(lambda: there.execute([MESSAGE]))

    found = here.execute([MESSAGE])
    again = here.execute([MESSAGE])

    assert sent == [[DeliveryStatus.BUFFERED]]
    assert (found, again) == ([LATER], [DeliveryStatus.BUFFERED])


def test_an_instance_that_somebody_has_locked_holds_up_nobody_else(
    lanes: Lanes, postgres_url: str
) -> None:
    lane, _ = lanes
    lane.execute([new_instance("locked"), new_instance("free")])
    holder = PostgresConnection(Address.parse(postgres_url))
    holder.run_script("BEGIN; SELECT 1 FROM perdure.live WHERE instance_id = 'locked' FOR UPDATE")
    messages = [
        Delivery(instance_id=one, kind="signal", body=b"null", if_absent="buffer")
        for one in ("locked", "free", "new")
    ]

    meanwhile = lane.execute(messages)
    holder.run_script("ROLLBACK")
    after = lane.execute(messages[:1])
    holder.close()

    assert meanwhile == [LATER, DeliveryStatus.DELIVERED, DeliveryStatus.BUFFERED]
    assert after == [DeliveryStatus.DELIVERED]


def test_what_is_put_off_is_not_overtaken_when_the_rest_of_its_batch_is_run_again(
    lanes: Lanes, postgres_url: str, between: Callable[..., list[Any]]
) -> None:
    lane, _ = lanes
    lane._hurry_until_s = float("inf")
    maker = PostgresConnection(Address.parse(postgres_url))
    maker.run_script("BEGIN")
    maker.run_own(MAKE, (part_of("i"), "i"))
    batch = [to("i", b"1"), to("i", b"2"), to("j", b"3")]

    def hang_up() -> None:
        assert lane._connection is not None
        lane._connection._connection.terminate()

    # The whole batch waits in vain for what the other is about to make, and so does its first
    # half. What is behind that is left out, and the rest meets a server that is gone.
    between(hang_up, loads=9)
    with pytest.raises(StoreUnavailableError):
        lane.execute(batch)
    maker.run_script("ROLLBACK")
    maker.close()
    results = lane.execute(batch)

    assert results == [DeliveryStatus.BUFFERED] * 3


def test_what_is_put_off_is_not_overtaken_though_its_lock_is_gone_a_moment_later(
    lanes: Lanes, postgres_url: str, between: Callable[..., list[Any]]
) -> None:
    lane, _ = lanes
    lane._hurry_until_s = float("inf")
    maker = PostgresConnection(Address.parse(postgres_url))
    maker.run_script("BEGIN")
    maker.run_own(MAKE, (part_of("i"), "i"))

    # Four loads of the whole batch, four of its first half: the next would be of the second.
    between(lambda: maker.run_script("ROLLBACK"), loads=9)
    results = lane.execute([to("i", b"1"), to("i", b"2")])

    maker.close()
    assert results == [LATER, LATER]


def test_what_is_through_is_not_run_again_when_the_rest_of_its_batch_is(
    lanes: Lanes, postgres_url: str, between: Callable[..., list[Any]]
) -> None:
    lane, _ = lanes
    lane._hurry_until_s = float("inf")
    maker = PostgresConnection(Address.parse(postgres_url))
    maker.run_script("BEGIN")
    maker.run_own(MAKE, (part_of("i"), "i"))
    batch = [to("free", b"1"), to("i", b"2")]

    def hang_up() -> None:
        assert lane._connection is not None
        lane._connection._connection.terminate()

    between(hang_up, loads=9)
    with pytest.raises(StoreUnavailableError):
        lane.execute(batch)
    maker.run_script("ROLLBACK")
    results = lane.execute(batch)

    inbox = maker.run_own("SELECT instance_id FROM perdure.inbox ORDER BY instance_id", ())
    maker.close()
    assert results == [DeliveryStatus.BUFFERED] * 2
    assert [instance_id for (instance_id,) in inbox] == ["free", "i"]


async def test_what_is_put_off_is_done_when_the_lock_is_gone(postgres_url: str) -> None:
    address = Address.parse(postgres_url)
    store = open_store(postgres_url)
    await store.open()
    await store.start([new_instance("locked")])
    holder = await connect(address)
    await holder.execute("BEGIN")
    await holder.execute("SELECT 1 FROM perdure.live WHERE instance_id = 'locked' FOR UPDATE")
    message = Delivery(instance_id="locked", kind="signal", body=b"null", if_absent="buffer")

    waiting = asyncio.ensure_future(store.deliver([message]))
    impatient = asyncio.ensure_future(store.deliver([message], patience_s=0.05))
    with pytest.raises(StoreUnavailableError, match="nothing was written within"):
        await impatient
    assert not waiting.done()
    await holder.execute("ROLLBACK")

    assert await waiting == [DeliveryStatus.DELIVERED]
    assert len(await store.read_inbox("locked")) == 2  # the start and one message
    await holder.close()
    await store.close()
