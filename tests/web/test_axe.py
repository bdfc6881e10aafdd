"""Every page, light and dark, through the eyes of axe: people who see little or use no mouse."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import perdure.web
from tests.web.bookshop import MORE, PAGES, opened
from tests.web.devtools import Browser, Page
from tests.web.serving import Served
from tests.web.site import KEY

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),  # the first test may have to install the browser
]

AXE = files("axe_core_python").joinpath("axe.min.js")
SERIOUS = ("serious", "critical")


async def findings(page: Page, axe: str) -> list[str]:
    """Return what axe says of the page, in a line each."""
    await page.run(axe)
    found: dict[str, Any] = await page.run(
        "axe.run(document, {resultTypes: ['violations']})"
        ".then(one => ({violations: one.violations, passes: one.passes.length}))"
    )
    assert found["passes"] > 15, "axe has looked at next to nothing"
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]} {json.dumps(node['any'])[:200]}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
        for node in one["nodes"][:3]
    ]


async def test_no_page_has_a_serious_finding_light_or_dark(
    chromium: Browser, server: Served, tmp_path: Path
) -> None:
    axe = AXE.read_text()
    told: dict[str, list[str]] = {}
    async with (
        opened(f"sqlite:///{tmp_path}/shop.db") as engine,
        await chromium.open(server.url) as page,
    ):
        server.put(perdure.web.app(engine, key=KEY, title="sqlite:///shop.db"))
        await page.goto(f"/?k={KEY}")
        for name, path in (PAGES | MORE).items():
            await page.goto(path)
            await page.run("document.querySelectorAll('details').forEach(one => one.open = true)")
            for theme in ("light", "dark"):
                await page.prefers(theme)
                if found := await findings(page, axe):
                    told[f"{name}, {theme}"] = found
        for path, opener, opened_by_it in (
            ("/i/order-1048", "main [data-act]", "dialog[open]"),
            ("/i/order-1048", "#help", "dialog[open]"),
            ("/", ".why", ":popover-open"),
        ):
            await page.goto(path)
            await page.click(opener)
            await page.until(f"document.querySelector('{opened_by_it}')")
            if found := await findings(page, axe):
                told[f"dialog of {opener}"] = found
        assert page.troubles == []

    assert not told, json.dumps(told, indent=1)
