"""The blocking client: the same types, nothing to await."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_type

from perdure import BlockingClient, Orchestration
from perdure.client.blocking import BlockingHandle
from perdure.client.info import HistoryEvent, InstanceInfo
from typing_tests.shop import No, Order, Receipt, answer, approved, charge, checkout, ship

remote = Orchestration.named("checkout", Receipt)


def opening() -> None:
    with BlockingClient("sqlite:///shop.db") as client:
        assert_type(client, BlockingClient)
    client = BlockingClient("sqlite:///shop.db").open()
    assert_type(client, BlockingClient)
    client.close()


def starting_gives_a_typed_handle(client: BlockingClient, order: Order) -> None:
    assert_type(client.start("o-1", checkout, order), BlockingHandle[Receipt])
    assert_type(client.start("o-1", checkout, order, gift=True), BlockingHandle[Receipt])
    assert_type(client.start(checkout, order), BlockingHandle[Receipt])
    assert_type(client.start(ship, order, days=3), BlockingHandle[str])
    assert_type(client.start("o-1", remote, "anything"), BlockingHandle[Receipt])
    assert_type(client.handle("o-1", checkout), BlockingHandle[Receipt])
    assert_type(client.handle("o-1"), BlockingHandle[Any])


def asking(handle: BlockingHandle[Receipt]) -> None:
    assert_type(handle.instance_id, str)
    assert_type(handle.result(), Receipt)
    assert_type(handle.result(timeout=timedelta(seconds=30)), Receipt)
    assert_type(handle.info(), InstanceInfo)
    assert_type(handle.history(), list[HistoryEvent])
    assert_type(handle.explain(), str)
    handle.cancel("no longer needed")
    handle.terminate(reason="stuck")
    handle.send(approved, True)
    handle.send(answer, No("dear"), message_id="m-1")


def handles_are_covariant(handle: BlockingHandle[bool]) -> BlockingHandle[int]:
    return handle


# --- misuses


def wrong_starts(client: BlockingClient, order: Order) -> None:
    client.start("o-1", checkout)
    client.start("o-1", checkout, "o-1")
    client.start("o-1", checkout, order, wrapped=True)
    client.start(checkout)
    client.start(checkout, "o-1")
    client.start("o-1", charge, order)
    client.handle("o-1", charge)
    client.handle(3)


def wrong_results(client: BlockingClient, order: Order, handle: BlockingHandle[Receipt]) -> None:
    a: BlockingHandle[str] = client.start("o-1", checkout, order)
    b: str = handle.result()
    c: BlockingHandle[str] = client.handle("o-1", checkout)
    print(a, b, c)


def wrong_questions(handle: BlockingHandle[Receipt]) -> None:
    handle.result(timeout=30)
    handle.result(timedelta(seconds=30))
    handle.cancel(3)
    handle.send(approved, "yes")
    handle.send(answer, True)
    handle.send("approved", True)
    handle.send(approved)


async def nothing_to_await(client: BlockingClient, handle: BlockingHandle[Receipt]) -> None:
    await handle.result()
    await client.open()
    async with client:
        pass


def only_for_handles(client: BlockingClient) -> None:
    client.store
    client.deliver([])
    client.wait_ended("o-1")


def wrong_openings(url: str) -> None:
    BlockingClient()
    BlockingClient(3)
    BlockingClient(url=url)
    BlockingClient(url, [checkout])
