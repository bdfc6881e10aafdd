"""Finds handlers of projections that hold the store too long, says so, and interrupts them.

A `SqlProjection` runs on the one thread that writes, so as long as it does not return nothing else
is written by this process, and with SQLite by no other. Its statements end by themselves when its
time is over; Python code is interrupted from here. What waits inside the operating system or an
extension cannot be interrupted: then the log and `health` say which projection it is, where it
stands and for how long, until it returns or the process is ended.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from perdure.interrupting import absorb, is_in_store, is_in_user_code, place_of, raise_in

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25


class HandlerTooLongError(BaseException):
    """A handler ran longer than its limit. Not an Exception, so that user code lets it pass."""


class _Handling:
    """A handler that runs."""

    __slots__ = (
        "limit_s",
        "method",
        "projection",
        "say_at_s",
        "since_s",
        "stuck_at",
        "thread_id",
        "was_struck",
    )

    def __init__(self, projection: str, method: str, limit_s: float) -> None:
        self.projection = projection
        self.method = method
        self.limit_s = limit_s
        self.thread_id = threading.get_ident()
        self.say_at_s = limit_s
        """After how long it is logged that it still runs."""
        self.stuck_at = ""
        self.was_struck = False
        self.since_s = time.monotonic()

    def error(self) -> TimeoutError:
        """Return what is told of it."""
        where = f", at {self.stuck_at}" if self.stuck_at else ""
        return TimeoutError(f"{self.method} has taken more than {self.limit_s:g} s{where}")


class HandlerWatch:
    """Watches the thread that writes, on which one handler runs at a time."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Prepare.

        Args:
            tell: Hears what holds the store beyond its time, and nothing when it has let go; called
                from other threads.
        """
        self._tell = tell
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._handling: _Handling | None = None

    def run(
        self, projection: str, method: str, limit_s: float, handle: Callable[[], None]
    ) -> TimeoutError | None:
        """Run a handler; return why it counts as failed if it took longer than its limit.

        Raises:
            Exception: What the handler raised in time.
        """
        if self._thread is None:
            name = "perdure-handlers"
            self._thread = threading.Thread(target=self._look, name=name, daemon=True)
            self._thread.start()
        handling = _Handling(projection, method, limit_s)
        raised: BaseException | None = None
        try:
            self._handling = handling
            try:
                handle()
            except BaseException as error:
                raised = error
            self._handling = None
            # What ends in time cannot be struck any more: the thread looks at the clock before it
            # looks who runs.
            is_late = time.monotonic() - handling.since_s > limit_s
            if is_late:
                self._end(handling)
        except HandlerTooLongError:
            # The strike came while we were leaving.
            is_late = True
            self._end(handling)
        if is_late:
            return handling.error()
        if raised is not None:
            raise raised
        return None

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _end(self, handling: _Handling) -> None:
        # Under the lock, so that the thread cannot strike after this.
        with self._lock:
            self._handling = None
            if handling.stuck_at:
                self._tell("")
        if handling.was_struck:
            absorb(HandlerTooLongError)

    def _look(self) -> None:
        while not self._closed.wait(LOOK_EVERY_S):
            with self._lock:
                now_s = time.monotonic()
                handling = self._handling
                if handling is not None and now_s - handling.since_s > handling.limit_s:
                    self._look_at(handling, now_s - handling.since_s)

    def _look_at(self, handling: _Handling, took_s: float) -> None:
        handling.stuck_at = place_of(handling.thread_id)
        self._tell(
            f"{handling.method} of projection {handling.projection!r} has held the store for "
            f"{took_s:.1f} s, at {handling.stuck_at}"
        )
        if took_s >= handling.say_at_s:
            handling.say_at_s = 2 * took_s
            logger.error(
                "a projection holds the store, nothing else is written: %s of %s runs for %.1f s "
                "at %s",
                handling.method,
                handling.projection,
                took_s,
                handling.stuck_at,
                extra={"projection": handling.projection},
            )
        # Only inside user code: what runs around it must not be cut off halfway. A statement that
        # it waits for is ended by the database.
        thread_id = handling.thread_id
        if is_in_user_code(thread_id) and not is_in_store(thread_id, inside=__file__):
            handling.was_struck = True
            raise_in(handling.thread_id, HandlerTooLongError)
