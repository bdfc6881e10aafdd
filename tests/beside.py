"""Stores of one process that behave as those of several do."""

from __future__ import annotations

import pytest

from perdure.store.sqlite.file_lock import WriteLock


def know_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each store that is opened from now on know that others write to its file."""
    begin = WriteLock.__init__

    def begin_shared(lock: WriteLock, path: str) -> None:
        begin(lock, path)
        lock.is_shared = True

    monkeypatch.setattr(WriteLock, "__init__", begin_shared)
