"""Telling systemd how a worker is: `perdure worker --systemd` in a unit with `Type=notify`.

systemd hears that the worker takes work (READY), that it stops (STOPPING), and with `WatchdogSec=`
that its event loop still runs: a loop that is stuck says nothing, and systemd starts it again.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from perdure.errors import UsageError

SIGNS_PER_LIMIT = 3
"""How many signs of life are given within the time after which systemd gives up."""


class Notifier:
    """Sends what systemd wants to know.

    Args:
        environment: What systemd has set.

    Raises:
        UsageError: Nothing listens.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        if not address:
            raise UsageError(
                "--systemd is for a unit of systemd with Type=notify, which sets $NOTIFY_SOCKET; "
                "leave it out elsewhere"
            )
        # A name that begins with @ is not in the file system.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        limit_us = environment.get("WATCHDOG_USEC", "")
        self._limit_s = int(limit_us) / 1_000_000 if limit_us.isdecimal() else 0.0

    def ready(self, status: str) -> None:
        """Say that it works."""
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """Say that it was told to stop."""
        self._send("STOPPING=1")

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Give signs of life from this loop, where systemd asks for them."""
        signs = asyncio.ensure_future(self._give_signs()) if self._limit_s else None
        try:
            yield
        finally:
            if signs is not None:
                signs.cancel()
                await asyncio.gather(signs, return_exceptions=True)

    async def _give_signs(self) -> None:
        while True:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self._limit_s / SIGNS_PER_LIMIT)

    def _send(self, text: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
            sending.setblocking(False)  # A reader that is behind must not hold up the worker.
            try:
                sending.sendto(text.encode(), self._address)
            except OSError:
                # systemd is gone, does not listen or is behind; the work is not stopped for that.
                return
