"""Streams of instances over HTTP: long polls, server-sent events, the remote client."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import perdure.web
from perdure import (
    ActivityContext,
    BlockingClient,
    Client,
    Engine,
    Retry,
    Signal,
    Stream,
    activity,
    for_each,
    orchestration,
)
from perdure.cli.serving.http_server import served
from perdure.errors import InstanceNotFoundError
from perdure.web.access import make_token
from tests.engine.stage import Gate, until
from tests.sizes import WITHIN_S
from tests.web.site import KEY, browser, caller, memory_url

words = Stream("some/words", str)
doubles = Stream("doubles", int)
go = Signal("go", str)
PATH = "/api/instances/s-1/streams"
NAME = f"{PATH}/some%2Fwords"
gate = Gate()


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(0)))
async def write(ctx: ActivityContext) -> None:
    words.send(f"attempt {ctx.attempt}")
    await words.flush()
    if ctx.attempt == 1:
        await gate.pass_through()
        raise OSError("cable pulled")


@orchestration
async def saying() -> None:
    words.send("begin")
    await write()
    words.send(await go.receive())


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    gate.__init__()  # type: ignore[misc]
    async with Engine(memory_url(), [saying, write]) as engine:
        await engine.start("s-1", saying)
        yield engine


async def told(engine: Engine) -> None:
    """Let it come to its end."""
    gate.opened.set()
    await engine.handle("s-1").send(go, "end")
    await engine.handle("s-1").result()


@activity
async def double(number: int) -> int:
    return 2 * number


@orchestration
async def doubling() -> None:
    await for_each(double, [5, 6], results=doubles)


async def test_results_of_items_say_of_which_they_are() -> None:
    async with Engine(memory_url(), [doubling, double]) as engine:
        await (await engine.start("d-1", doubling)).result()
        application = perdure.web.app(engine, insecure_no_auth=True)
        path = "/api/instances/d-1/streams/doubles"
        async with caller(application) as http:
            polled = (await http.get(path)).json()["items"]
            events = (await http.get(path, headers={"Accept": "text/event-stream"})).text
            page = (await http.get("/i/d-1", params={"tab": "streams"})).text
        sent = [json.loads(line[6:]) for line in events.splitlines() if '"value"' in line]

        assert [(one["number"], one["value"]) for one in polled] == [(0, 10), (1, 12)]
        assert [(one["number"], one["value"]) for one in sent] == [(0, 10), (1, 12)]
        assert "item 1" in page


async def test_a_long_poll_waits_for_what_comes(engine: Engine) -> None:
    async with caller(perdure.web.app(engine, insecure_no_auth=True)) as http:
        await gate.reached()
        first = (await http.get(NAME)).json()
        assert [one["value"] for one in first["items"]] == ["begin", "attempt 1"]
        assert not first["has_ended"]

        waiting = asyncio.ensure_future(http.get(NAME, params={"after": 2, "wait": 20}))
        gate.opened.set()
        second = (await waiting).json()["items"]

        assert second[0]["is_take_back"]
        assert second[0]["discards_from"] == 2
        assert [one["value"] for one in second[1:]] in ([], ["attempt 2"])
        await told(engine)
        last = (await http.get(NAME, params={"after": 4, "wait": 20})).json()
        assert [one["value"] for one in last["items"]] == ["end"]
        assert last["has_ended"]
        listed = (await http.get(PATH)).json()
        assert [(one["name"], one["items"]) for one in listed] == [("some/words", 3)]


async def test_what_is_not_there_is_refused(engine: Engine) -> None:
    async with caller(perdure.web.app(engine, insecure_no_auth=True)) as http:
        assert (await http.get("/api/instances/nobody/streams/x")).status_code == 404
        assert (await http.get("/api/instances/nobody/streams")).status_code == 404
        assert (await http.get(PATH + "/x", params={"after": -1})).status_code == 400
        assert (await http.get(PATH + "/" + "x" * 300)).status_code == 400
        await told(engine)


def events(text: str) -> list[tuple[str, str, Any]]:
    """Return the id, the name and the data of server-sent events."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
    return found


async def test_server_sent_events_have_indexes_and_say_what_is_void(engine: Engine) -> None:
    app = perdure.web.app(engine, insecure_no_auth=True)
    async with caller(app, accept="text/event-stream") as http:
        reading = asyncio.ensure_future(http.get(NAME, params={"after": 1}))
        late = asyncio.ensure_future(http.get(NAME, headers={"last-event-id": "2"}))
        await gate.reached()
        await told(engine)

        found = events((await late).text)

        assert [(one, kind) for one, kind, _ in found] == [
            ("3", "discard"),
            ("4", "item"),
            ("5", "item"),
            ("", "end"),
        ]
        assert found[0][2] == {"from": 2}
        assert [data["value"] for _, kind, data in found if kind == "item"] == ["attempt 2", "end"]
        shown: list[tuple[str, Any]] = []
        for index, kind, data in events((await reading).text):
            if kind == "discard":
                shown = [one for one in shown if int(one[0]) < data["from"]]
            elif kind == "item":
                shown.append((index, data["value"]))
        assert shown == [("4", "attempt 2"), ("5", "end")]


async def test_sse_sends_what_a_handle_streams(engine: Engine) -> None:
    async def endpoint(_: Request) -> Response:
        return perdure.web.sse(engine.handle("s-1").stream(words, after=2))

    async with caller(Starlette(routes=[Route("/own", endpoint)])) as http:
        await gate.reached()
        await told(engine)
        found = events((await http.get("/own")).text)

    assert [kind for _, kind, _ in found] == ["discard", "item", "item", "end"]


async def test_a_remote_client_reads_as_one_of_the_store_does(engine: Engine) -> None:
    secret, kept = make_token("t", scopes=["read"])
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    app = perdure.web.app(engine, tokens=[kept])
    async with served(app, [listening], drain_s=0), Client(url, token=secret) as client:
        handle = client.handle("s-1")
        shown: list[str] = []

        async def read() -> None:
            reader = handle.stream(words)
            async for item in reader:
                if item.discards_from is not None:
                    del shown[item.discards_from - 1 :]
                shown.append(item.value)

        reading = asyncio.ensure_future(read())
        await until(lambda: shown == ["begin", "attempt 1"])
        await told(engine)
        await asyncio.wait_for(reading, WITHIN_S)

        assert shown == ["begin", "attempt 2", "end"]
        assert await handle.streams() == await engine.handle("s-1").streams()
        with pytest.raises(InstanceNotFoundError):
            await anext(client.handle("nobody").stream(words))

        def wait() -> list[str]:
            with BlockingClient(url, token=secret) as blocking:
                return [item.value for item in blocking.handle("s-1").stream(words)]

        assert await asyncio.to_thread(wait) == ["begin", "attempt 2", "end"]


async def test_the_page_of_an_instance_shows_its_streams_as_they_grow(engine: Engine) -> None:
    async with browser(perdure.web.app(engine, key=KEY)) as page:
        await gate.reached()
        before = (await page.get("/i/s-1", params={"tab": "streams"})).text
        assert "attempt 1" in before
        await told(engine)

        after = (await page.get("/i/s-1", params={"tab": "streams"})).text

        assert "attempt 1" not in after
        assert "attempt 2" in after
        assert "3 items" in after
