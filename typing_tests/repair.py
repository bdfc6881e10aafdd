"""Going back: a value is compared with what the call returns. Never run."""

from __future__ import annotations

from typing import assert_type

from perdure import BlockingClient, Client, Handle, Signal, activity, orchestration
from perdure.repair import After, Point, ResetPlan, after, at_event, before


@activity
async def price(item: str) -> int:
    return len(item)


@orchestration
async def checkout(item: str) -> str:
    return str(await price(item))


go = Signal("go", str)


async def points(handle: Handle[str], client: Client) -> None:
    assert_type(before(price), Point)
    assert_type(before(checkout, nth=0), Point)
    assert_type(after(price), After[int])
    assert_type(after(price).returning(3), Point)
    assert_type(after(checkout).returning("x"), Point)
    assert_type(at_event(17), Point)
    assert_type(await handle.plan(before(price)), ResetPlan)
    assert_type(await handle.reset(reason="once"), None)
    assert_type(await handle.fork("other", after(price)), Handle[str])
    assert_type(await client.reset_all(before(price), expect=3, status="failed"), int)
    assert_type(await client.reset_all(expect=3, name="checkout"), int)

    after(price).returning("many")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    after(checkout).returning(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    before("price")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    before(go)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    before(price, nth="first")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    at_event("17")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.reset("price")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await handle.reset(before(price), "once")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await handle.fork(before(price))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await client.reset_all(before(price), status="failed")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def waiting(client: BlockingClient) -> None:
    handle = client.handle("order-1", checkout)
    assert_type(handle.plan(), ResetPlan)
    assert_type(handle.reset(before(price)), None)
    assert_type(client.reset_all(expect=1, name="checkout"), int)
