"""Lines in from standard input, answers out to standard output, until the input ends.

The input is read by a thread, since not every kind of it can be waited for by a loop. It reads
from the descriptor itself: a thread that stands in a buffered reader would keep Python from ending.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from typing import Any

from perdure.cli.mcp.protocol import Session, too_long
from perdure.cli.mcp.tool import Tool
from perdure.client.client import Client

MAX_LINE = 1024 * 1024
"""How many bytes one message has at most."""
_CHUNK = 65_536


class LineReader:
    """Cuts what comes in into lines."""

    def __init__(self, most: int = MAX_LINE) -> None:
        self._most = most
        self._rest = b""
        self._is_skipping = False

    def take(self, chunk: bytes) -> list[bytes | None]:
        """Return the lines that have ended; None for one that is too long."""
        *ended, self._rest = (self._rest + chunk).split(b"\n")
        found: list[bytes | None] = []
        for line in ended:
            found.append(None if self._is_skipping or len(line) > self._most else line)
            self._is_skipping = False
        if len(self._rest) > self._most:
            self._rest, self._is_skipping = b"", True
        return found

    def last(self) -> list[bytes | None]:
        """Return what stands behind the last end of a line, when there is no more."""
        return [self._rest] if self._rest else []


async def serve(client: Client, tools: Sequence[Tool[Any]], *, url: str) -> None:
    """Answer what comes in, until there is no more."""
    session = Session(client, tools, url=url)
    lines = _begin_reading(0)
    while (got := await lines.get()) is not _END:
        if got is None:
            _write(too_long(MAX_LINE))
            continue
        assert isinstance(got, bytes)
        if not got.strip():
            continue
        answer = await session.answer(got)
        if answer is not None:
            _write(answer)


_END = object()


def _begin_reading(descriptor: int) -> asyncio.Queue[bytes | object | None]:
    """Return where the lines of an open file arrive, and at last `_END`."""
    lines: asyncio.Queue[bytes | object | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def put(items: Sequence[bytes | object | None]) -> None:
        for one in items:
            lines.put_nowait(one)

    def read() -> None:
        reader = LineReader()
        try:
            while chunk := os.read(descriptor, _CHUNK):
                loop.call_soon_threadsafe(put, reader.take(chunk))
            loop.call_soon_threadsafe(put, [*reader.last(), _END])
        except OSError:
            loop.call_soon_threadsafe(put, [_END])
        except RuntimeError:
            pass  # The loop has ended before the input.

    threading.Thread(target=read, name="perdure-mcp-input", daemon=True).start()
    return lines


def _write(answer: bytes) -> None:
    """Write an answer as one line, whole."""
    left = memoryview(answer + b"\n")
    while left:
        left = left[os.write(1, left) :]
