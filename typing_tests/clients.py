"""Clients and handles: starting, asking, sending."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypedDict, assert_type

from perdure import Activity, Client, Handle, Orchestration, Signal, Status
from perdure.client.histories.history import History
from perdure.client.reading.info import InstanceInfo
from typing_tests.shop import No, Order, Receipt, Yes, answer, approved, charge, checkout, ship, use

remote = Orchestration.named("checkout", Receipt)


async def opening() -> None:
    async with Client("sqlite:///shop.db") as client:
        assert_type(client, Client)
    client = await Client("sqlite:///shop.db").open()
    assert_type(client, Client)
    await client.close()


async def within_a_transaction_everything_has_the_same_types(
    client: Client, connection: object, order: Order
) -> None:
    within = client.within(connection)
    assert_type(within, Client)
    assert_type(await within.start("o-1", checkout, order), Handle[Receipt])


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


async def a_signal_with_a_start(client: Client, order: Order) -> None:
    assert_type(
        await client.send_with_start(approved, True, "o-1", checkout, order), Handle[Receipt]
    )
    assert_type(
        await client.send_with_start(answer, No("dear"), "o-1", checkout, order, gift=True),
        Handle[Receipt],
    )
    later = ship.with_options(delay=timedelta(hours=1))
    assert_type(await client.start("s-1", later, order), Handle[str])


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
    assert_type(await handle.history(), History)
    info = await handle.info()
    assert_type(info, InstanceInfo)
    assert_type(info.status, Status)
    assert_type(info.created_at, datetime)
    await handle.cancel()
    await handle.cancel("no longer needed")
    await handle.terminate()
    await handle.terminate(reason="stuck")


async def sending(
    handle: Handle[Receipt], ratio: Signal[float], orders: Signal[list[Order]]
) -> None:
    await handle.send(ratio, 3)
    await handle.send(orders, [Order("o-1", 3)])
    await handle.send(payment, Payment(amount=3))
    await handle.send(approved, True)
    await handle.send(answer, Yes("ada"))
    await handle.send(answer, No("dear"))
    await handle.send(approved, True, message_id="m-1")


def handles_are_covariant(handle: Handle[bool]) -> Handle[int]:
    return handle


class Payment(TypedDict):
    amount: int


payment = Signal("payment", Payment)


async def only_mypy_refuses_a_plain_display_for_a_wider_type(
    handle: Handle[Receipt], mixed: Signal[list[int | str]]
) -> None:
    # It infers the display by itself, before it looks at the signal. Name the type, as above.
    await handle.send(payment, {"amount": 3})  # type: ignore[misc]
    await handle.send(mixed, [1])  # type: ignore[misc]
    values: list[int | str] = [1]
    await handle.send(mixed, values)


# ----------------------------------------------- misuses: every marked line is refused


async def wrong_starts(client: Client, order: Order) -> None:
    await client.start("o-1", checkout)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await client.start("o-1", checkout, "o-1")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await client.start("o-1", checkout, order, True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await client.start("o-1", checkout, order, gift="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await client.start("o-1", checkout, order, wrapped=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await client.start("s-1", ship, order, "3")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await client.start(checkout)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await client.start(checkout, "o-1")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await client.start(checkout, order, wrapped=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await client.start(3, checkout, order)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await client.start(checkout, "o-1", order)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await client.start("o-1")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await client.start("o-1", "checkout", order)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await client.start("o-1", charge, order)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await client.start("o-1", checkout.fn, order)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await client.start(instance_id="o-1", orchestration=checkout, order=order)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await client.start()  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


async def wrong_signals_with_a_start(client: Client, order: Order) -> None:
    await client.send_with_start(approved, "yes", "o-1", checkout, order)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await client.send_with_start(approved, True, "o-1", checkout, "o-1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await client.send_with_start(approved, True, "o-1", checkout)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await client.send_with_start(approved, True, checkout, order)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    client.send_with_start(approved, True, "o-1", checkout, order)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


async def starts_nobody_awaits(client: Client, order: Order) -> None:
    client.start("o-1", checkout, order)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    client.start(checkout, order)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


async def wrong_results(client: Client, order: Order, handle: Handle[Receipt]) -> None:
    a: Handle[str] = await client.start("o-1", checkout, order)  # type: ignore[call-overload]  # pyright: ignore[reportAssignmentType]
    b: str = await handle.result()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    c: Receipt = handle.result()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    d: Handle[str] = client.handle("o-1", checkout)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    e: Handle[bool] = client.handle("s-1", ship)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    f: Receipt = await client.start(checkout, order)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    use(a, b, c, d, e, f)


async def wrong_questions(client: Client, handle: Handle[Receipt]) -> None:
    await handle.result(timeout="30")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.result(timedelta(seconds=30))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await handle.cancel(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.terminate(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.handle(3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    client.handle("o-1", charge)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    client.handle("o-1", "checkout")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    client.handle("o-1", checkout, 3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    client.handle(instance_id="o-1")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await client.handle("o-1", checkout).schedule()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def questions_nobody_awaits(client: Client, handle: Handle[Receipt]) -> None:
    handle.result()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    handle.cancel()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    handle.terminate()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    handle.info()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    handle.history()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    handle.explain()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    handle.send(approved, True)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    client.close()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    client.open()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


async def wrong_signals(handle: Handle[Receipt], any_of: Signal[list[int]]) -> None:
    await handle.send(approved, "yes")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await handle.send(approved, None)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await handle.send(answer, "yes")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await handle.send(answer, True)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await handle.send(any_of, ["a"])  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await handle.send(payment, {"amount": "3"})  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await handle.send(payment, {})  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await handle.send(approved)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await handle.send("approved", True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.send(True, approved)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.send(signal=approved, value=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await handle.send(approved, True, "m-1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await handle.send(approved, True, message_id=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def wrong_openings(url: str) -> None:
    Client()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Client(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Client(url=url)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Client(url, [checkout])  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue]
    with Client(url):  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
        pass


def an_activity_is_no_orchestration(mine: Activity[[], int]) -> Orchestration[[], int]:
    return mine  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def handles_are_not_contravariant(handle: Handle[int]) -> Handle[bool]:
    return handle  # type: ignore[return-value]  # pyright: ignore[reportReturnType]
