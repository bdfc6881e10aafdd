"""Updates, keys and queries over HTTP, and by a client of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from perdure import Engine, Key, Query, Signal, Update, orchestration
from perdure.errors import (
    InputIdReusedError,
    InstanceEndedError,
    InstanceNotFoundError,
    ResultTimeoutError,
    UpdateRefusedError,
    UpdateUnansweredError,
    UsageError,
)
from tests.web.site import memory_url
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
    with pytest.raises(ResultTimeoutError, match="holds 1 update 'unheard'"):
        await handle.update(unheard, 1, update_id="u-2", timeout=timedelta(milliseconds=1))
    with pytest.raises(InstanceNotFoundError):
        await pair.remote.handle("nowhere").update(add, 1)
    with pytest.raises(UsageError, match="answer query 'other'"):
        await handle.ask(Query("other", int))
    await handle.send(close, None)
    await handle.result()
    with pytest.raises(UpdateUnansweredError) as unanswered:
        await handle.update(unheard, 1, update_id="u-2")
    assert unanswered.value.status == "completed"
    with pytest.raises(InstanceEndedError):
        await handle.update(add, 1)
    with pytest.raises(UsageError, match="update_with_start"):
        await pair.remote.update_with_start(add, 1, "b", adding)
