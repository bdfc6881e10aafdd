"""A process that visits pages as browsers do, and asks the API as programs do.

An open page has a stream that tells of changes, and loads itself anew then, as seldom as the script
of the pages does. Sockets and no more: what this costs is taken from those that are measured.

    python -m bench.page_visitors PORT PAGES REQUESTS_PER_S
"""

from __future__ import annotations

import asyncio
import sys
import time
from itertools import cycle, islice

from bench.harness import percentile
from bench.peers import Spent, answer

LEAST_S = 1.0
MOST_S = 5.0
FACTOR = 20.0
"""A page waits for twenty times what it took to load, within these: see `look` in
`web/static/perdure.js`."""

PAGES = ("/", "/i/seen-1", "/queues", "/failures", "/workers")
"""What is open, as many of each."""
CONNECTIONS = 32
ROUTES = (
    "/api/instances?limit=20",
    *["/api/instances/seen-1", "/api/instances/seen-1/result", "/api/instances/seen-1/explain"] * 3,
)


class Connection:
    """A connection that is kept open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str, *, tag: str = "", accept: str = "*/*") -> tuple[int, str]:
        """Ask for something and read it all; return its status and tag."""
        status, headers, reader = await self.begin(path, tag=tag, accept=accept)
        length = int(headers.get("content-length", "0"))
        if length:
            await reader.readexactly(length)
        return status, headers.get("etag", "")

    async def begin(
        self, path: str, *, tag: str = "", accept: str = "*/*"
    ) -> tuple[int, dict[str, str], asyncio.StreamReader]:
        """Ask for something, and return its head and where its body comes from."""
        if self._streams is None or self._streams[0].at_eof():  # The server ends idle ones.
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        more = f"If-None-Match: {tag}\r\n" if tag else ""
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\n{more}\r\n".encode()
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        return int(head[0].split(" ")[1]), headers, reader

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()


class Visitors:
    """Everybody who looks."""

    def __init__(self, port: int, pages: int, requests_per_s: int) -> None:
        self._port = port
        self._pages = pages
        self._requests_per_s = requests_per_s
        self._tasks: list[asyncio.Task[None]] = []
        self._took_ms: list[float] = []
        self._open: list[Connection] = []
        self.loads = 0

    async def handle(self, word: str) -> Spent:
        """Begin or end."""
        if word == "begin":
            self._took_ms, self.loads = [], 0
            open_pages = islice(cycle(PAGES), self._pages)
            self._tasks = [asyncio.ensure_future(self._page(path)) for path in open_pages]
            self._tasks.append(asyncio.ensure_future(self._programs()))
            return Spent()
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in ended:
            if not isinstance(one, asyncio.CancelledError):
                raise RuntimeError("a visitor gave up") from one
        for connection in self._open:
            connection.close()
        self._open.clear()
        return Spent(
            calls=len(self._took_ms),
            rows=self.loads,
            p99_ms=percentile(self._took_ms, 0.99) if self._took_ms else 0.0,
            cpu_s=time.process_time(),
        )

    def _connection(self) -> Connection:
        made = Connection(self._port)
        self._open.append(made)
        return made

    async def _page(self, path: str) -> None:
        connection = self._connection()
        _, tag = await connection.get(path, accept="text/html")
        stream = self._connection()
        _, _, reader = await stream.begin("/api/changes", accept="text/event-stream")
        while True:
            await reader.readuntil(b"event: changed")
            began_s = time.monotonic()
            _, tag = await connection.get(path, tag=tag, accept="text/html")
            self.loads += 1
            took_s = time.monotonic() - began_s
            await asyncio.sleep(min(MOST_S, max(LEAST_S, FACTOR * took_s)))

    async def _programs(self) -> None:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for _ in range(CONNECTIONS):
            free.put_nowait(self._connection())
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number, path in enumerate(cycle(ROUTES)):
                due = begun + number / self._requests_per_s
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                # All of them may wait for answers: then the server is behind.
                group.create_task(self._ask(await free.get(), path, free))

    async def _ask(
        self, connection: Connection, path: str, free: asyncio.Queue[Connection]
    ) -> None:
        began_s = time.monotonic()
        status, _ = await connection.get(path)
        assert status == 200, f"{path}: {status}"
        self._took_ms.append((time.monotonic() - began_s) * 1e3)
        free.put_nowait(connection)


if __name__ == "__main__":
    asyncio.run(answer(Visitors(*map(int, sys.argv[1:4])).handle))
