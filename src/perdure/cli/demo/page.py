"""The pages beside the demo, with a button that crashes its worker."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure.cli.demo.stage import DemoStage
from perdure.cli.serving.http_server import LOCAL, HttpAddress, listen, served
from perdure.errors import UsageError

ANY_PORT = "--port 0"


@asynccontextmanager
async def pages_beside(stage: DemoStage, port: int) -> AsyncIterator[str]:
    """Serve the pages while the block is open.

    Args:
        stage: What they show and crash.
        port: Where, if it is free; else at any that is.

    Yields:
        The address for a browser.
    """
    # Late: the worker starts while the web is imported.
    from perdure.web.application import app_of
    from perdure.web.settings import LOOPBACK, PageStrip, StripButton, WebSettings

    try:
        listening, address = listen(HttpAddress(LOCAL, port), flag=ANY_PORT)
    except UsageError:
        listening, address = listen(HttpAddress(LOCAL, 0), flag=ANY_PORT)

    async def start_order() -> None:
        await stage.start_order()

    buttons = (
        StripButton("order", "Another order", start_order),
        StripButton("crash", "Crash the worker", stage.crash_worker, is_danger=True),
    )
    key = os.urandom(24).hex()
    settings = WebSettings(
        key=key,
        hosts=frozenset(LOOPBACK),
        title="the demo",
        strip=PageStrip(stage.sentence, buttons),
    )
    async with served(app_of(stage.client, settings), [listening], drain_s=0):
        yield f"{address.shown}/i/{stage.orders[0]}?k={key}"


def open_browser(page: str) -> bool:
    """Open a page where there is a screen to open it on; return whether one was tried."""
    has_screen = sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if not has_screen:
        return False
    import webbrowser  # late: few have a screen

    return webbrowser.open(page)
