"""Keep Python's cyclic garbage collector off while any turn of this process runs.

The collector belongs to the process, and so do the turns that hold it off: two loops in two threads
would otherwise switch it on in the middle of each other's turns, or leave it off for good. So turns
are counted; the first one switches it off, and the last one makes it as it was before.
"""

from __future__ import annotations

import gc
import threading

from perdure.forks import after_fork


class CollectorPause:
    """How many turns hold the collector off. May be used by any thread."""

    def __init__(self) -> None:
        # A collection may begin while it is held, and a finalizer may do anything.
        self._lock = threading.RLock()
        self._turns = 0
        self._was_on = False

    def begin(self) -> None:
        """Keep the collector off until the `end` that belongs to this."""
        # Not `with`, which takes twice as long: nothing in between can fail.
        self._lock.acquire()
        turns = self._turns
        if not turns:
            self._was_on = gc.isenabled()
            gc.disable()
        self._turns = turns + 1
        self._lock.release()

    def end(self) -> None:
        """Switch it on again, if it was on and no other turn runs."""
        self._lock.acquire()
        turns = self._turns = self._turns - 1
        if not turns and self._was_on:
            gc.enable()
        self._lock.release()

    def forget(self) -> None:
        """Count from zero: in a forked child the turns of other threads never end."""
        self._lock = threading.RLock()
        if self._turns and self._was_on:
            gc.enable()
        self._turns = 0


collector_pause = CollectorPause()
"""The one of this process, as there is one collector."""

after_fork(collector_pause.forget)
