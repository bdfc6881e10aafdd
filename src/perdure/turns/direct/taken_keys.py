"""Business keys that turns wanted and other instances have, for the turn that decides the same
again.

What is kept here may be old when it is used: the caller that wanted the key may have given up, or
another worker may have taken the turn. So the store is asked before it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from perdure.store.base import Store

MAX_INSTANCES = 1_000
"""For how many instances keys are kept; what is forgotten is found out by one more refused turn."""


class _WantedKeys(NamedTuple):
    scope: str
    holders: Mapping[str, str]


class TakenKeys:
    """By instance, the keys that its last turn wanted in vain, with who has them."""

    def __init__(self) -> None:
        self._wanted: dict[str, _WantedKeys] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    def keep(self, instance_id: str, scope: str, holders: Mapping[str, str]) -> None:
        """Keep who has the keys that an instance wants."""
        self._wanted.pop(instance_id, None)
        self._wanted[instance_id] = _WantedKeys(scope, holders)
        if len(self._wanted) > MAX_INSTANCES:
            del self._wanted[next(iter(self._wanted))]

    async def check(self, store: Store, instance_ids: Iterable[str]) -> None:
        """Ask the store who has the keys by now, for instances that are about to decide."""
        if not self._wanted:
            return
        for instance_id in instance_ids:
            wanted = self._wanted.get(instance_id)
            if wanted is None:
                continue
            holders: dict[str, str] = {}
            for key in wanted.holders:
                holder = await store.deciders.read_unique_key(wanted.scope, key)
                if holder is not None and holder != instance_id:
                    holders[key] = holder
            if self._wanted.get(instance_id) is wanted:
                self._wanted[instance_id] = wanted._replace(holders=holders)

    def take(self, instance_id: str) -> Mapping[str, str]:
        """Return what is known of the keys that an instance wants, for one turn."""
        wanted = self._wanted.pop(instance_id, None) if self._wanted else None
        return {} if wanted is None else wanted.holders
