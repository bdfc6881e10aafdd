"""Calls from the threads of a store to event loops.

`call_soon_threadsafe` writes to a socket, and the loop reads that twice. On Linux the kernel has a
counter for it (eventfd): one call there, one back, which saves 6 of the 40 microseconds that a
message to a thread and its answer take. Where there is no such thing, or a loop cannot wait for
files, it is `call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context

logger = logging.getLogger(__name__)

_CLOSED = -1


class LoopCalls:
    """The loops that wait for threads of a store."""

    def __init__(self) -> None:
        self._bells: dict[asyncio.AbstractEventLoop, _Bell] = {}

    def attend(self) -> asyncio.AbstractEventLoop:
        """Return the running loop, which is ready to be called from now on."""
        loop = asyncio.get_running_loop()
        if loop not in self._bells:
            self._forget_closed()
            bell = _make_bell(loop)
            if bell is not None:
                self._bells[loop] = bell
        return loop

    def call(self, loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
        """Have a function called on a loop soon. Called by any thread; never fails: a loop that is
        closed has no callers that wait."""
        bell = self._bells.get(loop)
        try:
            if bell is None or not bell.ring(function):
                loop.call_soon_threadsafe(function)
        except RuntimeError:
            return  # The loop is closed.
        except Exception as trouble:  # A loop of its own kind. The thread answers others too.
            logger.error("a caller's loop cannot be told of an answer: %s", type(trouble).__name__)

    def close(self) -> None:
        """Let the loops go. No thread calls any more."""
        bells, self._bells = self._bells, {}
        for loop, bell in bells.items():
            _close_on(loop, bell)

    def _forget_closed(self) -> None:
        for loop, bell in list(self._bells.items()):
            if loop.is_closed():
                self._bells.pop(loop, None)  # Another thread may find it too.
                bell.close()


class _Bell:
    """What rings on one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, file: int) -> None:
        self._loop = loop
        self._file = file
        self._waiting: deque[Callable[[], object]] = deque()
        self._closing = threading.Lock()
        """Held while the file is used by another thread: its number may be another's after that."""

    def ring(self, function: Callable[[], object]) -> bool:
        """Have a function called; false if the bell is closed."""
        with self._closing:
            if self._file == _CLOSED:
                return False
            self._waiting.append(function)
            try:
                os.eventfd_write(self._file, 1)
            except OSError:  # Closed by user code, with all files that it did not know of.
                self._loop.call_soon_threadsafe(self._call_waiting)
        return True

    def answer(self) -> None:
        """It has rung: call what waits."""
        with suppress(OSError):
            os.eventfd_read(self._file)
        self._call_waiting()

    def close(self) -> None:
        """Call what waits, and ring no more. On the loop, or when that is closed. Harmless the
        second time."""
        with self._closing:
            file, self._file = self._file, _CLOSED
        if file == _CLOSED:
            return
        if not self._loop.is_closed():
            self._loop.remove_reader(file)
            self._call_waiting()
        with suppress(OSError):
            os.close(file)

    def _call_waiting(self) -> None:
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            if self._waiting:  # One has failed, which the loop reports. The others are next.
                self._loop.call_soon(self._call_waiting)


def _make_bell(loop: asyncio.AbstractEventLoop) -> _Bell | None:
    """Return a bell for the running loop, if it can have one."""
    if not hasattr(os, "eventfd"):
        return None
    try:
        file = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    except OSError:
        return None  # No more files: the socket of the loop is there already.
    bell = _Bell(loop, file)
    try:
        # Not in the context of the caller that happens to be the first: it would be kept.
        Context().run(loop.add_reader, file, bell.answer)
    except Exception:  # Some loops cannot wait for files.
        os.close(file)
        return None
    return bell


def _close_on(loop: asyncio.AbstractEventLoop, bell: _Bell) -> None:
    """Close a bell where its loop runs, or here if it does not."""
    if loop.is_closed() or loop is asyncio._get_running_loop():
        bell.close()
    else:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(bell.close)
