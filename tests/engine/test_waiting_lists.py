"""Lists of instances by what they wait for: `client.instances(waits=...)`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from perdure import Client, Promise, Signal, Update, activity, orchestration
from perdure.authoring.registry import Defined
from perdure.client.reading import waiting
from perdure.errors import UsageError
from tests.engine.stage import Stage, options, waits_for

go = Signal("go", str)
add = Update("add", int, int)
paid = Promise("paid", int)


@activity
async def pack(order: str) -> str:
    await asyncio.Event().wait()
    return order


@orchestration
async def for_a_signal() -> str:
    return await go.receive()


@orchestration
async def for_an_update() -> None:
    async for request in add:
        request.answer(request.value)


@orchestration
async def for_a_promise() -> int:
    return await paid.make().receive()


@orchestration
async def for_a_timer() -> None:
    await asyncio.sleep(86_400)


@orchestration
async def for_an_activity() -> str:
    return await pack("order")


@orchestration
async def for_a_child() -> str:
    return await for_a_signal.with_options(instance_id="child")()


@orchestration
async def for_two() -> None:
    async with asyncio.timeout(86_400):
        await go.receive()


ALL: list[Defined] = [
    *(pack, for_a_signal, for_an_update, for_a_promise, for_a_timer),
    *(for_an_activity, for_a_child, for_two),
]


async def ids(client: Client, *, limit: int = 100, **which: Any) -> list[str]:
    """Return the ids on all pages of a list."""
    found: list[str] = []
    after = None
    while True:
        page = await client.instances(limit=limit, after=after, **which)
        found += [info.instance_id for info in page.items]
        after = page.next
        if after is None:
            return found


async def test_running_instances_are_found_by_the_kind_and_the_name_of_what_they_wait_for(
    stage: Stage,
) -> None:
    engine = await stage.engine(ALL, options=options(stop_grace=timedelta(0)))
    for name, definition, awaited in (
        ("signal", for_a_signal, "signal 'go'"),
        ("update", for_an_update, "update 'add'"),
        ("promise", for_a_promise, "promise 'paid'"),
        ("timer", for_a_timer, "a timer"),
        ("activity", for_an_activity, "activity 'pack'"),
        ("parent", for_a_child, "child 'child'"),
        ("two", for_two, "signal 'go'"),
    ):
        await waits_for(await engine.start(name, definition), awaited)
    await waits_for(engine.handle("child"), "signal 'go'")
    ended = await engine.start("ended", for_a_signal)
    await ended.send(go, "on")
    await ended.result()

    found = {
        word: sorted(await ids(engine, waits=word))
        for word in ("signal", "go", "update", "add", "promise", "paid", "timer", "activity")
    }

    assert found == {
        "signal": ["child", "signal", "two"],
        "go": ["child", "signal", "two"],
        **{"update": ["update"], "add": ["update"], "promise": ["promise"], "paid": ["promise"]},
        **{"timer": ["timer", "two"], "activity": ["activity"]},
    }
    assert await ids(engine, waits="pack") == ["activity"]
    assert await ids(engine, waits="child") == await ids(engine, waits="for_a_signal") == ["parent"]
    assert await ids(engine, waits="signal", name="for_two") == ["two"]
    assert await ids(engine, waits="signal", status=["running", "failed"], prefix="s") == ["signal"]
    assert await ids(engine, waits="signal", status="completed") == []
    assert await ids(engine, waits="nothing") == []


@pytest.mark.parametrize(("looks", "events"), [(500, 50_000), (2, 50_000), (500, 0)])
async def test_however_small_a_page_looks_all_are_found_in_order_and_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, looks: int, events: int
) -> None:
    monkeypatch.setattr(waiting, "LOOKS", looks)
    monkeypatch.setattr(waiting, "EVENTS", events)
    engine = await stage.engine(ALL)
    for number in range(6):
        definition = for_a_signal if number % 2 else for_a_timer
        await waits_for(
            await engine.start(f"i-{number}", definition), "signal" if number % 2 else "a timer"
        )

    newest_first = [one.instance_id for one in (await engine.instances()).items]

    wanted = [name for name in newest_first if int(name[-1]) % 2]
    for limit in (1, 2, 3, 100):
        assert await ids(engine, limit=limit, waits="signal") == wanted


async def test_nothing_is_counted_or_done_by_what_is_waited_for(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("i", for_a_signal)
    await waits_for(handle, "signal 'go'")

    for refused in (
        engine.count(waits="signal"),
        engine.cancel_all(expect=1, waits="signal"),
        engine.delete_all(expect=1, waits="signal"),
        engine.prune(waits="signal"),
    ):
        with pytest.raises(UsageError, match="waits='signal' is for lists"):
            await refused

    assert not (await handle.info()).status.is_terminal
