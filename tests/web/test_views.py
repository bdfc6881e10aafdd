"""What the list of instances offers: ready-made views, evidence, and how to begin."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape

import httpx
import pytest

import perdure.web
from perdure import Client, Engine
from perdure.client.reading.filters import parse_filter
from perdure.model.instances import Status
from perdure.web.pages.instances import MEANINGS
from perdure.web.pages.views import FIRST_PROGRAM, VIEWS
from tests.web import site
from tests.web.site import KEY, browser, engine_with_all, memory_url


@pytest.mark.parametrize(("name", "words"), VIEWS)
async def test_a_view_is_a_filter_that_a_page_can_show(name: str, words: str) -> None:
    assert parse_filter(words, now=datetime.now(UTC))

    async with engine_with_all() as engine, browser(perdure.web.app(engine, key=KEY)) as page:
        shown = await page.get("/", params={"q": words})

    assert shown.status_code == 200
    assert 'id="problem"' not in shown.text
    assert re.search(rf'aria-current="true">{name}</a>', shown.text)


async def test_every_row_says_why_without_a_script() -> None:
    async with engine_with_all() as engine, browser(perdure.web.app(engine, key=KEY)) as page:
        shown = (await page.get("/")).text

    buttons = re.findall(r'popovertarget="([^"]+)"', shown)
    assert buttons
    assert buttons == re.findall(r'<section popover id="([^"]+)"', shown)
    assert "waits for signal" in shown.partition("<section popover")[2]
    assert MEANINGS[Status.FAILED] in shown
    assert set(MEANINGS) == set(Status)


async def first(client: Client) -> str:
    async with browser(perdure.web.app(client, key=KEY)) as page:
        shown = (await page.get("/")).text
    found = re.search(r'<pre class="command"><code>(.*?)</code>', shown)
    assert found
    return unescape(found[1])


async def test_an_empty_store_says_how_to_start_what_a_worker_has() -> None:
    async with Engine(memory_url(), [site.count, site.pack]) as engine:
        assert await first(engine) == """perdure start count '{"times": 1}'"""


async def test_an_empty_store_without_workers_says_how_to_begin() -> None:
    async with Client(memory_url()) as client:
        assert await first(client) == FIRST_PROGRAM


async def test_a_list_that_is_filtered_to_nothing_offers_no_start() -> None:
    async with Client(memory_url()) as client, browser(perdure.web.app(client, key=KEY)) as page:
        twin: httpx.Response = await page.get("/index.json?q=status:failed")

    assert twin.json()["first_command"] == ""
