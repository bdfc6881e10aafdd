"""What lay in the inbox of an instance when it ended, and comes to life again by a reset: no caller
waits for it in vain, and its sender may send it again."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Client, Handle, Promise, Signal, Update, orchestration
from perdure.errors import UpdateUnansweredError
from perdure.repair import at_event
from tests.engine.stage import Stage, until, waits_for
from tests.engine.test_promises import token_in_history
from tests.sizes import WITHIN_S

add = Update("add", int, int)
paid = Promise("paid", str)
go = Signal("go", int)


@orchestration
async def adding() -> int:
    await go.receive()
    request = await add.receive()
    request.answer(request.value + 1)
    return request.value


@orchestration
async def waiting() -> str:
    return await paid.make().receive()


async def has_mail(client: Client, instance_id: str) -> bool:
    return any(one.kind == "signal_received" for one in await client.inbox(instance_id))


async def test_an_update_that_an_ended_instance_had_not_taken_may_be_asked_again(
    stage: Stage,
) -> None:
    engine = await stage.engine([adding])
    handle = await engine.start("a-1", adding)
    await waits_for(handle, "signal 'go'")
    await engine.close()
    client = await stage.client()
    handle = client.handle("a-1", adding)
    asking = asyncio.create_task(handle.update(add, 1, update_id="once"))
    await until(lambda: has_mail(client, "a-1"))

    await handle.terminate("by hand")
    with pytest.raises(UpdateUnansweredError, match="terminated"):
        await asking
    with pytest.raises(UpdateUnansweredError, match="terminated"):
        await handle.update(add, 1, update_id="once")
    await handle.reset()
    again = asyncio.create_task(handle.update(add, 1, update_id="once"))
    await until(lambda: has_mail(client, "a-1"))
    await handle.send(go, 1)

    await stage.engine([adding])
    async with asyncio.timeout(WITHIN_S):
        assert await again == 2
    assert await handle.update(add, 1, update_id="once") == 2


async def test_an_update_that_was_taken_before_the_end_keeps_its_receipt(stage: Stage) -> None:
    engine = await stage.engine([adding])
    handle = await engine.start("a-1", adding)
    await waits_for(handle, "signal 'go'")
    asking = asyncio.create_task(handle.update(add, 1, update_id="once"))
    await until(lambda: is_recorded(engine))
    await handle.terminate("by hand")
    with pytest.raises(UpdateUnansweredError, match="terminated"):
        await asking

    await handle.reset()
    again = asyncio.create_task(handle.update(add, 1, update_id="once"))
    await handle.send(go, 1)

    assert await again == 2
    assert await handle.result() == 1


async def is_recorded(client: Client) -> bool:
    history = await client.handle("a-1").history()
    return any(event.kind == "signal_received" for event in history)


async def test_a_promise_that_an_ended_instance_had_not_heard_of_may_be_kept_again(
    stage: Stage,
) -> None:
    engine = await stage.engine([waiting])
    handle = await engine.start("w-1", waiting)
    await waits_for(handle, "promise 'paid'")
    token = await token_in_history(handle)
    await engine.close()
    client = await stage.client()
    assert await client.resolve(paid, token, "first")
    assert not await client.resolve(paid, token, "second")
    await client.handle("w-1").terminate("by hand")

    await client.handle("w-1").reset()

    assert await client.resolve(paid, token, "third")
    await stage.engine([waiting])
    assert await client.handle("w-1", waiting).result() == "third"


@orchestration
async def waiting_twice() -> list[str]:
    return [await paid.make().receive(), await paid.make().receive()]


async def test_what_kept_a_promise_of_the_original_keeps_none_that_a_fork_makes_itself(
    stage: Stage,
) -> None:
    engine = await stage.engine([waiting_twice])
    handle = await engine.start("w-1", waiting_twice)
    assert await engine.resolve(paid, await nth_token(handle, 1), "one")
    assert await engine.resolve(paid, await nth_token(handle, 2), "two")
    assert await handle.result() == ["one", "two"]
    kinds = [event.kind for event in await handle.history()]
    heard = kinds.index("signal_received")

    anew = await handle.fork("w-2", at_event(1))
    half = await handle.fork("w-3", at_event(heard))

    assert await engine.resolve(paid, await nth_token(anew, 1), "mine")
    assert await engine.resolve(paid, await nth_token(anew, 2), "mine too")
    assert await anew.result() == ["mine", "mine too"]
    # What was made before the point is kept by what came behind it.
    assert await engine.resolve(paid, await nth_token(half, 2), "mine")
    assert await half.result() == ["one", "mine"]


async def nth_token(handle: Handle[list[str]], number: int) -> str:
    async def tokens() -> list[str]:
        made = [one for one in await handle.history() if one.kind == "promise_made"]
        return [str(one.data["token"]) for one in made]

    async def is_made() -> bool:
        return len(await tokens()) >= number

    await until(is_made)
    return (await tokens())[number - 1]
