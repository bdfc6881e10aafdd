"""Updates, keys and queries: both ends have a type."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import assert_type

from perdure import (
    BlockingClient,
    Client,
    Handle,
    InstanceRef,
    Key,
    Query,
    Request,
    Update,
    orchestration,
)
from typing_tests.shop import use


@dataclass(frozen=True)
class Item:
    sku: str
    cents: int


@dataclass(frozen=True)
class Full:
    at: int


add_item = Update("add_item", Item, int | Full)
total = Key("total", int)
cheapest = Query("cheapest", Item | None)
assert_type(add_item, Update[Item, int | Full])
assert_type(total, Key[int])
assert_type(cheapest, Query[Item | None])


@orchestration
async def cart(owner: str) -> int:
    items: list[Item] = []
    cheapest.answer_with(lambda: min(items, key=lambda item: item.cents, default=None))
    async for request in add_item:
        assert_type(request, Request[Item, int | Full])
        if len(items) == 10:
            request.answer(Full(at=10))
        elif request.value.cents < 0:
            request.refuse("a price is not negative")
        else:
            items.append(request.value)
            total.set(total.get(0) + request.value.cents)
            request.answer(len(items))
    return len(items)


async def add(item: Item) -> int | Full:
    return item.cents


def add_at_once(item: Item) -> int | Full:
    return item.cents


def name_only(item: Item) -> str:
    return item.sku


def of_a_text(text: str) -> int | Full:
    return len(text)


@orchestration
async def serving() -> None:
    async with add_item.served_by(add), add_item.served_by(add_at_once):
        request = await add_item.receive()
        request.answer("many")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        request.refuse(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        request.value = Item("", 1)  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    add_item.served_by(name_only)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    add_item.served_by(of_a_text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    total.set("12")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(total.get(), int | None)
    assert_type(total.get("none"), int | str)
    cheapest.answer_with(lambda: 3)  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType]


async def ask(client: Client, handle: Handle[int]) -> None:
    kettle = Item("kettle", 3990)
    assert_type(await handle.update(add_item, kettle, update_id="req-7"), int | Full)
    assert_type(await client.update_with_start(add_item, kettle, "cart-7", cart, "ada"), int | Full)
    once = add_item.with_options(update_id="req-7", timeout=30)
    assert_type(await client.update_with_start(once, kettle, "c", cart, owner="ada"), int | Full)
    assert_type(await handle.kv(total), int | None)
    assert_type(await handle.wait_kv(total, after=3), int | None)
    assert_type(await handle.ask(cheapest), Item | None)
    assert_type(await handle.ask(cheapest, at=17), Item | None)
    use(await handle.update(add_item, kettle))
    use(await handle.kv(total))
    use(await handle.ask(cheapest))

    await handle.update(add_item, "kettle")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await handle.update(total, 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.update(add_item)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await handle.ask(add_item)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.kv(add_item)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await client.update_with_start(add_item, kettle, "c", cart)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await client.update_with_start(add_item, kettle, "c", cart, 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def asks_another(ref: InstanceRef[int]) -> Coroutine[object, None, int | Full]:
    ref.update(add_item, 3)  # type: ignore[misc, unused-coroutine]  # pyright: ignore[reportArgumentType, reportUnusedCoroutine]
    return ref.update(add_item, Item("kettle", 3990))


def blocks(client: BlockingClient) -> None:
    handle = client.handle("cart-7", cart)
    assert_type(handle.update(add_item, Item("pan", 1)), int | Full)
    assert_type(handle.kv(total), int | None)
    assert_type(handle.ask(cheapest), Item | None)
