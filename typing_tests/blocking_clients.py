"""The blocking client: the same types, nothing to await."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_type

from perdure import BlockingClient, Orchestration
from perdure.client.blocking.client import BlockingHandle
from perdure.client.histories.history import History
from perdure.client.reading.info import InstanceInfo
from typing_tests.shop import No, Order, Receipt, answer, approved, charge, checkout, ship, use

remote = Orchestration.named("checkout", Receipt)


def opening() -> None:
    with BlockingClient("sqlite:///shop.db") as client:
        assert_type(client, BlockingClient)
    client = BlockingClient("sqlite:///shop.db").open()
    assert_type(client, BlockingClient)
    client.close()


def within_a_transaction_everything_has_the_same_types(
    client: BlockingClient, connection: object, order: Order
) -> None:
    within = client.within(connection)
    assert_type(within, BlockingClient)
    assert_type(within.start("o-1", checkout, order), BlockingHandle[Receipt])


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
    assert_type(handle.history(), History)
    assert_type(handle.explain(), str)
    handle.cancel("no longer needed")
    handle.terminate(reason="stuck")
    handle.send(approved, True)
    handle.send(answer, No("dear"), message_id="m-1")


def handles_are_covariant(handle: BlockingHandle[bool]) -> BlockingHandle[int]:
    return handle


# ----------------------------------------------- misuses: every marked line is refused


def wrong_starts(client: BlockingClient, order: Order) -> None:
    client.start("o-1", checkout)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    client.start("o-1", checkout, "o-1")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    client.start("o-1", checkout, order, wrapped=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.start(checkout)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    client.start(checkout, "o-1")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    client.start("o-1", charge, order)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    client.handle("o-1", charge)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    client.handle(3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


def wrong_results(client: BlockingClient, order: Order, handle: BlockingHandle[Receipt]) -> None:
    a: BlockingHandle[str] = client.start("o-1", checkout, order)  # type: ignore[call-overload]  # pyright: ignore[reportAssignmentType]
    b: str = handle.result()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    c: BlockingHandle[str] = client.handle("o-1", checkout)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    use(a, b, c)


def wrong_questions(handle: BlockingHandle[Receipt]) -> None:
    handle.result(timeout="30")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    handle.result(timedelta(seconds=30))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    handle.cancel(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    handle.send(approved, "yes")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    handle.send(answer, True)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    handle.send("approved", True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    handle.send(approved)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def nothing_to_await(client: BlockingClient, handle: BlockingHandle[Receipt]) -> None:
    await handle.result()  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    await client.open()  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    async with client:  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
        use(client)


def only_for_handles(client: BlockingClient) -> None:
    client.deliver([])  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    client.wait_ended("o-1")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def wrong_openings(url: str) -> None:
    BlockingClient()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    BlockingClient(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    BlockingClient(url=url)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    BlockingClient(url, [checkout])  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue]
