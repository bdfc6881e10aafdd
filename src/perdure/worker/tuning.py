"""Settings of Python itself that a busy worker needs otherwise; put back when it stops.

The cyclic collector goes over young objects every 700 allocations, which with thousands of
coroutines alive takes a third of the time. What is there when the worker starts, modules above all,
is looked through each time and hardly ever garbage. A thread that wants Python's global lock waits
5 ms for it, so the thread that writes would hardly get on while the loop computes.
"""

from __future__ import annotations

import gc
import sys

from perdure.model.options import WorkerOptions

OLDER_GENERATIONS = (5, 5)
"""How many collections of one generation before the next older one: fewer than Python's 10, since
each is of more objects."""


class PythonTuning:
    """Applies a worker's settings to its process."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._before = (gc.get_threshold(), sys.getswitchinterval())
        self._has_frozen = False

    def apply(self) -> None:
        """Set what the options say."""
        self._before = (gc.get_threshold(), sys.getswitchinterval())
        young, *_ = gc.get_threshold()
        if young and self._options.collect_after > young:
            gc.set_threshold(self._options.collect_after, *OLDER_GENERATIONS)
            self._freeze()
        switch_s = self._options.thread_switch.total_seconds()
        if 0 < switch_s < sys.getswitchinterval():
            sys.setswitchinterval(switch_s)

    def undo(self) -> None:
        """Put everything back."""
        thresholds, switch_s = self._before
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(switch_s)
        if self._has_frozen:
            self._has_frozen = False
            gc.unfreeze()

    def _freeze(self) -> None:
        """Let the collector pass over what is there now, unless it does so for others already:
        another worker of this process, or the user."""
        if not gc.get_freeze_count():
            self._has_frozen = True
            gc.collect(1)  # What is young and garbage is not to live as long as the worker.
            gc.freeze()
