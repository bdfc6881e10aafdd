"""Between a client and PostgreSQL: a proxy that cuts and stalls, and a pooler in transaction mode.

Both know where messages begin and end, and nothing of what is in them but the few facts they need.
They run on the loop of the test; what they stand between runs on threads with loops of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Self
from urllib.parse import urlsplit, urlunsplit

_NO_ENCRYPTION = (80877103, 80877104)
"""Requests for TLS and GSSAPI, before anything else. They are answered with no."""
QUERY, PARSE, BIND, TERMINATE = b"Q", b"P", b"B", b"X"
KEY, READY = b"K", b"Z"
IDLE = b"I"

_GONE = (OSError, asyncio.IncompleteReadError)


class Message(NamedTuple):
    """What one side says to the other at once."""

    kind: bytes
    body: bytes

    @property
    def data(self) -> bytes:
        """As it goes over the line."""
        return self.kind + (len(self.body) + 4).to_bytes(4) + self.body

    def statement(self, prepared: dict[bytes, str]) -> str:
        """Return the text of a statement that is to be run; otherwise nothing.

        Args:
            prepared: The statements that this line has prepared, by name; one more is kept there.
        """
        if self.kind == QUERY:
            return self.body.rstrip(b"\0").decode()
        if self.kind == PARSE:
            name, text, _ = self.body.split(b"\0", 2)
            prepared[name] = text.decode()
        if self.kind == BIND:
            return prepared[self.body.split(b"\0", 2)[1]]
        return ""


async def read_message(reader: asyncio.StreamReader) -> Message:
    """Read one message."""
    head = await reader.readexactly(5)
    return Message(head[:1], await reader.readexactly(int.from_bytes(head[1:]) - 4))


async def read_hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Read what a client says first; refuse to encrypt."""
    while True:
        size = await reader.readexactly(4)
        body = await reader.readexactly(int.from_bytes(size) - 4)
        if int.from_bytes(body[:4]) not in _NO_ENCRYPTION:
            return size + body
        writer.write(b"N")


class _Listener:
    """Listens on a port of its own, in front of a server.

    Args:
        url: Of a database of the server.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lines: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.hang_up()
        if self._lines:
            await asyncio.wait(self._lines)

    @property
    def url(self) -> str:
        """Of the same database, through this."""
        parts = urlsplit(self._url)
        port = self._server.sockets[0].getsockname()[1]
        place = f"{parts.username}@127.0.0.1:{port}"
        return urlunsplit(parts._replace(netloc=place))

    def count_open(self) -> int:
        """Return how many lines there are now."""
        return len(self._lines)

    def lead_to(self, url: str) -> None:
        """Lead to a database of another server from here on, as after a failover."""
        self._url = url
        self.hang_up()

    def hang_up(self) -> None:
        """Close all lines, without a word to either side."""
        for line in self._lines:
            line.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = asyncio.current_task()
        assert line is not None
        self._lines.add(line)
        line.add_done_callback(self._lines.discard)
        with suppress(*_GONE, asyncio.CancelledError):
            await self._serve(reader, writer)
        writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self._url)
        return await asyncio.open_connection(parts.hostname, parts.port)


# ------------------------------------------------------------------------- the proxy

Applies = Callable[[str], bool]


def writes(statement: str) -> bool:
    """Return whether a statement is the last of a commit, in one call or in steps."""
    return statement == "COMMIT" or "write_known" in statement


class Proxy(_Listener):
    """Hands everything on, until it is told to do something else."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.cuts = 0
        self.lines = 0
        """How many connections were made."""
        self.late_by_s = 0.0
        """How long it takes to make one: time for others to be faster than who was cut off."""
        self._cut_before: Applies | None = None
        self._cut_after: Applies | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._stall_at: Applies | None = None
        self.keeps_open = False
        """Whether a client that the server has left hears of it only when it says something."""
        self.left_open = 0
        """How many such clients there are."""
        self.stalled = asyncio.Event()
        """Set when a line has come to the statement at which all stand still."""

    def cut_before(self, applies: Applies) -> None:
        """Close the line at the next statement that fits, before the server gets it."""
        self._cut_before = applies

    def cut_after(self, applies: Applies) -> None:
        """Close the line at the next statement that fits, when the server has answered it."""
        self._cut_after = applies

    def stall(self) -> None:
        """Hand nothing on any more, in both directions; lines stay open."""
        self._flowing.clear()

    def stall_at(self, applies: Applies) -> None:
        """Do so at the next statement that fits."""
        self._stall_at = applies

    def flow(self) -> None:
        """Hand everything on again."""
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines += 1
        hello = await read_hello(reader, writer)
        await self._flowing.wait()
        await asyncio.sleep(self.late_by_s)
        theirs, to_server = await self._connect()
        to_server.write(hello)
        is_last = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._hand_up(reader, to_server, is_last))
                both.create_task(self._hand_down(theirs, writer, to_server, is_last))
        except* _GONE:
            pass
        finally:
            # Also where the server or the line was gone before the answer came: nobody hears it.
            self.cuts += is_last.is_set()
            # As when the machine of the client is gone: the server finds out when it reads.
            to_server.transport.abort()

    async def _hand_up(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_last: asyncio.Event
    ) -> None:
        prepared: dict[bytes, str] = {}
        while True:
            message = await read_message(reader)
            statement = message.statement(prepared)
            if self._stall_at is not None and statement and self._stall_at(statement):
                self._stall_at = None
                self.stall()
                self.stalled.set()
            await self._flowing.wait()
            if writer.transport.is_closing():
                raise ConnectionResetError("nobody there")
            if self._cut_before is not None and statement and self._cut_before(statement):
                self._cut_before = None
                self.cuts += 1
                raise ConnectionResetError("cut")
            if self._cut_after is not None and statement and self._cut_after(statement):
                self._cut_after = None
                is_last.set()
            writer.write(message.data)
            await writer.drain()

    async def _hand_down(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        to_server: asyncio.StreamWriter,
        is_last: asyncio.Event,
    ) -> None:
        while True:
            try:
                message = await read_message(reader)
            except asyncio.IncompleteReadError:
                if not self.keeps_open:
                    raise
                self.left_open += 1
                to_server.transport.abort()
                return
            await self._flowing.wait()
            if not is_last.is_set():
                writer.write(message.data)
                await writer.drain()
            elif message.kind == READY:
                raise ConnectionResetError("cut")


