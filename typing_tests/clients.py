"""Clients and handles: starting, asking, sending."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, assert_type

from perdure import Activity, Client, Handle, Orchestration, Signal, Status
from perdure.client.info import HistoryEvent, InstanceInfo
from typing_tests.shop import No, Order, Receipt, Yes, answer, approved, charge, checkout, ship

remote = Orchestration.named("checkout", Receipt)


async def opening() -> None:
    async with Client("sqlite:///shop.db") as client:
        assert_type(client, Client)
    client = await Client("sqlite:///shop.db").open()
    assert_type(client, Client)
    await client.close()


async def starting_gives_a_typed_handle(client: Client, order: Order) -> None:
    assert_type(await client.start("o-1", checkout, order), Handle[Receipt])
    assert_type(await client.start("o-1", checkout, order, gift=True), Handle[Receipt])
    assert_type(await client.start("o-1", checkout, order=order), Handle[Receipt])
    assert_type(await client.start(checkout, order), Handle[Receipt])
    assert_type(await client.start(checkout, order, gift=True), Handle[Receipt])
    assert_type(await client.start("s-1", ship, order, 3), Handle[str])
    assert_type(await client.start(ship, order, days=3), Handle[str])
    assert_type(
        await client.start("o-1", checkout.with_options(if_exists="fail"), order), Handle[Receipt]
    )
    assert_type(await client.start("o-1", remote, "anything", x=3), Handle[Receipt])
    assert_type(await client.start(remote, "anything"), Handle[Receipt])


async def no_keyword_is_reserved(
    client: Client, mine: Orchestration[[Order], str], other: Orchestration[..., str]
) -> None:
    assert_type(await client.start(other, instance_id="x", orchestration=3, first=1), Handle[str])
    assert_type(await client.start(mine, Order("a", 1)), Handle[str])


def handles_are_typed_by_their_orchestration(client: Client) -> None:
    assert_type(client.handle("o-1", checkout), Handle[Receipt])
    assert_type(client.handle("s-1", ship), Handle[str])
    assert_type(client.handle("o-1", remote), Handle[Receipt])
    assert_type(client.handle("o-1"), Handle[Any])


async def asking(client: Client, handle: Handle[Receipt]) -> None:
    assert_type(handle.instance_id, str)
    assert_type(await handle.result(), Receipt)
    assert_type(await handle.result(timeout=timedelta(seconds=30)), Receipt)
    assert_type(await client.handle("o-1").result(), Any)
    assert_type(await handle.explain(), str)
    assert_type(await handle.history(), list[HistoryEvent])
    info = await handle.info()
    assert_type(info, InstanceInfo)
    assert_type(info.status, Status)
    assert_type(info.created_at, datetime)
    await handle.cancel()
    await handle.cancel("no longer needed")
    await handle.terminate()
    await handle.terminate(reason="stuck")


async def sending(handle: Handle[Receipt]) -> None:
    await handle.send(approved, True)
    await handle.send(answer, Yes("ada"))
    await handle.send(answer, No("dear"))
    await handle.send(approved, True, message_id="m-1")


def handles_are_covariant(handle: Handle[bool]) -> Handle[int]:
    return handle


# --- misuses


async def wrong_starts(client: Client, order: Order) -> None:
    await client.start("o-1", checkout)
    await client.start("o-1", checkout, "o-1")
    await client.start("o-1", checkout, order, True)
    await client.start("o-1", checkout, order, gift="yes")
    await client.start("o-1", checkout, order, wrapped=True)
    await client.start("s-1", ship, order, "3")
    await client.start(checkout)
    await client.start(checkout, "o-1")
    await client.start(checkout, order, wrapped=True)
    await client.start(3, checkout, order)
    await client.start(checkout, "o-1", order)
    await client.start("o-1")
    await client.start("o-1", "checkout", order)
    await client.start("o-1", charge, order)
    await client.start("o-1", checkout.fn, order)
    await client.start(instance_id="o-1", orchestration=checkout, order=order)
    await client.start()


async def starts_nobody_awaits(client: Client, order: Order) -> None:
    client.start("o-1", checkout, order)
    client.start(checkout, order)


async def wrong_results(client: Client, order: Order, handle: Handle[Receipt]) -> None:
    a: Handle[str] = await client.start("o-1", checkout, order)
    b: str = await handle.result()
    c: Receipt = handle.result()
    d: Handle[str] = client.handle("o-1", checkout)
    e: Handle[bool] = client.handle("s-1", ship)
    f: Receipt = await client.start(checkout, order)
    print(a, b, c, d, e, f)


async def wrong_questions(client: Client, handle: Handle[Receipt]) -> None:
    await handle.result(timeout=30)
    await handle.result(timedelta(seconds=30))
    await handle.cancel(3)
    await handle.terminate(None)
    client.handle(3)
    client.handle("o-1", charge)
    client.handle("o-1", "checkout")
    client.handle("o-1", checkout, 3)
    client.handle(instance_id="o-1")
    await client.handle("o-1", checkout).report()


async def questions_nobody_awaits(client: Client, handle: Handle[Receipt]) -> None:
    handle.result()
    handle.cancel()
    handle.terminate()
    handle.info()
    handle.history()
    handle.explain()
    handle.send(approved, True)
    client.close()
    client.open()


async def wrong_signals(handle: Handle[Receipt], any_of: Signal[list[int]]) -> None:
    await handle.send(approved, "yes")
    await handle.send(approved, None)
    await handle.send(answer, "yes")
    await handle.send(answer, True)
    await handle.send(any_of, ["a"])
    await handle.send(approved)
    await handle.send("approved", True)
    await handle.send(True, approved)
    await handle.send(signal=approved, value=True)
    await handle.send(approved, True, "m-1")
    await handle.send(approved, True, message_id=3)


def wrong_openings(url: str) -> None:
    Client()
    Client(3)
    Client(url=url)
    Client(url, [checkout])
    with Client(url) as client:
        print(client)


def an_activity_is_no_orchestration(mine: Activity[[], int]) -> Orchestration[[], int]:
    return mine


def handles_are_not_contravariant(handle: Handle[int]) -> Handle[bool]:
    return handle
