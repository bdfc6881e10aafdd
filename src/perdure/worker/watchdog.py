"""Finds turns that compute too long, says where they are stuck, and interrupts them.

Turns share the worker's thread, so one that never ends would stop all others. A thread of its own
looks every quarter of a second. It warns first; past the limit it raises an exception inside the
turn, which the worker catches: the instance is parked, the worker goes on.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
import time
import traceback
from datetime import timedelta
from types import TracebackType
from typing import Self

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25


class TurnTooLongError(BaseException):
    """A turn computed longer than its limit. Not an Exception, so that user code lets it pass."""


class Watchdog:
    """Watches one thread, in which one turn runs at a time."""

    def __init__(self, warning: timedelta, limit: timedelta) -> None:
        self._warning_s = warning.total_seconds()
        self._limit_s = limit.total_seconds()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._watched = ("", "")
        self._turn: tuple[str, str, float, int] | None = None
        self._stuck_at = ""
        self._has_warned = False
        self._has_struck = False

    def watching(self, instance_id: str, name: str) -> Self:
        """Return the watchdog, to be entered for one turn: `with watchdog.watching(...):`.

        A plain context manager, not a generator: this runs for every turn.

        Raises:
            TurnTooLongError: On leaving, if the turn ran longer than the limit; says where.
        """
        self._watched = (instance_id, name)
        return self

    def __enter__(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="perdure-watchdog", daemon=True)
            self._thread.start()
        self._has_warned = False
        self._turn = (*self._watched, time.monotonic(), threading.get_ident())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        # Under the lock, so that the thread cannot strike after the turn is over; a strike that was
        # not raised yet is taken back. User code may have swallowed one: it counts all the same.
        with self._lock:
            self._turn = None
            has_struck, self._has_struck = self._has_struck, False
            if has_struck:
                _raise_in(threading.get_ident(), None)
        if has_struck:
            raise TurnTooLongError(self._text(*self._watched)) from None

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _look(self) -> None:
        while not self._closed.wait(LOOK_EVERY_S):
            with self._lock:
                turn = self._turn
                if turn is None:
                    continue
                instance_id, name, since_s, thread_id = turn
                took_s = time.monotonic() - since_s
                if took_s > self._warning_s and not self._has_warned:
                    self._has_warned = True
                    self._stuck_at = _where(thread_id)
                    logger.warning(
                        "a turn of %s computes for %.1f s at %s",
                        name,
                        took_s,
                        self._stuck_at,
                        extra={"instance_id": instance_id},
                    )
                if took_s > self._limit_s:
                    self._has_struck = True
                    self._stuck_at = _where(thread_id)
                    _raise_in(thread_id, TurnTooLongError)

    def _text(self, instance_id: str, name: str) -> str:
        return (
            f"a turn of {name} ({instance_id}) computed longer than {self._limit_s:g} s, at "
            f"{self._stuck_at}: move long work into an activity"
        )


def _where(thread_id: int) -> str:
    """Return the innermost line of user code that a thread is at."""
    frame = sys._current_frames().get(thread_id)
    if frame is None:
        return "an unknown place"
    stack = traceback.extract_stack(frame)
    ours = [entry for entry in stack if "/perdure/" not in entry.filename]
    entry = (ours or stack)[-1]
    return f"{entry.filename.rsplit('/', 1)[-1]}:{entry.lineno} in {entry.name}"


def _raise_in(thread_id: int, error: type[BaseException] | None) -> None:
    what = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), what)
