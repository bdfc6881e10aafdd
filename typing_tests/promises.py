"""Promises: kept with what they were declared; and acts on many, with the filters of lists."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import assert_type

from perdure import BlockingClient, Client, Promise, Signal
from perdure.authoring.promise import Made
from perdure.web import hooks
from typing_tests.shop import No, Order, Yes, approved, use

paid = Promise("paid", Order)
reply = Promise("reply", Yes | No)


def the_type_is_inferred() -> None:
    assert_type(paid, Promise[Order])
    assert_type(reply, Promise[Yes | No])
    assert_type(paid.name, str)


async def receiving_gives_the_type() -> None:
    due = paid.make()
    assert_type(due, Made[Order])
    assert_type(due.token, str)
    waiting: Coroutine[object, None, Order] = due.receive()
    assert_type(await waiting, Order)
    match await reply.make().receive():
        case Yes(by):
            assert_type(by, str)
        case No(why):
            assert_type(why, str)


async def keeping(client: Client, blocking: BlockingClient, order: Order, token: str) -> None:
    assert_type(await client.resolve(paid, token, order), bool)
    assert_type(await client.reject(token, "no"), bool)
    assert_type(blocking.resolve(paid, token, order), bool)
    assert_type(blocking.reject(token, "no"), bool)
    use(hooks(client, [paid, reply]))


async def many_at_once(client: Client, blocking: BlockingClient) -> None:
    assert_type(await client.cancel_all(expect=3, name="order", reason="over"), int)
    assert_type(await client.terminate_all(expect=3, prefix="order-"), int)
    sent = await client.signal_all(approved, True, expect=3, message_id="m", name="order")
    assert_type(sent, int)
    assert_type(await client.unpark_all(expect=3, name="order"), int)
    assert_type(blocking.retry_all(expect=3, status="failed"), int)


# ----------------------------------------------- misuses: every marked line is refused


def wrong_declarations() -> None:
    Promise("paid")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Promise(Order, "paid")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    Promise(name="paid", type=Order)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


async def wrong_values(client: Client, order: Order, token: str, go: Signal[bool]) -> None:
    await client.resolve(paid, token, "order")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await client.resolve(go, token, True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await client.resolve("paid", token, order)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await client.resolve(paid, 7, order)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await client.reject(token)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await client.reject(paid, token, "no")  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]
    wrong: Promise[object] = paid  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    use(wrong)
    hooks(client, paid)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def wrong_acts(client: Client) -> None:
    await client.cancel_all(name="order")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await client.terminate_all(expect="3", name="order")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await client.cancel_all(expect=3, colour="red")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await client.signal_all(approved, "yes", expect=3, message_id="m", name="order")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await client.signal_all(approved, True, expect=3, name="order")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
