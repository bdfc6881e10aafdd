"""What an instance keeps by key: as it is now, and what of it changed since the last commit."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.model.histories.events import (
    AskedEvent,
    KvCleared,
    KvEntry,
    KvPruned,
    KvRemoved,
    KvSet,
)
from perdure.model.turns import KvChange


class Values:
    """The values of one instance. Made from the first event of an execution and what the code asks
    for since, never from what the store has now: a replay must see them as they were."""

    __slots__ = ("changed", "entries")

    def __init__(self, entries: Iterable[KvEntry] = ()) -> None:
        self.entries: dict[str, KvEntry] = {entry.key: entry for entry in entries}
        self.changed: set[str] = set()
        """Keys that were set or removed since the last commit."""

    def apply(self, event: AskedEvent, now_ms: int) -> None:
        """Let a change take effect, at the recorded time."""
        match event:
            case KvSet(key=key, value=value):
                self.entries[key] = KvEntry(key, value, now_ms)
                self.changed.add(key)
            case KvRemoved(key=key):
                self._remove([key])
            case KvCleared():
                self._remove(list(self.entries))
            case KvPruned(before_ms=before_ms):
                old = [key for key, entry in self.entries.items() if entry.updated_ms < before_ms]
                self._remove(old)

    def _remove(self, keys: list[str]) -> None:
        for key in keys:
            del self.entries[key]
        self.changed.update(keys)

    def all(self) -> tuple[KvEntry, ...]:
        """Return everything, sorted by key."""
        return tuple(self.entries[key] for key in sorted(self.entries))

    def take_changes(self) -> tuple[KvChange, ...]:
        """Return what each changed key holds now, sorted by key, and begin anew."""
        found = []
        for key in sorted(self.changed):
            entry = self.entries.get(key)
            found.append(KvChange(key, None if entry is None else bytes(entry.value)))
        self.changed.clear()
        return tuple(found)
