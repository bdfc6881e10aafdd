"""Streams: sent and read as what they were declared."""

from __future__ import annotations

from typing import Literal, assert_type

from perdure import BlockingClient, Client, Item, Stream
from typing_tests.shop import Order

words = Stream("words", str)
orders = Stream("orders", Order)
maybe = Stream("maybe", int | None)
level = Stream("level", Literal["low", "high"])


def the_type_is_inferred() -> None:
    assert_type(words, Stream[str])
    assert_type(orders, Stream[Order])
    assert_type(maybe, Stream[int | None])
    assert_type(level, Stream[Literal["low", "high"]])
    assert_type(words.name, str)


async def what_is_sent_is_of_the_type() -> None:
    words.send("a")
    maybe.send(None)
    level.send("low")
    await words.flush()
    words.send(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    words.send(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    level.send("middle")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    words.send(value="a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    words.send()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def what_is_read_is_of_the_type(client: Client) -> None:
    handle = client.handle("o-1")
    reader = handle.stream(orders, after=3)
    async for item in reader:
        assert_type(item, Item[Order])
        assert_type(item.value, Order)
        assert_type(item.index, int)
        assert_type(item.discards_from, int | None)
        assert_type(item.number, int | None)
    assert_type(reader.discards_from, int | None)
    assert_type([one.items for one in await handle.streams()], list[int])
    handle.stream("orders")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    handle.stream(orders, 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    handle.stream(orders, after="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def callers_that_wait_iterate(client: BlockingClient) -> None:
    for item in client.handle("o-1").stream(words):
        assert_type(item, Item[str])


def an_item_is_not_changed(item: Item[str]) -> None:
    item.number = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    item.value = "b"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    given: Item[object] = item
    assert given is item
