"""`perdure dev`: a worker, its pages, and both anew whenever the code changes.

The parent holds the address of the pages and watches the files. A child has the code: it works and
serves the pages, which so know the definitions. When a file changes, the parent starts another
child, which imports the code while the old one goes on. Only if that succeeds is the old one
stopped and the new one told to work: code that cannot be imported is said, and stops nothing. Who
asks for a page in between waits a moment, as the address is never given up.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from perdure.cli.interruptible import run_interruptibly
from perdure.cli.output import say
from perdure.cli.serving.file_changes import FileChanges
from perdure.cli.serving.fleet import BACK_OFF_S, SOUND_AFTER_S
from perdure.cli.serving.http_server import LOCAL, HttpAddress, listen
from perdure.errors import UsageError
from perdure.store.urls import shown_url

T = TypeVar("T")

MODULE = "perdure.cli.serving.dev_process"
GOES_ON = ": the code from before goes on"
KILL_AFTER_S = 10.0
"""How long a child may take to stop before it is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevSettings:
    """What the command line says."""

    url: str
    target: str
    port: int
    has_pages: bool = True
    reloads: bool = True
    opens: bool = False


class ChildSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is told."""

    url: str
    target: str
    key: str
    listening: int | None
    """The file number of the socket that the pages are served on; None: no pages."""


def run_dev(settings: DevSettings) -> int:
    """Work, serve and reload until Ctrl-C or SIGTERM; return the exit code.

    Raises:
        UsageError: The address is taken, or there is no such file.
    """
    place = settings.target.partition(":")[0]
    if place.endswith(".py") and not Path(place).is_file():
        raise UsageError(f"there is no file {place}")
    if ":memory:" in settings.url:
        raise UsageError("a store in memory would be lost with each reload: give --store a file")
    listening, address = None, None
    if settings.has_pages:
        listening, address = listen(HttpAddress(LOCAL, settings.port), flag="--port 0")
    try:
        return run_interruptibly(Dev(settings, listening, address).run())
    finally:
        if listening is not None:
            listening.close()


class Dev:
    """The parent."""

    def __init__(
        self,
        settings: DevSettings,
        listening: socket.socket | None,
        address: HttpAddress | None,
    ) -> None:
        self._settings = settings
        self._listening = listening
        self._key = os.urandom(24).hex()
        self._page = "" if address is None else f"{address.shown}/?k={self._key}"
        self._told = asyncio.Event()
        self._child: Child | None = None
        """The one that works, or worked last."""
        self._deaths = 0
        """How often it died soon after it began."""

    async def run(self) -> int:
        """Keep a child running until told to stop; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._hear)
        # Before the code is read: what changes while it is imported is seen.
        changes = FileChanges(watched_folder(self._settings.target))
        try:
            self._child = await self._start_child()
            if not await self._until_told(self._child.has_loaded()):
                return await self._exit_code()
            if not await self._until_told(self._child.works()):
                return await self._exit_code()
            self._headline(self._child.described)
            await self._keep(changes)
        finally:
            if self._child is not None:
                await self._child.stop()
        return 0

    async def _exit_code(self) -> int:
        """Return how a start ended that came to nothing: stopped, or with what the child said."""
        assert self._child is not None
        return 0 if self._told.is_set() else await self._child.ended

    def _hear(self) -> None:
        if self._told.is_set() and self._child is not None:
            self._child.send(signal.SIGTERM)
        self._told.set()

    def _headline(self, described: str) -> None:
        settings = self._settings
        reload = "on" if settings.reloads else "off"
        say(
            f"perdure {version('perdure')}   store {shown_url(settings.url)}   "
            f"{settings.target}: {described}   reload {reload}"
        )
        if self._page:
            say(f"UI  {self._page}")
        if self._page and settings.opens:
            import webbrowser  # late: few want it

            webbrowser.open(self._page)

    async def _keep(self, changes: FileChanges) -> None:
        """Reload when files change, and replace a child that dies, until told to stop."""
        while not self._told.is_set():
            assert self._child is not None
            waits: list[asyncio.Future[Any]] = [self._child.ended]
            if self._settings.reloads:
                waits.append(asyncio.ensure_future(changes.next()))
            await self._until_told(asyncio.wait(waits, return_when="FIRST_COMPLETED"))
            changed = waits[-1].result() if waits[-1].done() else None
            for one in waits[1:]:
                one.cancel()
            if isinstance(changed, list):
                await self._reload(_named(changed))
            elif self._child.ended.done() and not self._told.is_set():
                await self._replace()

    async def _reload(self, what: str) -> None:
        """Let another child work with the code as it is now, if it can be imported."""
        assert self._child is not None
        loaded = await self._start_child()
        if not await self._until_told(loaded.has_loaded()):
            await loaded.stop()
            if not self._told.is_set():
                say(f"{what} cannot be used{'' if self._child.ended.done() else GOES_ON}")
            return
        await self._child.stop()
        self._child = loaded
        if await self._until_told(loaded.works()):
            say(f"{what} changed: reloaded, {loaded.described}")

    async def _replace(self) -> None:
        """Let another child work in place of one that died, after a pause that grows."""
        assert self._child is not None
        self._deaths = 0 if self._child.age_s() > SOUND_AFTER_S else self._deaths + 1
        pause_s = BACK_OFF_S[min(self._deaths, len(BACK_OFF_S) - 1)]
        say(f"the worker {self._child.ending()}; another one starts in {pause_s:g} s")
        await self._until_told(asyncio.sleep(pause_s))
        if self._told.is_set():
            return
        self._child = await self._start_child()
        if await self._until_told(self._child.has_loaded()):
            await self._until_told(self._child.works())

    async def _start_child(self) -> Child:
        return await Child.start(
            ChildSettings(
                url=self._settings.url,
                target=self._settings.target,
                key=self._key,
                listening=None if self._listening is None else self._listening.fileno(),
            )
        )

    async def _until_told(self, waiting: Awaitable[T]) -> T | None:
        """Wait for something, or to be told to stop: then None."""
        told = asyncio.ensure_future(self._told.wait())
        future = asyncio.ensure_future(waiting)
        await asyncio.wait([told, future], return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if future.done():
            return future.result()
        future.cancel()
        return None


class Child:
    """A process with the code."""

    def __init__(self, process: asyncio.subprocess.Process, ours: socket.socket) -> None:
        self._process = process
        self._ours = ours
        self._began_s = time.monotonic()
        self.described = ""
        """What definitions it has, once it has loaded them."""
        self.ended: asyncio.Future[int] = asyncio.ensure_future(process.wait())

    @classmethod
    async def start(cls, settings: ChildSettings) -> Child:
        """Start a process; it begins to import the code."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        lent = [theirs.fileno()] + ([] if settings.listening is None else [settings.listening])
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                MODULE,
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=lent,
                process_group=0,
            )
        child = cls(process, ours)
        await child._say(msgspec.json.encode(settings))
        return child

    async def has_loaded(self) -> bool:
        """Wait until it has imported the code; False if it could not."""
        self.described = await self._hears()
        return bool(self.described)

    async def works(self) -> bool:
        """Let it work, and wait until it does; False if it could not, and has said why."""
        await self._say(b"work")
        return bool(await self._hears())

    async def stop(self) -> None:
        """End it in order; if that takes too long, at once."""
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(KILL_AFTER_S):
                await asyncio.shield(self.ended)
        except TimeoutError:
            self.send(signal.SIGKILL)
            await self.ended
        self._ours.close()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still there."""
        if not self.ended.done():
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def age_s(self) -> float:
        """Return how long ago it was started."""
        return time.monotonic() - self._began_s

    def ending(self) -> str:
        """Return how it ended."""
        code = self.ended.result()
        return f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"

    async def _say(self, line: bytes) -> None:
        with suppress(ConnectionError):
            await asyncio.get_running_loop().sock_sendall(self._ours, line + b"\n")

    async def _hears(self) -> str:
        """Return the next line that it says; nothing if it has ended."""
        loop = asyncio.get_running_loop()
        said = b""
        with suppress(ConnectionError):
            while not said.endswith(b"\n") and (part := await loop.sock_recv(self._ours, 4096)):
                said += part
        return said.decode().strip()


def watched_folder(target: str) -> Path:
    """Return the folder below which files are watched: where the target is imported from."""
    place = target.partition(":")[0]
    if not place.endswith(".py"):
        return Path.cwd()
    folder = Path(place).resolve().parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _named(changed: Sequence[Path]) -> str:
    first, *rest = sorted(path.name for path in changed)
    return f"{first} and {len(rest)} more" if rest else first
