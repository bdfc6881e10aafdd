"""When an instance has to be woken by time: the timers that are set, and the earliest of them."""

from __future__ import annotations

import heapq


class DueTimes:
    """Due times by timer key."""

    __slots__ = ("_due", "_heap")

    def __init__(self) -> None:
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def set(self, key: str, due_ms: int) -> None:
        """Set a timer, in place of the one of that key."""
        self._due[key] = due_ms
        heapq.heappush(self._heap, (due_ms, key))

    def drop(self, key: str) -> None:
        """Forget a timer."""
        self._due.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._due.clear()
        self._heap.clear()

    def next_ms(self) -> int | None:
        """Return when the next one is due."""
        heap, due = self._heap, self._due
        while heap:
            due_ms, key = heap[0]
            if due.get(key) == due_ms:
                return due_ms
            heapq.heappop(heap)
        return None

    def drop_due(self, now_ms: int, prefix: str) -> None:
        """Forget those of a kind that should have come by now."""
        for key in [key for key, due_ms in self._due.items() if due_ms <= now_ms]:
            if key.startswith(prefix):
                del self._due[key]
