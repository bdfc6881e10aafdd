"""How long the whole process stood still, stopped or without a processor.

Threads that look on every so often ask it: no code is to be blamed for time in which no code
ran. Code that holds the interpreter lock makes a look late as well, but it uses the processor.
"""

from __future__ import annotations

import time


class Stillness:
    """Compares the time that passes between two looks with what the process computed meanwhile."""

    def __init__(self, look_every_s: float) -> None:
        self._look_every_s = look_every_s
        self._looked_s = time.monotonic()
        self._used_s = time.process_time()

    def since_last_look(self, now_s: float) -> float:
        """Return how long the process stood still since it was asked last, or was made.

        Args:
            now_s: What `time.monotonic` says now.
        """
        used_s = time.process_time()
        still_s = self.of(now_s - self._looked_s, used_s=used_s - self._used_s)
        self._looked_s, self._used_s = now_s, used_s
        return still_s

    def of(self, passed_s: float, *, used_s: float) -> float:
        """Return how much of a time between two looks the process stood still."""
        return max(0.0, passed_s - max(self._look_every_s, used_s))
