"""The page of schedules, and its routes."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import perdure.web
from perdure import Context, Cron, Engine, Every, Schedule, orchestration
from tests.web.site import KEY, browser, memory_url


@orchestration
async def report(ctx: Context, region: str) -> str:
    return region


nightly = Schedule("nightly", Cron("0 2 * * *", "Europe/Berlin"), report, "eu")
yearly = Schedule("<b>yearly</b>", Every(timedelta(days=365)), report, "us")


async def test_the_page_tells_when_each_is_next_and_what_can_be_done() -> None:
    async with Engine(memory_url(), [report, nightly, yearly]) as engine:
        await engine.schedule("nightly").pause("the <i>books</i> are closed")
        async with browser(perdure.web.app(engine, key=KEY)) as page:
            shown = (await page.get("/schedules")).text
            data = (await page.get("/schedules.json")).json()
            links = re.findall(r'<td><a href="([^"]*)"><strong>', shown)
            led_to = [(await page.get(html.unescape(link))).status_code for link in links]

    assert "every day at 02:00 (Europe/Berlin)" in shown
    assert "0 2 * * *</code>" in shown
    assert "the &lt;i&gt;books&lt;/i&gt; are closed" in shown
    assert "<b>yearly</b>" not in shown
    assert "api/schedules/nightly/resume" in shown
    assert "api/schedules/nightly/trigger" in shown
    assert [one["name"] for one in data["schedules"]] == ["<b>yearly</b>", "nightly"]
    assert data["schedules"][1]["next"] is None
    assert led_to == [200, 200]


async def test_a_store_without_schedules_says_so() -> None:
    engine = Engine(memory_url(), [report])
    async with engine, browser(perdure.web.app(engine, key=KEY)) as page:
        shown = (await page.get("/schedules")).text

    assert "No schedules" in shown
