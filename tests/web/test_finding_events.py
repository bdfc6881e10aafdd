"""Events of a history, found on the page of an instance."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import pytest_asyncio

import perdure.web
from perdure import Engine
from perdure.client.reading.info import HistoryEvent
from perdure.web.pages.instance import failed_before
from tests.web import site
from tests.web.devtools import Browser
from tests.web.serving import Served
from tests.web.site import KEY, browser, engine_with_all, memory_url

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),  # the first test may have to install the browser
]


@pytest_asyncio.fixture(loop_scope="session")
async def page() -> AsyncIterator[httpx.AsyncClient]:
    async with engine_with_all() as engine, browser(perdure.web.app(engine, key=KEY)) as client:
        yield client


async def lines(page: httpx.AsyncClient, instance_id: str, **query: Any) -> list[tuple[str, str]]:
    answer = await page.get(f"/i/{instance_id}.json", params={"tab": "history", **query})
    return [(one["what"], one["subject"]) for one in answer.json()["history"]["lines"]]


async def test_events_are_found_by_kind_name_and_failure(page: httpx.AsyncClient) -> None:
    completed = [("activity completed", "pack")]

    assert await lines(page, "done-1", kind="activity_completed") == completed
    assert (await lines(page, "done-1", name="pack"))[1:] == completed
    assert await lines(page, "failed-1", failures="true") == [
        ("activity failed", "explode"),
        ("failed", ""),
    ]


async def test_a_part_of_a_history_says_what_its_answers_are_about(page: httpx.AsyncClient) -> None:
    assert (await lines(page, "done-1", after=2))[0] == ("activity completed", "pack")


async def test_what_is_found_leads_back_to_its_place_in_the_whole_history(
    page: httpx.AsyncClient,
) -> None:
    shown = (await page.get("/i/done-1?tab=history&kind=activity_completed")).text

    assert 'href="/i/done-1?tab=history&amp;after=2#e3">3</a>' in shown
    assert 'href="/i/done-1?tab=history&amp;after=1#e2">↑2</a>' in shown
    assert "1 event of 1 to 4." in shown


async def test_a_kind_that_there_is_not_is_said_on_the_page(page: httpx.AsyncClient) -> None:
    answer = await page.get("/i/done-1?tab=history&kind=activty")

    assert answer.status_code == 200
    assert "did you mean &#39;activity&#39;?" in answer.text
    assert not re.findall(r'<tr id="e\d+"', answer.text)


async def test_a_name_full_of_script_is_only_text(page: httpx.AsyncClient) -> None:
    shown = (await page.get("/i/done-1", params={"tab": "history", "name": site.HOSTILE})).text

    assert "<script>alert" not in shown
    assert "No event fits of 1 to 4." in shown


async def test_an_event_of_20000_is_found_with_its_place_in_the_address(
    chromium: Browser, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    async with Engine(memory_url(), [site.long, site.pack]) as engine:
        await (await engine.start("long-1", site.long, 19_998)).result()
        store = engine._core.store
        original = store.read_histories

        async def read_histories(*args: Any, **kwargs: Any) -> Any:
            found = await original(*args, **kwargs)
            read.append(sum(map(len, found)))
            return found

        monkeypatch.setattr(store, "read_histories", read_histories)
        server.put(perdure.web.app(engine, key=KEY))
        async with await chromium.open(server.url) as page:
            await page.goto(f"/i/long-1?tab=history&k={KEY}")
            await page.run("document.querySelector('.find [name=kind]').focus()")
            await page.write("completed")
            await page.press("Enter")

            await page.sees("td", "completed")
            assert await page.texts("tbody td.num a") == ["20000"]
            assert await page.path() == "/i/long-1?tab=history&kind=completed&name="
            await page.click("tbody td.num a")
            await page.goes("/i/long-1?tab=history&after=19999")
            assert page.troubles == []

    assert max(read) <= 500


async def test_a_result_says_how_many_attempts_failed_before_it() -> None:
    failed = {"type_name": "TimeoutError", "message": "no answer"}
    at = datetime(2026, 11, 16, tzinfo=UTC)

    def said(kind: str, failures: list[Any]) -> str:
        data = {"schedule": 2, "failures": failures}
        return failed_before(HistoryEvent(seq=3, kind=kind, at=at, data=data))

    assert said("activity_completed", [failed, failed]) == "after 2 failed"
    assert said("activity_completed", [failed] * 20) == "after 20 or more failed"
    assert said("activity_failed", [failed]) == ""
    assert said("activity_completed", []) == ""