# ------------------------------------------------------------------------ the pooler


class _Backend(NamedTuple):
    """A connection to the server, and what the server said when it was made."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    greeting: bytes


class Pooler(_Listener):
    """Gives every transaction of a client the connection to the server that rested longest.

    Like the poolers that are used with PostgreSQL in transaction mode, it takes no notice of what a
    session holds beyond a transaction: prepared statements, LISTEN, settings.

    Args:
        url: Of a database of the server.
        size: How many connections to the server it has.
    """

    def __init__(self, url: str, *, size: int = 4) -> None:
        super().__init__(url)
        self.transactions = 0
        self._size = size
        self._resting: deque[_Backend] = deque()
        self._freed = asyncio.Condition()
        self._hello = b""

    async def __aexit__(self, *exc_info: object) -> None:
        await super().__aexit__(*exc_info)
        for backend in self._resting:
            backend.writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = await read_hello(reader, writer)
        if not self._hello:
            self._hello = hello
            self._resting.extend([await self._new_backend() for _ in range(self._size)])
        # What one connection was greeted with is true for all.
        backend = await self._take()
        writer.write(backend.greeting)
        await self._give_back(backend)
        while True:
            message = await read_message(reader)
            if message.kind == TERMINATE:
                return
            self.transactions += 1
            await self._transact(message, reader, writer)

    async def _transact(
        self, first: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Hand a transaction on, from its first message to the answer that ends it."""
        backend = await self._take()
        backend.writer.write(first.data)
        asking = asyncio.ensure_future(self._hand_up(reader, backend.writer))
        try:
            while True:
                message = await read_message(backend.reader)
                writer.write(message.data)
                if message == (READY, IDLE):
                    break
        except BaseException:
            # The client is gone in the middle of it: nobody else may have that connection.
            backend.writer.transport.abort()
            backend = await self._new_backend()
            raise
        finally:
            asking.cancel()
            await asyncio.wait({asking})
            await self._give_back(backend)

    @staticmethod
    async def _hand_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(*_GONE):
            while True:
                writer.write((await read_message(reader)).data)

    async def _take(self) -> _Backend:
        async with self._freed:
            await self._freed.wait_for(lambda: self._resting)
            return self._resting.popleft()

    async def _give_back(self, backend: _Backend) -> None:
        async with self._freed:
            self._resting.append(backend)
            self._freed.notify()

    async def _new_backend(self) -> _Backend:
        reader, writer = await self._connect()
        writer.write(self._hello)
        greeting = b""
        while not greeting.endswith(Message(READY, IDLE).data):
            message = await read_message(reader)
            # Clients get a key of the pooler's: which connection they will have is open.
            greeting += (Message(KEY, bytes(8)) if message.kind == KEY else message).data
        return _Backend(reader, writer, greeting)
