"""The demo's page in a real browser: its worker is crashed by a button, and the order goes on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.commands import Command
from tests.web.devtools import Browser

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),  # the first test may have to install the browser
]

SENTENCE = "0 completed activities repeated"


async def test_the_crash_button_kills_the_worker_and_no_completed_activity_is_repeated(
    chromium: Browser, tmp_path: Path
) -> None:
    demo = Command(tmp_path, "demo", "--stay", "--port", "0", "--seconds", "0.2")
    try:
        address = (await demo.says(r"UI  (http://127\.0\.0\.1:\d+)(/\S+)")).groups()
        async with await chromium.open(address[0]) as page:
            await page.goto(address[1])
            assert await page.text("h1") == "order-1"
            await demo.says("Now you")  # the story has killed one worker by itself
            await page.sees("#strip-text", SENTENCE)

            await page.click("button", text="Crash the worker")
            await page.sees("#strip-text", "was killed")
            # Whatever was under way: of the next order the new worker does all that is done.
            await page.click("button", text="Another order")
            await page.sees("#strip-text", SENTENCE)

            await page.goto("/i/order-2")
            await page.sees(".answer", "completed")
            assert page.troubles == []

        demo.send(signal.SIGTERM)
        assert demo.end() == 0
    finally:
        demo.kill()
