"""Hearing at once that another process has given a hint, by the kernel (inotify, on Linux).

A writer that gives a hint touches the times of the lock file; the kernel wakes the event loops of
those that watch it, without a thread between. What the numbers in the file then say is what counts:
our own hints wake us too, and are no news. Touching, not writing: numbers are written by every
commit, also by those that concern no other process.

Only a hint. Where the kernel has no such thing, or no more of it to give (128 watches per user are
usual), or the file is on a network file system and another machine writes, a listener is not
called, and its process looks by itself, as without all this. A child that was forked has neither
the loop nor the lock file open; its copy of the watch is read by no one.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from perdure.model.hints import KINDS, Hint
from perdure.store.sqlite.file_lock import WriteLock

_IN_ATTRIB = 0x4
_READ_BYTES = 4096

logger = logging.getLogger(__name__)


class FileWatch:
    """Calls those who listen to hints of others, each on its loop."""

    def __init__(self, lock: WriteLock) -> None:
        self._lock = lock
        self._loops: dict[asyncio.AbstractEventLoop, _LoopWatch] = {}
        self._listening = dict.fromkeys(KINDS, 0)
        """How many listen to each kind."""
        self._is_heard = dict.fromkeys(KINDS, False)
        """Whether writers know of that, and the kernel tells of what they do."""

    def listen(self, kind: Hint, heard: Callable[[], None]) -> Callable[[], None]:
        """Have a function called on the running loop whenever others have given a hint.

        Returns:
            What ends that.
        """
        loop = asyncio.get_running_loop()
        watch = self._loops.get(loop)
        if watch is None:
            watch = self._loops[loop] = _LoopWatch(self._lock, loop)
        listener = _Listener(kind, heard)
        watch.listeners[listener] = None
        if watch.can_hear:
            self._count(kind, 1)

        def stop() -> None:
            del watch.listeners[listener]
            if watch.can_hear:
                self._count(kind, -1)
            if not watch.listeners and self._loops.get(loop) is watch:
                del self._loops[loop]
                watch.close()

        return stop

    def hears(self, kind: Hint) -> bool:
        """Return whether those who listen to a kind of hints are called."""
        return self._is_heard[kind]

    def close(self) -> None:
        """Watch no more."""
        for watch in self._loops.values():
            watch.close()
        self._loops.clear()

    def _count(self, kind: Hint, by: int) -> None:
        before = self._listening[kind]
        self._listening[kind] += by
        if 0 in (before, before + by):
            self._is_heard[kind] = self._lock.listen(kind, is_on=by > 0) and by > 0


@dataclass(eq=False, slots=True, frozen=True)
class _Listener:
    kind: Hint
    heard: Callable[[], None]


class _LoopWatch:
    """The file as one event loop watches it."""

    def __init__(self, lock: WriteLock, loop: asyncio.AbstractEventLoop) -> None:
        self.listeners: dict[_Listener, None] = {}
        self._lock = lock
        self._loop = loop
        self._seen = {kind: lock.hints_of_others(kind) for kind in KINDS}
        self._watch = _watch_times(lock.file)
        if self._watch is not None:
            try:
                loop.add_reader(self._watch, self._look)
            except NotImplementedError:  # Some loops cannot wait for files.
                self._stop_watching()

    @property
    def can_hear(self) -> bool:
        """Whether the kernel tells of anything."""
        return self._watch is not None

    def close(self) -> None:
        """Watch no more. Harmless the second time."""
        if self._watch is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._watch)
            self._stop_watching()

    def _stop_watching(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            os.close(watch)

    def _look(self) -> None:
        """The file was touched: see by whom, and call those whom it concerns."""
        if self._watch is None:
            return
        with suppress(BlockingIOError):
            os.read(self._watch, _READ_BYTES)
        for kind in KINDS:
            given = self._lock.hints_of_others(kind)
            if given != self._seen[kind]:
                self._seen[kind] = given
                for listener in tuple(self.listeners):
                    if listener.kind is kind:
                        listener.heard()


def _watch_times(file: int) -> int | None:
    """Return what can be read when the times of an open file were touched, if that can be had."""
    system = _system()
    if system is None or file < 0:
        return None
    watch: int = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if watch < 0:
        logger.info("hints of other processes are missing; looking goes on")
        return None
    # By its number: behind its path may be another file by now.
    path = f"/proc/self/fd/{file}".encode()
    if system.inotify_add_watch(watch, path, _IN_ATTRIB) < 0:
        logger.info("hints of other processes are missing; looking goes on")
        os.close(watch)
        return None
    return watch


@cache
def _system() -> Any:
    """Return the library of the system, if it has what is needed."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None, use_errno=True)
        return library if library.inotify_init1 and library.inotify_add_watch else None
    except (OSError, AttributeError):
        return None
