"""One writer at a time among processes, by an advisory lock on a file beside the database.

SQLite's own lock is not fair: with several processes writing, one of them starves (6,098 : 1,208 :
1 transactions in the same time). The operating system keeps waiting processes in a queue instead.
The lock is let go by the operating system when its process dies. SQLite's lock still guards the
file against programs that do not know of this one.

The file also holds numbers that every writer raises when it has changed something: one of all
changes, and one for each kind of hint. What was not raised by us was changed by others: that is how
a worker notices their work without asking the database. It is a hint only (a writer may die before
it raises a number). Beside them stands which process raised one last, what users' transactions have
announced, and when all processes were last warned of something.

A process that sleeps is woken: a writer that gives a hint touches the file's times, which the
kernel tells to those that watch the file (`file_watch`). Only if there are some: each keeps a
lock on a byte that stands for the kind, which the kernel takes back from the dead.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from types import TracebackType
from weakref import WeakSet

from perdure.errors import StoreUnavailableError
from perdure.ids import fresh_id
from perdure.model.hints import HINTS, WITH_NEWS, WITH_WORK, Hint
from perdure.store.sqlite.short_calls import flock_at_once, read_at, write_at

_POLL_S = 0.01
_LAST_CHANGE = struct.Struct("<Q8sQQ")
"""The number of changes, a mark of the process that made the last one, and the number of hints of
each kind."""
_ANNOUNCED = struct.Struct("<Q")
"""Differs after each transaction of a user's."""
_ANNOUNCED_AT = _LAST_CHANGE.size
_WARNED_MS = struct.Struct("<Q")
_WARNED_AT = _ANNOUNCED_AT + _ANNOUNCED.size
_NUMBERS = struct.Struct("<16xQQQ")
"""The hints of each kind, and what was announced."""
_LISTENERS_AT = 4096
"""Where the bytes are that are locked by those who listen; behind the end of the file."""
_FLOCK = struct.Struct("hhqqi4x")
"""As the system calls for locks of open files want it."""
_ASK_LOCK: int | None = getattr(fcntl, "F_OFD_GETLK", None)
_SET_LOCK: int | None = getattr(fcntl, "F_OFD_SETLK", None)
"""None on systems without such locks: there no process can say that it listens, and all look."""
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
            self._last_total, *_ = self._last_change()
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
        self._own_hints = [0] * len(HINTS)
        """How many were given here, at the places of their kinds."""
        self._process = _mark_of_process()

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with _forking:
            _close_in_children()
            self._file = os.open(self._path, flags, 0o600)
            _locks.add(self)

    def note_change(self, hints: Hint) -> None:
        """Raise the number of changes, and those of hints; the lock is held. Never fails: the
        change is committed.

        Where the file cannot be read or written, others notice a little later.
        """
        try:
            total, process, work, news = self._last_change()
            if total != self._last_total and process != self._process:
                self.is_shared = True
            work, news = work + (hints in WITH_WORK), news + (hints in WITH_NEWS)
            # Counted before, and not after the system was asked: threads that compare meanwhile
            # would take our own hint for one of others.
            self.count_as_ours(hints)
            write_at(self._file, _LAST_CHANGE.pack(total + 1, self._process, work, news), 0)
            self._last_total = total + 1
            self._wake(hints)
        except OSError:
            return

    def count_as_ours(self, hints: Hint) -> None:
        """Another lock of this store on the same file has noted a change; it is held."""
        self._own_hints[Hint.WORK] += hints in WITH_WORK
        self._own_hints[Hint.NEWS] += hints in WITH_NEWS

    def announce(self) -> None:
        """Give all hints for a user who has written without the lock. Never fails."""
        with suppress(OSError):
            # Not counted, since the lock may be another process's: it only has to differ.
            os.pwrite(self._file, _ANNOUNCED.pack(fresh_id()), _ANNOUNCED_AT)
            self._wake(Hint.BOTH)

    def _wake(self, hints: Hint) -> None:
        """Have the kernel wake those who watch the file, if there are any that listen."""
        if (hints in WITH_WORK and self._has_listeners(Hint.WORK)) or (
            hints in WITH_NEWS and self._has_listeners(Hint.NEWS)
        ):
            os.utime(self._file)

    def _has_listeners(self, kind: Hint) -> bool:
        """Return whether there is one among the other stores, of this process or another."""
        if _ASK_LOCK is None:
            return False
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _LISTENERS_AT + kind, 1, 0)
        found = fcntl.fcntl(self._file, _ASK_LOCK, asked)
        is_free: bool = _FLOCK.unpack(found)[0] == fcntl.F_UNLCK
        return not is_free

    def listen(self, kind: Hint, *, is_on: bool) -> bool:
        """Say whether this store listens to a kind of hints from now on; return whether that could
        be said. Never fails: what cannot be said is not woken, and looks."""
        state = fcntl.F_RDLCK if is_on else fcntl.F_UNLCK
        if _SET_LOCK is None or self._file == _CLOSED:
            return False
        asked = _FLOCK.pack(state, os.SEEK_SET, _LISTENERS_AT + kind, 1, 0)
        try:
            fcntl.fcntl(self._file, _SET_LOCK, asked)
        except OSError:
            return False
        return True

    def may_warn(self, now_ms: int) -> bool:
        """Return whether a warning about this file is due, once a day among all its users, and take
        it on; the lock is held. Never fails."""
        with suppress(OSError):
            data = os.pread(self._file, _WARNED_MS.size, _WARNED_AT)
            warned_ms = int.from_bytes(data, "little")
            if warned_ms and now_ms - warned_ms < _WARN_AGAIN_MS:
                return False
            os.pwrite(self._file, _WARNED_MS.pack(now_ms), _WARNED_AT)
        return True

    def hints_of_others(self, kind: Hint) -> int:
        """Return a number that differs when others have given more hints of a kind."""
        if self._file == _CLOSED:
            return 0
        try:
            data = os.pread(self._file, _NUMBERS.size, 0)
        except OSError:
            return 0  # It is a hint only.
        work, news, announced = _NUMBERS.unpack(data.ljust(_NUMBERS.size, b"\0"))
        given: int = (work if kind is Hint.WORK else news) + announced
        return given - self._own_hints[kind]

    def __enter__(self) -> None:
        if not self._try():
            self.contended += 1
            self._flock(fcntl.LOCK_EX, fcntl.flock)

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

    @property
    def file(self) -> int:
        """The open file, to watch it; negative if it is closed."""
        return self._file

    def _last_change(self) -> tuple[int, bytes, int, int]:
        data = read_at(self._file, _LAST_CHANGE.size, 0)
        total, process, work, news = _LAST_CHANGE.unpack(data.ljust(_LAST_CHANGE.size, b"\0"))
        return total, process, work, news

    def _try(self) -> bool:
        try:
            self._flock(fcntl.LOCK_EX | fcntl.LOCK_NB, flock_at_once)
        except BlockingIOError:
            return False
        return True

    def _flock(self, operation: int, by: Callable[[int, int], None]) -> None:
        if self._file == _CLOSED:
            raise StoreUnavailableError(
                f"the lock file {self._path} is closed, or open only in the process that this one "
                "was forked from; open a store here"
            )
        try:
            by(self._file, operation)
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
            flock_at_once(self._file, fcntl.LOCK_UN)
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
