"""Streams of server-sent events: results, histories, reports, and when to look again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

import perdure.web
from perdure import Client, Engine, Orchestration
from perdure.web.changes import LOOK_S, LOOKS_PER_S, MAX_PAUSE_S, SHARE, PagePace, changed
from tests.web.site import caller, engine_with_all, quick


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with engine_with_all() as engine:
        yield engine


@pytest.fixture
async def stream(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    app = perdure.web.app(engine, insecure_no_auth=True)
    async with caller(app, accept="text/event-stream") as client:
        yield client


def events(answer: httpx.Response) -> list[str]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [line[7:] for line in answer.text.splitlines() if line.startswith("event: ")]


async def test_a_result_is_sent_when_it_is_there(stream: httpx.AsyncClient, engine: Engine) -> None:
    await engine.handle("order/1").terminate("enough")

    answer = await stream.get("/api/instances/order%2F1/result")

    assert events(answer) == ["result"]
    assert '"status":"terminated"' in answer.text


async def test_a_history_is_sent_to_its_end(stream: httpx.AsyncClient) -> None:
    answer = await stream.get("/api/instances/done-1/history")

    assert events(answer) == ["event"] * 4 + ["end"]
    assert "id: 4\n" in answer.text


async def test_only_the_events_that_are_asked_for_are_sent(stream: httpx.AsyncClient) -> None:
    answer = await stream.get("/api/instances/done-1/history", params={"name": "pack"})

    assert events(answer) == ["event"] * 2 + ["end"]


async def test_a_history_goes_on_where_a_browser_was_cut_off(stream: httpx.AsyncClient) -> None:
    answer = await stream.get("/api/instances/done-1/history", headers={"last-event-id": "3"})

    assert events(answer) == ["event", "end"]


async def test_reports_end_with_the_instance(stream: httpx.AsyncClient) -> None:
    answer = await stream.get("/api/instances/done-1/report")

    assert events(answer) == ["end"]


async def test_a_stream_of_nothing_is_an_ordinary_problem(stream: httpx.AsyncClient) -> None:
    answer = await stream.get("/api/instances/nobody/history")

    assert (answer.status_code, answer.json()["code"]) == (404, "instance_not_found")


async def test_a_value_cannot_end_its_event(stream: httpx.AsyncClient, engine: Engine) -> None:
    await (await engine.start("lines", quick, "a\n\nevent: forged\ndata: x")).result()

    answer = await stream.get("/api/instances/lines/result")

    assert events(answer) == ["result"]


def test_however_many_pages_are_open_they_are_made_anew_only_so_often() -> None:
    pace = PagePace()

    assert pace.pause_s(1) <= LOOK_S
    assert [streams / pace.pause_s(streams) for streams in (10, 50, 200)] == [LOOKS_PER_S] * 3


def test_pages_that_take_long_are_made_seldom() -> None:
    pace = PagePace()
    for _ in range(100):
        pace.note(0.1)

    assert pace.pause_s(1) == pytest.approx(0.5)
    assert 10 * 0.1 / pace.pause_s(10) == pytest.approx(SHARE)
    assert pace.pause_s(1_000) == MAX_PAUSE_S


async def test_it_is_worth_looking_once_another_process_has_committed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    named: Orchestration[..., str] = Orchestration.named("x", str)
    async with Client(url, create=True) as client, Client(url) as other:
        looks = changed(client, look_s=0.0, anyway_s=1e9)
        assert await anext(looks) == 1

        await other.start("x-1", named)

        assert await anext(looks) == 2
        await looks.aclose()
