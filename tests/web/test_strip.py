"""The strip at the head of pages: who may press its buttons."""

from __future__ import annotations

import perdure.web
from perdure import Client
from perdure.web.application import app_of
from perdure.web.settings import PageStrip, StripButton, WebSettings
from tests.web.site import KEY, browser, caller, memory_url


async def test_a_button_of_the_strip_is_pressed_only_by_a_page_that_may_act() -> None:
    presses: list[str] = []

    async def press() -> None:
        presses.append("crash")

    strip = PageStrip(lambda: "a worker runs", [StripButton("crash", "Crash it", press)])
    async with Client(memory_url()) as client:
        for read_only in (False, True):
            app = app_of(client, WebSettings(key=KEY, strip=strip, read_only=read_only))
            async with caller(app) as stranger, browser(app) as page:
                unknown = await stranger.post("/strip/crash")
                other = await page.post("/strip/crash", headers={"x-perdure-csrf": "wrong"})
                none = await page.post("/strip/nothing")
                shown = await page.get("/")
                pressed = await page.post("/strip/crash")

            assert (unknown.status_code, other.status_code) == (401, 403)
            assert "a worker runs" in shown.text
            assert ("Crash it" in shown.text) is not read_only
            assert none.status_code == (403 if read_only else 404)
            assert pressed.status_code == (403 if read_only else 204)

    assert presses == ["crash"]


async def test_applications_of_users_have_no_strip() -> None:
    async with Client(memory_url()) as client, browser(perdure.web.app(client, key=KEY)) as page:
        shown = await page.get("/")
        pressed = await page.post("/strip/crash")

    assert 'class="strip"' not in shown.text
    assert pressed.status_code == 404
