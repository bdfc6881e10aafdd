"""What all tests of a process share: what is the same for every application, one Chromium, and the
server that it asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import cache, partial
from typing import Any

import pytest
import pytest_asyncio
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

from perdure.web import application
from perdure.web.openapi import document_for
from perdure.web.pages import rendering
from perdure.web.table import OPERATIONS
from tests.web.chromium import NoBrowserError, find_chromium
from tests.web.devtools import Browser
from tests.web.serving import Served


class Compiled(BytecodeCache):
    """Templates as they were compiled for the first application."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take a template from here."""
        if bucket.key in self._kept:
            bucket.bytecode_from_string(self._kept[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template."""
        self._kept[bucket.key] = bucket.bytecode_to_string()


@pytest.fixture(autouse=True, scope="session")
def _made_once() -> Iterator[None]:
    """Compile the templates once, and describe the API once. Each test has an application of its
    own, which would do so again: half of what these tests take."""

    @cache
    def document() -> dict[str, Any]:
        return document_for(OPERATIONS)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendering, "Environment", partial(Environment, bytecode_cache=Compiled()))
        patch.setattr(application, "document_for", lambda operations: document())
        yield


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
