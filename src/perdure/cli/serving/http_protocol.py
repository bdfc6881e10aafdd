"""How `perdure` speaks HTTP: uvicorn's own protocol in Python, with two things of ours.

Always this one, whatever else is installed: it limits the size of headers before they are whole,
which the faster one does not. Head and body of an answer are handed over one after the other; sent
so, each would be a call of the system, and wake the reader: they are written together. And headers
that do not come are not waited for (SEC-11).
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_WITHIN_S = 10.0
"""How long a connection may take until the headers of a request are whole."""
TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\n"
    b"content-type: text/plain\r\ncontent-length: 38\r\nconnection: close\r\n\r\n"
    b"the headers did not arrive within 10 s"
)


class JoinedWrites:
    """A transport that sends what was written in one pass of the loop at its end."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send this with what else is written now."""
        if not self._parts:
            asyncio.get_running_loop().call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Send what was written, and hang up."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))


class HttpProtocol(H11Protocol):
    """One connection of a browser or program."""

    headers_within_s = HEADERS_WITHIN_S
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Take a connection."""
        super().connection_made(JoinedWrites(transport))  # type: ignore[arg-type]  # has all it uses
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_headers()
        else:
            self._wait_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of a connection."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait_for_headers(self) -> None:
        if self._late is None:
            loop = asyncio.get_running_loop()
            self._late = loop.call_later(self.headers_within_s, self._hang_up)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _hang_up(self) -> None:
        self._late = None
        self.transport.write(TOO_SLOW)
        self.transport.close()
