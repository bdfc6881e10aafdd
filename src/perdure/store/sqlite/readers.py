"""A few threads with connections that only read, beside the one that writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

from perdure.errors import RowError, StoreError, StoreUnavailableError
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
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="perdure-read")
        self._idle: SimpleQueue[SqliteConnection] = SimpleQueue()
        self._is_closed = False
        for _ in range(READERS):
            self._idle.put(connect(path, busy_ms=READER_BUSY_MS, read_only=True))

    async def read(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run a function with a connection on one of the threads."""
        if self._is_closed:
            raise StoreError("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, work)

    def close(self) -> None:
        """Wait for what is being read, then let go of the file."""
        self._is_closed = True
        self._pool.shutdown(wait=True)
        while not self._idle.empty():
            self._idle.get().close()

    def _run(self, work: Callable[[SqliteConnection], T]) -> T:
        self._file.check()
        connection = self._idle.get()
        try:
            for tries_left in reversed(range(_TRIES)):
                try:
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
