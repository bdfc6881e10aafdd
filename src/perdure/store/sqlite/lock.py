"""One writer at a time among processes, by an advisory lock on a file beside the database.

SQLite's own lock is not fair: with several processes writing, one of them starves (6,098 : 1,208 :
1 transactions in the same time). The operating system keeps waiting processes in a queue instead.
The lock is let go by the operating system when its process dies. SQLite's lock still guards the
file against programs that do not know of this one.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from perdure.errors import StoreUnavailableError

_POLL_S = 0.01


class WriteLock:
    """The right to write to a database, for one store of one process."""

    def __init__(self, path: str) -> None:
        self._path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            raise StoreUnavailableError(
                f"the lock file {path} cannot be opened ({error.strerror}); make its directory "
                "writable for this user"
            ) from error
        self.contended = 0
        """How often somebody else had it when it was wanted."""

    def __enter__(self) -> None:
        if not self._try():
            self.contended += 1
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

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
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise StoreUnavailableError(
                f"the lock file {self._path} cannot be locked ({error.strerror})"
            ) from error
        return True

    def close(self) -> None:
        """Let go of the lock and its file."""
        os.close(self._file)


class NoLock:
    """Stands in for a lock where nobody else can come: a database in memory."""

    contended = 0

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Do nothing."""
        yield

    def close(self) -> None:
        """Do nothing."""
