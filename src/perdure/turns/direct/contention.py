"""Which instances other processes decide on too, as far as it was noticed here.

Nothing here has to be right: what is in memory decides only if the store has nothing newer, and
that the commit tells. This only chooses the way that is shortest. Where no other process was met,
memory is trusted. Where one was met lately, a look tells first whether memory is still right. Of an
instance where that was not enough twice, turns are thought under its lock. Once is no reason: a
turn beside others costs a share of a call, and one under a lock costs all of four.
"""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import NamedTuple, TypeVar

LOOKS = 256
"""Turns before which the store is looked at, since one of an instance was found to be overtaken."""
AGAIN_WITHIN_S = 1.0
"""Time since a turn of an instance was accepted after one in vain, for the next in vain to count
as the same trouble."""
HOT_WITHIN_S = 1.0
"""Time between two turns of an instance, at most, for it to be a hot one: what others have done in
a longer one does not tell that they would be in the way."""
LOCKED_TURNS = 64
"""Locked turns of a hot instance in a row that no other process came between, until one is left to
chance. The others may only have been slow for a moment."""
SLOW_FOR_S = 60.0
"""How long no locked turns are thought of an instance whose code was too slow for one."""
MAX_KEPT = 10_000
"""Instances of which something is kept, the newest."""

T = TypeVar("T")


class LockedPhase(NamedTuple):
    """That turns of an instance are thought under its lock."""

    turns_left: int
    """How many more, if no other process comes between."""
    at_s: float
    """When the last one was; infinite: there was none yet."""


class Contention:
    """What was noticed of others that decide on the same instances."""

    def __init__(self) -> None:
        self._looks_left = 0
        self._in_vain: dict[str, float] = {}
        """Of instances of which a turn was in vain, and that get no locked ones, until when another
        one counts as the same trouble."""
        self._locked: dict[str, LockedPhase] = {}
        self._slow: dict[str, float] = {}
        """Until when an instance gets no locked turns."""

    @property
    def wants_look(self) -> bool:
        """Whether memory may be old, so that a look is cheaper than a turn in vain."""
        return self._looks_left > 0

    def wants_lock(self, instance_id: str) -> bool:
        """Return whether the next turn of an instance is to be a locked one."""
        phase = self._locked.get(instance_id)
        if phase is None:
            return False
        now_s = monotonic()
        if now_s - phase.at_s > HOT_WITHIN_S:
            del self._locked[instance_id]
            return False
        return self._slow.get(instance_id, 0.0) <= now_s

    def looked(self, *, is_overtaken: bool) -> None:
        """It was looked whether an instance is as it is remembered."""
        self._looks_left = LOOKS if is_overtaken else max(self._looks_left - 1, 0)

    def refused(self, instance_id: str) -> None:
        """A turn of an instance was in vain: others were faster."""
        self._looks_left = LOOKS
        until_s = self._in_vain.pop(instance_id, 0.0)
        phase = self._locked.get(instance_id)
        if phase is not None or monotonic() <= until_s:
            left = 1 if phase is None else phase.turns_left
            _keep(self._locked, instance_id, LockedPhase(left, inf))
        else:
            _keep(self._in_vain, instance_id, inf)

    def accepted(self, instance_id: str) -> None:
        """A turn of an instance was not in vain."""
        if self._in_vain.get(instance_id) == inf:
            self._in_vain[instance_id] = monotonic() + AGAIN_WITHIN_S

    def locked(self, instance_id: str, *, is_overtaken: bool) -> None:
        """A turn of an instance was thought under its lock."""
        now_s = monotonic()
        phase = self._locked.pop(instance_id, LockedPhase(1, now_s))
        left = LOCKED_TURNS if is_overtaken else phase.turns_left - 1
        if left:
            self._looks_left = LOOKS
            _keep(self._locked, instance_id, LockedPhase(left, now_s))
        else:
            _keep(self._in_vain, instance_id, now_s + AGAIN_WITHIN_S)

    def too_slow(self, instance_id: str) -> None:
        """A locked turn of an instance was not thought in time."""
        _keep(self._slow, instance_id, monotonic() + SLOW_FOR_S)


def _keep(kept: dict[str, T], instance_id: str, value: T) -> None:
    """Keep something as the newest."""
    kept.pop(instance_id, None)
    kept[instance_id] = value
    while len(kept) > MAX_KEPT:
        del kept[next(iter(kept))]
