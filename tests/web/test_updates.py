"""Updates, keys and queries over HTTP, and by a client of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

import perdure.web
from perdure import Engine, Key, Orchestration, Query, Signal, Update, orchestration
from perdure.errors import (
    AlreadyExistsError,
    InputIdReusedError,
    InstanceEndedError,
    InstanceNotFoundError,
    ResultTimeoutError,
    UpdateRefusedError,
    UpdateUnansweredError,
    UsageError,
)
from tests.engine.stage import until
from tests.web.site import KEY, browser, memory_url
from tests.web.test_remote import Pair, serving

add = Update("add", int, int)
unheard = Update("unheard", int, int)
total = Key("total", int)
seen = Query("seen", list[int])
close = Signal("close", None)


@orchestration
async def adding() -> int:
    values: list[int] = []
    seen.answer_with(lambda: values)

    def take(value: int) -> int:
        values.append(value)
        total.set(sum(values))
        return len(values)

    async with add.served_by(take):
        await close.receive()
    return sum(values)


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with Engine(memory_url(), [adding]) as engine, serving(engine) as found:
        await engine.start("a", adding)
        yield found


async def test_a_client_of_a_server_asks_as_one_of_the_store(pair: Pair) -> None:
    handle = pair.remote.handle("a")

    assert await handle.update(add, 3, update_id="u-1") == 1
    assert await handle.update(add, 3, update_id="u-1") == 1
    assert await pair.local.handle("a").update(add, 4) == 2
    assert await handle.kv(total) == 7
    assert await handle.wait_kv(total) == 7
    assert await handle.ask(seen) == [3, 4]
    assert await handle.ask(seen, at=1) == []


async def test_it_is_refused_with_the_same_errors(pair: Pair) -> None:
    handle = pair.remote.handle("a")
    await handle.update(add, 3, update_id="u-1")
    careless: Update[str, int] = Update("add", str, int)

    with pytest.raises(InputIdReusedError):
        await handle.update(add, 4, update_id="u-1")
    with pytest.raises(UpdateRefusedError, match="add") as caught:
        await handle.update(careless, "three")
    assert caught.value.reason
    waiting = asyncio.create_task(pair.local.handle("a").update(unheard, 1, update_id="u-2"))

    async def is_held() -> bool:
        return "holds 1 update 'unheard'" in await handle.explain()

    await until(is_held)
    with pytest.raises(ResultTimeoutError, match="holds 1 update 'unheard'"):
        await handle.update(unheard, 1, update_id="u-2", timeout=timedelta(milliseconds=1))
    with pytest.raises(InstanceNotFoundError):
        await pair.remote.handle("nowhere").update(add, 1)
    with pytest.raises(UsageError, match="answer query 'other'"):
        await handle.ask(Query("other", int))
    await handle.send(close, None)
    await handle.result()
    with pytest.raises(UpdateUnansweredError):
        await waiting
    with pytest.raises(UpdateUnansweredError) as unanswered:
        await handle.update(unheard, 1, update_id="u-2")
    assert unanswered.value.status == "completed"
    with pytest.raises(InstanceEndedError):
        await handle.update(add, 1)


async def test_a_client_of_a_server_asks_and_starts_in_one_commit(pair: Pair) -> None:
    once = add.with_options(update_id="u-1")

    assert await pair.remote.update_with_start(once, 5, "b", adding) == 1
    assert await pair.remote.update_with_start(once, 5, "b", adding) == 1
    assert await pair.remote.update_with_start(add, 6, "b", adding) == 2
    assert await pair.remote.handle("b").kv(total) == 11
    assert await pair.local.update_with_start(add, 7, "b", adding) == 3
    [first, *_] = await pair.local.handle("b").history()
    assert first.kind == "started"


async def test_an_ask_with_a_start_is_refused_with_the_same_errors(pair: Pair) -> None:
    remote = pair.remote
    other = Orchestration.named("elsewhere", None)
    await pair.local.handle("a").send(close, None)
    await pair.local.handle("a").result()

    with pytest.raises(InstanceEndedError):
        await remote.update_with_start(add, 1, "a", adding)
    again = adding.with_options(if_exists="restart")
    assert await remote.update_with_start(add, 1, "a", again) == 1
    with pytest.raises(AlreadyExistsError):
        await remote.update_with_start(add, 1, "a", other)
    with pytest.raises(UpdateRefusedError):
        await remote.update_with_start(Update("add", str, int), "three", "c", adding)
    with pytest.raises(UsageError, match="is not an update"):
        await remote.update_with_start("add", 1, "c", adding)  # type: ignore[arg-type]
    # Whether it is started by then or not.
    late = unheard.with_options(timeout=timedelta(milliseconds=1))
    with pytest.raises(ResultTimeoutError, match="answer to update 'unheard'"):
        await remote.update_with_start(late, 1, "d", adding)


async def test_a_request_that_waits_is_shown_in_the_inbox() -> None:
    """No worker has the instance, so that it stays there."""
    url = memory_url()
    async with Engine(url, []) as engine:
        await engine.start("b", Orchestration.named("elsewhere", None))
        waiting = asyncio.create_task(engine.handle("b").update(add, 3))

        async def has_come() -> bool:
            return len(await engine.inbox("b")) == 2

        await until(has_come)
        async with browser(perdure.web.app(engine, key=KEY)) as page:
            shown = (await page.get("/i/b?tab=jobs")).text
        await engine.handle("b").terminate()
        with pytest.raises(UpdateUnansweredError):
            await waiting

    assert "update add" in shown


async def test_a_query_is_answered_on_the_page_where_its_code_is() -> None:
    url = memory_url()
    async with Engine(url, [adding]) as engine:
        handle = await engine.start("a", adding)
        await handle.update(add, 3)
        await handle.update(add, 4)
        async with browser(perdure.web.app(engine, key=KEY)) as page:
            bare = (await page.get("/i/a?tab=payload")).text
            now = (await page.get("/i/a?tab=payload&query=seen&at=")).text
            whole = (await page.get("/i/a.json?tab=payload&query=seen&at=")).json()
            twin = (await page.get("/i/a.json?tab=payload&query=seen&at=1")).json()
            other = (await page.get("/i/a?tab=payload&query=%3Cseem")).text
            late = (await page.get("/i/a.json?tab=payload&query=seen&at=99")).json()

    assert "Ask a query" in bare
    assert bare.count('class="problem"') == now.count('class="problem"')
    assert "<pre" in now.partition('id="query"')[2]
    assert whole["view"]["answer"] == [3, 4]
    assert (twin["view"]["answer"], twin["view"]["refused"]) == ([], "")
    assert "how to answer query &#39;&lt;seem&#39;" in other
    assert "it answers seen" in other
    assert "has no event 99" in late["view"]["refused"]


async def test_a_page_without_the_code_offers_no_query() -> None:
    async with Engine(memory_url(), []) as engine:
        await engine.start("b", Orchestration.named("elsewhere", None))
        async with browser(perdure.web.app(engine, key=KEY)) as page:
            shown = (await page.get("/i/b?tab=payload&query=seen")).text

    assert "Ask a query" not in shown
