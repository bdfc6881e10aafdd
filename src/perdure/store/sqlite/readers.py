"""A few threads with connections that only read, beside the one that writes."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from perdure.errors import RowError, StoreUnavailableError
from perdure.store.reading_threads import ReadingThreads
from perdure.store.sqlite.connection import SqliteConnection, connect
from perdure.store.sqlite.database import READER_BUSY_MS
from perdure.store.sqlite.files import OpenedFile

READERS = 2
"""Threads that read. More would only wait for the interpreter."""
_TRIES = 3

T = TypeVar("T")


class SqliteReaders:
    """Reading connections to a file, and the threads that use them."""

    def __init__(self, path: str) -> None:
        self._file = OpenedFile(path)
        self._threads = ReadingThreads(READERS)
        self._idle: SimpleQueue[SqliteConnection] = SimpleQueue()
        for _ in range(READERS):
            self._idle.put(connect(path, busy_ms=READER_BUSY_MS, read_only=True))

    async def read(self, work: Callable[[SqliteConnection], T], *, is_once: bool = False) -> T:
        """Run a function with a connection on one of the threads.

        Args:
            work: Reads.
            is_once: Whether it does so with one statement, which needs no transaction around it.
        """
        return await self._threads.run(self._run, work, is_once)

    def close(self) -> None:
        """Wait for what is being read, then let go of the file."""
        self._threads.close()
        while not self._idle.empty():
            self._idle.get().close()

    def _run(self, work: Callable[[SqliteConnection], T], is_once: bool) -> T:
        self._file.check()
        connection = self._idle.get()
        try:
            for tries_left in reversed(range(_TRIES)):
                try:
                    if not is_once:
                        connection.run("begin_read")
                    return work(connection)
                except StoreUnavailableError:
                    if tries_left == 0:
                        raise
                except UnicodeError as error:
                    raise RowError(f"a text cannot be stored: {error}") from error
                finally:
                    if connection.in_transaction():
                        connection.run("rollback")
            raise AssertionError("unreachable")
        finally:
            self._idle.put(connection)
