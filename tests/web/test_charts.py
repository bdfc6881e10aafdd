"""The page of charts: what it counts, where it draws, and that it looks at so much and no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import perdure.web
from perdure import Client, Engine, Orchestration
from perdure.telemetry.snapshots import Distribution
from perdure.web.pages import charts, records
from perdure.web.pages.drawing import HEIGHT, TOP, WIDTH, bar_chart, line_chart
from tests.web.site import DEFINITIONS, KEY, browser, engine_with_all, memory_url, quick


async def test_charts_count_what_was_started_and_how_it_ended() -> None:
    async with engine_with_all() as engine, browser(perdure.web.app(engine, key=KEY)) as page:
        data = (await page.get("/charts.json")).json()
        narrow = (await page.get("/charts.json", params={"q": "name:quick"})).json()

    assert sum(data["starts"]) == data["looked_at"] == 6  # the decider and the child count too
    assert {status: sum(some) for status, some in data["ends"].items()} == {
        "completed": 3,
        "failed": 1,
    }
    assert data["overall"]["p50"] <= data["overall"]["p95"]
    assert not data["is_sample"]
    assert sum(narrow["starts"]) == 2
    assert data["operations"]


async def test_what_waits_is_drawn_by_queue() -> None:
    async with Client(memory_url()) as client:
        named: Any = Orchestration.named("unserved", str)
        await client.start("x-1", named)
        async with browser(perdure.web.app(client, key=KEY)) as page:
            data = (await page.get("/charts.json")).json()
            shown = await page.get("/charts")

    assert [(one["name"], one["ready"]) for one in data["queues"]] == [("unserved", 1)]
    assert "1 ready, 0 running" in shown.text


async def test_a_wrong_word_is_said_on_the_page_of_charts() -> None:
    async with engine_with_all() as engine, browser(perdure.web.app(engine, key=KEY)) as page:
        shown = await page.get("/charts", params={"q": "colour:red"})
        wrong = await page.get("/charts", params={"window": "2y"})

    assert 'id="problem"' in shown.text
    assert "colour" in shown.text
    assert wrong.status_code == 400


async def test_of_very_many_the_newest_are_drawn_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(charts, "SAMPLE", 2)
    monkeypatch.setattr(charts, "PAGE_MAX", 2)
    async with Engine(memory_url(), DEFINITIONS) as engine:
        for number in range(3):
            await (await engine.start(f"q-{number}", quick, "book")).result()
        async with browser(perdure.web.app(engine, key=KEY)) as page:
            data = (await page.get("/charts.json")).json()
            shown = await page.get("/charts")

    assert data["is_sample"]
    assert sum(data["starts"]) == 2
    assert 'id="sample"' in shown.text


async def test_what_many_pages_of_a_list_do_not_show_is_not_looked_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(charts, "PAGE_MAX", 1)
    monkeypatch.setattr(charts, "PAGES_MAX", 2)
    async with Engine(memory_url(), DEFINITIONS) as engine:
        for number in range(3):
            await (await engine.start(f"q-{number}", quick, "book")).result()
        start = datetime.now(UTC) - timedelta(hours=1)

        found, is_sample = await charts.newest(engine, {}, start)

    assert (len(found), is_sample) == (2, True)


def test_bars_stand_on_each_other_and_fill_the_height() -> None:
    made = bar_chart({"completed": [1, 0, 3], "failed": [0, 0, 1]})

    low, high, top = made["bars"]
    assert made["most"] == 4
    assert [one["kind"] for one in made["bars"]] == ["completed", "completed", "failed"]
    assert low["y"] + low["height"] == high["y"] + high["height"] == HEIGHT
    assert (top["y"], round(top["y"] + top["height"], 1)) == (TOP, high["y"])
    assert max(one["x"] + one["width"] for one in made["bars"]) <= WIDTH


def test_nothing_at_all_is_drawn_as_nothing() -> None:
    assert bar_chart({})["bars"] == bar_chart({"failed": [0, 0]})["bars"] == []
    assert line_chart({"p50": [None, None]})["lines"] == []


def test_a_line_breaks_where_nothing_ended() -> None:
    lines = line_chart({"p50": [1.0, None, 2.0, 4.0]})["lines"]

    assert [len(one["dots"]) for one in lines] == [1, 2]
    assert lines[1]["dots"][-1]["y"] < lines[0]["dots"][0]["y"]


@pytest.mark.parametrize(
    ("share", "value"), [(0.5, 2.0), (0.95, 4.0), (0.01, 1.0)], ids=["half", "most", "least"]
)
def test_a_quantile_is_one_of_the_values(share: float, value: float) -> None:
    assert records.quantile([4.0, 1.0, 2.0, 3.0], share) == value


def test_of_a_distribution_the_bound_is_told_that_holds_for_so_many() -> None:
    seen = Distribution((0.1, 1.0, 10.0), (90, 9, 1, 0), 0.0)

    assert records.bound_of(seen, 0.5) == 0.1
    assert records.bound_of(seen, 0.95) == 1.0
    assert records.bound_of(Distribution((0.1, 1.0), (0, 0, 3), 9.0), 0.95) == 1.0
