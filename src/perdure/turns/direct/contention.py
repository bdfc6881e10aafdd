"""Which instances other processes decide on too, as far as it was noticed here.

Nothing here has to be right: what is in memory decides only if the store has nothing newer, and
that the commit tells. This only chooses the way that is shortest. Where no other process was met,
memory is trusted. Where one was met lately, a look tells first whether memory is still right. Of an
instance where that was not enough, turns are thought under its lock.
"""

from __future__ import annotations

from time import monotonic

LOOKS = 256
"""Turns before which the store is looked at, since one of an instance was found to be overtaken."""
LOCKED_TURNS = 4
"""Locked turns of an instance in a row that no other process came between, until one is left to
chance."""
SLOW_FOR_S = 60.0
"""How long no locked turns are thought of an instance whose code was too slow for one."""
MAX_KEPT = 10_000
"""Instances of which something is kept, the newest."""


class Contention:
    """What was noticed of others that decide on the same instances."""

    def __init__(self) -> None:
        self._looks_left = 0
        self._locked: dict[str, int] = {}
        """How many more turns of an instance are locked ones."""
        self._slow: dict[str, float] = {}
        """Until when an instance gets none."""

    @property
    def wants_look(self) -> bool:
        """Whether memory may be old, so that a look is cheaper than a turn in vain."""
        return self._looks_left > 0

    def wants_lock(self, instance_id: str) -> bool:
        """Tell whether the next turn of an instance is to be a locked one."""
        if instance_id not in self._locked:
            return False
        return self._slow.get(instance_id, 0.0) <= monotonic()

    def looked(self, *, is_overtaken: bool) -> None:
        """It was looked whether an instance is as it is remembered."""
        self._looks_left = LOOKS if is_overtaken else max(self._looks_left - 1, 0)

    def refused(self, instance_id: str) -> None:
        """A turn of an instance was in vain: others were faster."""
        self._looks_left = LOOKS
        self._lock(instance_id, max(self._locked.get(instance_id, 0), 1))

    def locked(self, instance_id: str, *, is_overtaken: bool) -> None:
        """A turn of an instance was thought under its lock."""
        left = LOCKED_TURNS if is_overtaken else self._locked.get(instance_id, 1) - 1
        if left:
            self._looks_left = LOOKS
            self._lock(instance_id, left)
        else:
            self._locked.pop(instance_id, None)

    def too_slow(self, instance_id: str) -> None:
        """A locked turn of an instance was not thought in time."""
        self._slow.pop(instance_id, None)
        self._slow[instance_id] = monotonic() + SLOW_FOR_S
        while len(self._slow) > MAX_KEPT:
            del self._slow[next(iter(self._slow))]

    def _lock(self, instance_id: str, turns: int) -> None:
        self._locked.pop(instance_id, None)
        self._locked[instance_id] = turns
        while len(self._locked) > MAX_KEPT:
            del self._locked[next(iter(self._locked))]
