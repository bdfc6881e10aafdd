"""One writer at a time among processes, by an advisory lock on a file beside the database.

SQLite's own lock is not fair: with several processes writing, one of them starves (6,098 : 1,208 :
1 transactions in the same time). The operating system keeps waiting processes in a queue instead.
The lock is let go by the operating system when its process dies. SQLite's lock still guards the
file against programs that do not know of this one.

The file also holds a number that every writer raises when it has changed something. What was not
raised by us was changed by others: that is how a worker notices their work without asking the
database. It is a hint only (a writer may die before it raises the number). Beside it stands which
process raised it last, and when all of them were last warned of something.

A child that user code forks inherits the open file and the lock with it, which would outlive its
owner. So a child closes the files of all locks before it does anything else.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from types import TracebackType
from weakref import WeakSet

from perdure.errors import StoreUnavailableError

_POLL_S = 0.01
_NUMBER_BYTES = 8
_LAST_CHANGE = struct.Struct("<Q8s")
"""The number of changes, and a mark of the process that made the last one."""
_WARNED_MS = struct.Struct("<Q")
_WARN_AGAIN_MS = 24 * 3600 * 1000
_CLOSED = -1

logger = logging.getLogger(__name__)


class WriteLock:
    """The right to write to a database, for one store of one process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = _CLOSED
        try:
            self._open()
            self._last_total, _ = self._last_change()
        except OSError as error:
            self.close()
            raise StoreUnavailableError(
                f"the lock file {path} cannot be opened ({error.strerror}); make its directory "
                "writable for this user"
            ) from error
        self.contended = 0
        """How often another process had it when it was wanted."""
        self.is_shared = False
        """Whether another process of ours has changed something since this was opened."""
        self._own_changes = 0
        self._process = _mark_of_process()

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with _forking:
            _close_in_children()
            self._file = os.open(self._path, flags, 0o600)
            _locks.add(self)

    def note_change(self) -> None:
        """Raise the number of changes; the lock is held. Never fails: the change is committed.

        Where the file cannot be read or written, others notice a little later.
        """
        try:
            total, process = self._last_change()
            if total != self._last_total and process != self._process:
                self.is_shared = True
            os.pwrite(self._file, _LAST_CHANGE.pack(total + 1, self._process), 0)
        except OSError:
            return
        self._last_total = total + 1
        self._own_changes += 1

    def count_as_ours(self) -> None:
        """Another lock of this store on the same file has noted a change; it is held."""
        self._own_changes += 1

    def announce(self) -> None:
        """Raise the number for a process that has written without the lock.

        If a process has the lock now, that one raises the number soon.
        """
        with suppress(OSError, StoreUnavailableError):
            # Not our own: whether we have the lock is for the writing thread to know.
            other = WriteLock(self._path)
            try:
                if other._try():
                    total, process = other._last_change()
                    os.pwrite(other._file, _LAST_CHANGE.pack(total + 1, process), 0)
            finally:
                other.close()

    def may_warn(self, now_ms: int) -> bool:
        """Return whether a warning about this file is due, once a day among all its users, and take
        it on; the lock is held. Never fails."""
        at = _LAST_CHANGE.size
        with suppress(OSError):
            data = os.pread(self._file, _WARNED_MS.size, at)
            warned_ms = int.from_bytes(data, "little")
            if warned_ms and now_ms - warned_ms < _WARN_AGAIN_MS:
                return False
            os.pwrite(self._file, _WARNED_MS.pack(now_ms), at)
        return True

    def changes_of_others(self) -> int:
        """Return how many changes were not ours, or any number that differs when there are more."""
        if self._file == _CLOSED:
            return 0
        try:
            total = int.from_bytes(os.pread(self._file, _NUMBER_BYTES, 0), "little")
        except OSError:
            return 0  # It is a hint only.
        return total - self._own_changes

    def __enter__(self) -> None:
        if not self._try():
            self.contended += 1
            self._flock(fcntl.LOCK_EX)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._let_go()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Hold the lock, or raise `StoreUnavailableError` when getting it takes too long."""
        give_up = time.monotonic() + seconds
        while not self._try():
            if time.monotonic() >= give_up:
                raise StoreUnavailableError(
                    f"another process has held the lock {self._path} for {seconds:g} s; "
                    "is it stopped?"
                )
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            self._let_go()

    def _last_change(self) -> tuple[int, bytes]:
        data = os.pread(self._file, _LAST_CHANGE.size, 0)
        total, process = _LAST_CHANGE.unpack(data.ljust(_LAST_CHANGE.size, b"\0"))
        return total, process

    def _try(self) -> bool:
        try:
            self._flock(fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _flock(self, operation: int) -> None:
        if self._file == _CLOSED:
            raise StoreUnavailableError(
                f"the lock file {self._path} is closed, or open only in the process that this one "
                "was forked from; open a store here"
            )
        try:
            fcntl.flock(self._file, operation)
        except BlockingIOError:
            raise
        except OSError as error:
            raise StoreUnavailableError(
                f"the lock file {self._path} cannot be locked ({error.strerror}); check the disk "
                "and its mount"
            ) from error

    def _let_go(self) -> None:
        """Let others write. Never fails: what was done under the lock is committed."""
        if self._file == _CLOSED:
            return  # This is a forked child: its parent has the lock.
        try:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError:
            # Taking it again works, and letting it go may work then.
            logger.warning("the lock file %s could not be unlocked", self._path, exc_info=True)

    def close(self) -> None:
        """Let go of the lock and its file. Harmless the second time."""
        # Threads that still ask must not read the file that gets this number next.
        file, self._file = self._file, _CLOSED
        if file != _CLOSED:
            with suppress(OSError):
                os.close(file)


_locks: WeakSet[WriteLock] = WeakSet()
"""All of this process, for its children."""
_forking = threading.RLock()
"""Held while the process is forked, and while a file is open that is not yet among the locks."""


@cache
def _close_in_children() -> None:
    """Have every child that is forked from now on close the files of all locks. Once."""

    def close_all() -> None:
        for lock in list(_locks):
            lock.close()
        _forking.release()

    os.register_at_fork(
        before=_forking.acquire, after_in_parent=_forking.release, after_in_child=close_all
    )


def _mark_of_process() -> bytes:
    """Return what tells this process from others that have the file at the same time."""
    own = f"{socket.gethostname()}-{os.getpid()}".encode()
    return blake2b(own, digest_size=8).digest()
