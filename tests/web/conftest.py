"""For the tests of pages in a browser: one Chromium and one server for all tests of a process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.web.chromium import NoBrowserError, find_chromium
from tests.web.devtools import Browser
from tests.web.serving import Served


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """A browser, installed if there is none."""
    try:
        program = find_chromium()
    except NoBrowserError as error:
        pytest.skip(f"NO BROWSER, so pages are not tried in a real one: {error}")
    async with Browser(program) as browser:
        yield browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server() -> AsyncIterator[Served]:
    """Where the browser finds what a test serves."""
    async with Served() as server:
        yield server
