"""Take pictures of every page, light and dark, for the documentation.

    python -m tools.make_images             # docs/images
    python -m tools.make_images --all DIR   # also at the widths of phones and tablets, whole pages

Needs a Chromium; as root on Debian it is installed. A picture has 150 KB at most, and names
neither a folder nor the host of the machine that it is taken on.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import tempfile
from pathlib import Path

import perdure.web
from tests.web.bookshop import MORE, PAGES, opened
from tests.web.chromium import find_chromium
from tests.web.devtools import Browser, Page, Theme
from tests.web.serving import Served

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
MAX_BYTES = 150_000
KEY = "key-of-the-pictures"
SIZE = (1280, 800)
WIDTHS = (390, 820, 1440)
THEMES: tuple[Theme, ...] = ("light", "dark")


async def main(folder: Path, *, all_widths: bool) -> None:
    """Take the pictures."""
    with tempfile.TemporaryDirectory() as place:
        async with (
            opened(f"sqlite:///{place}/shop.db") as engine,
            Served() as server,
            Browser(find_chromium()) as browser,
            await browser.open(server.url) as page,
        ):
            server.put(perdure.web.app(engine, key=KEY, title="sqlite:///shop.db"))
            await page.goto(f"/?k={KEY}")
            for theme in THEMES:
                await page.prefers(theme)
                if all_widths:
                    await _at_all_widths(page, theme, folder)
                else:
                    await _for_documentation(page, theme, folder)


async def _for_documentation(page: Page, theme: Theme, folder: Path) -> None:
    await page.resize(*SIZE)
    for name, path in PAGES.items():
        await _settled(page, path)
        picture = await page.picture()
        if len(picture) > MAX_BYTES:
            raise SystemExit(
                f"{name}-{theme}.png has {len(picture):,} bytes; {MAX_BYTES:,} at most"
            )
        (folder / f"{name}-{theme}.png").write_bytes(picture)


async def _at_all_widths(page: Page, theme: Theme, folder: Path) -> None:
    for width in WIDTHS:
        for name, path in (PAGES | MORE).items():
            await page.resize(width, 900)
            await _settled(page, path)
            await page.resize(width, await page.run("document.documentElement.scrollHeight"))
            (folder / f"{name}-{theme}-{width}.png").write_bytes(await page.picture())


async def _settled(page: Page, path: str) -> None:
    await page.goto(path)
    await page.until(
        "document.querySelector('.big-number') || document.querySelector('#live-dot.on')"
    )
    for own, neutral in ((f"{ROOT}/", ""), (f"{socket.gethostname()} ·", "books-1 ·")):
        await page.run(
            f"""(() => {{
              const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
              while (texts.nextNode()) {{
                const node = texts.currentNode;
                node.data = node.data.replaceAll({json.dumps(own)}, {json.dumps(neutral)});
              }}
            }})()"""
        )


if __name__ == "__main__":
    arguments = sys.argv[1:]
    is_all = arguments[:1] == ["--all"]
    chosen = Path(arguments[1]) if is_all else IMAGES
    chosen.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(chosen, all_widths=is_all))
