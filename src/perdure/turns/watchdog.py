"""Finds turns that compute too long, says where they are stuck, and interrupts them.

Turns share the worker's thread, so one that never ends would stop all others. A thread of its own
looks every quarter of a second. It warns first; past the limit it raises an exception inside the
turn, which the worker catches: the instance is parked, the worker goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta
from types import TracebackType
from typing import Self

from perdure.interrupting import absorb, is_in_user_code, place_of, raise_in
from perdure.stillness import Stillness

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
            self._thread = threading.Thread(
                target=self._look_on, name="perdure-watchdog", daemon=True
            )
            self._thread.start()
        self._has_warned = False
        self._turn = (*self._watched, time.monotonic(), threading.get_ident())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        try:
            has_struck = self._end_turn()
        except TurnTooLongError:
            # The strike came while we were leaving.
            self._end_turn()
            has_struck = True
        if has_struck:
            raise TurnTooLongError(self._text(*self._watched)) from None

    def _end_turn(self) -> bool:
        """Stop watching; return whether the turn was struck, even if user code swallowed that."""
        # Under the lock, so that the thread cannot strike after the turn is over.
        with self._lock:
            self._turn = None
            has_struck, self._has_struck = self._has_struck, False
        if has_struck:
            absorb(TurnTooLongError)
        return has_struck

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _look_on(self) -> None:
        stillness = Stillness(LOOK_EVERY_S)
        while not self._closed.wait(LOOK_EVERY_S):
            now_s = time.monotonic()
            self.look(now_s, still_s=stillness.since_last_look(now_s))

    def look(self, now_s: float, *, still_s: float) -> None:
        """Warn of the turn that runs, or interrupt it, if it computes too long.

        Args:
            now_s: What `time.monotonic` says now.
            still_s: How long the process stood still since the last look: no turn computed then.
        """
        with self._lock:
            if self._turn is None:
                return
            instance_id, name, since_s, thread_id = self._turn
            since_s += min(still_s, max(0.0, now_s - since_s))
            self._turn = (instance_id, name, since_s, thread_id)
            took_s = now_s - since_s
            if took_s > self._warning_s and not self._has_warned:
                self._has_warned = True
                self._stuck_at = place_of(thread_id)
                logger.warning(
                    "a turn of %s computes for %.1f s at %s",
                    name,
                    took_s,
                    self._stuck_at,
                    extra={"instance_id": instance_id, "definition": name},
                )
            # Only inside user code: what runs around it must not be cut off halfway.
            if took_s > self._limit_s and is_in_user_code(thread_id):
                self._has_struck = True
                self._stuck_at = place_of(thread_id)
                raise_in(thread_id, TurnTooLongError)

    def _text(self, instance_id: str, name: str) -> str:
        return (
            f"a turn of {name} ({instance_id}) computed longer than {self._limit_s:g} s, at "
            f"{self._stuck_at}: move long work into an activity"
        )
