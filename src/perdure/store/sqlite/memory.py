"""Databases in memory: of one store, or of all stores of this process that give its name.

The path `:memory:` is a database of one store's own. `:memory:NAME` is one database for every store
of the process that gives this name. It is there from the first that opens it until the last one has
closed it, so a program that wants to see it again keeps a store open.

There is no WAL in memory: SQLite lets no connection write while another reads. So there are no
readers beside the writer, everything is done on the threads that write, taking turns by a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from urllib.parse import quote
from weakref import WeakValueDictionary

from perdure.errors import StoreUnavailableError
from perdure.model.hints import KINDS, Hint

MEMORY = ":memory:"


def is_in_memory(path: str) -> bool:
    """Return whether a path is no file."""
    return path.startswith(MEMORY)


def uri_of(path: str) -> str | None:
    """Return what SQLite calls a database in memory that has a name; None if the path is not one.

    Its file system `memdb` shares what begins with a slash within the process.
    """
    if not is_in_memory(path) or path == MEMORY:
        return None
    return f"file:/perdure/{quote(path.removeprefix(MEMORY), safe='')}?vfs=memdb"


class _Shared:
    """What the stores of one database have in common."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.hints = dict.fromkeys(KINDS, 0)


_shared: WeakValueDictionary[str, _Shared] = WeakValueDictionary()
"""By path, as long as a store is open there."""
_looking_up = threading.Lock()


class MemoryLock:
    """The right to write to a database in memory, for one store. See `lock.WriteLock`."""

    is_shared = False

    def __init__(self, path: str) -> None:
        self._path = path
        self._shared = _Shared()
        if path != MEMORY:
            with _looking_up:
                self._shared = _shared.setdefault(path, self._shared)
        self._own_hints = dict.fromkeys(KINDS, 0)
        self.contended = 0
        """How often another store had it when it was wanted."""

    def note_change(self, hints: Hint) -> None:
        """Raise the numbers of hints; the lock is held."""
        for kind in KINDS:
            self._shared.hints[kind] += bool(hints & kind)
            self._own_hints[kind] += bool(hints & kind)

    def may_warn(self, now_ms: int) -> bool:
        """Return false: what no other program can reach is in no danger."""
        return False

    def hints_of_others(self, kind: Hint) -> int:
        """Return how many hints of a kind were not ours."""
        return self._shared.hints[kind] - self._own_hints[kind]

    def __enter__(self) -> None:
        if not self._shared.lock.acquire(blocking=False):
            self.contended += 1
            self._shared.lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._shared.lock.release()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Hold the lock, or raise `StoreUnavailableError` when getting it takes too long."""
        if not self._shared.lock.acquire(timeout=seconds):
            raise StoreUnavailableError(
                f"another store of this process has kept {self._path} for {seconds:g} s; does a "
                "projection or a transaction there not return?"
            )
        try:
            yield
        finally:
            self._shared.lock.release()

    def close(self) -> None:
        """Have no more to do with the others; the last one takes the lock with it."""
        self._shared = _Shared()
        self._own_hints = dict.fromkeys(KINDS, 0)
